use super::settling::any_fate;
use crate::{
    Fixture,
    steps::{self, *},
};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use windlass_core::{
    Claim, Completion, DeleteReply, Disposition, JobEdit, JobId, JobReport, JobSet, JobState, KeyLimit,
    KeyLimitsChange, NewJob, OnConflict, Progress, ReportRequest, Reported, Result, RetryReply, Settings,
    Settled, Store, Unique,
};

/// How many workers of the crowd enqueue, claim and settle.
const WORKERS: u64 = 3;
/// How many rounds each of them makes.
const ROUNDS: usize = 60;
/// How many jobs the last drain asks for at a time, and how often all is drained at most.
const BATCH: u32 = 50;
const DRAIN_ROUNDS: usize = 2_000;
/// Everything settled goes at once, and segments move on at every chance; the dead stay.
const ROTATE: Settings =
    Settings::DEFAULT.with_retention(Duration::ZERO).with_dead_retention(LATER).with_segment_bytes(1);

/// Whom its jobs are about.
const WHOM: [&str; 3] = ["a", "b", "c"];
/// How many unique keys it has.
const KEYS: usize = 5;

/// What the crowd knows together: the jobs, how often each completed, and which were deleted.
#[derive(Default)]
struct Shared {
    completed: Mutex<HashMap<JobId, usize>>,
    deleted: Mutex<HashSet<JobId>>,
    busy: AtomicUsize,
}

impl Shared {
    fn enqueued(&self, ids: Vec<JobId>) {
        let mut completed = self.completed.lock().expect("no rule panicked");
        // A fast claimer may have noted the job before its enqueue returned.
        for id in ids {
            completed.entry(id).or_default();
        }
    }

    fn complete(&self, ids: &[JobId]) {
        let mut completed = self.completed.lock().expect("no rule panicked");
        for id in ids {
            *completed.entry(*id).or_default() += 1;
        }
    }

    fn deleted(&self, ids: &[JobId], replies: &[DeleteReply]) {
        let gone = ids.iter().zip(replies).filter(|(_, reply)| **reply == DeleteReply::Deleted);
        self.deleted.lock().expect("no rule panicked").extend(gone.map(|(id, _)| *id));
    }

    fn some(&self, rng: &mut fastrand::Rng) -> Vec<JobId> {
        let completed = self.completed.lock().expect("no rule panicked");
        let most = rng.usize(1..5);
        completed.keys().copied().filter(|_| rng.u32(..20) == 0).take(most).collect()
    }

    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }
}

/// One crowd on two queues of its own, until all is done; then counts heads.
pub(super) async fn gather(fixture: &dyn Fixture, seed: u64) {
    let queues: [String; 2] = ["crowd-x", "crowd-y"].map(|name| format!("{name}-{seed}"));
    let first = fixture.open().await;
    if first.capabilities().keys {
        limit_keys(&first, &queues[1], 2).await;
    }
    let shared = Arc::new(Shared { busy: AtomicUsize::new(WORKERS as usize), ..Shared::default() });
    let mut tasks = JoinSet::new();
    for n in 0..WORKERS {
        let rng = fastrand::Rng::with_seed(seed * 1_000 + n);
        let member =
            Member { store: fixture.open().await, queues: queues.clone(), shared: Arc::clone(&shared), rng };
        tasks.spawn(member.work());
    }
    for n in 0..3 {
        let rng = fastrand::Rng::with_seed(seed * 1_000 + WORKERS + n);
        let member =
            Member { store: fixture.open().await, queues: queues.clone(), shared: Arc::clone(&shared), rng };
        match n {
            0 => tasks.spawn(member.rotate()),
            1 => tasks.spawn(member.interfere()),
            _ => tasks.spawn(member.die()),
        };
    }
    while let Some(ended) = tasks.join_next().await {
        assert!(ended.is_ok(), "a task of the crowd failed; WINDLASS_MODEL_SEED={seed}");
    }
    let rng = fastrand::Rng::with_seed(seed);
    let last = Member { store: fixture.open().await, queues, shared, rng };
    last.count_heads(seed).await;
}

/// Every key is held so often at most; one is serial.
async fn limit_keys(store: &Arc<dyn Store>, queue: &str, concurrency: u32) {
    let limit = KeyLimit::default().with_concurrency(concurrency);
    let serial = vec![(WHOM[0].to_owned(), Some(KeyLimit::serial()))];
    for change in [KeyLimitsChange::Default(limit), KeyLimitsChange::Named(serial)] {
        store.limit_keys(queue, &change).await.expect("limit keys");
    }
}

/// One member of the crowd, with a store of its own.
struct Member {
    store: Arc<dyn Store>,
    queues: [String; 2],
    shared: Arc<Shared>,
    rng: fastrand::Rng,
}

