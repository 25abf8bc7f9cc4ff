use super::oracle::Oracle;
use crate::steps::*;
use std::{collections::HashMap, sync::Arc, time::Duration};
use windlass_core::{
    CancelReply, ClaimRef, JobId, JobRecord, JobState, JobStore, NewJob, RetryReply, Settings, SettleRequest,
    Store, WorkerId, WorkerSpec,
};

/// How many workers a history has at a time; each on a handle of its own.
pub(super) const WORKERS: usize = 3;
/// The kinds that they know; none is any.
const KNOWN: [&[&str]; WORKERS] = [&[], &["a"], &["a", "b"]];
/// The crash limit of rescues: above what a worker's innocent jobs are counted to.
const CRASHES: u16 = 3;
/// How often a drain looks again because cancelled jobs stood in the way.
const DRAIN_ROUNDS: usize = 1_000;
/// How many calls a failure prints.
const TRACE: usize = 60;

/// A worker of the history.
pub(super) struct Actor {
    pub(super) store: Arc<dyn Store>,
    pub(super) id: WorkerId,
    pub(super) kinds: &'static [&'static str],
}

/// One history: the store, the oracle, and what the caller remembers.
pub(super) struct Play {
    seed: u64,
    trace: Vec<String>,
    pub(super) rng: fastrand::Rng,
    pub(super) oracle: Oracle,
    pub(super) admin: Arc<dyn Store>,
    pub(super) actors: Vec<Actor>,
    pub(super) queues: [String; 2],
    pub(super) paused: [bool; 2],
    /// Cancelled jobs that claims may still have to step over: until then an answer may be short.
    pub(super) stones: [usize; 2],
    /// When housekeeping came by last: it may have removed what was completed before, by the oracle's clock.
    cleaned: jiff::Timestamp,
    /// The ids of each claim, ascending, and the position of each of its jobs.
    pub(super) claims: HashMap<ClaimRef, Vec<(JobId, i64)>>,
    /// Settlements that were accepted, to be repeated.
    pub(super) past: Vec<SettleRequest>,
}

impl Drop for Play {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = self.trace.len().saturating_sub(TRACE);
            eprintln!("WINDLASS_MODEL_SEED={} failed after\n{}", self.seed, self.trace[last..].join("\n"));
        }
    }
}

impl Play {
    pub(super) async fn begin(seed: u64, mut handles: Vec<Arc<dyn Store>>) -> Self {
        let admin = handles.pop().expect("a handle");
        let queues = ["x", "y"].map(|name| format!("{name}-{seed}"));
        let mut play = Self {
            seed,
            trace: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
            oracle: Oracle::default(),
            paused: [false; 2],
            stones: [0; 2],
            cleaned: jiff::Timestamp::MIN,
            admin,
            actors: Vec::new(),
            queues,
            claims: HashMap::new(),
            past: Vec::new(),
        };
        let settings = Settings::DEFAULT.with_max_crashes(CRASHES);
        play.admin.configure(&settings).await.expect("configure");
        play.oracle.store.configure(&settings).await.expect("configure");
        for (store, kinds) in handles.into_iter().zip(KNOWN) {
            let id = play.register(&store, kinds, LEASE).await;
            play.actors.push(Actor { store, id, kinds });
        }
        play
    }

    pub(super) fn trace(&mut self, call: String) {
        self.trace.push(call);
    }

    /// Makes one call at random.
    pub(super) async fn call(&mut self) {
        let who = self.rng.usize(..self.actors.len());
        match self.rng.u32(..100) {
            0..18 => self.enqueue().await,
            18..40 => self.claim(who).await,
            40..60 => self.settle(who).await,
            60..65 => self.repeat_a_settlement().await,
            65..68 => self.settle_what_is_not_ours(who).await,
            68..74 => self.cancel().await,
            74..80 => self.retry().await,
            80..82 => self.pause().await,
            82..84 => self.start_over(who).await,
            84..87 => self.live_and_die().await,
            87..92 => self.promote().await,
            92..96 => self.maintain().await,
            96..98 => self.suspect(who).await,
            _ => self.heartbeat(who).await,
        }
    }

    /// Up to so many jobs of the history, each once.
    pub(super) fn some_ids(&mut self, most: usize) -> Vec<JobId> {
        let mut ids = self.oracle.ids();
        self.rng.shuffle(&mut ids);
        ids.truncate(self.rng.usize(1..=most));
        ids
    }

    pub(super) async fn ids_where(&self, which: impl Fn(&JobRecord) -> bool) -> Vec<JobId> {
        let records = self.oracle.records().await;
        records.into_iter().filter(|(_, job)| which(job)).map(|(id, _)| id).collect()
    }

