use super::{keyed::KEYS, once::Once, play::Play};
use crate::steps::*;
use windlass_core::{
    Args, Conflict, EnqueuedUnique, JobId, JobState, JobStore, NewJob, OnConflict, Result, Unique,
};

/// How many unique keys of each sort a history has.
const UNIQUE: usize = 3;
/// A batch of this size takes the way of large ones into a store.
const LARGE: usize = 60;

impl Play {
    pub(super) async fn enqueue(&mut self) {
        let jobs = self.some_jobs();
        let ids = self.admin.enqueue(&jobs).await.expect("enqueue");
        self.trace(format!("enqueue {ids:?}"));
        self.oracle.enqueued(&jobs, &fresh(&ids)).await;
    }

    fn some_jobs(&mut self) -> Vec<NewJob> {
        let most = self.rng.usize(1..=20);
        (0..self.rng.usize(1..=most)).map(|_| self.some_job()).collect()
    }

    fn some_job(&mut self) -> NewJob {
        let (queue, priority) = (self.rng.usize(..2), self.rng.i16(-1..=1));
        let kind = if self.rng.bool() { "a" } else { "b" };
        let job = NewJob::new(kind, args(self.rng.usize(..100))).with_queue(self.queues[queue].clone());
        let job = job.with_priority(priority).with_max_attempts(self.rng.u16(900..910));
        let (job, is_now) = match self.rng.u32(..8) {
            0 => (job.with_delay(LATER), false),
            1 => (job.with_scheduled_at(jiff::Timestamp::UNIX_EPOCH), false),
            _ => (job, true),
        };
        match self.rng.u32(..16) {
            0 if is_now => job.with_expires_at(jiff::Timestamp::UNIX_EPOCH),
            1 => job.with_expires_at(jiff::Timestamp::MAX),
            2 => job.with_expiry(LATER * 2),
            3 => job.with_tracking(),
            4 => job.with_tag("t"),
            5..13 => job.with_key(KEYS[self.rng.usize(..KEYS.len())]),
            _ => job,
        }
    }

    /// Unique jobs among others, under few keys and any rule.
    pub(super) async fn enqueue_unique(&mut self) {
        let size = match self.rng.u32(..12) {
            0..5 => 1,
            5..11 => self.rng.usize(2..12),
            _ => LARGE,
        };
        let jobs: Vec<_> = (0..size).map(|_| self.some_unique_job(size <= 2)).collect();
        self.enqueue_unique_these(&jobs).await.unwrap_or_default();
    }

    fn some_unique_job(&mut self, may_refuse: bool) -> NewJob {
        let mut job = self.some_job();
        let unique = match self.rng.u32(..8) {
            0 => return job,
            1 => {
                let queue = job.queue().to_owned();
                let json = serde_json::json!({ "seed": self.seed, "n": self.rng.usize(..UNIQUE) });
                job = NewJob::new("a", Args::of(&json).expect("a small object")).with_queue(queue);
                Unique::by_args()
            }
            2 => self.some_key().in_queue(),
            _ => self.some_key(),
        };
        // Sooner than any of them is due.
        let max_wait = self.rng.bool().then_some(LATER / 2);
        let unique = match self.rng.u32(..7) {
            0 | 1 => unique.until_started(),
            2 => unique.for_window(LATER),
            3 => return job.with_unique(unique.for_window(LATER * 2).on_conflict(OnConflict::Extend)),
            _ => unique,
        };
        job.with_unique(match self.rng.u32(..12) {
            0..6 => unique,
            6..11 => unique.on_conflict(OnConflict::Replace { max_wait }),
            _ if may_refuse => unique.on_conflict(OnConflict::Error),
            _ => unique,
        })
    }

    fn some_key(&mut self) -> Unique {
        Unique::by_key(format!("{}/{}", self.seed, self.rng.usize(..UNIQUE)))
    }

    /// Stores a batch at both, or neither takes it.
    async fn enqueue_unique_these(&mut self, jobs: &[NewJob]) -> Result<Vec<EnqueuedUnique>> {
        let stored = self.admin.enqueue_unique(jobs).await;
        let asked = jobs.iter().map(|job| (job.kind(), job.queue(), job.unique(), job.when()));
        self.trace(format!("enqueue unique {:?}: {stored:?}", asked.collect::<Vec<_>>()));
        let replaced = match &stored {
            Ok(stored) => {
                let before = self.oracle.records().await;
                self.oracle.enqueued(jobs, stored).await;
                let after = self.oracle.records().await;
                let stood = |id: &JobId| before[id].state == JobState::Available;
                let lies = |id: &JobId| after[id].state == JobState::Cancelled;
                before
                    .iter()
                    .filter(|(id, _)| stood(id) && lies(id))
                    .map(|(_, job)| job.queue.clone())
                    .collect()
            }
            Err(error) => {
                let known = self.oracle.store.enqueue_unique(jobs).await;
                let known = known.expect_err("the oracle takes what the store refused");
                assert_eq!(error.kind(), known.kind(), "{error}, oracle: {known}");
                Vec::new()
            }
        };
        for queue in replaced {
            self.stone(&queue);
        }
        stored
    }

    /// Now each key is as free as the oracle says.
    pub(super) async fn try_every_key(&mut self) {
        let mut jobs = Vec::new();
        for queue in self.queues.clone() {
            for kind in ["a", "b"] {
                for n in 0..UNIQUE {
                    let job = NewJob::new(kind, args(n)).with_queue(queue.clone());
                    let key = || Unique::by_key(format!("{}/{n}", self.seed));
                    jobs.extend([job.clone().with_unique(key()), job.with_unique(key().in_queue())]);
                }
            }
        }
        let stored = self.enqueue_unique_these(&jobs).await.expect("keep or store");
        assert!(stored.iter().all(|stored| stored.conflict.is_none_or(|what| what == Conflict::Kept)));
    }

    /// A batch under an idempotency key, or one of before again: that stores nothing, unless the key may be forgotten.
    pub(super) async fn enqueue_once(&mut self) {
        let place = self.rng.usize(..=self.once.len());
        let (key, jobs) = match self.once.get(place) {
            Some(before) => (before.key.clone(), before.jobs.clone()),
            None => (format!("{}/{place}", self.seed), self.some_jobs()),
        };
        let stored = self.admin.enqueue_once(&key, &jobs).await.expect("enqueue once");
        self.trace(format!("enqueue once {key}: {stored:?}"));
        let at = self.oracle.store.clock().now();
        match self.once.get(place) {
            Some(before) if stored.repeated => assert_eq!(stored.ids, before.ids, "the ids of {key}"),
            before => {
                let may_be_forgotten = before.is_none_or(|before| before.at <= self.cleaned);
                assert!(!stored.repeated && may_be_forgotten, "{key}: {stored:?}");
                self.oracle.enqueued(&jobs, &fresh(&stored.ids)).await;
                self.once.splice(
                    place..(place + 1).min(self.once.len()),
                    [Once { key, jobs, ids: stored.ids, at }],
                );
            }
        }
    }
}

fn fresh(ids: &[JobId]) -> Vec<EnqueuedUnique> {
    ids.iter().map(|id| EnqueuedUnique { id: *id, conflict: None }).collect()
}
