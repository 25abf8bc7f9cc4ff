//! Results: what a handler returned is kept with its job.

use crate::{Fixture, steps::*};
use std::time::Duration;
use windlass_core::{Args, Disposition, JobFilter, JobId, JobSet, JobState, Limits, Settled};

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

/// What a store keeps together is read one by one: results of many sizes, settled in an order of their own.
pub async fn many_results_come_in_any_order(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 1_500).await;
    let worker = worker_on(&store).await;
    let claims = worker.claim(1_500).await;
    let held = held(&claims);
    let text = |id: JobId| match id.0 % 3 {
        0 => format!("[{id}, \"{}\"]", "x".repeat(id.0 as usize % 1_000)),
        1 => format!("{{\"id\": {id},  \"none\": null}}"),
        _ => id.to_string(),
    };
    for third in [1, 0, 2] {
        let mut part: Vec<_> =
            held.iter().enumerate().filter(|(nth, _)| nth % 3 == third).map(|(_, held)| held).collect();
        part.reverse();
        let exceptions = part.iter().map(|held| held.exception(complete(&text(held.job.id)))).collect();
        let reply = worker.settle(vec![], exceptions).await;
        assert!(reply.exceptions.iter().all(|&settled| settled == Settled::Accepted));
    }
    for id in &ids {
        let result = record(&store, *id).await.result;
        assert_eq!(result.as_ref().map(Args::as_str), Some(text(*id).as_str()));
    }
    let filter = JobFilter { state: Some(JobState::Completed), limit: 1_000, ..JobFilter::default() };
    for seen in store.jobs(&filter).await.expect("lists").jobs {
        assert_eq!(seen.result.as_ref().map(Args::as_str), Some(text(seen.id).as_str()));
    }
    assert_eq!(queue(&store, QUEUE).await.completed, 1_500);
    worker.finds_nothing().await;
}

/// What completed before, went elsewhere, or is named twice in one call is told apart from its neighbours, with results and
/// without.
pub async fn each_completion_is_judged_by_itself(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 8).await;
    let worker = worker_on(&store).await;
    let held = worker.take(8).await;
    let plain = || Disposition::Complete { result: None };
    let snooze = || Disposition::Snooze { delay: LATER };
    for nth in [0, 2] {
        assert_eq!(worker.except(&held[nth], snooze()).await, Settled::Accepted);
    }
    let told = [Settled::Already, Settled::Accepted];
    let without = vec![held[0].exception(plain()), held[1].exception(plain())];
    assert_eq!(worker.settle(vec![], without).await.exceptions, told);
    let with = vec![held[2].exception(complete("2")), held[3].exception(complete("3"))];
    assert_eq!(worker.settle(vec![], with).await.exceptions, told);
    let twice =
        vec![held[4].exception(snooze()), held[4].exception(complete("4")), held[5].exception(complete("5"))];
    let told = [Settled::Accepted, Settled::Already, Settled::Accepted];
    assert_eq!(worker.settle(vec![], twice).await.exceptions, told);
    let mut elsewhere = held[6].exception(complete("6"));
    elsewhere.position = i64::MAX >> 8;
    let told = worker.settle(vec![], vec![elsewhere, held[7].exception(complete("7"))]).await.exceptions;
    assert_ne!(told[0], Settled::Accepted, "no job is there");
    assert_eq!(told[1], Settled::Accepted);
    let seen = queue(&store, QUEUE).await;
    assert_eq!((seen.completed, seen.scheduled, seen.running), (4, 3, 1));
    for (nth, id) in ids.iter().enumerate() {
        let expected = [3, 5, 7].contains(&nth).then(|| nth.to_string());
        assert_eq!(record(&store, *id).await.result.map(|result| result.as_str().to_owned()), expected);
    }
}

/// A call whose answer was lost is repeated, alone or with more.
pub async fn a_repeated_call_keeps_the_results(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 30).await;
    let worker = worker_on(&store).await;
    let claims = worker.claim(30).await;
    let held = held(&claims);
    let some = |range: std::ops::Range<usize>, text: &str| -> Vec<_> {
        held[range].iter().map(|held| held.exception(complete(text))).collect()
    };
    assert_eq!(worker.settle(vec![], some(0..10, "1")).await.exceptions, [Settled::Accepted; 10]);
    assert_eq!(worker.settle(vec![], some(0..10, "2")).await.exceptions, [Settled::Already; 10]);
    let overlapping = worker.settle(vec![], some(5..15, "3")).await.exceptions;
    assert_eq!(overlapping[..5], [Settled::Already; 5]);
    assert_eq!(overlapping[5..], [Settled::Accepted; 5]);
    let rest = windlass_core::Completion { claim: claims[0].reference, jobs: JobSet::Rest, count: 20 };
    let reply = worker.settle(vec![rest.clone()], some(15..20, "4")).await;
    assert_eq!((reply.completions, reply.exceptions), (vec![Settled::Accepted], vec![Settled::Accepted; 5]));
    let reply = worker.settle(vec![rest], some(10..30, "5")).await;
    assert_eq!((reply.completions, reply.exceptions), (vec![Settled::Already], vec![Settled::Already; 20]));
    for (nth, id) in ids.iter().enumerate() {
        let expected =
            [Some("1"), Some("3"), Some("4"), None][[10, 15, 20, 30].partition_point(|end| *end <= nth)];
        assert_eq!(record(&store, *id).await.result.as_ref().map(Args::as_str), expected, "job {nth}");
    }
    assert_eq!(queue(&store, QUEUE).await.completed, 30);
}

/// As large as results may be, beside small ones.
pub async fn a_large_result_is_kept(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    let worker = worker_on(&store).await;
    let large = format!("\"{}\"", "é".repeat(Limits::MAX_RESULT_BYTES / 2 - 1));
    let texts = ["1", &large, "2"];
    let held = worker.take(3).await;
    let exceptions = held.iter().zip(texts).map(|(held, text)| held.exception(complete(text))).collect();
    assert_eq!(worker.settle(vec![], exceptions).await.exceptions, [Settled::Accepted; 3]);
    for (id, text) in ids.iter().zip(texts) {
        assert_eq!(record(&store, *id).await.result.as_ref().map(Args::as_str), Some(text));
    }
}

/// While one job of a claim runs on for longer than history is kept, the others keep their results.
pub async fn results_of_a_running_claim_stay(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 10).await;
    let worker = worker_on(&store).await;
    let claims = worker.claim(10).await;
    let held = held(&claims);
    let exceptions =
        held[1..].iter().map(|held| held.exception(complete(&held.job.id.to_string()))).collect();
    worker.settle(vec![], exceptions).await;
    for _ in 0..12 {
        enqueue_jobs(&store, 1).await;
        worker.drain(1).await;
        maintain_with(&store, KEEP_NOTHING).await;
    }
    assert_eq!(record(&store, ids[0]).await.state, JobState::Running);
    // A store may forget that they completed, but not what they returned before that.
    for id in &ids[1..] {
        if let Some(job) = store.job(*id).await.expect("look up") {
            assert_eq!(job.result.as_ref().map(Args::as_str), Some(id.to_string().as_str()));
        }
    }
    assert_eq!(worker.complete(&held[0]).await, Settled::Accepted);
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
    eventually("the job is removed", || async {
        maintain_with(&store, KEEP_NOTHING).await;
        store.job(ids[0]).await.expect("look up").is_none().then_some(())
    })
    .await;
}
