//! The steps of rules about keys.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use windlass_core::{
    ClaimRequest, Disposition, JobId, KeyLimit, KeyLimitsChange, NewJob, QueueDemand, Store,
};

/// More answers that ask for another claim than any store gives in a row.
const MANY_ANSWERS: usize = 1_000;

/// A handle on a store that knows keys; a store that says it does not is passed over.
pub(crate) async fn keyed(fixture: &dyn Fixture) -> Option<Arc<dyn Store>> {
    let store = fixture.open().await;
    if !store.capabilities().keys {
        assert!(!fixture.is_whole(), "this store says that it limits no keys");
        eprintln!("skipped: this store limits no keys");
        return None;
    }
    Some(store)
}

/// So many at once.
pub(crate) fn at_once(concurrency: u32) -> KeyLimit {
    KeyLimit::default().with_concurrency(concurrency)
}

/// Changes the limits of the keys of [`QUEUE`].
pub(crate) async fn change(store: &Arc<dyn Store>, change: KeyLimitsChange) {
    store.limit_keys(QUEUE, &change).await.expect("limit keys");
}

/// Limits every key of [`QUEUE`] that has no limit of its own.
pub(crate) async fn limit(store: &Arc<dyn Store>, limit: KeyLimit) {
    change(store, KeyLimitsChange::Default(limit)).await;
}

/// Limits one key of [`QUEUE`].
pub(crate) async fn limit_key(store: &Arc<dyn Store>, key: &str, limit: impl Into<Option<KeyLimit>>) {
    change(store, KeyLimitsChange::Named(vec![(key.to_owned(), limit.into())])).await;
}

/// A job of [`QUEUE`] with this key.
pub(crate) fn job_of(key: &str) -> NewJob {
    job().with_key(key)
}

/// Enqueues so many jobs of a key in one call.
pub(crate) async fn enqueue_of(store: &Arc<dyn Store>, key: &str, count: usize) -> Vec<JobId> {
    let jobs: Vec<_> = jobs(count).into_iter().map(|job| job.with_key(key)).collect();
    store.enqueue(&jobs).await.expect("enqueue")
}

/// The key of a job, or nothing.
pub(crate) fn key_of(held: &Held) -> &str {
    held.job.attributes.as_ref().and_then(|attributes| attributes.key.as_deref()).unwrap_or_default()
}

/// How many of them have this key.
pub(crate) fn count_of(jobs: &[Held], key: &str) -> usize {
    jobs.iter().filter(|held| key_of(held) == key).count()
}

pub(crate) fn ids_of(jobs: &[Held]) -> Vec<JobId> {
    jobs.iter().map(|held| held.job.id).collect()
}

impl TestWorker {
    /// Claims at most so many jobs of [`QUEUE`]: as many as it may have, or fewer where it asks once only. A store may say
    /// that it should be asked again, but not for ever.
    pub(crate) async fn claim_all(&self, most: usize) -> Vec<Held> {
        let mut all = Vec::new();
        for _ in 0..MANY_ANSWERS {
            let queues = vec![QueueDemand::new(QUEUE, (most - all.len()) as u32)];
            let request = ClaimRequest { worker: self.id, queues };
            let claimed = self.store.claim(&request).await.expect("claim");
            all.extend(held(&claimed.claims));
            assert!(all.len() <= most, "asked for {most} jobs, got {}", all.len());
            if all.len() == most || claimed.claims.is_empty() && !claimed.contended {
                return all;
            }
        }
        panic!("a claim says again and again that there is more, and gives nothing");
    }

    /// Claims until it has one job; there is one.
    pub(crate) async fn next(&self) -> Held {
        let mut got = self.claim_all(1).await;
        got.pop().expect("a job that may run is handed out")
    }

    /// There is nothing for it, and no reason to ask again at once.
    pub(crate) async fn waits(&self) {
        self.store.promote(1_000).await.expect("promote");
        let got = self.claim_all(10).await;
        assert!(got.is_empty(), "no job may be handed out now, got {got:?}");
    }

    /// Completes these jobs, each by itself.
    pub(crate) async fn complete_all(&self, jobs: &[Held]) {
        self.settle(jobs.iter().map(Held::completion).collect(), vec![]).await;
    }

    /// Claims at most so many jobs and completes them.
    pub(crate) async fn work(&self, most: usize) -> Vec<Held> {
        let jobs = self.claim_all(most).await;
        self.complete_all(&jobs).await;
        jobs
    }

    /// Works, so many jobs at a time, until nothing is left that may run.
    pub(crate) async fn work_all(&self, most: usize) -> Vec<JobId> {
        let mut done = Vec::new();
        loop {
            let jobs = self.work(most).await;
            if jobs.is_empty() {
                return done;
            }
            done.extend(ids_of(&jobs));
        }
    }
}

/// Every way in which a job is not over when its worker is done with it, as far as a worker says so.
pub(crate) fn not_over(delay: Duration) -> [Disposition; 5] {
    [
        Disposition::Retry { delay, error: "no".into() },
        Disposition::Snooze { delay },
        Disposition::Undecryptable { delay, error: "no such key".into() },
        Disposition::Return,
        Disposition::NoHandler,
    ]
}

/// Every way in which a worker says that a job is over.
pub(crate) fn over() -> [Disposition; 4] {
    [
        Disposition::Complete { result: None },
        Disposition::Cancel { reason: "unwanted".into() },
        Disposition::Discard { error: "bad".into(), failed: true },
        Disposition::Discard { error: "bad".into(), failed: false },
    ]
}
