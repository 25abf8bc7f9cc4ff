use super::{
    faults::{Call, Fault, Process},
    model::Model,
};
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
    sync::{Notify, watch},
    time::{Instant, timeout},
};
use windlass_core::{
    CancelReply, Capabilities, Claim, ClaimRequest, Claimed, EnqueuedOnce, Error, ErrorKind, Heartbeat,
    JobFilter, JobId, JobPage, JobRecord, JobStore, Leader, MaintainReport, MigrationReport, NewJob,
    Promoted, QueueStats, Registration, RescueReport, Result, RetryReply, Settings, SettleReply,
    SettleRequest, Store, StoreStatus, Wake, Wakeup, WorkerId, WorkerSpec,
};

/// No test takes nearly as long; one that does failed.
const DEADLINE: Duration = Duration::from_secs(30);

type Plan = Box<dyn FnMut(usize, Call, Option<WorkerId>) -> Fault + Send>;

/// The store as one process sees it; clones are the same one.
#[derive(Clone)]
pub struct FakeStore {
    inner: Arc<Inner>,
    client: usize,
}

pub struct Inner {
    model: Mutex<Model>,
    keys: Mutex<HashMap<String, Vec<JobId>>>,
    plan: Mutex<Option<Plan>>,
    processes: Mutex<Vec<Process>>,
    changed: watch::Sender<u64>,
    hint: Notify,
    armed: AtomicUsize,
}

impl Deref for FakeStore {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl FakeStore {
    pub fn new() -> Self {
        let inner = Inner {
            model: Mutex::new(Model::new()),
            keys: Mutex::default(),
            plan: Mutex::new(None),
            processes: Mutex::default(),
            changed: watch::Sender::new(0),
            hint: Notify::new(),
            armed: AtomicUsize::new(0),
        };
        Self { inner: Arc::new(inner), client: 0 }
    }

    /// What an engine is given.
    pub fn shared(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    /// The same store, as another process sees it.
    pub fn seen_by(&self, client: usize) -> Self {
        Self { inner: Arc::clone(&self.inner), client }
    }

    pub fn client(&self) -> usize {
        self.client
    }

    pub(super) fn decide(&self, call: Call, worker: Option<WorkerId>) -> Fault {
        self.plan.lock().unwrap().as_mut().map_or(Fault::None, |plan| plan(self.client, call, worker))
    }
}

impl Inner {
    /// What is stored; for tests, which fail when a worker did what it must not.
    pub fn model(&self) -> MutexGuard<'_, Model> {
        let model = self.lock();
        if !model.violations.is_empty() {
            let violations = model.violations.clone();
            drop(model);
            panic!("{violations:?}");
        }
        model
    }

    pub fn lock(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    pub(super) fn processes(&self) -> MutexGuard<'_, Vec<Process>> {
        self.processes.lock().unwrap()
    }

    pub(super) fn announce_change(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Decides about every call from now on.
    pub fn plan(&self, mut plan: impl FnMut(Call) -> Fault + Send + 'static) {
        self.plan_for(move |_, call, _| plan(call));
    }

    /// Decides about every call of every process from now on.
    pub fn plan_for(&self, plan: impl FnMut(usize, Call, Option<WorkerId>) -> Fault + Send + 'static) {
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
        let ids = self.lock().add(queue, kind, count);
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

    async fn register(&self, spec: &WorkerSpec) -> Result<Registration> {
        let register = |model: &mut Model| Ok(Registration { worker: model.register(self.client, spec) });
        self.act(Call::Register, None, register).await
    }

    async fn heartbeat(&self, worker: WorkerId) -> Result<Heartbeat> {
        let beat = |model: &mut Model| model.heartbeat(worker).map(|()| Heartbeat::default());
        self.act(Call::Heartbeat, Some(worker), beat).await
    }

    async fn deregister(&self, worker: WorkerId) -> Result<()> {
        let end = |model: &mut Model| {
            model.deregister(worker);
            Ok(())
        };
        let done = self.act(Call::Deregister, Some(worker), end).await;
        self.announce();
        done
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed> {
        self.act(Call::Claim, Some(request.worker), |model| match model.contended {
            true => {
                model.demands.extend(request.queues.iter().map(|demand| demand.limit));
                Ok(Claimed { claims: Vec::new(), contended: true })
            }
            false => model.claim(self.client, request).map(|claims| Claimed { claims, contended: false }),
        })
        .await
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleReply> {
        self.act(Call::Settle, Some(request.worker), |model| model.settle(self.client, request)).await
    }

    async fn suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        self.act(Call::Suspect, Some(worker), |model| model.announce_suspect(worker, job)).await
    }

    async fn rescue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        self.act(Call::Upkeep, None, |model| Ok(model.rescue(rescuer))).await
    }

    async fn promote(&self, limit: u32) -> Result<Promoted> {
        self.act(Call::Upkeep, None, |model| {
            let (count, next) = model.promote(limit);
            Ok(Promoted { count, next_due: next.map(|due| due.duration_since(Instant::now())) })
        })
        .await
    }

    async fn maintain(&self) -> Result<MaintainReport> {
        self.act(Call::Upkeep, None, |_| Ok(MaintainReport::default())).await
    }

    async fn settings(&self) -> Result<Settings> {
        Ok(Settings::DEFAULT)
    }

    async fn configure(&self, _: &Settings) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "the fake store has one policy"))
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

    async fn jobs(&self, _: &JobFilter) -> Result<JobPage> {
        Ok(JobPage::default())
    }

    async fn any_available(&self, _: &[String], _: &[String]) -> Result<bool> {
        Ok(false)
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
    async fn lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        self.act(Call::Upkeep, None, |model| Ok(model.lead(worker, term))).await
    }

    async fn resign(&self, worker: WorkerId) -> Result<()> {
        self.act(Call::Upkeep, None, |model| {
            model.leader = model.leader.filter(|(leader, _)| *leader != worker);
            Ok(())
        })
        .await
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
        self.store.lock().arms += 1;
        self.store.announce_change();
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
