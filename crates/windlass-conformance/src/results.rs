//! Results: what a handler returned is kept with its job, and such jobs are settled one by one.

use crate::{Fixture, steps::*};
use std::time::Duration;
use windlass_core::{Args, Disposition, JobSet, JobState, Settings, Settled};

fn complete(json: &str) -> Disposition {
    Disposition::Complete { result: Some(Args::parse(json).expect("valid JSON")) }
}

/// A job that completes by itself is completed, and shows its result byte for byte.
pub async fn a_result_is_kept(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    let worker = worker_on(&store).await;
    let held = worker.take(3).await;
    let texts = [r#"{"b":1, "a":[1.50,"ä\"é"]}"#, "null"];
    for (held, text) in held.iter().zip(texts) {
        assert_eq!(worker.except(held, complete(text)).await, Settled::Accepted);
    }
    let without = Disposition::Complete { result: None };
    assert_eq!(worker.except(&held[2], without).await, Settled::Accepted);
    for (id, text) in ids.iter().zip([Some(texts[0]), Some(texts[1]), None]) {
        let seen = record(&store, *id).await;
        assert_eq!((seen.state, seen.attempt), (JobState::Completed, 1));
        assert_eq!(seen.result.as_ref().map(Args::as_str), text);
    }
    let seen = queue(&store, QUEUE).await;
    assert_eq!((seen.completed, seen.running), (3, 0));
    worker.finds_nothing().await;
}

/// The first settlement stands, whichever way it was made; a repeated one changes nothing.
pub async fn the_first_completion_stands(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let worker = worker_on(&store).await;
    let held = worker.take(2).await;
    assert_eq!(worker.except(&held[0], complete("1")).await, Settled::Accepted);
    assert_eq!(worker.except(&held[0], complete("2")).await, Settled::Already);
    assert_eq!(worker.complete(&held[0]).await, Settled::Already);
    let retry = Disposition::Retry { delay: Duration::ZERO, error: "no".into() };
    assert_eq!(worker.except(&held[0], retry).await, Settled::Already);
    assert_eq!(worker.complete(&held[1]).await, Settled::Accepted);
    assert_eq!(worker.except(&held[1], complete("3")).await, Settled::Already);
    assert_eq!(record(&store, ids[0]).await.result.as_ref().map(Args::as_str), Some("1"));
    assert!(record(&store, ids[1]).await.result.is_none());
}

/// Jobs of one claim with results, without, failed, and the rest of it, in one call.
pub async fn results_and_the_rest_add_up(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 100).await;
    let worker = worker_on(&store).await;
    let claims = worker.claim(100).await;
    let held = held(&claims);
    let retry = Disposition::Retry { delay: LATER, error: "no".into() };
    let mut exceptions: Vec<_> =
        held[..40].iter().map(|held| held.exception(complete(&held.job.id.to_string()))).collect();
    exceptions.push(held[50].exception(retry));
    let rest = windlass_core::Completion { claim: claims[0].reference, jobs: JobSet::Rest, count: 59 };
    assert_eq!(claims.len(), 1);
    let reply = worker.settle(vec![rest], exceptions).await;
    assert!(reply.completions.iter().chain(&reply.exceptions).all(|&settled| settled == Settled::Accepted));
    let seen = queue(&store, QUEUE).await;
    assert_eq!((seen.completed, seen.retryable, seen.running), (99, 1, 0));
    for (nth, id) in ids.iter().enumerate() {
        let result = record(&store, *id).await.result;
        assert_eq!(result.map(|result| result.as_str().to_owned()), (nth < 40).then(|| id.to_string()));
    }
}

/// A completed job of a dead worker keeps its result and is not run again.
pub async fn a_result_survives_its_worker(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    let held = dying.take(2).await;
    assert_eq!(dying.except(&held[0], complete("\"done\"")).await, Settled::Accepted);
    assert_eq!(rescue_of(&store, &dying, MAX_CRASHES).await.rescued, 1);
    let heir = worker_on(&store).await;
    assert_eq!(heir.take_one().await.job.id, ids[1]);
    heir.finds_nothing().await;
    assert_eq!(record(&store, ids[0]).await.result.as_ref().map(Args::as_str), Some("\"done\""));
}

/// A result goes when its job does.
pub async fn a_result_goes_with_its_job(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 1).await;
    let worker = worker_on(&store).await;
    worker.except(&worker.take_one().await, complete("1")).await;
    let policy = Settings::DEFAULT.with_retention(Duration::ZERO).with_segment_bytes(1);
    eventually("the job is removed", || async {
        maintain_with(&store, policy).await;
        store.job(ids[0]).await.expect("look up").is_none().then_some(())
    })
    .await;
}
