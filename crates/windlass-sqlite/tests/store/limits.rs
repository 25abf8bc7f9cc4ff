use crate::fixture::{Fixture, demand, job};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use windlass_core::{JobStore, QueueLimits, QueueNeed, RateLimit, Share, ShareRequest, WorkerId};

const SECOND: Duration = Duration::from_secs(1);

async fn ask(f: &Fixture, worker: WorkerId, running: u32, slots: u32, starts: u32) -> Share {
    let need = QueueNeed { queue: "default".into(), running, slots, starts: starts.into() };
    f.share(&ShareRequest { worker, generation: 0, queues: vec![need] }).await.unwrap()[0].unwrap()
}

fn at_once(concurrency: u32) -> QueueLimits {
    QueueLimits::default().with_concurrency(concurrency)
}

fn per(count: u32, period: Duration) -> QueueLimits {
    QueueLimits::default().with_rate(RateLimit::new(count, period))
}

async fn set(f: &Fixture, limits: QueueLimits) {
    f.limit("default", &limits).await.unwrap();
}

/// So many bytes lie in the file's log: it grows with every write.
fn written(f: &Fixture) -> u64 {
    std::fs::metadata(f.folder.path().join("jobs.db-wal")).unwrap().len()
}

#[tokio::test]
async fn a_repeated_request_writes_nothing() {
    let f = Fixture::new();
    set(&f, at_once(3).with_rate(RateLimit::new(1, 3600 * SECOND))).await;
    let (holder, waiting) = (f.worker().await, f.worker().await);
    ask(&f, holder, 0, 3, 1).await;
    ask(&f, waiting, 0, 2, 1).await;
    ask(&f, holder, 3, 3, 1).await;
    let before = written(&f);
    for _ in 0..5 {
        assert_eq!(ask(&f, holder, 3, 3, 1).await.slots, Some(3));
        assert_eq!(ask(&f, waiting, 0, 2, 1).await.slots, Some(0));
        f.claim(&demand(waiting, 1)).await.unwrap();
        set(&f, at_once(3).with_rate(RateLimit::new(1, 3600 * SECOND))).await;
    }
    assert_eq!(written(&f), before);
}

#[tokio::test]
async fn a_clock_that_is_set_back_neither_stalls_a_rate_nor_exceeds_it() {
    let f = Fixture::new();
    let worker = f.worker().await;
    let window = 10 * SECOND + RateLimit::new(3, 10 * SECOND).grace() + Duration::from_micros(2);
    f.advance(3600 * SECOND);
    set(&f, per(3, 10 * SECOND)).await;
    assert_eq!(ask(&f, worker, 0, 1, 2).await.starts, Some(2));
    f.set_back(3600 * SECOND);
    // It was given out now, as far as anybody can tell.
    assert_eq!(ask(&f, worker, 0, 1, 2).await.starts, Some(1));
    let share = ask(&f, worker, 0, 1, 1).await;
    assert_eq!(share.starts, Some(0));
    assert!(share.next_start.unwrap() <= window, "{share:?}");
    f.set_back(60 * SECOND);
    assert_eq!(ask(&f, worker, 0, 1, 1).await.starts, Some(0));
    f.advance(window);
    assert_eq!(ask(&f, worker, 0, 1, 9).await.starts, Some(3));
    f.advance(window / 2);
    assert_eq!(ask(&f, worker, 0, 1, 9).await.starts, Some(0));
    f.advance(window / 2 + Duration::from_micros(1));
    assert_eq!(ask(&f, worker, 0, 1, 9).await.starts, Some(3));
}

/// What was given out before a pause was of another count, and what a longer period had was the difference of the two.
#[tokio::test]
async fn a_longer_period_reaches_back_beyond_a_pause() {
    let f = Fixture::new();
    let worker = f.worker().await;
    let window = SECOND + RateLimit::new(10, SECOND).grace() + Duration::from_micros(1);
    set(&f, per(10, SECOND)).await;
    for _ in 0..70 {
        assert_eq!(ask(&f, worker, 0, 1, 99).await.starts, Some(10));
        f.advance(window);
    }
    f.advance(SECOND);
    assert_eq!(ask(&f, worker, 0, 1, 1).await.starts, Some(1));
    let minute = RateLimit::new(600, 60 * SECOND);
    set(&f, per(600, 60 * SECOND)).await;
    // Since the last ten a window passed, and a second.
    let within = ((60 * SECOND + minute.grace() - SECOND).as_micros() / window.as_micros()) as u32;
    assert_eq!(ask(&f, worker, 0, 1, 999).await.starts, Some(600 - 10 * within - 1));
    assert_eq!(ask(&f, worker, 0, 1, 999).await.starts, Some(0));
    f.advance(SECOND);
    f.maintain().await.unwrap();
    assert!(ask(&f, worker, 0, 1, 999).await.starts <= Some(10));
}

