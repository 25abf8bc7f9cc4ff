//! Idempotency keys: what is enqueued under one is stored at most once.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;
use windlass_core::{EnqueuedOnce, ErrorKind, JobFilter, JobId, JobState, Limits, NewJob, Settings, Store};

/// Batches of other sizes may take other ways into a store.
const SIZES: [usize; 4] = [1, 2, 7, 300];
/// How many callers use one key at once, and how often.
const CALLERS: usize = 4;
const ROUNDS: usize = 25;

async fn once(store: &Arc<dyn Store>, key: &str, jobs: &[NewJob]) -> EnqueuedOnce {
    store.enqueue_once(key, jobs).await.expect("enqueue once")
}

/// Nothing is stored but these jobs.
async fn only(store: &Arc<dyn Store>, ids: &[JobId]) {
    let filter = JobFilter { limit: 1_000, ..JobFilter::default() };
    let mut stored: Vec<_> = store.jobs(&filter).await.expect("list").iter().map(|job| job.id).collect();
    stored.sort_unstable();
    assert_eq!(stored, ids);
}

/// A repeated call returns the ids of the first, in order, and stores nothing; any number of times, and
/// from any handle.
pub async fn a_repeated_call_stores_nothing(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    let mut all = Vec::new();
    for size in SIZES {
        let (key, batch) = (format!("order/{size}"), jobs(size));
        let first = once(&store, &key, &batch).await;
        assert!(!first.repeated && first.ids.len() == size && first.ids.is_sorted(), "{first:?}");
        for again in [&store, &other, &store] {
            let again = once(again, &key, &batch).await;
            assert_eq!(again, EnqueuedOnce { ids: first.ids.clone(), repeated: true });
        }
        all.extend(first.ids);
    }
    only(&store, &all).await;
    let done = worker_on(&store).await.drain(100).await;
    assert_eq!(done, all, "each is worked once, in order");
    assert!(once(&store, "order/7", &jobs(7)).await.repeated, "also after it was worked");
    worker_on(&store).await.finds_nothing().await;
}

/// Each job is the one that it was given as, waiting or not, and its id says so.
pub async fn jobs_keep_what_they_were_given(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for size in [3, 30] {
        let job = |n: usize| {
            let job =
                NewJob::new(format!("kind{n}"), args(n)).with_queue(QUEUE).with_max_attempts(n as u16 + 1);
            if n % 3 == 1 { job.with_delay(LATER).with_priority(7) } else { job }
        };
        let batch: Vec<_> = (0..size).map(job).collect();
        let stored = once(&store, &format!("mixed/{size}"), &batch).await;
        for (n, &id) in stored.ids.iter().enumerate() {
            let seen = record(&store, id).await;
            assert_eq!((seen.kind, seen.args.as_str()), (format!("kind{n}"), args(n).as_str()));
            assert_eq!(usize::from(seen.max_attempts), n + 1);
            let expected = if n % 3 == 1 { (JobState::Scheduled, 7) } else { (JobState::Available, 0) };
            assert_eq!((seen.state, seen.priority), expected);
        }
        assert_eq!(once(&store, &format!("mixed/{size}"), &batch).await.ids, stored.ids);
    }
}

/// Keys are compared byte by byte.
pub async fn other_keys_are_other_jobs(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut all = Vec::new();
    for key in ["a", "A", "a ", " a", "ä", "a\u{308}", "a%", "a_", "a'", "a\n"] {
        let stored = once(&store, key, &[job()]).await;
        assert!(!stored.repeated, "{key:?}");
        all.extend(stored.ids);
    }
    only(&store, &all).await;
}

