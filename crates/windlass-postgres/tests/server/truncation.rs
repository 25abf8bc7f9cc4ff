//! Emptying a segment beside those whose commits take long, as where a standby is far away.

use crate::session::Session;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::time::sleep;
use windlass_conformance::steps::{KEEP_NOTHING, enqueue_jobs, eventually, worker_on};
use windlass_core::Store;

const STEP: &str = "SELECT truncated FROM windlass.maintain()";

/// A store with one segment to empty, of which all is settled and counted.
async fn place() -> Session {
    let session = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    store.configure(&KEEP_NOTHING).await.unwrap();
    enqueue_jobs(&store, 10).await;
    worker_on(&store).await.drain(10).await;
    while session.value::<bool>("SELECT again FROM windlass.fold(1000)").await {}
    assert!(session.value::<bool>("SELECT rotated FROM windlass.maintain()").await);
    session
}

/// What whoever decides about jobs does until its commit is done.
fn hold(session: &Session) -> String {
    format!("BEGIN; SELECT pg_advisory_xact_lock_shared(hashtext('{}.rotate'), 0)", session.fixture.schema)
}

/// A dozen commits that take 50 ms each are never all done at once, but 100 ms after nobody else begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_commits_do_not_starve_it() {
    let session = place().await;
    let over = Arc::new(AtomicBool::new(false));
    let mut busy = Vec::new();
    for _ in 0..12 {
        let (client, over) = (session.fixture.sql().await, Arc::clone(&over));
        let commit = format!("{}; SELECT pg_sleep(0.05); COMMIT", hold(&session));
        busy.push(tokio::spawn(async move {
            while !over.load(Relaxed) {
                client.batch_execute(&commit).await.unwrap();
            }
        }));
    }
    let (mut truncated, mut rounds) = (0, 0);
    while truncated == 0 && rounds < 20 {
        truncated = session.value(STEP).await;
        rounds += 1;
    }
    over.store(true, Relaxed);
    for task in busy {
        task.await.unwrap();
    }
    assert_eq!(truncated, 1, "after {rounds} rounds");
}

/// Transactions of people take seconds, and are over soon all the same: they are waited for, else some that overlap let nobody empty anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_a_second_or_two_is_waited_for() {
    let session = place().await;
    let open = session.fixture.sql().await;
    let mut truncated = 0;
    // More than once, in case the machine is busy.
    for _ in 0..10 {
        session.run("UPDATE windlass.housekeeping SET id = 5 WHERE lane_id IS NULL").await; // a round that waits for 600 ms
        open.batch_execute(&hold(&session)).await.unwrap();
        sleep(Duration::from_millis(1_200)).await;
        let ends = async {
            sleep(Duration::from_millis(250)).await;
            open.batch_execute("COMMIT").await.unwrap();
        };
        (truncated, ()) = tokio::join!(session.value::<i32>(STEP), ends);
        if truncated > 0 {
            break;
        }
    }
    assert_eq!(truncated, 1);
}

/// Somebody's forgotten transaction, with a cancel in it, is no commit that is to be waited for: nobody is held up for it for longer than a commit takes elsewhere, whichever round it is.
#[tokio::test]
async fn a_forgotten_transaction_is_not_waited_for() {
    let session = place().await;
    let open = session.fixture.sql().await;
    open.batch_execute(&hold(&session)).await.unwrap();
    let kept = "SELECT windlass.rotate_is_kept()";
    let truncated = async || session.value::<i32>(STEP).await;
    let look = || async { session.value::<bool>(kept).await.then_some(()) };
    assert!(!session.value::<bool>(kept).await, "it may be over soon");
    open.batch_execute(&format!("PREPARE TRANSACTION '{}'", session.fixture.name)).await.unwrap();
    eventually("it is kept, prepared", look).await;
    assert_eq!(truncated().await, 0);
    let mut least = Duration::MAX;
    for _ in 0..20 {
        // In this round it waited for 600 ms.
        session.run("UPDATE windlass.housekeeping SET id = 5 WHERE lane_id IS NULL").await;
        let began = Instant::now();
        assert_eq!(truncated().await, 0);
        least = least.min(began.elapsed());
        if least < Duration::from_millis(500) {
            break;
        }
    }
    assert!(least < Duration::from_millis(500), "{least:?}");
    open.batch_execute(&format!("COMMIT PREPARED '{}'", session.fixture.name)).await.unwrap();
    assert_eq!(truncated().await, 1);
    assert_eq!(session.value::<Option<i16>>("SELECT segment FROM windlass.housekeeping").await, None);
}
