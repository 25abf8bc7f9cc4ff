//! Whether the file that was opened is still the one at its path. SQLite does not look while a file is in WAL mode: it would go on with one that was removed or
//! replaced, which nobody else finds and which is gone with the process.

use crate::error::{Fault, Outcome};
use std::path::{Path, PathBuf};
use windlass_core::ErrorKind;

/// The file at a path when it was opened.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    path: PathBuf,
    number: Option<u64>,
}

impl OpenedFile {
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), number: number(path).unwrap_or(None) }
    }

    /// `None` where there is no file yet.
    pub(crate) fn found_at(path: &Path) -> Option<Self> {
        number(path).ok().map(|number| Self { path: path.to_owned(), number })
    }

    /// Fails where another file is at its path now, or none.
    pub(crate) fn check(&self) -> Outcome<()> {
        let is_there = match number(&self.path) {
            Ok(number) => number == self.number,
            Err(cause) => cause.kind() != std::io::ErrorKind::NotFound,
        };
        if is_there {
            return Ok(());
        }
        let message = format!(
            "{} was removed or replaced while this process had it open; put it back, or start the process anew",
            self.path.display()
        );
        Err(Fault::refused(ErrorKind::Unavailable, message))
    }
}

/// The number that a file has whatever its name.
#[cfg(unix)]
fn number(path: &Path) -> std::io::Result<Option<u64>> {
    use std::os::unix::fs::MetadataExt;
    Ok(Some(std::fs::metadata(path)?.ino()))
}

/// Elsewhere nobody can remove a file that is open.
#[cfg(not(unix))]
fn number(_: &Path) -> std::io::Result<Option<u64>> {
    Ok(None)
}
