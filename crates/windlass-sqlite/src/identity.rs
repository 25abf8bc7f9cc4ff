//! Whose file is it? Answered from the first bytes, before SQLite may touch anything: opening a foreign
//! database could replay its journal or checkpoint its log.

use std::{fs, io, io::Read, path::Path};
use windlass_core::{Error, ErrorKind, Result};

/// "WIND": marks a database as Windlass's, in the file's header.
pub(crate) const APPLICATION_ID: i32 = 0x5749_4E44;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
const APPLICATION_ID_AT: usize = 68;

/// Checks that `path` can be Windlass's: absent, empty, or marked as such.
///
/// The mark reaches the file itself with the first transaction, which runs before the switch to WAL. So a
/// Windlass file never lacks it, whatever process is creating it at this moment.
pub(crate) fn check(path: &Path) -> Result<()> {
    let shown = path.display();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs::metadata(parent) {
        Ok(meta) if meta.is_dir() => {}
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => return Err(denied(path, cause)),
        _ => {
            let message = format!("the folder of {shown} does not exist; create {} first", parent.display());
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
    }
    let header = match read_header(path) {
        Ok(header) => header,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => return Err(denied(path, cause)),
        Err(cause) => {
            let message = format!("cannot read {shown}: {cause}; name a file");
            return Err(Error::new(ErrorKind::InvalidOption, message).with_source(cause));
        }
    };
    if header.is_empty() || is_ours(&header) {
        return Ok(());
    }
    let what = if header.starts_with(MAGIC) {
        "is another application's SQLite database"
    } else {
        "is not a SQLite database"
    };
    Err(Error::new(
        ErrorKind::InvalidOption,
        format!("{shown} {what}; it was left untouched, name another file"),
    ))
}

fn is_ours(header: &[u8]) -> bool {
    header.len() == HEADER_BYTES
        && header.starts_with(MAGIC)
        && header[APPLICATION_ID_AT..APPLICATION_ID_AT + 4] == APPLICATION_ID.to_be_bytes()
}

fn read_header(path: &Path) -> io::Result<Vec<u8>> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    fs::File::open(path)?.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    Ok(header)
}

pub(crate) fn denied(path: &Path, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let cause = cause.into();
    let message =
        format!("{} and its folder must be readable and writable by this user: {cause}", path.display());
    Error::new(ErrorKind::PermissionDenied, message).with_source(cause)
}
