//! Settling: completions, exceptions, and both again after a lost reply.

use crate::{Fixture, steps::*};
use std::time::Duration;
use windlass_core::{Completion, Disposition, JobSet, JobState, Limits, RetryReply, Settled};

/// A whole claim settles as one entry.
pub async fn a_whole_claim_completes(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let enqueued = enqueue_jobs(&store, 50).await;
    let worker = worker_on(&store).await;
    assert_eq!(worker.drain(50).await, enqueued);
    for id in enqueued {
        let seen = record(&store, id).await;
        assert_eq!((seen.state, seen.attempt), (JobState::Completed, 1));
        assert!(seen.finished_at.expect("finished") >= seen.claimed_at.expect("claimed"));
    }
    worker.finds_nothing().await;
}

/// Parts of a claim settle by ranges of ids; what they do not name stays running.
pub async fn ranges_complete_what_they_name(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 10).await;
    let worker = worker_on(&store).await;
    let claim = worker.claim(10).await.remove(0);
    assert_eq!(claim.jobs.len(), 10);
    let ranges = JobSet::Ranges(vec![(ids[1].0, ids[3].0), (ids[7].0, ids[7].0)]);
    let part = Completion { claim: claim.reference, jobs: ranges, count: 4 };
    assert_eq!(worker.settle(vec![part], vec![]).await.completions, [Settled::Accepted]);
    for (n, &id) in ids.iter().enumerate() {
        let expected = if matches!(n, 1..=3 | 7) { JobState::Completed } else { JobState::Running };
        assert_eq!(state(&store, id).await, expected, "job {n}");
    }
    let rest = Completion { claim: claim.reference, jobs: JobSet::Rest, count: 6 };
    assert_eq!(worker.settle(vec![rest], vec![]).await.completions, [Settled::Accepted]);
    assert_eq!(queue(&store, QUEUE).await.completed, 10);
}

/// A range names jobs of its own claim only, though jobs of others lie between.
pub async fn a_range_never_reaches_into_another_claim(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let batch: Vec<_> = (0..6).map(|n| job().with_priority(n % 2)).collect();
    let ids = store.enqueue(&batch).await.expect("enqueue");
    let worker = worker_on(&store).await;
    let claims = worker.claim(6).await;
    let even = claims.iter().find(|claim| claim.priority == 0).expect("the first lane");
    let jobs = JobSet::Ranges(vec![(ids[0].0, ids[5].0)]);
    let completion = Completion { claim: even.reference, jobs, count: even.jobs.len() as u32 };
    worker.settle(vec![completion], vec![]).await;
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.completed, stats.available + stats.running), (3, 3));
    assert_eq!(state(&store, ids[0]).await, JobState::Completed);
    assert_ne!(state(&store, ids[1]).await, JobState::Completed);
}

/// The rest of a claim is what no other settlement names, exceptions of the same call included.
pub async fn the_rest_leaves_exceptions_out(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 5).await;
    let worker = worker_on(&store).await;
    let claim = worker.claim(5).await.remove(0);
    let jobs = held(std::slice::from_ref(&claim));
    let discard = Disposition::Discard { error: "bad".into(), failed: true };
    let rest = Completion { claim: claim.reference, jobs: JobSet::Rest, count: 3 };
    let exceptions = vec![jobs[1].exception(discard), jobs[3].exception(Disposition::Return)];
    let reply = worker.settle(vec![rest], exceptions).await;
    assert_eq!((reply.completions, reply.exceptions), (vec![Settled::Accepted], vec![Settled::Accepted; 2]));
    let expected = [
        JobState::Completed,
        JobState::Discarded,
        JobState::Completed,
        JobState::Available,
        JobState::Completed,
    ];
    for (&id, expected) in ids.iter().zip(expected) {
        assert_eq!(state(&store, id).await, expected);
    }
}

