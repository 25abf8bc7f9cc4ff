//! What becomes of commands whose transaction fails.

use crate::{
    Clock, SqliteOptions, Synchronous,
    command::{BoxCommand, Task},
    connect,
    error::{Fault, Outcome},
    migrate,
    moved::OpenedFiles,
    tx::{Memory, Tx},
    unique,
    wakeup::Signal,
    wal::Wal,
    writer::{Writer, answer_all},
};
use rusqlite::Connection;
use std::{path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::sync::oneshot;
use windlass_core::{Args, EnqueuedUnique, ErrorKind, NewJob, OnConflict, Result, Unique, UniqueBatch};

/// One of this file and connection.
pub(crate) fn writer(path: &Path, conn: Connection, clock: Clock) -> Writer {
    Writer {
        conn,
        file: Arc::new(OpenedFiles::at(path)),
        clock,
        synchronous: Synchronous::Normal,
        signal: Signal::of(path),
        undelivered: Arc::default(),
        wal: Wal::of(path, Duration::ZERO),
        memory: Memory::default(),
        later: Vec::new(),
        current: Synchronous::Normal,
    }
}

fn plain<T>(outcome: Outcome<T>) -> T {
    outcome.map_err(Fault::into_error).unwrap()
}

fn open() -> (TempDir, Writer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let options = SqliteOptions { busy_timeout: Duration::ZERO, ..SqliteOptions::default() };
    let conn = plain(connect::writer(&path, &options));
    plain(migrate::migrate(&conn));
    let deferred = "PRAGMA foreign_keys = ON; CREATE TABLE none (id INTEGER PRIMARY KEY);
        CREATE TABLE wrong (none INTEGER REFERENCES none (id) DEFERRABLE INITIALLY DEFERRED)";
    conn.execute_batch(deferred).unwrap();
    (folder, writer(&path, conn, Clock::default()))
}

fn another(folder: &TempDir) -> Connection {
    Connection::open(folder.path().join("jobs.db")).unwrap()
}

/// The transaction of this connection cannot be committed.
fn spoil(conn: &Connection) {
    conn.execute("INSERT INTO wrong VALUES (1)", []).unwrap();
}

fn number(conn: &Connection, sql: &str) -> i64 {
    conn.query_one(sql, [], |row| row.get(0)).unwrap()
}

type Answer = oneshot::Receiver<Result<Vec<EnqueuedUnique>>>;

/// A job with the key, and a second one that is refused because of it.
fn two_of_a_key() -> [(BoxCommand, Answer); 2] {
    [OnConflict::Keep, OnConflict::Error].map(|rule| {
        let unique = Unique::by_key("k").on_conflict(rule);
        let job = NewJob::new("test", Args::parse("{}").unwrap()).with_unique(unique);
        let batch = UniqueBatch::of(&[job]).unwrap();
        let (task, answer) = Task::new(true, move |tx: &mut Tx<'_>| unique::enqueue(tx, &batch));
        (task as BoxCommand, answer)
    })
}

fn kind(answer: Answer) -> ErrorKind {
    answer.blocking_recv().unwrap().unwrap_err().kind()
}

/// Nobody has the key then.
#[test]
fn who_met_a_job_that_was_not_committed_is_not_refused_for_it() {
    let (folder, mut writer) = open();
    let [(mut first, stored), (mut second, met)] = two_of_a_key();
    let done = writer.transaction(true, |tx| {
        assert!(first.run(tx) && !second.run(tx));
        spoil(tx.conn);
        Ok(true)
    });
    let (error, _) = done.unwrap_err();
    answer_all(vec![first, second], Some(&error));
    assert_eq!([kind(stored), kind(met)], [error.kind(); 2]);
    assert_ne!(error.kind(), ErrorKind::UniqueConflict);
    assert_eq!(number(&another(&folder), "SELECT count(*) FROM job"), 0);
}

/// It runs alone after that, and another process has the file.
#[test]
fn who_met_a_job_that_was_rolled_back_and_cannot_begin_again_is_not_refused_for_it() {
    let (folder, mut writer) = open();
    let [(mut first, _stored), (mut second, met)] = two_of_a_key();
    let done = writer.transaction(true, |tx| {
        assert!(first.run(tx) && !second.run(tx));
        Ok(false)
    });
    assert!(!done.unwrap());
    let other = another(&folder);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    writer.commit_alone(second);
    assert_eq!(kind(met), ErrorKind::Unavailable);
}

/// Who stored the job may have been cut off before it was on the disk.
#[test]
fn a_refusal_that_names_a_job_is_written_also_by_who_runs_alone() {
    let (folder, mut writer) = open();
    let [(first, _stored), (second, met)] = two_of_a_key();
    writer.commit_alone(first);
    let other = another(&folder);
    let before = number(&other, "PRAGMA data_version");
    writer.commit_alone(second);
    assert_eq!(kind(met), ErrorKind::UniqueConflict);
    assert_ne!(number(&other, "PRAGMA data_version"), before);
}
