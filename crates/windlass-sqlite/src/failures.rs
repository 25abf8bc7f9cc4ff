//! What becomes of commands whose transaction fails.

use crate::{
    Clock, SqliteOptions, Synchronous, claim,
    command::{BoxCommand, Task},
    connect,
    enqueue::Batch,
    error::{Fault, Outcome},
    give_back::GiveBack,
    migrate,
    moved::OpenedFiles,
    traced::any_worker,
    turns::Turns,
    tx::{Memory, Tx},
    unique,
    wakeup::Signal,
    wal::Wal,
    workers,
    writer::Writer,
};
use rusqlite::{Connection, ffi};
use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use windlass_core::{
    Args, ClaimRequest, EnqueuedUnique, ErrorKind, NewJob, OnConflict, QueueDemand, Result, Unique,
    UniqueBatch,
};

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
        turns: Turns::at(path),
        memory: Memory::default(),
        later: Vec::new(),
        later_at: None,
        current: Synchronous::Normal,
        is_durable: false,
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
    writer.answer(vec![first, second], Some(&error));
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

/// A claim of jobs that do not go back in one transaction, which nobody took.
fn undelivered(writer: &mut Writer) {
    let (mut worker, mut reference) = (None, None);
    let large = NewJob::new("test", Args::of(&"x".repeat(1 << 20)).unwrap());
    let batch = Batch::pack(&vec![large; 12]);
    let claimed = writer.transaction(false, |tx| {
        let id = workers::register(tx, &any_worker())?.worker;
        batch.append(tx)?;
        let request = ClaimRequest { worker: id, queues: vec![QueueDemand::new("default", 12)] };
        let claims = claim::claim(tx, &request, 0)?.0.claims;
        (worker, reference) = (Some(id), claims.first().map(|claim| claim.reference));
        assert_eq!(claims[0].jobs.len(), 12);
        Ok(true)
    });
    assert!(claimed.unwrap());
    writer.undelivered.add(worker.unwrap(), reference.into_iter());
}

#[test]
fn claims_that_nobody_took_go_back_though_that_fails_first() {
    let (folder, mut writer) = open();
    undelivered(&mut writer);
    let other = another(&folder);
    let no = "CREATE TRIGGER no BEFORE UPDATE OF pos ON job BEGIN SELECT RAISE(ABORT, 'no'); END";
    other.execute_batch(no).unwrap();
    let mut waiting: VecDeque<_> = GiveBack::of(&writer.undelivered).collect();
    writer.commit_group(&mut waiting);
    assert_eq!(writer.later.len(), 1, "in a group");
    let kept = writer.later.remove(0);
    writer.commit_alone(kept);
    assert_eq!(writer.later.len(), 1, "alone");
    other.execute_batch("DROP TRIGGER no").unwrap();
    let running = || number(&another(&folder), "SELECT coalesce(sum(open), 0) FROM claim");
    assert_eq!(running(), 12);
    let kept = writer.later.remove(0);
    writer.commit_alone(kept);
    assert!((1..12).contains(&running()), "{}", running());
    // The last of them as those who serve do it when they end.
    writer.later.extend(GiveBack::of(&writer.undelivered));
    let (calls, inbox) = mpsc::channel::<BoxCommand>(1);
    drop(calls);
    writer.serve(inbox);
    assert_eq!(running(), 0);
}

/// The rest is not another command's as well.
#[test]
fn the_rest_of_a_claim_goes_back_once() {
    let (_folder, mut writer) = open();
    undelivered(&mut writer);
    let mut command = GiveBack::of(&writer.undelivered).next().unwrap();
    let done = writer.transaction(true, |tx| {
        assert!(command.run(tx));
        spoil(tx.conn);
        Ok(true)
    });
    let (error, _) = done.unwrap_err();
    writer.answer(vec![command], Some(&error));
    assert_eq!((writer.later.len(), GiveBack::of(&writer.undelivered).count()), (1, 0));
}

#[test]
fn what_fails_again_and_again_keeps_nobody_waiting() {
    let (_folder, mut writer) = open();
    let ran = Arc::new(AtomicU32::new(0));
    let runs = Arc::clone(&ran);
    writer.later.push(Task::<(), _>::unattended(move |_: &mut Tx<'_>| {
        assert!(runs.fetch_add(1, Ordering::SeqCst) < 10, "without end");
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None).into())
    }));
    let (calls, inbox) = mpsc::channel::<BoxCommand>(10);
    let answers: Vec<_> = (0..10)
        .map(|n| {
            let (task, answer) = Task::new(false, move |_: &mut Tx<'_>| Ok(n));
            calls.try_send(task).unwrap_or_else(|_| panic!("there is room"));
            answer
        })
        .collect();
    drop(calls);
    thread::spawn(move || writer.serve(inbox)).join().unwrap();
    let answers = answers.into_iter().map(|answer| answer.blocking_recv().unwrap().unwrap());
    assert_eq!(answers.collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert_eq!(ran.load(Ordering::SeqCst), 2, "once, and at the end");
}