/// Ranges first, then in one call the rest of the claim and exceptions of it: every job is counted once.
pub async fn parts_exceptions_and_the_rest_add_up(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 12).await;
    let worker = worker_on(&store).await;
    let claim = worker.claim(12).await.remove(0);
    let jobs = held(std::slice::from_ref(&claim));
    for (low, high, count) in [(0, 1, 2), (6, 8, 3)] {
        let jobs = JobSet::Ranges(vec![(ids[low].0, ids[high].0)]);
        let part = Completion { claim: claim.reference, jobs, count };
        assert_eq!(worker.settle(vec![part], vec![]).await.completions, [Settled::Accepted]);
    }
    let rest = Completion { claim: claim.reference, jobs: JobSet::Rest, count: 4 };
    let exceptions = vec![
        jobs[3].exception(Disposition::Retry { delay: LATER, error: "no".into() }),
        jobs[9].exception(Disposition::Return),
        jobs[11].exception(Disposition::Cancel { reason: "unwanted".into() }),
    ];
    let (rest, exceptions) = (vec![rest], exceptions);
    let reply = worker.settle(rest.clone(), exceptions.clone()).await;
    assert_eq!((reply.completions, reply.exceptions), (vec![Settled::Accepted], vec![Settled::Accepted; 3]));
    let again = worker.settle(rest, exceptions).await;
    assert_eq!((again.completions, again.exceptions), (vec![Settled::Already], vec![Settled::Already; 3]));
    for (n, &id) in ids.iter().enumerate() {
        let expected = match n {
            3 => JobState::Retryable,
            9 => JobState::Available,
            11 => JobState::Cancelled,
            _ => JobState::Completed,
        };
        assert_eq!(state(&store, id).await, expected, "job {n}");
    }
    let stats = queue(&store, QUEUE).await;
    let counts = (stats.completed, stats.retryable, stats.available, stats.cancelled, stats.running);
    assert_eq!(counts, (9, 1, 1, 1, 0));
    assert_eq!(worker.drain(10).await, [ids[9]]);
}

/// A range may span jobs that are settled already: the others are completed, each counted once.
pub async fn a_range_over_settled_jobs_takes_the_others(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 8).await;
    let worker = worker_on(&store).await;
    let claim = worker.claim(8).await.remove(0);
    let jobs = held(std::slice::from_ref(&claim));
    let ends = vec![jobs[0].exception(Disposition::Return), jobs[7].exception(Disposition::Return)];
    worker.settle(vec![], ends).await;
    let part = |low: usize, high: usize| {
        let jobs = JobSet::Ranges(vec![(ids[low].0, ids[high].0)]);
        Completion { claim: claim.reference, jobs, count: (high - low + 1) as u32 }
    };
    assert_eq!(worker.settle(vec![part(0, 1)], vec![]).await.completions, [Settled::Accepted]);
    assert_eq!(worker.settle(vec![part(1, 3)], vec![]).await.completions, [Settled::Accepted]);
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.completed, stats.running, stats.available), (3, 3, 2));
    store.deregister(worker.id).await.expect("deregister");
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.completed, stats.running, stats.available), (3, 0, 5));
    for (n, &id) in ids.iter().enumerate() {
        let expected = if matches!(n, 1..=3) { JobState::Completed } else { JobState::Available };
        assert_eq!(state(&store, id).await, expected, "job {n}");
    }
}

/// A call that is repeated while the first is still under way changes nothing more than the first.
pub async fn a_call_repeated_meanwhile_changes_nothing(fixture: &dyn Fixture) {
    const ROUNDS: usize = 30;
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    for round in 0..ROUNDS {
        let ids = enqueue_jobs(&store, 10).await;
        let claim = worker.claim(10).await.remove(0);
        let jobs = held(std::slice::from_ref(&claim));
        let range = JobSet::Ranges(vec![(ids[0].0, ids[4].0)]);
        let part = vec![Completion { claim: claim.reference, jobs: range, count: 5 }];
        let exceptions = vec![
            jobs[5].exception(Disposition::Return),
            jobs[6].exception(Disposition::Retry { delay: LATER, error: "no".into() }),
        ];
        let (one, two) = tokio::join!(
            worker.settle(part.clone(), exceptions.clone()),
            worker.settle(part.clone(), exceptions.clone()),
        );
        for (one, two) in
            one.completions.iter().chain(&one.exceptions).zip(two.completions.iter().chain(&two.exceptions))
        {
            assert_ne!(one, two, "round {round}: one call settles a job, the other finds it settled");
        }
        let stats = queue(&store, QUEUE).await;
        let counts = (stats.completed, stats.available, stats.retryable, stats.running);
        let before = round as u64;
        assert_eq!(counts, (9 * before + 5, 1, before + 1, 3), "round {round}");
        worker
            .settle(vec![Completion { claim: claim.reference, jobs: JobSet::Rest, count: 3 }], vec![])
            .await;
        assert_eq!(worker.drain(10).await, [ids[5]], "round {round}");
    }
}

