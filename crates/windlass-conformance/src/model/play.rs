use super::{once::Once, oracle::Oracle, told::Told};
use crate::steps::*;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use windlass_core::{
    ClaimRef, JobId, JobRecord, JobState, JobStore, KeyLimitsChange, Settings, SettleRequest, Store,
    WorkerId, WorkerSpec,
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
const TRACE: usize = 150;

/// A worker of the history.
pub(super) struct Actor {
    pub(super) store: Arc<dyn Store>,
    pub(super) id: WorkerId,
    pub(super) kinds: &'static [&'static str],
}

/// One history: the store, the oracle, and what the caller remembers.
pub(super) struct Play {
    pub(super) seed: u64,
    trace: Vec<String>,
    pub(super) rng: fastrand::Rng,
    pub(super) oracle: Oracle,
    pub(super) admin: Arc<dyn Store>,
    pub(super) actors: Vec<Actor>,
    pub(super) queues: [String; 2],
    pub(super) paused: [bool; 2],
    /// Cancelled jobs that claims may still have to step over: until then an answer may be short.
    pub(super) stones: [usize; 2],
    pub(super) began: Instant,
    /// When housekeeping came by last: it may have removed what was completed before, by the oracle's clock.
    pub(super) cleaned: jiff::Timestamp,
    /// The ids of each claim, ascending, and the position of each of its jobs.
    pub(super) claims: HashMap<ClaimRef, Vec<(JobId, i64)>>,
    /// Settlements that were accepted, to be repeated.
    pub(super) past: Vec<SettleRequest>,
    /// Batches that were stored under an idempotency key, to be repeated.
    pub(super) once: Vec<Once>,
    /// How many reports there were of each job under each claim.
    pub(super) reports: HashMap<(ClaimRef, JobId), u64>,
    /// Workers that left or died.
    pub(super) gone: Vec<WorkerId>,
    pub(super) told: Told,
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
        let oracle = Oracle::default();
        let told = Told::begin(&admin, &oracle.handle()).await;
        let mut play = Self {
            seed,
            told,
            trace: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
            oracle,
            paused: [false; 2],
            stones: [0; 2],
            began: Instant::now(),
            cleaned: jiff::Timestamp::MIN,
            admin,
            actors: Vec::new(),
            queues,
            claims: HashMap::new(),
            past: Vec::new(),
            once: Vec::new(),
            reports: HashMap::new(),
            gone: Vec::new(),
        };
        let settings = Settings::DEFAULT.with_max_crashes(CRASHES);
        play.admin.configure(&settings).await.expect("configure");
        play.oracle.store.configure(&settings).await.expect("configure");
        for (store, kinds) in handles.into_iter().zip(KNOWN) {
            let id = play.register(&store, kinds, LEASE).await;
            play.actors.push(Actor { store, id, kinds });
        }
        for _ in 0..4 * u32::from(play.has_keys()) {
            play.limit_keys().await;
        }
        play
    }

    /// Whether queues have limits of keys: in every other history, from its beginning.
    pub(super) fn has_keys(&self) -> bool {
        self.seed % 2 == 1
    }

    pub(super) fn trace(&mut self, call: String) {
        self.trace.push(call);
    }

    /// Makes one call at random.
    pub(super) async fn call(&mut self) {
        let who = self.rng.usize(..self.actors.len());
        match self.rng.u32(..100) {
            0..12 => self.enqueue().await,
            12..19 => self.enqueue_unique().await,
            19..20 => self.enqueue_once().await,
            20..40 => self.claim(who).await,
            40..56 => self.settle(who).await,
            56..60 => self.repeat_a_settlement().await,
            60..62 => self.settle_what_is_not_ours(who).await,
            62..67 => self.cancel().await,
            67..72 => self.retry().await,
            72..77 => self.edit().await,
            77..79 => self.delete().await,
            79..81 => self.pause().await,
            81..83 => self.start_over(who).await,
            83..86 => self.live_and_die().await,
            86..89 => self.promote().await,
            89..92 => self.maintain().await,
            92..93 => self.suspect(who).await,
            93..96 => self.report(who).await,
            96..98 => self.heartbeat(who).await,
            _ if self.has_keys() => self.limit_keys().await,
            _ => self.claim(who).await,
        }
    }

    /// Up to so many jobs of the history, each once.
    pub(super) fn some_ids(&mut self, most: usize) -> Vec<JobId> {
        let mut ids = self.oracle.ids();
        self.rng.shuffle(&mut ids);
        ids.truncate(self.rng.usize(1..=most));
        ids
    }

    /// The same, and now and then one that was deleted.
    pub(super) fn some_named(&mut self, most: usize) -> Vec<JobId> {
        let mut ids = self.some_ids(most);
        if self.rng.u32(..4) == 0 {
            ids.extend(self.oracle.deleted.iter().next_back());
        }
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
        let spec = WorkerSpec {
            name: "model".to_owned(),
            queues: self.queues.to_vec(),
            kinds,
            lease,
            program: Default::default(),
        };
        let worker = store.register(&spec).await.expect("register").worker;
        self.oracle.registered(worker, &spec).await;
        worker
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
        self.gone.push(id);
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
        self.gone.push(worker);
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
        self.check_told().await;
        let report = maintain_with(&self.admin, keep).await;
        self.trace(format!("maintain {retention:?}: {report:?}"));
        self.check_counted().await;
        if retention.is_zero() {
            self.read_on_from_now().await;
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

    /// The answer names the jobs that somebody wants cancelled.
    async fn heartbeat(&mut self, who: usize) {
        let Actor { store, id, .. } = &self.actors[who];
        let mut asked = self.oracle.named(&store.heartbeat(*id).await.expect("heartbeat").cancel);
        let known = self.oracle.store.heartbeat(self.oracle.worker(*id)).await.expect("heartbeat");
        let mut known = known.cancel;
        self.trace(format!("heartbeat of {}: cancel {asked:?} of the oracle's", self.actors[who].id));
        asked.sort_unstable();
        known.sort_unstable();
        assert_eq!(asked, known, "what is to be cancelled, by the oracle's ids");
    }

    /// Takes everything through to its end, and compares once more.
    pub(super) async fn finish(mut self) {
        for queue in 0..2 {
            self.pause_to(queue, false).await;
            if self.key_limits(queue).await.is_some() {
                self.limit_keys_to(queue, &KeyLimitsChange::Off).await;
            }
        }
        self.promote().await;
        let retryable = self.ids_where(|job| job.state == JobState::Retryable).await;
        self.retry_these(retryable).await;
        for who in 1..self.actors.len() {
            self.start_over(who).await;
        }
        self.drain().await;
        self.try_every_key().await;
        self.drain().await;
        self.check().await;
        for id in self.oracle.ids() {
            self.check_job(id).await;
        }
        self.maintain().await;
        let waiting = self.ids_where(|job| job.state == JobState::Scheduled).await;
        self.admin.cancel(&waiting).await.expect("cancel what never comes");
        for actor in &self.actors {
            actor.store.deregister(actor.id).await.expect("deregister");
        }
    }

    /// Completes whatever can be had; then there is nothing.
    async fn drain(&mut self) {
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
    }
}
