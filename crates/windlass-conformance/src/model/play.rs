use super::book::{Book, Entry, Stage};
use crate::steps::*;
use std::{collections::HashMap, sync::Arc, time::Duration};
use windlass_core::{
    CancelReply, ClaimRef, JobId, JobState, NewJob, RetryReply, Settings, SettleRequest, Store, WorkerId,
    WorkerSpec,
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

/// One history: the store, the model, and what the caller remembers.
pub(super) struct Play {
    seed: u64,
    trace: Vec<String>,
    pub(super) rng: fastrand::Rng,
    pub(super) book: Book,
    pub(super) admin: Arc<dyn Store>,
    pub(super) actors: Vec<Actor>,
    pub(super) queues: [String; 2],
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
            book: Book::default(),
            admin,
            actors: Vec::new(),
            queues,
            claims: HashMap::new(),
            past: Vec::new(),
        };
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
        let mut ids: Vec<_> = self.book.jobs.keys().copied().collect();
        self.rng.shuffle(&mut ids);
        ids.truncate(self.rng.usize(1..=most));
        ids
    }

    async fn register(&mut self, store: &Arc<dyn Store>, kinds: &[&str], lease: Duration) -> WorkerId {
        let kinds: Vec<_> = kinds.iter().map(|&kind| kind.to_owned()).collect();
        let spec = WorkerSpec { name: "model".to_owned(), queues: self.queues.to_vec(), kinds, lease };
        store.register(&spec).await.expect("register").worker
    }

    async fn enqueue(&mut self) {
        let (mut jobs, mut entries) = (Vec::new(), Vec::new());
        let most = self.rng.usize(1..=20);
        for _ in 0..self.rng.usize(1..=most) {
            let (queue, priority) = (self.rng.usize(..2), self.rng.i16(-1..=1));
            let kind = if self.rng.bool() { "a" } else { "b" };
            let job =
                NewJob::new(kind, args(0)).with_queue(self.queues[queue].clone()).with_priority(priority);
            let job = job.with_max_attempts(1_000);
            let later = Stage::Waiting { state: JobState::Scheduled, due: false };
            let (job, stage) = match self.rng.u32(..8) {
                0 => (job.with_delay(LATER), later),
                1 => (job.with_scheduled_at(jiff::Timestamp::UNIX_EPOCH), Stage::Available),
                _ => (job, Stage::Available),
            };
            jobs.push(job);
            entries.push(Entry {
                queue,
                priority,
                kind,
                used: 0,
                crashes: 0,
                or_else: None,
                errors: 0,
                stage,
            });
        }
        let ids = self.admin.enqueue(&jobs).await.expect("enqueue");
        self.trace(format!("enqueue {ids:?}"));
        assert_eq!(ids.len(), entries.len());
        for (id, entry) in ids.into_iter().zip(entries) {
            assert!(self.book.jobs.insert(id, entry).is_none(), "id {id} was given twice");
        }
    }

    async fn cancel(&mut self) {
        let ids = self.some_ids(5);
        let replies = self.admin.cancel(&ids).await.expect("cancel");
        self.trace(format!("cancel {ids:?}: {replies:?}"));
        assert_eq!(replies.len(), ids.len());
        for (id, reply) in ids.into_iter().zip(replies) {
            let gone = self.book.may_be_gone(&self.book.jobs[&id]);
            let entry = self.book.job(id);
            let expected = match entry.stage {
                Stage::Running(..) => CancelReply::Running,
                Stage::Completed { .. } if gone && reply == CancelReply::NotFound => reply,
                Stage::Completed { .. } | Stage::Cancelled | Stage::Discarded => CancelReply::Finished,
                Stage::Available | Stage::Parked | Stage::Waiting { .. } => CancelReply::Cancelled,
            };
            assert_eq!(reply, expected, "cancel of job {id}: {entry:?}");
            if expected == CancelReply::Cancelled {
                let (queue, stone) = (entry.queue, entry.stage == Stage::Available);
                entry.stage = Stage::Cancelled;
                self.book.stones[queue] += usize::from(stone);
            }
        }
    }

    async fn retry(&mut self) {
        let ids = self.some_ids(5);
        self.retry_these(ids).await;
    }

    async fn retry_these(&mut self, ids: Vec<JobId>) {
        let replies = self.admin.retry(&ids).await.expect("retry");
        self.trace(format!("retry {ids:?}: {replies:?}"));
        for (id, reply) in ids.into_iter().zip(replies) {
            let gone = self.book.may_be_gone(&self.book.jobs[&id]);
            let entry = self.book.job(id);
            let expected = match entry.stage {
                Stage::Completed { .. } if gone && reply == RetryReply::NotFound => reply,
                Stage::Completed { .. } => RetryReply::Completed,
                Stage::Cancelled | Stage::Discarded => {
                    let before = (entry.stage == Stage::Cancelled).then_some((entry.used, entry.crashes));
                    entry.or_else = entry.or_else.or(before);
                    (entry.used, entry.crashes) = (0, 0);
                    RetryReply::Retried
                }
                Stage::Waiting { state: JobState::Retryable, .. } => RetryReply::Retried,
                _ => RetryReply::Pending,
            };
            assert_eq!(reply, expected, "retry of job {id}: {entry:?}");
            if expected == RetryReply::Retried {
                entry.stage = Stage::Available;
            }
        }
    }

    async fn pause(&mut self) {
        let queue = self.rng.usize(..2);
        let paused = !self.book.paused[queue];
        self.trace(format!("pause {queue} {paused}"));
        self.pause_to(queue, paused).await;
    }

    async fn pause_to(&mut self, queue: usize, paused: bool) {
        self.admin.pause(&self.queues[queue], paused).await.expect("pause or resume");
        self.book.paused[queue] = paused;
    }

    /// A worker leaves and comes back as another.
    async fn start_over(&mut self, who: usize) {
        let (store, id, kinds) =
            (Arc::clone(&self.actors[who].store), self.actors[who].id, self.actors[who].kinds);
        let by_another = self.rng.bool();
        let closer = if by_another { &self.admin } else { &store };
        closer.deregister(id).await.expect("deregister");
        self.trace(format!("deregister {id}"));
        for job in self.book.held_by(id).into_values().flatten() {
            self.book.job(job).stage = Stage::Available;
        }
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
        let held: Vec<_> = self.book.held_by(worker).into_values().flatten().collect();
        let suspect = (self.rng.bool() && !held.is_empty()).then(|| held[self.rng.usize(..held.len())]);
        if suspect.is_some() {
            store.suspect(worker, suspect).await.expect("suspect");
        }
        let rescuer = self.register(&store, &[], LEASE).await;
        let report = eventually("the worker is declared dead", || async {
            let report = self.admin.rescue(rescuer).await.expect("rescue");
            report.workers.contains(&worker).then_some(report)
        })
        .await;
        self.trace(format!("rescue of {worker} with {held:?}, suspect {suspect:?}: {report:?}"));
        let mut discarded = 0;
        for id in &held {
            let job = self.book.job(*id);
            job.stage = Stage::Available;
            match suspect {
                None => job.crashes = (job.crashes + 1).min(job.crashes.max(2)),
                Some(suspect) if suspect == *id => job.crashes += 1,
                Some(_) => continue,
            }
            if suspect.is_some() && job.crashes >= CRASHES {
                job.stage = Stage::Discarded;
                discarded += 1;
            }
        }
        assert_eq!((report.rescued, report.discarded), (held.len() as u64 - discarded, discarded));
    }

    async fn promote(&mut self) {
        let due = self.book.ids_where(|stage| matches!(stage, Stage::Waiting { due: true, .. }));
        let promoted = self.admin.promote(1_000).await.expect("promote");
        self.trace(format!("promote {due:?}: {promoted:?}"));
        assert_eq!(promoted.count, due.len() as u64, "due are {due:?}");
        for id in due {
            self.book.job(id).stage = Stage::Available;
        }
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
        self.book.round += u32::from(retention.is_zero());
    }

    async fn suspect(&mut self, who: usize) {
        let Actor { store, id, .. } = &self.actors[who];
        let held = self.book.held_by(*id).into_values().flatten().next();
        store.suspect(*id, held).await.expect("suspect");
    }

    async fn heartbeat(&mut self, who: usize) {
        let Actor { store, id, .. } = &self.actors[who];
        store.heartbeat(*id).await.expect("heartbeat");
        self.trace(format!("heartbeat of {}", self.actors[who].id));
    }

    /// Takes everything through to its end, and compares once more.
    pub(super) async fn finish(mut self) {
        for queue in 0..2 {
            self.pause_to(queue, false).await;
        }
        self.promote().await;
        let retryable = self.book.ids_where(|stage| stage.state() == JobState::Retryable);
        self.retry_these(retryable).await;
        for who in 1..self.actors.len() {
            self.start_over(who).await;
        }
        let (store, worker) = (Arc::clone(&self.actors[0].store), self.actors[0].id);
        self.settle_everything(&store, worker).await;
        for _ in 0..DRAIN_ROUNDS {
            if (0..2).all(|queue| self.book.eligible(queue, &[]).is_empty()) {
                break;
            }
            self.claim_as(&store, worker, &[], [7, 7]).await;
            self.settle_everything(&store, worker).await;
        }
        assert_eq!(self.claim_as(&store, worker, &[], [100, 100]).await, 0);
        self.check().await;
        for id in self.book.jobs.keys() {
            self.check_job(*id).await;
        }
        let waiting = self.book.ids_where(|stage| matches!(stage, Stage::Waiting { .. }));
        self.admin.cancel(&waiting).await.expect("cancel what never comes");
        for actor in &self.actors {
            actor.store.deregister(actor.id).await.expect("deregister");
        }
    }
}