/// Repeating a call whose reply was lost changes nothing and says so, entry by entry.
pub async fn a_repeated_call_changes_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 6).await;
    let worker = worker_on(&store).await;
    let claim = worker.claim(6).await.remove(0);
    let jobs = held(std::slice::from_ref(&claim));
    let completions = vec![jobs[0].completion()];
    let rest = vec![Completion { claim: claim.reference, jobs: JobSet::Rest, count: 3 }];
    let retry = Disposition::Retry { delay: LATER, error: "no".into() };
    let exceptions = vec![
        jobs[1].exception(retry),
        jobs[2].exception(Disposition::Discard { error: "bad".into(), failed: true }),
    ];
    let first = worker.settle(completions.clone(), exceptions.clone()).await;
    assert_eq!((first.completions, first.exceptions.len()), (vec![Settled::Accepted], 2));
    assert_eq!(worker.settle(rest.clone(), vec![]).await.completions, [Settled::Accepted]);
    for _ in 0..3 {
        let again = worker.settle(completions.clone(), exceptions.clone()).await;
        assert_eq!(again.completions, [Settled::Already]);
        assert_eq!(again.exceptions, [Settled::Already, Settled::Already]);
        assert_eq!(worker.settle(rest.clone(), vec![]).await.completions, [Settled::Already]);
    }
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.completed, stats.retryable, stats.discarded, stats.running), (4, 1, 1, 0));
    assert_eq!(errors_of(&store, ids[1]).await, [(1, "no".to_owned())]);
    assert_eq!(errors_of(&store, ids[2]).await, [(1, "bad".to_owned())]);
}

/// A job has one fate: what comes after it is `Already`, and nothing changes.
pub async fn the_first_fate_stands(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(3).await;
    worker.complete(&jobs[0]).await;
    let discard = Disposition::Discard { error: "late".into(), failed: true };
    assert_eq!(worker.except(&jobs[0], discard).await, Settled::Already);
    worker.except(&jobs[1], Disposition::Cancel { reason: "unwanted".into() }).await;
    assert_eq!(worker.complete(&jobs[1]).await, Settled::Already);
    worker.except(&jobs[2], Disposition::Return).await;
    assert_eq!(worker.complete(&jobs[2]).await, Settled::Already);
    let expected = [JobState::Completed, JobState::Cancelled, JobState::Available];
    for (&id, expected) in ids.iter().zip(expected) {
        assert_eq!(state(&store, id).await, expected);
        assert!(errors_of(&store, id).await.is_empty());
    }
}

/// A failed attempt counts, keeps its error, waits, and comes back as the next attempt.
pub async fn retry_counts_the_attempt(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    let retry = |delay, error: &str| Disposition::Retry { delay, error: error.into() };
    assert_eq!(worker.except(&held, retry(Duration::ZERO, "first")).await, Settled::Accepted);
    let held = worker.take_when_due(1).await.remove(0);
    assert_eq!((held.job.id, held.job.attempt), (id, 2));
    assert_eq!(worker.except(&held, retry(LATER, "second")).await, Settled::Accepted);
    let seen = record(&store, id).await;
    assert_eq!((seen.state, seen.attempt, seen.crash_count), (JobState::Retryable, 2, 0));
    let wait = seen.scheduled_at.expect("when").duration_since(seen.enqueued_at);
    assert!(wait.as_secs() >= LATER.as_secs() as i64 - 1, "{wait}");
    assert_eq!(errors_of(&store, id).await, [(1, "first".to_owned()), (2, "second".to_owned())]);
    worker.finds_nothing().await;
}

/// A snoozed job waits and uses no attempt.
pub async fn snooze_uses_no_attempt(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job().with_max_attempts(1)).await;
    let worker = worker_on(&store).await;
    let mut held = worker.take_one().await;
    for _ in 0..3 {
        worker.except(&held, Disposition::Snooze { delay: Duration::ZERO }).await;
        held = worker.take_when_due(1).await.remove(0);
        assert_eq!((held.job.id, held.job.attempt), (id, 1));
    }
    worker.except(&held, Disposition::Snooze { delay: LATER }).await;
    let seen = record(&store, id).await;
    assert_eq!((seen.state, seen.attempt), (JobState::Scheduled, 0));
    assert!(seen.errors.is_empty());
    worker.finds_nothing().await;
}

/// A job that a worker cannot decrypt waits, uses no attempt, says what is missing, and can be retried by hand.
pub async fn undecryptable_uses_no_attempt(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job().with_max_attempts(2)).await;
    let worker = worker_on(&store).await;
    let missing = |delay, key: &str| Disposition::Undecryptable { delay, error: format!("no {key}") };
    let mut held = worker.take_one().await;
    for key in ["k1", "k1", "k2", "k1"] {
        assert_eq!(worker.except(&held, missing(Duration::ZERO, key)).await, Settled::Accepted);
        held = worker.take_when_due(1).await.remove(0);
        assert_eq!((held.job.id, held.job.attempt), (id, 1));
    }
    let said = [(1, "no k1".to_owned()), (1, "no k2".to_owned())];
    assert_eq!(errors_of(&store, id).await, said, "each once");
    let failed = Disposition::Retry { delay: Duration::ZERO, error: "no k1".into() };
    worker.except(&held, failed).await;
    held = worker.take_when_due(1).await.remove(0);
    worker.except(&held, missing(LATER, "k1")).await;
    let seen = record(&store, id).await;
    assert_eq!((seen.state, seen.attempt), (JobState::Retryable, 1));
    let attempts: Vec<_> = errors_of(&store, id).await.into_iter().map(|(attempt, _)| attempt).collect();
    assert_eq!(attempts, [1, 1, 1, 2], "a failure counts whatever its text");
    worker.finds_nothing().await;
    assert_eq!(store.retry(&[id]).await.expect("retry"), [RetryReply::Retried]);
    assert_eq!(worker.take_one().await.job.attempt, 2);
}

