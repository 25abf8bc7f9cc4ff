use crate::fixture::{Fixture, exception, job};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use windlass_core::{
    Args, Conflict, Disposition, JobReport, JobState, JobStore, MaintainReport, NewJob, Progress,
    ReportRequest, Reported, RetentionRule, Settings, Settled, Unique,
};

const HOUR: Duration = Duration::from_secs(3_600);

fn keep(retention: Duration, dead_retention: Duration) -> Settings {
    Settings::DEFAULT.with_retention(retention).with_dead_retention(dead_retention)
}

async fn maintain(f: &Fixture, settings: Settings) -> MaintainReport {
    f.configure(&settings).await.unwrap();
    f.maintain().await.unwrap()
}

#[tokio::test]
async fn finished_jobs_go_after_their_retention_and_unfinished_ones_stay() {
    let f = Fixture::new();
    let added = f.add(6).await;
    let worker = f.worker().await;
    let done = f.take(worker, 2).await.remove(0);
    let running = f.take(worker, 1).await.remove(0);
    let dead = f.take_one(worker).await;
    f.complete(worker, &done).await;
    f.except(worker, &dead, Disposition::Discard { error: "x".into(), failed: true }).await;

    assert_eq!(maintain(&f, keep(HOUR, HOUR)).await, Default::default());
    f.advance(HOUR);
    let report = maintain(&f, keep(HOUR, 2 * HOUR)).await;
    assert_eq!((report.truncated, report.removed_dead), (2, 0));
    assert!(f.job(added[0]).await.unwrap().is_none());
    assert_eq!(f.state(added[2]).await, JobState::Running);
    assert_eq!(f.state(added[3]).await, JobState::Discarded);
    assert_eq!(f.state(added[5]).await, JobState::Available);
    assert_eq!(f.queues().await.unwrap()[0].completed, 0);
    f.advance(HOUR);
    assert_eq!(maintain(&f, keep(HOUR, 2 * HOUR)).await.removed_dead, 1);
    assert!(f.job(added[3]).await.unwrap().is_none());
    // Claiming goes on where it was.
    assert_eq!(crate::fixture::ids(&f.take(worker, 9).await), added[4..]);
    f.complete(worker, &running).await;
}

/// What ended while it was ahead is not what ended last, for ever.
#[tokio::test]
async fn a_clock_that_is_set_back_keeps_what_ends_from_then_on() {
    let f = Fixture::new();
    f.set_retention(&[RetentionRule::of_every_queue(JobState::Discarded).with_count(3)]).await.unwrap();
    let added = f.add(4).await;
    f.advance(24 * HOUR);
    let worker = f.worker().await;
    let discard = async || {
        let held = f.take_one(worker).await;
        f.except(worker, &held, Disposition::Discard { error: "x".into(), failed: true }).await;
        f.advance(Duration::from_secs(1));
    };
    for _ in 0..3 {
        discard().await;
    }
    f.set_back(24 * HOUR);
    discard().await;
    assert_eq!(maintain(&f, keep(HOUR, HOUR)).await.removed_dead, 1);
    assert_eq!(f.state(added[3]).await, JobState::Discarded);
    f.advance(HOUR);
    assert_eq!(maintain(&f, keep(HOUR, HOUR)).await.removed_dead, 3);
}