    /// Whether housekeeping may have removed a job.
    pub(super) fn may_be_gone(&self, job: &JobRecord) -> bool {
        job.state == JobState::Completed && job.finished_at.is_some_and(|at| at <= self.cleaned)
    }

    async fn register(&mut self, store: &Arc<dyn Store>, kinds: &[&str], lease: Duration) -> WorkerId {
        let kinds: Vec<_> = kinds.iter().map(|&kind| kind.to_owned()).collect();
        let spec = WorkerSpec { name: "model".to_owned(), queues: self.queues.to_vec(), kinds, lease };
        let worker = store.register(&spec).await.expect("register").worker;
        self.oracle.registered(worker, &spec).await;
        worker
    }

    async fn enqueue(&mut self) {
        let mut jobs = Vec::new();
        let most = self.rng.usize(1..=20);
        for _ in 0..self.rng.usize(1..=most) {
            let (queue, priority) = (self.rng.usize(..2), self.rng.i16(-1..=1));
            let kind = if self.rng.bool() { "a" } else { "b" };
            let job =
                NewJob::new(kind, args(0)).with_queue(self.queues[queue].clone()).with_priority(priority);
            let job = job.with_max_attempts(1_000);
            jobs.push(match self.rng.u32(..8) {
                0 => job.with_delay(LATER),
                1 => job.with_scheduled_at(jiff::Timestamp::UNIX_EPOCH),
                _ => job,
            });
        }
        let ids = self.admin.enqueue(&jobs).await.expect("enqueue");
        self.trace(format!("enqueue {ids:?}"));
        self.oracle.enqueued(&jobs, &ids).await;
    }

    async fn cancel(&mut self) {
        let ids = self.some_ids(5);
        let known = self.oracle.records().await;
        let replies = self.admin.cancel(&ids).await.expect("cancel");
        self.trace(format!("cancel {ids:?}: {replies:?}"));
        let expected = self.oracle.store.cancel(&self.oracle.named(&ids)).await.expect("cancel");
        assert_eq!(replies.len(), expected.len());
        for (id, (reply, expected)) in ids.into_iter().zip(replies.into_iter().zip(expected)) {
            let job = &known[&id];
            let gone = self.may_be_gone(job) && reply == CancelReply::NotFound;
            assert!(reply == expected || gone, "cancel of job {id}: {reply:?}, oracle: {expected:?}");
            if job.state == JobState::Available && job.reason.is_none() {
                self.stones[usize::from(job.queue == self.queues[1])] += 1;
            }
        }
    }

    async fn retry(&mut self) {
        let ids = self.some_ids(5);
        self.retry_these(ids).await;
    }

    async fn retry_these(&mut self, ids: Vec<JobId>) {
        let known = self.oracle.records().await;
        let replies = self.admin.retry(&ids).await.expect("retry");
        self.trace(format!("retry {ids:?}: {replies:?}"));
        let expected = self.oracle.store.retry(&self.oracle.named(&ids)).await.expect("retry");
        assert_eq!(replies.len(), expected.len());
        for (id, (reply, expected)) in ids.into_iter().zip(replies.into_iter().zip(expected)) {
            let job = &known[&id];
            let gone = self.may_be_gone(job) && reply == RetryReply::NotFound;
            assert!(reply == expected || gone, "retry of job {id}: {reply:?}, oracle: {expected:?}");
            if job.state == JobState::Cancelled {
                self.oracle.or_else.entry(id).or_insert((job.attempt, job.crash_count));
            }
        }
    }

    async fn pause(&mut self) {
        let queue = self.rng.usize(..2);
        let paused = !self.paused[queue];
        self.trace(format!("pause {queue} {paused}"));
        self.pause_to(queue, paused).await;
    }

    async fn pause_to(&mut self, queue: usize, paused: bool) {
        self.admin.pause(&self.queues[queue], paused).await.expect("pause or resume");
        self.oracle.store.pause(&self.queues[queue], paused).await.expect("pause or resume");
        self.paused[queue] = paused;
    }

    /// A worker leaves and comes back as another.
    async fn start_over(&mut self, who: usize) {
        let (store, id, kinds) =
            (Arc::clone(&self.actors[who].store), self.actors[who].id, self.actors[who].kinds);
        let by_another = self.rng.bool();
        let closer = if by_another { &self.admin } else { &store };
        closer.deregister(id).await.expect("deregister");
        self.trace(format!("deregister {id}"));
        self.oracle.store.deregister(self.oracle.worker(id)).await.expect("deregister");
        self.actors[who].id = self.register(&store, kinds, LEASE).await;
    }

