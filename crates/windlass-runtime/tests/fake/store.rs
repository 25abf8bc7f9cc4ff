use super::model::Model;
use async_trait::async_trait;
use std::{
    collections::HashMap,
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, timeout},
};
use windlass_core::{
    CancelReply, Capabilities, Claim, ClaimRequest, EnqueuedOnce, Error, ErrorKind, JobFilter, JobId,
    JobRecord, JobStore, Leader, MaintainReport, MaintainRequest, MigrationReport, NewJob, Promoted,
    QueueStats, Registration, RescueReport, Result, RetryReply, SettleReply, SettleRequest, Store,
    StoreStatus, Wake, Wakeup, WorkerId, WorkerSpec,
};

/// No test takes nearly as long; one that does failed.
const DEADLINE: Duration = Duration::from_secs(30);

/// Which call is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Register,
    Heartbeat,
    Deregister,
    Claim,
    Settle,
    Suspect,
    Upkeep,
}

/// What becomes of it.
#[derive(Clone)]
pub enum Fault {
    None,
    /// Fails, and nothing happened.
    Fail(ErrorKind),
    /// Happens, and its reply is lost.
    LoseReply,
    /// Waits for a permit first.
    Gate(Arc<Semaphore>),
    /// Takes so long.
    Slow(Duration),
}

type Plan = Box<dyn FnMut(Call) -> Fault + Send>;

/// The store; clones are the same one.
#[derive(Clone)]
pub struct FakeStore(Arc<Inner>);

pub struct Inner {
    model: Mutex<Model>,
    keys: Mutex<HashMap<String, Vec<JobId>>>,
    plan: Mutex<Option<Plan>>,
    changed: watch::Sender<u64>,
    hint: Notify,
    armed: AtomicUsize,
}

impl Deref for FakeStore {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl FakeStore {
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            model: Mutex::new(Model::default()),
            keys: Mutex::default(),
            plan: Mutex::new(None),
            changed: watch::Sender::new(0),
            hint: Notify::new(),
            armed: AtomicUsize::new(0),
        }))
    }

    /// What an engine is given.
    pub fn shared(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }
}

impl Inner {
    pub fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    /// Decides about every call from now on.
    pub fn plan(&self, plan: impl FnMut(Call) -> Fault + Send + 'static) {
        *self.plan.lock().unwrap() = Some(Box::new(plan));
    }

    /// Fails every call of a worker, as an outage does.
    pub fn go_down(&self) {
        self.plan(|_| Fault::Fail(ErrorKind::Unavailable));
    }

    pub fn come_back(&self) {
        *self.plan.lock().unwrap() = None;
    }

    /// Adds jobs and wakes idle workers.
    pub fn add(&self, queue: &str, kind: &str, count: usize) -> Vec<JobId> {
        let ids = self.model().add(queue, kind, count);
        self.announce();
        ids
    }

    pub fn announce(&self) {
        self.hint.notify_waiters();
    }

    pub fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst) > 0
    }

    /// Waits until the model is as described.
    pub async fn until(&self, what: &str, mut reached: impl FnMut(&Model) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            while !reached(&self.model()) {
                changed.changed().await.unwrap();
            }
        };
        assert!(timeout(DEADLINE, wait).await.is_ok(), "not reached: {what}");
    }

    async fn act<T>(&self, call: Call, act: impl FnOnce(&mut Model) -> Result<T>) -> Result<T> {
        let fault = self.plan.lock().unwrap().as_mut().map_or(Fault::None, |plan| plan(call));
        match &fault {
            Fault::Fail(kind) => return Err(Error::new(*kind, format!("{call:?} fails on request"))),
            Fault::Gate(gate) => gate.acquire().await.unwrap().forget(),
            Fault::Slow(delay) => tokio::time::sleep(*delay).await,
            Fault::None | Fault::LoseReply => {}
        }
        let result = act(&mut self.model());
        self.changed.send_modify(|version| *version += 1);
        if matches!(fault, Fault::LoseReply) {
            return Err(Error::new(
                ErrorKind::Ambiguous,
                format!("the reply to {call:?} is lost on request"),
            ));
        }
        result
    }
}

