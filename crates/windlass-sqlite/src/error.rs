//! From SQLite's result codes to the closed list of error kinds.

use rusqlite::{
    ErrorCode,
    ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_SHORT_READ},
};
use std::path::Path;
use windlass_core::{Error, ErrorKind};

/// What stops a piece of work inside the store: an answer for the caller, or SQLite's own error.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Already fit for the caller.
    Refused(Error),
    /// To be mapped by [`Fault::into_error`].
    Sqlite(rusqlite::Error),
}

pub(crate) type Outcome<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    /// An answer for the caller.
    pub(crate) fn refused(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Refused(Error::new(kind, message))
    }

    /// The worker's writes are refused for good.
    pub(crate) fn lease_lost(worker: windlass_core::WorkerId) -> Self {
        Self::refused(
            ErrorKind::LeaseLost,
            format!("worker {worker} is no longer live: its jobs were taken away; register again"),
        )
    }

    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => from_sqlite(error),
        }
    }

    /// Of a call that had no store yet: its user is told which file is meant.
    pub(crate) fn about(self, path: &Path) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => {
                let error = from_sqlite(error);
                Error::new(error.kind(), format!("{}: {error}", path.display())).with_source(error)
            }
        }
    }

    /// Of a failed COMMIT: an I/O error there may have left the transaction on disk.
    pub(crate) fn at_commit(self) -> Error {
        match self {
            Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) => {
                let message = format!(
                    "the disk failed during a commit, so the write may or may not have happened: {error}"
                );
                Error::new(ErrorKind::Ambiguous, message).with_source(error)
            }
            other => other.into_error(),
        }
    }

    /// Whether somebody else's lock was in the way.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
    }

    /// Whether a statement names what the schema does not have.
    pub(crate) fn is_of_schema(&self) -> bool {
        match self {
            Self::Sqlite(rusqlite::Error::SqlInputError { .. }) => true,
            Self::Sqlite(error) => error.sqlite_error_code() == Some(ErrorCode::Unknown),
            Self::Refused(_) => false,
        }
    }

    /// Whether the transaction certainly did not happen and each command deserves its own try.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
    }
}

/// The same error again, for each command of a group that failed as one.
pub(crate) fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}

fn from_sqlite(error: rusqlite::Error) -> Error {
    let is = |extended: i32| error.sqlite_error().is_some_and(|of| of.extended_code == extended);
    let (kind, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Unavailable, "another process kept the database locked; try again")
        }
        Some(ErrorCode::DiskFull) => {
            (ErrorKind::StorageFull, "the disk or the database's size limit is full; make room and try again")
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            ErrorKind::PermissionDenied,
            "the database file, its -wal and -shm files and its folder must be writable by this user",
        ),
        Some(ErrorCode::NotADatabase) => {
            (ErrorKind::InvalidOption, "the file is not a SQLite database; name another one")
        }
        Some(ErrorCode::DatabaseCorrupt) => (
            ErrorKind::Internal,
            "the database is damaged; check it with `PRAGMA integrity_check`. Where a copy was put in its place, the -wal file beside it is that of the file before",
        ),
        // Of who opens the file when nobody else has it open.
        Some(ErrorCode::SystemIoFailure) if is(SQLITE_IOERR_SHMSIZE) => (
            ErrorKind::StorageFull,
            "the disk is full: there is no room for the -shm file beside the database; make room and try again",
        ),
        Some(ErrorCode::SystemIoFailure) if is(SQLITE_IOERR_SHORT_READ) => {
            let advice = "the database or its -wal file is shorter than it should be: one of them was removed or cut while a process had it open; \
                 nothing was changed; end all processes that have it open, or put it back";
            (ErrorKind::Unavailable, advice)
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed | ErrorCode::OutOfMemory) => {
            (ErrorKind::Unavailable, "the machine could not do the I/O; nothing was changed")
        }
        Some(ErrorCode::TooBig) => (ErrorKind::InvalidArgs, "a value is larger than SQLite can store"),
        _ => (ErrorKind::Internal, "unexpected answer of SQLite; please report it"),
    };
    Error::new(kind, format!("{advice}: {error}")).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn a_disk_that_is_full_is_named_as_that_when_a_file_is_opened() {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(SQLITE_IOERR_SHMSIZE), None);
        let error = Fault::Sqlite(error).about(Path::new("jobs.db"));
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("jobs.db: the disk is full"), "{error}");
    }
}