#[tokio::test]
async fn what_no_window_reaches_back_to_is_removed() {
    let f = Fixture::new();
    let worker = f.worker().await;
    set(&f, per(1_000_000, 10 * SECOND)).await;
    let count = || {
        let conn = rusqlite::Connection::open(f.folder.path().join("jobs.db")).unwrap();
        conn.query_row("SELECT count(*) FROM started", [], |row| row.get::<_, u32>(0)).unwrap()
    };
    for _ in 0..30 {
        ask(&f, worker, 0, 1, 1).await;
        f.advance(SECOND);
    }
    f.maintain().await.unwrap();
    assert!((10..=11).contains(&count()), "{} rows", count());
    f.advance(3600 * SECOND);
    f.maintain().await.unwrap();
    assert_eq!(count(), 0);
    assert_eq!(ask(&f, worker, 0, 1, 5).await.starts, Some(5));
}

/// Not for as long as the clock was ahead.
#[tokio::test]
async fn what_was_given_out_while_a_clock_was_ahead_is_removed() {
    let f = Fixture::new();
    let worker = f.worker().await;
    let rows = || {
        let conn = rusqlite::Connection::open(f.folder.path().join("jobs.db")).unwrap();
        conn.query_row("SELECT count(*) FROM started", [], |row| row.get::<_, u32>(0)).unwrap()
    };
    set(&f, per(1_000_000, 10 * SECOND)).await;
    let days = 30 * 24 * 3600 * SECOND;
    f.advance(days);
    for _ in 0..30 {
        ask(&f, worker, 0, 1, 1).await;
        f.advance(SECOND / 10);
    }
    f.set_back(days);
    for _ in 0..30 {
        ask(&f, worker, 0, 1, 1).await;
        f.advance(SECOND);
    }
    f.maintain().await.unwrap();
    assert!((10..=12).contains(&rows()), "{} rows", rows());
    f.advance(3600 * SECOND);
    f.maintain().await.unwrap();
    assert_eq!(rows(), 0);
}

#[tokio::test]
async fn turns_end_by_the_clock() {
    let f = Fixture::new();
    set(&f, at_once(1)).await;
    let (one, other) = (f.worker().await, f.worker().await);
    assert_eq!(ask(&f, one, 0, 1, 0).await.slots, Some(1));
    assert_eq!(ask(&f, other, 0, 1, 0).await.slots, Some(0));
    f.advance(SECOND);
    assert_eq!(ask(&f, one, 0, 1, 0).await.slots, Some(1), "not longer than a second");
    f.advance(Duration::from_micros(1));
    let share = ask(&f, one, 1, 1, 0).await;
    assert_eq!((share.slots, share.wanted), (Some(1), true));
    assert_eq!(ask(&f, one, 0, 1, 0).await.slots, Some(0));
    assert_eq!(ask(&f, other, 0, 1, 0).await.slots, Some(1));
}

/// A worker that hangs keeps its slots until its lease is over, but nobody waits for it to take more.
#[tokio::test]
async fn who_is_silent_wants_nothing() {
    let f = Fixture::new();
    set(&f, at_once(1)).await;
    let (silent, other) = (f.worker().await, f.worker().await);
    let holder = f.rescuer().await;
    assert_eq!(ask(&f, holder, 0, 1, 0).await.slots, Some(1));
    assert_eq!(ask(&f, silent, 0, 1, 0).await.slots, Some(0));
    assert_eq!(ask(&f, holder, 0, 0, 0).await.slots, Some(0));
    assert_eq!(ask(&f, other, 0, 1, 0).await.slots, Some(0), "another has waited longer");
    f.advance(crate::fixture::LEASE / 2 + SECOND);
    assert_eq!(ask(&f, other, 0, 1, 0).await.slots, Some(1));
}

/// Within the process and from another handle, which sees it as another process would.
#[tokio::test]
async fn who_waits_is_told() {
    let f = Fixture::new();
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    let mut wakeup = f.wakeup();
    wakeup.on_request(Arc::new(move |_| *count.lock().unwrap() += 1));
    let mut seen = 0;
    let mut is_told = |what: &str| {
        let now = *told.lock().unwrap();
        assert!(now > seen, "{what}");
        seen = now;
    };
    set(&f, at_once(2)).await;
    is_told("limits changed");
    let (one, other) = (f.worker().await, f.worker().await);
    ask(&f, one, 0, 2, 0).await;
    ask(&f, other, 0, 2, 0).await;
    is_told("somebody has more than its share");
    ask(&f, one, 1, 2, 0).await;
    is_told("a slot is free");
    ask(&f, other, 0, 2, 0).await;
    f.deregister(one).await.unwrap();
    is_told("a worker ended");
    set(&f, QueueLimits::default()).await;
    is_told("limits went");
    f.enqueue(&[job("test")]).await.unwrap();
}