/// Of several calls with one key at once, each from a handle of its own, one stores the jobs and all return
/// their ids.
pub async fn calls_at_once_store_once(fixture: &dyn Fixture) {
    let mut handles = Vec::new();
    for _ in 0..CALLERS {
        handles.push(fixture.open().await);
    }
    let mut all = Vec::new();
    for round in 0..ROUNDS {
        let mut calls = JoinSet::new();
        for handle in &handles {
            let (store, batch) = (Arc::clone(handle), jobs(SIZES[round % SIZES.len()].min(20)));
            calls.spawn(async move { once(&store, &format!("race/{round}"), &batch).await });
        }
        let answers = calls.join_all().await;
        assert_eq!(answers.iter().filter(|answer| !answer.repeated).count(), 1, "{answers:?}");
        assert!(answers.iter().all(|answer| answer.ids == answers[0].ids), "{answers:?}");
        all.extend(answers[0].ids.iter().copied());
    }
    only(&handles[0], &all).await;
}

/// A call that stored nothing leaves its key free.
pub async fn a_failed_call_leaves_its_key_free(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for size in [1, 10] {
        let mut batch = jobs(size);
        batch[size - 1] = job().with_max_attempts(0);
        let error = store.enqueue_once("again", &batch).await.expect_err("an invalid job");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
    }
    only(&store, &[]).await;
    let stored = once(&store, "again", &jobs(3)).await;
    assert!(!stored.repeated);
    only(&store, &stored.ids).await;
}

/// A key that was used for another number of jobs is refused, and the error says which and how many.
pub async fn another_number_of_jobs_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let stored = once(&store, "order/42", &jobs(3)).await;
    for size in [0, 1, 2, 4, 50] {
        let error = store.enqueue_once("order/42", &jobs(size)).await.expect_err("another number");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        for word in ["order/42".to_owned(), "3 jobs".to_owned(), format!("for {size};")] {
            assert!(error.to_string().contains(&word), "{word:?} is missing in {error}");
        }
    }
    assert_eq!(once(&store, "order/42", &jobs(3)).await.ids, stored.ids);
    only(&store, &stored.ids).await;
}

/// An empty batch stores nothing and uses its key.
pub async fn an_empty_batch_uses_its_key(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for repeated in [false, true] {
        assert_eq!(once(&store, "none", &[]).await, EnqueuedOnce { ids: vec![], repeated });
    }
    let error = store.enqueue_once("none", &[job()]).await.expect_err("another number");
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

/// A key has 1 to 200 bytes and no NUL.
pub async fn keys_are_limited(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let most = Limits::MAX_IDEMPOTENCY_KEY_BYTES;
    for key in ["", "a\0b", &"k".repeat(most + 1), &"ä".repeat(most / 2 + 1)] {
        let error = store.enqueue_once(key, &[job()]).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    }
    only(&store, &[]).await;
    let longest = "ä".repeat(most / 2);
    assert!(!once(&store, &longest, &[job()]).await.repeated);
    assert!(once(&store, &longest, &[job()]).await.repeated);
}

/// Keys are kept by the store, not by the process.
pub async fn a_key_survives_reopening(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let stored = once(&store, "kept", &jobs(12)).await;
    store.close().await;
    drop(store);
    let store = fixture.open().await;
    assert_eq!(once(&store, "kept", &jobs(12)).await, EnqueuedOnce { ids: stored.ids, repeated: true });
}

/// Keys are kept for the retention and forgotten after it; their jobs are not touched by that.
pub async fn a_key_is_forgotten_after_its_retention(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let stored = once(&store, "old", &[job()]).await;
    let keep = Settings::DEFAULT.with_retention(LATER).with_segment_bytes(u64::MAX);
    maintain_with(&store, keep).await;
    assert!(once(&store, "old", &[job()]).await.repeated);
    let forget = keep.with_retention(Duration::ZERO);
    let ids = eventually("the key is forgotten", || async {
        maintain_with(&store, forget).await;
        let again = once(&store, "old", &[job()]).await;
        (!again.repeated).then(|| vec![stored.ids[0], again.ids[0]])
    })
    .await;
    only(&store, &ids).await;
}
