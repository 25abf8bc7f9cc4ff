//! Who waits for work is told when a key lets more of it run.

use crate::{
    Fixture,
    keys::story::*,
    steps::{worker as test_worker, *},
};
use windlass_core::{Disposition, JobEdit, KeyLimit, KeyLimitsChange, Settled};

/// How often a worker may be told of nothing.
const MANY_HINTS: usize = 1_000;

/// A worker that found nothing waits; `act` happens; it is told, and gets a job. Then all that may run is done.
async fn is_told(fixture: &dyn Fixture, what: &str, act: impl AsyncFnOnce()) {
    let store = fixture.open().await;
    let (worker, mut wakeup) = (worker_on(&store).await, store.wakeup());
    wakeup.arm().await;
    worker.waits().await;
    act().await;
    for _ in 0..MANY_HINTS {
        hinted(&mut *wakeup, what).await;
        wakeup.arm().await;
        let jobs = worker.work(1).await;
        if !jobs.is_empty() {
            wakeup.disarm();
            worker.work_all(10).await;
            store.deregister(worker.id).await.expect("deregister");
            return;
        }
    }
    panic!("told {MANY_HINTS} times of {what}, and there is no job");
}

/// Whatever a worker says of a job, the room that it makes is told.
pub async fn a_settlement_tells(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(1)).await;
    let worker = worker_on(&store).await;
    for (n, said) in not_over(LATER).into_iter().chain(over()).enumerate() {
        enqueue_of(&store, &format!("k{n}"), 2).await;
        let held = worker.next().await;
        let settle = async || assert_eq!(worker.except(&held, said.clone()).await, Settled::Accepted);
        is_told(fixture, &format!("{said:?}"), settle).await;
    }
    enqueue_of(&store, "whole claims", 2).await;
    let claims = worker.claim(1).await;
    is_told(fixture, "a claim that completed", async || worker.complete_claims(&claims).await).await;
}

/// The end of a worker that held a job of a key is told, and so is its death.
pub async fn the_end_of_a_worker_tells(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(1)).await;
    enqueue_of(&store, "a", 3).await;
    let leaving = worker_on(&store).await;
    leaving.next().await;
    let leave = async || store.deregister(leaving.id).await.expect("deregister");
    is_told(fixture, "the end of a worker", leave).await;
    enqueue_of(&store, "a", 3).await;
    let dying = test_worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    dying.next().await;
    let rescue = async || drop(rescue_of(&store, &dying, MAX_CRASHES).await);
    is_told(fixture, "a rescue", rescue).await;
}

/// That a job that waits and blocks its serial key is taken away is told.
pub async fn taking_the_blocker_away_tells(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, KeyLimit::serial()).await;
    let worker = worker_on(&store).await;
    let retry = Disposition::Retry { delay: LATER, error: "no".into() };
    for what in ["cancel", "delete", "edit"] {
        enqueue_of(&store, what, 2).await;
        let held = worker.next().await;
        worker.except(&held, retry.clone()).await;
        let ids = [held.job.id];
        let take_away = async || match what {
            "cancel" => drop(store.cancel(&ids).await.expect("cancel")),
            "delete" => drop(store.delete(&ids).await.expect("delete")),
            _ => drop(store.edit(&ids, &JobEdit::new().with_queue("elsewhere")).await.expect("edit")),
        };
        is_told(fixture, what, take_away).await;
    }
}

/// That limits let more run is told.
pub async fn a_change_of_limits_tells(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    let named = |limit| KeyLimitsChange::Named(vec![("a".to_owned(), limit)]);
    for (before, after) in [
        (KeyLimitsChange::Default(at_once(1)), KeyLimitsChange::Default(at_once(2))),
        (KeyLimitsChange::Default(KeyLimit::serial()), KeyLimitsChange::Default(KeyLimit::default())),
        (KeyLimitsChange::Default(at_once(1)), named(Some(at_once(2)))),
        (named(Some(at_once(1))), named(None)),
        (named(Some(KeyLimit::serial())), KeyLimitsChange::Off),
    ] {
        change(&store, before.clone()).await;
        enqueue_of(&store, "a", 3).await;
        let worker = worker_on(&store).await;
        let held = worker.next().await;
        is_told(fixture, &format!("{after:?}"), async || change(&store, after.clone()).await).await;
        worker.complete(&held).await;
        change(&store, KeyLimitsChange::Off).await;
        worker.work_all(10).await;
    }
}