impl Member {
    async fn worker(&self, lease: Duration) -> TestWorker {
        worker(&self.store, &[&self.queues[0], &self.queues[1]], &[], lease).await
    }

    /// Enqueues, claims, settles, beats, and now and then leaves with jobs in hand and comes back.
    async fn work(mut self) {
        let mut me = self.worker(LEASE).await;
        let mut claims = Vec::new();
        for _ in 0..ROUNDS {
            if self.rng.u32(..3) > 0 {
                self.enqueue().await;
            }
            claims.extend(me.claim(self.rng.u32(1..10)).await);
            for claim in std::mem::take(&mut claims) {
                self.settle(&me, &claim).await.expect("settle");
            }
            match self.rng.u32(..8) {
                0 => {
                    claims = me.claim(5).await;
                    self.store.deregister(me.id).await.expect("deregister");
                    claims.clear();
                    me = self.worker(LEASE).await;
                }
                1 | 2 => drop(self.store.heartbeat(me.id).await.expect("heartbeat")),
                3 => claims = me.claim(5).await,
                _ => {}
            }
        }
        self.store.deregister(me.id).await.expect("deregister");
        self.shared.busy.fetch_sub(1, Ordering::AcqRel);
    }

    async fn enqueue(&mut self) {
        let mut batch = Vec::new();
        for _ in 0..self.rng.usize(1..12) {
            let queue = self.queues[self.rng.usize(..2)].clone();
            let job = NewJob::new(KIND, args(0)).with_queue(queue).with_priority(self.rng.i16(0..2));
            let job = job.with_max_attempts(1_000);
            let job = if self.rng.bool() { job.with_key(WHOM[self.rng.usize(..WHOM.len())]) } else { job };
            batch.push(match self.rng.u32(..10) {
                0 => job.with_delay(LATER),
                1 => job.with_unique(self.some_key()),
                _ => job,
            });
        }
        let ids = self.store.enqueue(&batch).await.expect("enqueue");
        assert_eq!(ids.len(), batch.len());
        self.shared.enqueued(ids);
    }

    fn some_key(&mut self) -> Unique {
        let replace = OnConflict::Replace { max_wait: None };
        let unique = Unique::by_key(format!("{}/{}", self.queues[0], self.rng.usize(..KEYS)));
        match self.rng.u32(..4) {
            0 => unique.until_started(),
            1 => unique.on_conflict(replace),
            _ => unique,
        }
    }

    /// Keeps a checkpoint of each job of a claim.
    async fn report(&self, me: &TestWorker, jobs: &[Held]) -> Result<()> {
        let report = |held: &Held| JobReport {
            claim: held.claim,
            job: held.job.id,
            position: held.job.position,
            attempt: held.job.attempt,
            number: 1,
            progress: Some(Progress::from(50.0)),
            checkpoint: Some(args(1)),
            log: Vec::new(),
            dropped: 0,
        };
        let reports = jobs.iter().map(report).collect();
        let replies = self.store.report(&ReportRequest { worker: me.id, reports }).await?;
        assert!(replies.iter().all(|reply| *reply == Reported::Accepted), "{replies:?}");
        Ok(())
    }

    /// Settles a claim in one or two calls, some jobs with another fate, and repeats the last call.
    async fn settle(&mut self, me: &TestWorker, claim: &Claim) -> Result<()> {
        let mut jobs = held(std::slice::from_ref(claim));
        if self.rng.u32(..4) == 0 {
            self.report(me, &jobs).await?;
        }
        if self.rng.bool() {
            let first = jobs.split_off(self.rng.usize(..jobs.len()));
            let done = first.iter().map(Held::completion).collect();
            let reply = me.try_settle(done, vec![]).await?;
            assert!(reply.completions.iter().all(|&fate| fate == Settled::Accepted), "{reply:?}");
            self.shared.complete(&first.iter().map(|held| held.job.id).collect::<Vec<_>>());
        }
        let (mut done, mut completed, mut exceptions) = (Vec::new(), Vec::new(), Vec::new());
        for held in &jobs {
            match self.rng.u32(..4) {
                0 => {
                    let fate = any_fate(&mut self.rng);
                    if let Disposition::Complete { .. } = fate {
                        completed.push(held.job.id);
                    }
                    exceptions.push(held.exception(fate));
                }
                _ => done.push(held.job.id),
            }
        }
        let count = done.len() as u32;
        let rest = Completion { claim: claim.reference, jobs: JobSet::Rest, count };
        let completions = if done.is_empty() { vec![] } else { vec![rest] };
        let reply = me.try_settle(completions.clone(), exceptions.clone()).await?;
        let mut fates = reply.completions.iter().chain(&reply.exceptions);
        assert!(fates.all(|&fate| fate == Settled::Accepted), "{reply:?}");
        self.shared.complete(&done);
        self.shared.complete(&completed);
        if self.rng.u32(..4) == 0 {
            me.try_settle(completions, exceptions).await?;
        }
        Ok(())
    }

