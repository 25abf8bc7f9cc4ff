//! Keeping the write-ahead log short.
//!
//! SQLite starts the log over only when a commit finds no reader in it. Readers that overlap each other
//! can prevent that for ever, so above a bound the writer waits a moment for them to leave. The wait is
//! bounded: one that reads for minutes makes the log grow until it ends, and must not stop the queue.

use crate::{
    connect,
    error::Outcome,
    moved::{OpenedFile, OpenedFiles, beside},
    turns::Turns,
};
use rusqlite::Connection;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Above this the writer steps in; four times what the usual checkpoint leaves.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// After an attempt in vain the log may grow by one part in this many before the next, so that a reader
/// that stays costs few attempts however long it stays.
const GROWTH: u64 = 4;
/// How long the first attempt waits for readers; each one in vain doubles it.
const PATIENCE: Duration = Duration::from_millis(100);
/// The longest that an attempt waits: writers stand still meanwhile.
const PATIENCE_MAX: Duration = Duration::from_millis(800);

/// Watches the size of one file's log.
pub(crate) struct Wal {
    file: PathBuf,
    /// The log that the first transaction found: it stays as long as anybody has the file open.
    opened: Option<OpenedFile>,
    /// How long the connection waits for locks otherwise.
    busy_timeout: Duration,
    /// The size that asks for the next attempt, and how long that one waits.
    next: u64,
    patience: Duration,
}

impl Wal {
    pub(crate) fn of(database: &Path, busy_timeout: Duration) -> Self {
        Self { file: file(database), opened: None, busy_timeout, next: MAX_BYTES, patience: PATIENCE }
    }

    /// Fails where somebody removed the log: what is written to it is found by nobody else, who would begin another one.
    pub(crate) fn check(&self) -> Outcome<()> {
        self.opened.as_ref().map_or(Ok(()), OpenedFile::check)
    }

    /// Whether somebody else has begun another one. An empty one is of who was refused.
    pub(crate) fn replaced(&self) -> bool {
        self.opened.as_ref().is_some_and(OpenedFile::replaced) && size(&self.file) > 0
    }

    /// A transaction has begun, so that there is a log.
    pub(crate) fn begun(&mut self) {
        if self.opened.is_none() {
            self.opened = OpenedFile::found_at(&self.file);
        }
    }

    /// After a commit: cuts the log to nothing when it is too long and its readers leave in time.
    pub(crate) fn bound(&mut self, conn: &mut Connection, files: &OpenedFiles, turns: &Turns) -> Outcome<()> {
        let size = size(&self.file);
        if size < self.next {
            return Ok(());
        }
        // The long one may be that of others.
        files.check()?;
        self.check()?;
        connect::set_patience(conn, self.patience, || {})?;
        let attempt = conn.query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        connect::set_patience(conn, self.busy_timeout, turns.on_wait())?;
        // Busy is an answer here, not an error.
        (self.next, self.patience) = match attempt? {
            true => {
                let (log, mib) = (self.file.display(), size >> 20);
                tracing::warn!(%log, mib, "somebody reads the database for long, by a search or in a transaction that was left open: its log grows until that ends");
                (size + size / GROWTH, (self.patience * 2).min(PATIENCE_MAX))
            }
            false => (MAX_BYTES, PATIENCE),
        };
        Ok(())
    }
}

/// The log's file beside a database.
pub(crate) fn file(database: &Path) -> PathBuf {
    beside(database, "-wal")
}

/// Its size; a log that does not exist is empty.
pub(crate) fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |meta| meta.len())
}
