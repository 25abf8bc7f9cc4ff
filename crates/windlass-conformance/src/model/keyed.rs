use super::play::Play;
use crate::steps::LATER;
use windlass_core::{JobId, JobState, JobStore, KeyLimit, KeyLimits, KeyLimitsChange, RateLimit, WorkerId};

/// The keys that jobs of a history have.
pub(super) const KEYS: [&str; 3] = ["whom", "a", "b"];

impl Play {
    /// Changes the limits of a queue's keys, where the store knows any.
    pub(super) async fn limit_keys(&mut self) {
        let queue = self.rng.usize(..2);
        let change = self.some_change();
        let name = self.queues[queue].clone();
        let before = self.key_limits(queue).await;
        let after = change.apply(before.clone());
        let is_serial =
            |limits: &Option<KeyLimits>, key| limits.as_ref().is_some_and(|limits| limits.of(key).serial);
        for key in KEYS {
            // What waits for its retry when a key becomes serial may block it or not.
            let becomes_serial = is_serial(&after, key) && !is_serial(&before, key);
            if becomes_serial && self.is_under_way(&name, key).await {
                return;
            }
        }
        if self.admin.capabilities().keys {
            self.limit_keys_to(queue, &change).await;
        }
    }

    fn some_change(&mut self) -> KeyLimitsChange {
        match self.rng.u32(..6) {
            0 => KeyLimitsChange::Off,
            1 | 2 => KeyLimitsChange::Default(self.some_limit()),
            _ => {
                let key = KEYS[self.rng.usize(..KEYS.len())].to_owned();
                let limit = (self.rng.u32(..4) > 0).then(|| self.some_limit());
                KeyLimitsChange::Named(vec![(key, limit)])
            }
        }
    }

    fn some_limit(&mut self) -> KeyLimit {
        let weight = self.rng.u16(1..5);
        let limit = match self.rng.u32(..5) {
            0 => KeyLimit::default(),
            1 | 2 => KeyLimit::serial(),
            _ => KeyLimit::default().with_concurrency(self.rng.u32(1..4)),
        };
        let limit = limit.with_weight(weight);
        match self.rng.u32(..3) {
            // What ended counts until the end of the history.
            0 => limit.with_rate(RateLimit::new(self.rng.u32(1..12), LATER)),
            _ => limit,
        }
    }

    pub(super) async fn limit_keys_to(&mut self, queue: usize, change: &KeyLimitsChange) {
        let name = self.queues[queue].clone();
        self.admin.limit_keys(&name, change).await.expect("limit keys");
        self.trace(format!("limit keys of {queue}: {change:?}"));
        self.oracle.store.limit_keys(&name, change).await.expect("limit keys");
        let seen = self.admin.key_limits(&name).await.expect("key limits");
        assert_eq!(seen, self.key_limits(queue).await);
    }

    pub(super) async fn key_limits(&self, queue: usize) -> Option<KeyLimits> {
        self.oracle.store.key_limits(&self.queues[queue]).await.expect("key limits")
    }

    /// Whether a job of the key was handed out and is not over.
    async fn is_under_way(&self, queue: &str, key: &str) -> bool {
        let jobs = self.oracle.records().await;
        jobs.iter().any(|(id, job)| {
            let of_key = job.queue == queue && job.key.as_deref() == Some(key);
            of_key && !job.state.is_final() && self.oracle.was_handed_out(*id)
        })
    }

    /// The priorities of all that a claim by this worker may have of a queue now, where that has limits of keys.
    pub(super) async fn admitted(&self, queue: usize, worker: WorkerId) -> Option<Vec<i16>> {
        self.key_limits(queue).await?;
        let worker = self.oracle.worker(worker);
        let ids = self.oracle.store.claimable(worker, &self.queues[queue]).expect("a live worker");
        let mut priorities = Vec::new();
        for id in ids {
            priorities.push(self.oracle.store.job(id).await.expect("look up").expect("a job").priority);
        }
        Some(priorities)
    }

    /// Of a serial key and a priority a job that was never handed out comes after all with lower ids.
    pub(super) async fn check_order(&self, queue: usize, handed_out: &[JobId], eligible: &[JobId]) {
        let Some(limits) = self.key_limits(queue).await else { return };
        for id in handed_out {
            let job = self.oracle.job(*id).await;
            let is_serial = job.key.as_deref().is_some_and(|key| limits.of(key).serial);
            if !is_serial || self.oracle.was_handed_out(*id) {
                continue;
            }
            for other in eligible.iter().filter(|other| *other < id) {
                let before = self.oracle.job(*other).await;
                let is_before = before.key == job.key && before.priority == job.priority;
                assert!(!is_before, "job {id} of serial key {:?} was handed out before job {other}", job.key);
            }
            assert_eq!(job.state, JobState::Available);
        }
    }
}
