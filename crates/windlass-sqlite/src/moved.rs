//! Whether the file that was opened is still the one at its path. SQLite does not look while a file is in WAL mode: it would go on with one that was removed or
//! replaced, which nobody else finds and which is gone with the process.

use crate::error::{Fault, Outcome};
use rusqlite::{Connection, config::DbConfig};
use std::path::{Path, PathBuf};
use windlass_core::ErrorKind;

/// A database and the file of its locks, `-shm`. Processes that have different ones do not see each other: each would write over what the other wrote.
#[derive(Debug)]
pub(crate) struct OpenedFiles {
    database: OpenedFile,
    locks: Option<OpenedFile>,
}

impl OpenedFiles {
    /// Of a database in WAL mode to which this process has a connection: as long as that is so, nobody removes them who does not mean to.
    pub(crate) fn at(path: &Path) -> Self {
        Self { database: OpenedFile::at(path), locks: OpenedFile::found_at(&beside(path, "-shm")) }
    }

    /// Fails where other files are at their paths now, or none.
    pub(crate) fn check(&self) -> Outcome<()> {
        self.database.check()?;
        self.locks.as_ref().map_or(Ok(()), OpenedFile::check)
    }

    pub(crate) fn replaced(&self) -> bool {
        self.database.replaced() || self.locks.as_ref().is_some_and(OpenedFile::replaced)
    }
}

/// The file that SQLite keeps beside a database.
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut file = database.as_os_str().to_owned();
    file.push(suffix);
    file.into()
}

/// The last connection that is closed folds the log into the database and removes it, by name: not so this one.
pub(crate) fn leave_log(conn: &Connection) -> Outcome<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}

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

    /// Whether another file is at its path now.
    pub(crate) fn replaced(&self) -> bool {
        number(&self.path).is_ok_and(|number| number != self.number)
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