    async fn rotate(self) {
        while self.shared.is_busy() {
            maintain_with(&self.store, ROTATE).await;
            self.store.queues().await.expect("queues");
            tokio::task::yield_now().await;
        }
    }

    async fn interfere(mut self) {
        while self.shared.is_busy() {
            let ids = self.shared.some(&mut self.rng);
            match self.rng.u32(..7) {
                6 if self.store.capabilities().keys => {
                    let concurrency = self.rng.u32(1..5);
                    limit_keys(&self.store, &self.queues[1], concurrency).await;
                }
                0 => drop(self.store.cancel(&ids).await.expect("cancel")),
                1 => drop(self.store.retry(&ids).await.expect("retry")),
                2 => {
                    let edit = JobEdit::new().with_priority(self.rng.i16(0..2)).with_args(args(2));
                    self.store.edit(&ids, &edit).await.expect("edit");
                }
                3 => drop(self.store.edit(&ids, &JobEdit::new().with_no_delay()).await.expect("edit")),
                4 => {
                    let ids = &ids[..ids.len().min(1)];
                    self.shared.deleted(ids, &self.store.delete(ids).await.expect("delete"));
                }
                _ => drop(self.store.promote(20).await.expect("promote")),
            }
            tokio::task::yield_now().await;
        }
    }

    /// One short life after another, each ended by a rescue.
    async fn die(mut self) {
        while self.shared.is_busy() {
            let me = self.worker(TINY_LEASE).await;
            let claims = me.claim(self.rng.u32(1..10)).await;
            if let Some(claim) = claims.first() {
                // Only this task rescues, so the worker is not dead yet.
                self.settle(&me, claim).await.expect("settle");
            }
            rescue_of(&self.store, &me, MAX_CRASHES).await;
        }
    }

    /// Everybody is gone: what is left is claimed and completed, and then the books must balance.
    async fn count_heads(self, seed: u64) {
        let me = self.worker(LEASE).await;
        let ids: Vec<_> = self.shared.completed.lock().expect("no rule panicked").keys().copied().collect();
        // A job whose key another one has comes back when that is done: so none may wait for its time.
        for _ in 0..DRAIN_ROUNDS {
            let mut replies = Vec::new();
            for batch in ids.chunks(1_000) {
                self.store.edit(batch, &JobEdit::new().with_no_delay()).await.expect("edit");
                replies.extend(self.store.retry(batch).await.expect("retry"));
            }
            self.drain(&me).await;
            if !replies.iter().any(|reply| matches!(reply, RetryReply::Retried | RetryReply::KeyTaken)) {
                break;
            }
        }
        self.settled_once(seed).await;
        self.store.deregister(me.id).await.expect("deregister");
    }

    /// Claims and completes until nothing is left, and does not wait for ever for what nobody hands out.
    async fn drain(&self, me: &TestWorker) {
        let mut last_found = Instant::now();
        loop {
            let claims = me.claim(BATCH).await;
            me.complete_claims(&claims).await;
            self.shared.complete(&steps::ids(&claims));
            let (x, y) =
                (queue(&self.store, &self.queues[0]).await, queue(&self.store, &self.queues[1]).await);
            if [&x, &y].iter().all(|seen| seen.available + seen.running == 0) {
                break;
            }
            if !claims.is_empty() {
                last_found = Instant::now();
            }
            assert!(last_found.elapsed() < DEADLINE, "what is left is handed out to nobody: {x:?}, {y:?}");
        }
    }

    async fn settled_once(&self, seed: u64) {
        let completed = self.shared.completed.lock().expect("no rule panicked").clone();
        for (&id, &times) in &completed {
            let seen = self.store.job(id).await.expect("look up");
            let state = seen.as_ref().map(|record| record.state);
            if self.shared.deleted.lock().expect("no rule panicked").contains(&id) {
                assert!(
                    times == 0 && state.is_none(),
                    "seed {seed}: deleted job {id}, completed {times} times: {seen:?}"
                );
                continue;
            }
            let expected = match state {
                None | Some(JobState::Completed) => 1,
                other => {
                    panic!("seed {seed}: job {id} is stuck as {other:?}, completed {times} times: {seen:?}")
                }
            };
            assert_eq!(times, expected, "seed {seed}: completions of job {id}, which is {seen:?}");
        }
        let mut sums = [0; 5];
        for name in &self.queues {
            let seen = queue(&self.store, name).await;
            let counts = [
                seen.scheduled,
                seen.available,
                seen.running,
                seen.retryable,
                seen.cancelled + seen.discarded,
            ];
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        let what = "scheduled, available, running, retryable and dead";
        assert_eq!(sums, [0; 5], "seed {seed}: {what}");
    }
}
