//! The threads of an open store, started together and again after a close.

use crate::{
    SqliteOptions, Synchronous, claim_reply::UndeliveredClaims, command::BoxCommand, connect, error::Outcome,
    fork::Use, identity, identity::Ours, migrate, moved::OpenedFiles, reader, reader::Question, turns::Turns,
    tx::Memory, wakeup::Signal, wal::Wal, writer::Writer,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};
use windlass_core::{Error, ErrorKind, MigrationReport, Result};

/// How many commands or questions may be queued for a thread; callers wait while there are more.
const INBOX: usize = 1_024;
/// The pause between two attempts to open a file that other processes are opening, too.
const OPEN_RETRY: Duration = Duration::from_millis(2);

/// An open store's threads: the writer, and two that read.
pub(crate) struct Threads {
    pub(crate) writer: mpsc::Sender<BoxCommand>,
    pub(crate) reader: mpsc::Sender<Question>,
    /// Answers what is found at once, beside a reader that looks through millions of jobs for somebody.
    pub(crate) quick_reader: mpsc::Sender<Question>,
    pub(crate) file: Arc<OpenedFiles>,
    /// Answered when the thread has closed its connection.
    writer_ended: oneshot::Receiver<()>,
    readers_ended: [oneshot::Receiver<()>; 2],
}

/// What the first opening found out.
pub(crate) struct Opened {
    pub(crate) threads: Threads,
    pub(crate) migration: MigrationReport,
    pub(crate) signal: Arc<Signal>,
    pub(crate) path: PathBuf,
}

/// Opens the file, brings its schema up to date and starts the threads.
pub(crate) fn start(
    path: &Path,
    options: &SqliteOptions,
    undelivered: &Arc<UndeliveredClaims>,
    using: &Use,
) -> Result<Opened> {
    let ours = Ours::check(path)?;
    let mut conn = connect::writer(path, options).map_err(|fault| fault.about(path))?;
    let migration = prepare(&conn, options).map_err(|fault| fault.about(path))?;
    // Only now does the file certainly exist.
    let path = path.canonicalize().map_err(|cause| identity::denied(path, cause))?;
    let reading = || connect::reader(&path, options).map_err(|fault| fault.about(&path));
    let (reading, reading_quickly) = (reading()?, reading()?);
    let turns = Turns::at(&path);
    connect::set_patience(&mut conn, options.busy_timeout, turns.on_wait())
        .map_err(|fault| fault.about(&path))?;
    let (signal, file) = (Signal::of(&path), Arc::new(OpenedFiles::at(&path)));
    let writer = Writer {
        conn,
        file: Arc::clone(&file),
        clock: options.clock.clone(),
        synchronous: options.synchronous,
        signal: Arc::clone(&signal),
        undelivered: Arc::clone(undelivered),
        wal: Wal::of(&path, options.busy_timeout),
        turns,
        memory: Memory::default(),
        later: Vec::new(),
        later_at: None,
        current: options.synchronous,
        is_durable: false,
    };
    let (to_writer, writer_inbox) = mpsc::channel(INBOX);
    let (to_reader, reader_inbox) = mpsc::channel(INBOX);
    let (to_quick_reader, quick_inbox) = mpsc::channel(INBOX);
    let writer_ended =
        spawn("windlass-sqlite-write", (ours.clone(), using.clone()), move || writer.serve(writer_inbox))?;
    let reader_ended = spawn("windlass-sqlite-read", (ours.clone(), using.clone()), move || {
        reader::serve(&reading, reader_inbox);
    })?;
    let quick_ended = spawn("windlass-sqlite-look", (ours.clone(), using.clone()), move || {
        reader::serve(&reading_quickly, quick_inbox);
    })?;
    let threads = Threads {
        writer: to_writer,
        reader: to_reader,
        quick_reader: to_quick_reader,
        file,
        writer_ended,
        readers_ended: [reader_ended, quick_ended],
    };
    Ok(Opened { threads, migration, signal, path })
}

/// Creating a file and switching it to WAL takes locks for which SQLite does not always ask the busy
/// handler, so that two processes that upgrade at once cannot block each other. Then it is tried again.
fn prepare(conn: &rusqlite::Connection, options: &SqliteOptions) -> Outcome<MigrationReport> {
    let end = Instant::now() + options.busy_timeout;
    loop {
        match prepare_once(conn, options) {
            Err(fault) if fault.is_busy() && Instant::now() < end => thread::sleep(OPEN_RETRY),
            done => return done,
        }
    }
}

fn prepare_once(conn: &rusqlite::Connection, options: &SqliteOptions) -> Outcome<MigrationReport> {
    // Creating the file is always made durable.
    connect::set_synchronous(conn, Synchronous::Full)?;
    let migration = migrate::migrate(conn)?;
    connect::enter_wal(conn, options.synchronous)?;
    Ok(migration)
}

/// Starts a thread with a connection, which the work closes.
fn spawn(
    name: &str,
    using: (Ours, Use),
    work: impl FnOnce() + Send + 'static,
) -> Result<oneshot::Receiver<()>> {
    let (end, ended) = oneshot::channel();
    let run = move || {
        work();
        drop(using);
        // Nobody may be waiting for the end.
        let _ = end.send(());
    };
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|cause| {
        Error::new(ErrorKind::Unavailable, format!("cannot start a thread: {cause}")).with_source(cause)
    })?;
    Ok(ended)
}

impl Threads {
    /// Whether a thread ended by a defect; the store then opens anew.
    pub(crate) fn broken(&self) -> bool {
        self.writer.is_closed() || self.reader.is_closed() || self.quick_reader.is_closed()
    }

    /// Lets the threads finish what was asked, and waits until their connections are closed. One after the
    /// other: of two that close at once each sees the other's lock, and neither folds the log into the file.
    pub(crate) async fn close(self) {
        // An error means that the thread is gone, too.
        drop((self.reader, self.quick_reader));
        for ended in self.readers_ended {
            let _ = ended.await;
        }
        drop(self.writer);
        let _ = self.writer_ended.await;
    }
}
