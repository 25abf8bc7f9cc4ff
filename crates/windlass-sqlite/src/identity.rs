//! Whose file is it? Answered before SQLite may write anything: opening a foreign database could replay its journal or checkpoint its log.
//!
//! SQLite itself looks, as at a file that nobody changes, so it takes no locks. Reading the header as a plain file would be shorter and wrong:
//! the locks that a process has on a file end when *any* handle of it is closed, and SQLite's other connections here would have none any more.
//! See [how to corrupt a database](https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_).

use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::{fmt::Write, fs, io, path::Path};
use windlass_core::{Error, ErrorKind, Result};

/// "WIND": marks a database as Windlass's, in the file's header.
pub(crate) const APPLICATION_ID: i32 = 0x5749_4E44;

/// The size of the smallest database. What is shorter SQLite may take for an empty one.
const LEAST_BYTES: u64 = 512;

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
    let refused = |what: &str| {
        let message = format!("{shown} {what}; it was left untouched, name another file");
        Err(Error::new(ErrorKind::InvalidOption, message))
    };
    match fs::metadata(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => return Err(denied(path, cause)),
        Ok(file) if file.is_file() && file.len() == 0 => return Ok(()),
        Ok(file) if file.is_file() && file.len() < LEAST_BYTES => return refused("is not a SQLite database"),
        Ok(file) if file.is_file() => {}
        other => {
            let why = other.map_or_else(|cause| cause.to_string(), |_| "it is no file".to_owned());
            let message = format!("cannot read {shown}: {why}; name a file");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
    }
    match application_id(path) {
        Ok(APPLICATION_ID) => Ok(()),
        Ok(_) => refused("is another application's SQLite database"),
        Err(cause) if cause.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            refused("is not a SQLite database")
        }
        Err(cause) => Err(denied(path, cause)),
    }
}

/// What the file's header says, whatever its log may say.
fn application_id(path: &Path) -> rusqlite::Result<i32> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(format!("{}?immutable=1", uri(path)), flags)?;
    conn.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// The file as SQLite's [URI](https://www.sqlite.org/uri.html).
fn uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    if cfg!(windows) && path.is_absolute() {
        uri.push('/');
    }
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => _ = write!(uri, "%{byte:02X}"),
        }
    }
    uri
}

pub(crate) fn denied(path: &Path, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let cause = cause.into();
    let message =
        format!("{} and its folder must be readable and writable by this user: {cause}", path.display());
    Error::new(ErrorKind::PermissionDenied, message).with_source(cause)
}