#[tokio::test]
async fn errors_go_with_their_job() {
    let f = Fixture::new();
    let id = f.add(1).await[0];
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    let retry = Disposition::Retry { delay: Duration::ZERO, error: "x".into() };
    f.settle(&exception(worker, &held, retry)).await.unwrap();
    f.promote(1).await.unwrap();
    let claim = f.take(worker, 1).await.remove(0);
    f.complete(worker, &claim).await;
    assert_eq!(f.job(id).await.unwrap().unwrap().errors.len(), 1);
    maintain(&f, keep(Duration::ZERO, HOUR)).await;
    f.close().await;
    let file = rusqlite::Connection::open(f.path()).unwrap();
    let left: i64 = file.query_one("SELECT count(*) FROM attempt_error", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

/// Results, reports, errors and requests go with their jobs, and workers that ended go, too: nothing grows for ever.
#[tokio::test]
async fn nothing_is_left_of_what_is_past() {
    let f = Fixture::new();
    f.add(2).await;
    let (worker, other) = (f.worker().await, f.worker().await);
    let result = Some(Args::of(&"done").unwrap());
    for end in [Disposition::Complete { result }, Disposition::Discard { error: "no".into(), failed: true }] {
        let held = f.take_one(worker).await;
        let report = JobReport {
            claim: held.claim,
            job: held.job.id,
            position: held.job.position,
            attempt: held.job.attempt,
            number: 1,
            progress: Some(Progress::from(50.0)),
            checkpoint: None,
            log: vec![],
            dropped: 0,
        };
        let reported = f.report(&ReportRequest { worker, reports: vec![report] }).await.unwrap();
        assert_eq!(reported, [Reported::Accepted]);
        assert_eq!(f.except(worker, &held, end).await, Settled::Accepted);
    }
    let asked = f.add(1).await;
    f.take_one(other).await;
    f.cancel(&asked).await.unwrap();
    f.deregister(other).await.unwrap();
    f.deregister(worker).await.unwrap();
    f.advance(HOUR);
    maintain(&f, keep(Duration::ZERO, Duration::ZERO)).await;
    f.close().await;
    let file = rusqlite::Connection::open(f.path()).unwrap();
    let tables = [
        "job",
        "waiting",
        "dead",
        "claim",
        "settlement",
        "result",
        "job_report",
        "attempt_error",
        "cancel_request",
        "worker",
    ];
    for table in tables {
        let count = format!("SELECT count(*) FROM {table}");
        assert_eq!(file.query_one(&count, [], |row| row.get::<_, i64>(0)).unwrap(), 0, "{table}");
    }
}

/// A call goes through all queues, some with each transaction; of one that has more dead jobs than a transaction removes it comes back.
#[tokio::test]
async fn rules_hold_in_each_of_many_queues() {
    let f = Fixture::new();
    let of = |n: usize| job("test").with_queue(format!("q{}", if n % 2 == 1 { n / 2 } else { 300 }));
    let batch: Vec<_> = (0..1_001).map(of).chain((0..1_500).map(|_| of(0))).collect();
    let ids = f.enqueue(&batch).await.unwrap();
    f.cancel(&ids).await.unwrap();
    f.set_retention(&[RetentionRule::of_every_queue(JobState::Cancelled).with_count(0)]).await.unwrap();
    assert_eq!(f.maintain().await.unwrap().removed_dead, 2_501);
    assert_eq!(f.maintain().await.unwrap().removed_dead, 0);
}

#[tokio::test]
async fn the_file_reuses_its_room() {
    let f = Fixture::new();
    let worker = f.worker().await;
    let mut sizes = Vec::new();
    for _ in 0..5 {
        f.add(5_000).await;
        for claim in f.take(worker, 5_000).await {
            f.complete(worker, &claim).await;
        }
        maintain(&f, keep(Duration::ZERO, Duration::ZERO)).await;
        assert_eq!(f.queues().await.unwrap()[0].completed, 0);
        f.close().await;
        sizes.push(std::fs::metadata(f.path()).unwrap().len());
    }
    assert!(sizes[4] <= sizes[0] * 3 / 2, "{sizes:?}");
}

/// Each reader begins before the other ends, so the log is in use at every moment: SQLite alone would
/// never start it over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_overlap_do_not_let_the_log_grow() {
    // About 8 MB each: many times what the store lets the log hold before it steps in.
    const BATCHES: usize = 60;
    let f = Fixture::new();
    f.add(1).await;
    let log = f.path().with_file_name("jobs.db-wal");
    let stop = Arc::new(AtomicBool::new(false));
    let reading = std::thread::spawn({
        let (file, stop) = (f.path().to_owned(), Arc::clone(&stop));
        move || overlap(&file, &stop)
    });
    let batch = vec![NewJob::new("big", Args::of(&"x".repeat(4_000)).unwrap()); 2_000];
    let (mut longest, mut cut) = (0, false);
    for _ in 0..BATCHES {
        f.enqueue(&batch).await.unwrap();
        let length = std::fs::metadata(&log).unwrap().len();
        cut = length < longest;
        if cut {
            break;
        }
        longest = length;
    }
    stop.store(true, Ordering::SeqCst);
    assert!(reading.join().unwrap() > 2, "the readers took turns");
    assert!(cut, "the log only grew, to {longest} bytes");
}

/// Two connections that hand a snapshot on to each other, each with a query that takes milliseconds.
/// Returns how often.
fn overlap(file: &std::path::Path, stop: &AtomicBool) -> u32 {
    const REPORT: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
        SELECT max(i) FROM n";
    let readers = [0, 1].map(|_| rusqlite::Connection::open(file).unwrap());
    let mut turns = 0;
    while !stop.load(Ordering::SeqCst) {
        let (next, last) = (&readers[turns as usize % 2], &readers[(turns as usize + 1) % 2]);
        next.execute_batch("BEGIN; SELECT count(*) FROM lane").unwrap();
        if !last.is_autocommit() {
            last.execute_batch("COMMIT").unwrap();
        }
        next.execute_batch(REPORT).unwrap();
        turns += 1;
    }
    turns
}

/// One that had its key until it was started, and runs, has it again where it comes back untried.
#[tokio::test]
async fn a_running_job_may_have_its_key_again() {
    let f = Fixture::new();
    let job = || {
        let job = NewJob::new("k", Args::parse("1").unwrap());
        job.with_unique(Unique::by_key("u").until_started())
    };
    let id = f.enqueue_unique(&[job()]).await.unwrap()[0].id;
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    f.advance(Duration::from_secs(61));
    f.heartbeat(worker).await.unwrap();
    f.maintain().await.unwrap();
    f.except(worker, &held, Disposition::Return).await;
    let again = f.enqueue_unique(&[job()]).await.unwrap()[0];
    assert_eq!((again.id, again.conflict), (id, Some(Conflict::Kept)));
}