#[async_trait]
impl JobStore for FakeStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn migrate(&self) -> Result<MigrationReport> {
        Ok(MigrationReport { from: 0, to: 0 })
    }

    async fn enqueue(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        let add = |job: &NewJob| self.add(job.queue(), job.kind(), 1)[0];
        Ok(jobs.iter().map(add).collect())
    }

    async fn enqueue_once(&self, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
        let known = self.keys.lock().unwrap().get(key).cloned();
        if let Some(ids) = known {
            return Ok(EnqueuedOnce { ids, repeated: true });
        }
        let ids = self.enqueue(jobs).await?;
        self.keys.lock().unwrap().insert(key.to_owned(), ids.clone());
        Ok(EnqueuedOnce { ids, repeated: false })
    }

    async fn register(&self, _: &WorkerSpec) -> Result<Registration> {
        self.act(Call::Register, |model| Ok(Registration { worker: model.register() })).await
    }

    async fn heartbeat(&self, worker: WorkerId) -> Result<()> {
        self.act(Call::Heartbeat, |model| {
            model.heartbeats += 1;
            model.check_live(worker)
        })
        .await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        let done = self.act(Call::Deregister, |model| {
            model.deregistered.push(worker);
            model.end_lease(worker);
            Ok(())
        });
        let done = done.await;
        self.announce();
        done
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Claim>> {
        self.act(Call::Claim, |model| model.claim(request)).await
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        self.act(Call::Settle, |model| model.settle(request)).await
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.act(Call::Suspect, |model| {
            model.check_live(worker)?;
            (model.suspect, _) = (job, model.suspects.push(job));
            Ok(())
        })
        .await
    }

    async fn rescue(&self, _: u16) -> Result<RescueReport> {
        self.act(Call::Upkeep, |_| Ok(RescueReport::default())).await
    }

    async fn promote(&self, _: u32) -> Result<Promoted> {
        self.act(Call::Upkeep, |model| {
            let (count, next) = model.promote();
            Ok(Promoted { count, next_due: next.map(|due| due.duration_since(Instant::now())) })
        })
        .await
    }

    async fn maintain(&self, _: &MaintainRequest) -> Result<MaintainReport> {
        self.act(Call::Upkeep, |_| Ok(MaintainReport::default())).await
    }

    async fn cancel(&self, _: &[JobId]) -> Result<Vec<CancelReply>> {
        Ok(Vec::new())
    }

    async fn retry(&self, _: &[JobId]) -> Result<Vec<RetryReply>> {
        Ok(Vec::new())
    }

    async fn pause(&self, _: &str, _: bool) -> Result<()> {
        Ok(())
    }

    async fn job(&self, _: JobId) -> Result<Option<JobRecord>> {
        Ok(None)
    }

    async fn jobs(&self, _: &JobFilter) -> Result<Vec<JobRecord>> {
        Ok(Vec::new())
    }

    async fn queues(&self) -> Result<Vec<QueueStats>> {
        Ok(Vec::new())
    }

    async fn status(&self) -> Result<StoreStatus> {
        Err(Error::new(ErrorKind::Unsupported, "the fake store has no status"))
    }

    fn wakeup(&self) -> Box<dyn Wakeup> {
        Box::new(FakeWakeup { store: self.clone(), armed: false })
    }

    async fn close(&self) {}
}

#[async_trait]
impl Leader for FakeStore {
    async fn lead(&self, _: WorkerId, _: Duration) -> Result<bool> {
        self.act(Call::Upkeep, |_| Ok(true)).await
    }

    async fn resign(&self, _: WorkerId) -> Result<()> {
        self.act(Call::Upkeep, |_| Ok(())).await
    }
}

struct FakeWakeup {
    store: FakeStore,
    armed: bool,
}

#[async_trait]
impl Wakeup for FakeWakeup {
    async fn arm(&mut self) {
        self.armed = true;
        self.store.armed.fetch_add(1, Ordering::SeqCst);
        self.store.model().arms += 1;
        self.store.changed.send_modify(|version| *version += 1);
    }

    async fn wait(&mut self, longest: Duration) -> Wake {
        match timeout(longest, self.store.hint.notified()).await {
            Ok(()) => Wake::Hint,
            Err(_) => Wake::Timeout,
        }
    }

    fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.store.armed.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