    /// A worker that dies with what it holds; sometimes it had said which job it runs alone.
    async fn live_and_die(&mut self) {
        let store = Arc::clone(&self.actors[0].store);
        let worker = self.register(&store, &[], TINY_LEASE).await;
        let limits = [self.rng.u32(..9), self.rng.u32(..9)];
        self.claim_as(&store, worker, &[], limits).await;
        if self.rng.bool() {
            self.settle_as(&store, worker).await;
        }
        let held: Vec<_> = self.oracle.held_by(worker).await.into_values().flatten().collect();
        let suspect = (self.rng.bool() && !held.is_empty()).then(|| held[self.rng.usize(..held.len())]);
        if suspect.is_some() {
            self.suspect_as(&store, worker, suspect).await;
        }
        let rescuer = self.register(&store, &[], LEASE).await;
        let report = eventually("the worker is declared dead", || async {
            let report = self.admin.rescue(rescuer).await.expect("rescue");
            report.workers.contains(&worker).then_some(report)
        })
        .await;
        self.trace(format!("rescue of {worker} with {held:?}, suspect {suspect:?}: {report:?}"));
        let expected = self.oracle.rescue(rescuer, TINY_LEASE).await;
        assert_eq!((report.rescued, report.discarded), (expected.rescued, expected.discarded));
    }

    async fn promote(&mut self) {
        let promoted = self.admin.promote(1_000).await.expect("promote");
        self.trace(format!("promote: {promoted:?}"));
        let expected = self.oracle.store.promote(1_000).await.expect("promote");
        assert_eq!(promoted.count, expected.count);
    }

    async fn maintain(&mut self) {
        let retention = if self.rng.u32(..4) == 0 { LATER } else { Duration::ZERO };
        let keep = Settings::DEFAULT
            .with_max_crashes(CRASHES)
            .with_retention(retention)
            .with_dead_retention(LATER)
            .with_segment_bytes(1);
        let report = maintain_with(&self.admin, keep).await;
        self.trace(format!("maintain {retention:?}: {report:?}"));
        if retention.is_zero() {
            self.cleaned = self.oracle.store.clock().now();
        }
    }

    async fn suspect(&mut self, who: usize) {
        let (store, id) = (Arc::clone(&self.actors[who].store), self.actors[who].id);
        let held = self.oracle.held_by(id).await.into_values().flatten().next();
        self.suspect_as(&store, id, held).await;
    }

    async fn suspect_as(&self, store: &Arc<dyn Store>, worker: WorkerId, job: Option<JobId>) {
        store.suspect(worker, job).await.expect("suspect");
        let twin = job.map(|job| self.oracle.named(&[job])[0]);
        self.oracle.store.suspect(self.oracle.worker(worker), twin).await.expect("suspect");
    }

    async fn heartbeat(&mut self, who: usize) {
        let Actor { store, id, .. } = &self.actors[who];
        store.heartbeat(*id).await.expect("heartbeat");
        self.oracle.store.heartbeat(self.oracle.worker(*id)).await.expect("heartbeat");
        self.trace(format!("heartbeat of {}", self.actors[who].id));
    }

    /// Takes everything through to its end, and compares once more.
    pub(super) async fn finish(mut self) {
        for queue in 0..2 {
            self.pause_to(queue, false).await;
        }
        self.promote().await;
        let retryable = self.ids_where(|job| job.state == JobState::Retryable).await;
        self.retry_these(retryable).await;
        for who in 1..self.actors.len() {
            self.start_over(who).await;
        }
        let (store, worker) = (Arc::clone(&self.actors[0].store), self.actors[0].id);
        self.settle_everything(&store, worker).await;
        for _ in 0..DRAIN_ROUNDS {
            if self.eligible(0, &[]).await.is_empty() && self.eligible(1, &[]).await.is_empty() {
                break;
            }
            self.claim_as(&store, worker, &[], [7, 7]).await;
            self.settle_everything(&store, worker).await;
        }
        assert_eq!(self.claim_as(&store, worker, &[], [100, 100]).await, 0);
        self.check().await;
        for id in self.oracle.ids() {
            self.check_job(id).await;
        }
        let waiting = self.ids_where(|job| job.state == JobState::Scheduled).await;
        self.admin.cancel(&waiting).await.expect("cancel what never comes");
        for actor in &self.actors {
            actor.store.deregister(actor.id).await.expect("deregister");
        }
    }
}