/// A discarded job is final and keeps its reason; its attempt failed only if the handler says so.
pub async fn discard_is_final(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(2).await;
    let discard = |failed| Disposition::Discard { error: "no such user".into(), failed };
    worker.settle(vec![], vec![jobs[0].exception(discard(true)), jobs[1].exception(discard(false))]).await;
    for &id in &ids {
        let seen = record(&store, id).await;
        assert_eq!((seen.state, seen.attempt), (JobState::Discarded, 1), "it began, whatever came of it");
        assert!(seen.reason.expect("a reason").contains("no such user"));
        assert!(seen.finished_at.is_some());
    }
    assert_eq!(errors_of(&store, ids[0]).await, [(1, "no such user".to_owned())]);
    assert!(errors_of(&store, ids[1]).await.is_empty());
    worker.finds_nothing().await;
}

/// A job that its handler cancelled is final and keeps the reason.
pub async fn cancel_by_the_handler_is_final(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    worker.except(&held, Disposition::Cancel { reason: "order withdrawn".into() }).await;
    let seen = record(&store, id).await;
    assert_eq!((seen.state, seen.reason.as_deref()), (JobState::Cancelled, Some("order withdrawn")));
    assert_eq!(seen.attempt, 1);
    worker.finds_nothing().await;
}

/// A returned job is available at once and used no attempt.
pub async fn return_is_available_at_once(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job().with_max_attempts(1)).await;
    let (worker, other) = (worker_on(&store).await, worker_on(&fixture.open().await).await);
    for _ in 0..5 {
        let held = worker.take_one().await;
        assert_eq!((held.job.id, held.job.attempt, held.job.crash_count), (id, 1, 0));
        assert_eq!(worker.except(&held, Disposition::Return).await, Settled::Accepted);
        let seen = record(&store, id).await;
        assert_eq!((seen.state, seen.attempt), (JobState::Available, 0));
    }
    assert_eq!(other.drain(10).await, [id]);
}

/// Whatever text a handler fails with can be stored: NUL replaced, the length bounded.
pub async fn any_error_text_is_storable(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let texts = ["a\0b\u{1b}[31m\u{feff}".to_owned(), "ä€🦀".repeat(200_000), String::new()];
    let ids = enqueue_jobs(&store, texts.len() * 3).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(ids.len()).await;
    for (jobs, text) in jobs.chunks(3).zip(&texts) {
        let exceptions = vec![
            jobs[0].exception(Disposition::Retry { delay: LATER, error: text.clone() }),
            jobs[1].exception(Disposition::Discard { error: text.clone(), failed: true }),
            jobs[2].exception(Disposition::Cancel { reason: text.clone() }),
        ];
        assert_eq!(worker.settle(vec![], exceptions).await.exceptions, [Settled::Accepted; 3]);
        let kept = Limits::storable_error(text);
        assert_eq!(errors_of(&store, jobs[0].job.id).await, [(1, kept.clone())]);
        assert_eq!(errors_of(&store, jobs[1].job.id).await, [(1, kept)]);
    }
}

/// A delay beyond all bounds is cut to the furthest that the limits allow.
pub async fn an_endless_delay_is_cut(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(2).await;
    let (delay, error) = (Duration::MAX, String::from("no"));
    let exceptions = vec![
        jobs[0].exception(Disposition::Retry { delay, error }),
        jobs[1].exception(Disposition::Snooze { delay }),
    ];
    assert_eq!(worker.settle(vec![], exceptions).await.exceptions, [Settled::Accepted; 2]);
    assert_eq!(state(&store, ids[0]).await, JobState::Retryable);
    assert_eq!(state(&store, ids[1]).await, JobState::Scheduled);
    worker.finds_nothing().await;
}

/// An empty call is no error.
pub async fn an_empty_call_is_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let reply = worker_on(&store).await.settle(vec![], vec![]).await;
    assert_eq!((reply.completions, reply.exceptions), (vec![], vec![]));
}
