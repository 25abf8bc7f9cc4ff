//! Opening connections: every setting that SQLite needs is made here.

use crate::{
    SqliteOptions, Synchronous,
    error::{Fault, Outcome},
    identity, moved,
};
use rusqlite::{Connection, OpenFlags};
use std::{path::Path, thread::sleep, time::Duration};

/// Page cache of the writer: the tail of the log and the part that is being claimed.
const WRITER_CACHE_KIB: i64 = 24 * 1024;
/// Page cache of the reader; its pages mostly come from the operating system's cache.
const READER_CACHE_KIB: i64 = 8 * 1024;
/// The log is copied back into the file when it has this many pages (4 KiB each).
const CHECKPOINT_PAGES: i64 = 4_000;
/// When the log starts over, what is longer than this is cut off.
const WAL_KEEP_BYTES: i64 = 64 * 1024 * 1024;
/// Statements kept prepared per connection.
const STATEMENTS: usize = 96;
/// Waiting for the write lock: first often, since groups take well under a millisecond, then patiently.
const BUSY_SHORT: Duration = Duration::from_micros(100);
const BUSY_SHORT_TRIES: i32 = 20;
const BUSY_LONG: Duration = Duration::from_millis(1);

/// The connection that writes. Creates the file when it is missing.
pub(crate) fn writer(path: &Path, options: &SqliteOptions) -> Outcome<Connection> {
    let conn = open(path, options, OpenFlags::SQLITE_OPEN_CREATE)?;
    if conn.is_readonly("main")? {
        return Err(Fault::Refused(identity::denied(path, "the file opens only for reading")));
    }
    conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    if let Some(bytes) = options.max_bytes {
        let page: u32 = conn.query_one("PRAGMA page_size", [], |row| row.get(0))?;
        conn.query_one(&format!("PRAGMA max_page_count = {}", (bytes / u64::from(page)).max(1)), [], |_| {
            Ok(())
        })?;
    }
    Ok(conn)
}

/// Switches the file to WAL, which is remembered in it, and tunes the writer. After the schema exists.
pub(crate) fn enter_wal(conn: &Connection, synchronous: Synchronous) -> Outcome<()> {
    conn.query_one("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    conn.query_one(&format!("PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}"), [], |_| Ok(()))?;
    conn.query_one(&format!("PRAGMA journal_size_limit = {WAL_KEEP_BYTES}"), [], |_| Ok(()))?;
    if synchronous == Synchronous::Full {
        // Only macOS knows the difference: its fsync leaves data in the drive's cache.
        conn.pragma_update(None, "fullfsync", true)?;
        conn.pragma_update(None, "checkpoint_fullfsync", true)?;
    }
    set_synchronous(conn, synchronous)
}

/// What the next transaction's commit waits for. Not inside a transaction.
pub(crate) fn set_synchronous(conn: &Connection, synchronous: Synchronous) -> Outcome<()> {
    let sql = match synchronous {
        Synchronous::Full => "PRAGMA synchronous = FULL",
        Synchronous::Normal => "PRAGMA synchronous = NORMAL",
    };
    conn.prepare_cached(sql)?.raw_execute()?;
    Ok(())
}

/// A connection that only reads: inspection, and the watcher of other processes' writes.
pub(crate) fn reader(path: &Path, options: &SqliteOptions) -> Outcome<Connection> {
    let conn = open(path, options, OpenFlags::empty())?;
    conn.pragma_update(None, "query_only", true)?;
    // The writer knows whether it still is the log that was opened.
    moved::leave_log(&conn)?;
    conn.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    Ok(conn)
}

fn open(path: &Path, options: &SqliteOptions, extra: OpenFlags) -> Outcome<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
    let mut conn = Connection::open_with_flags(path, flags)?;
    set_patience(&mut conn, options.busy_timeout, || {})?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(conn)
}

/// How long the connection waits for locks of others. Counts what it slept, not what the clock says: a
/// process that was stopped for a while has not lost its patience. Calls `on_wait` each time before it sleeps.
pub(crate) fn set_patience(
    conn: &mut Connection,
    timeout: Duration,
    mut on_wait: impl FnMut() + Send + 'static,
) -> Outcome<()> {
    let mut slept = Duration::ZERO;
    conn.busy_handler(Some(move |tries: i32| {
        if tries == 0 {
            slept = Duration::ZERO;
        }
        on_wait();
        let pause = if tries < BUSY_SHORT_TRIES { BUSY_SHORT } else { BUSY_LONG };
        sleep(pause);
        slept += pause;
        slept < timeout
    }))?;
    Ok(())
}
