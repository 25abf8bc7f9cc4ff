use crate::{
    Dispatch, WorkerConfig, WorkerStats,
    epoch::{ClaimScope, Epoch, Phase},
    meter::Meter,
    outage::Outage,
    outbox::Destination,
    queue_runner::QueueRunner,
    signals::Signals,
    sync::{
        Mutex, Runtime,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        spawn,
    },
    unknown_kinds::UnknownKinds,
};
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use windlass_core::{ClaimRef, JobId, OnRequest, OnSchedules, Result, Store, WorkerSpec};

/// How many registrations are there at once, as far as that is up to the worker: each has its heartbeats.
const MAX_EPOCHS: usize = 8;
/// How long handlers that were told to stop may go on before their futures are dropped.
pub(crate) const INTERRUPT_WAIT: Duration = Duration::from_secs(1);
/// How much later than due the promoter may ask without being told.
const DUE_TOLERANCE: Duration = Duration::from_millis(2);

/// What the tasks of one worker share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: WorkerConfig,
    pub(crate) dispatch: Arc<dyn Dispatch>,
    pub(crate) runners: Vec<Arc<QueueRunner>>,
    pub(crate) signals: Signals,
    epochs: Mutex<Vec<Arc<Epoch>>>,
    /// Held while a job runs that may have killed workers: one at a time.
    pub(crate) suspects: Semaphore,
    /// Jobs in a settle call now.
    pub(crate) settling: AtomicUsize,
    pub(crate) settled: AtomicU64,
    /// Claiming stopped because too many results wait for the store.
    pub(crate) full: AtomicBool,
    /// Nobody is there to run jobs, so none are claimed.
    pub(crate) rests: AtomicBool,
    /// Whether this worker leads, as far as it knows.
    pub(crate) leads: AtomicBool,
    /// A job was put off: the promoter should ask again when the next one is due.
    pub(crate) put_off: Notify,
    /// When the promoter asks again; `None` while it asks.
    pub(crate) promotes_at: Mutex<Option<Instant>>,
    /// Schedules changed, or this worker leads now.
    pub(crate) schedules: Notify,
    /// The store has something to say to a heartbeat.
    pub(crate) requests: Notify,
    /// Where what handlers say of their jobs goes.
    pub(crate) reports: Arc<Destination>,
    pub(crate) switches: Switches,
    pub(crate) runtime: Runtime,
    pub(crate) unknown_kinds: UnknownKinds,
    pub(crate) meter: Meter,
}

/// What tells the tasks of a worker to stop; a graceful shutdown cancels the tokens in the order stop, drain, ended.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    /// Somebody asked the worker to drain: no more jobs are claimed or started, and it stops when those that run are over.
    pub(crate) leave: CancellationToken,
    /// No more jobs are claimed or started.
    pub(crate) stop: CancellationToken,
    /// Nothing is waited for any more: the grace period ends now.
    pub(crate) force: CancellationToken,
    /// No job runs any more: the settler ends when everything is settled.
    pub(crate) drain: CancellationToken,
    /// The worker ended.
    pub(crate) ended: CancellationToken,
}

impl Core {
    pub(crate) fn new(store: Arc<dyn Store>, config: WorkerConfig, dispatch: Arc<dyn Dispatch>) -> Arc<Self> {
        let threads = tokio::runtime::Handle::current().metrics().num_workers();
        let batched = dispatch.batched();
        let batched = (!batched.is_empty()).then(|| Arc::new(batched));
        let runner = |queue| Arc::new(QueueRunner::new(queue, config.settling, threads, batched.clone()));
        Arc::new(Self {
            runners: config.queues.iter().map(runner).collect(),
            leads: AtomicBool::new(false),
            reports: Destination::store(Arc::clone(&store)),
            store,
            config,
            dispatch,
            signals: Signals::default(),
            epochs: Mutex::new(Vec::new()),
            suspects: Semaphore::new(1),
            settling: AtomicUsize::new(0),
            settled: AtomicU64::new(0),
            full: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            put_off: Notify::new(),
            promotes_at: Mutex::new(None),
            schedules: Notify::new(),
            requests: Notify::new(),
            switches: Switches::default(),
            runtime: Runtime::current(),
            unknown_kinds: UnknownKinds::default(),
            meter: Meter::default(),
        })
    }

    /// Every epoch that is not deregistered yet, oldest first.
    pub(crate) fn epochs(&self) -> Vec<Arc<Epoch>> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The epoch to claim under.
    pub(crate) fn live_epoch(&self) -> Option<Arc<Epoch>> {
        self.epochs().into_iter().rev().find(|epoch| epoch.phase() == Phase::Live)
    }

    pub(crate) fn may_register(&self) -> bool {
        self.epochs().len() < MAX_EPOCHS
    }

    /// Begins a new epoch.
    pub(crate) async fn register(&self) -> Result<Arc<Epoch>> {
        let spec = WorkerSpec {
            name: self.config.name.clone(),
            queues: self.config.queues.iter().map(|queue| queue.queue.clone()).collect(),
            kinds: self.dispatch.kinds(),
            lease: self.config.lease,
            program: self.config.program.clone(),
        };
        let worker = self.store.register(&spec).await?.worker;
        info!(%worker, name = spec.name, "registered");
        let epoch = Epoch::new(worker, Arc::clone(&self.reports));
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&epoch));
        Ok(epoch)
    }

    /// Something is due then that the promoter may not know of.
    pub(crate) fn is_due_in(&self, due: Duration) {
        let promotes_at = *self.promotes_at.lock().unwrap_or_else(PoisonError::into_inner);
        if promotes_at.is_none_or(|known| Instant::now() + due + DUE_TOLERANCE < known) {
            self.put_off.notify_one();
        }
    }

    /// The store refused this epoch: its jobs belong to others now.
    pub(crate) fn lose(self: &Arc<Self>, epoch: &Arc<Epoch>) {
        let Some(before) = epoch.advance(Phase::Lost) else { return };
        warn!(worker = %epoch.worker(), "the lease was lost; running handlers are cancelled, their results dropped");
        for runner in &self.runners {
            runner.drop_unstarted(|scope| Arc::ptr_eq(&scope.epoch, epoch));
        }
        epoch.interrupt();
        epoch.outbox().close();
        self.signals.wake_settler();
        self.retire(epoch, before);
    }

    /// The store may count jobs as held by this worker that it never received. Ending the epoch hands them back; that
    /// happens as soon as the jobs that it did receive are settled. While many others wait for theirs it claims on, so that the worker does, and is drained later.
    pub(crate) fn drain(self: &Arc<Self>, epoch: &Arc<Epoch>) {
        if !self.may_register() && epoch.phase() == Phase::Live {
            if epoch.put_draining_off() {
                warn!(
                    worker = %epoch.worker(),
                    "the reply to a claim was lost, and {MAX_EPOCHS} registrations of this worker have jobs that run; it claims on under the newest, so its jobs are handed back when one of the others has ended"
                );
            }
            return;
        }
        self.drain_because(
            epoch,
            "the reply to a claim was lost; registering anew so that its jobs are handed back",
        );
    }

    /// The store does not know these claims, though the registration stands: a crash or a failover forgot them, and
    /// their jobs are available to everybody, so their handlers are told to stop. The other claims are good: what runs of them must not start again elsewhere.
    pub(crate) fn forgotten(self: &Arc<Self>, epoch: &Arc<Epoch>, claims: &[ClaimRef]) {
        let ours = |scope: &ClaimScope| Arc::ptr_eq(&scope.epoch, epoch);
        for runner in &self.runners {
            runner.drop_unstarted(|scope| ours(scope) && claims.contains(&scope.reference));
            let unfinished = runner.lock().open_claims.unfinished_of(epoch, claims);
            unfinished.iter().for_each(|(scope, jobs)| epoch.forget(scope, jobs));
        }
        self.signals.wake_settler();
        self.drain_because(
            epoch,
            "the store does not know a claim; its results are dropped, the others are settled, then the worker registers anew",
        );
    }

    /// The store went back to an earlier state, and may count jobs as held by this worker that are settled as far as the worker knows. Ending the epoch hands them back. What runs is
    /// settled under it before, as far as the store knows its claims, so that none of it starts again elsewhere.
    pub(crate) fn went_back(self: &Arc<Self>, epoch: &Arc<Epoch>) {
        self.drain_because(
            epoch,
            "the database is on another timeline (a failover, or a recovery to a point in time); what runs is settled, then the worker registers anew, so that jobs whose settlement was lost come back",
        );
    }

    /// Somebody wants these jobs of this epoch cancelled: their handlers are told to stop, those that are not started will
    /// not be.
    pub(crate) fn cancel(&self, epoch: &Arc<Epoch>, mut jobs: Vec<JobId>) {
        jobs.sort_unstable();
        for runner in &self.runners {
            for (scope, jobs) in runner.claims_of(epoch, &jobs) {
                epoch.cancel(&scope, &jobs);
            }
        }
    }

    /// What the store calls when a heartbeat of a worker has something to say.
    pub(crate) fn on_request(self: &Arc<Self>) -> OnRequest {
        let core = Arc::downgrade(self);
        Arc::new(move |worker| {
            let Some(core) = core.upgrade() else { return };
            if worker.is_none_or(|worker| core.epochs().iter().any(|epoch| epoch.worker() == worker)) {
                core.requests.notify_one();
            }
        })
    }

    /// What the store calls when schedules changed.
    pub(crate) fn on_schedules(self: &Arc<Self>) -> OnSchedules {
        let core = Arc::downgrade(self);
        Arc::new(move || core.upgrade().into_iter().for_each(|core| core.schedules.notify_one()))
    }

    fn drain_because(self: &Arc<Self>, epoch: &Arc<Epoch>, why: &str) {
        let Some(before) = epoch.advance(Phase::Draining) else { return };
        warn!(worker = %epoch.worker(), "{why}");
        self.retire(epoch, before);
    }

    fn retire(self: &Arc<Self>, epoch: &Arc<Epoch>, before: Phase) {
        self.signals.wake_claimer();
        if before == Phase::Live {
            spawn(retire(Arc::clone(self), Arc::clone(epoch)));
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.runners.iter().map(|runner| runner.snapshot().running).sum()
    }

    /// Finished jobs that the store does not know of.
    pub(crate) fn unsettled(&self) -> usize {
        let waiting: usize = self.runners.iter().map(|runner| runner.snapshot().unsettled).sum();
        waiting + self.settling.load(Ordering::SeqCst)
    }

    pub(crate) fn stats(&self) -> WorkerStats {
        let mut stats = WorkerStats::default();
        for runner in &self.runners {
            let runner = runner.snapshot();
            runner.counters.add_to(&mut stats);
            stats.running += runner.running;
            stats.ready += runner.ready;
            stats.unsettled += runner.unsettled;
        }
        stats.unsettled += self.settling.load(Ordering::Relaxed);
        stats.settled = self.settled.load(Ordering::Relaxed);
        stats
    }
}

/// Ends one epoch while the worker goes on: waits until its jobs are settled or dropped, then deregisters.
async fn retire(core: Arc<Core>, epoch: Arc<Epoch>) {
    let stop = &core.switches.stop;
    let finish = async {
        tokio::select! {
            biased;
            () = epoch.drained() => return,
            () = epoch.interrupted().cancelled() => {}
        }
        tokio::select! {
            biased;
            () = epoch.drained() => return,
            () = tokio::time::sleep(INTERRUPT_WAIT) => epoch.evict(),
        }
        epoch.drained().await;
    };
    // Shutting down deregisters every epoch itself.
    tokio::select! {
        biased;
        () = finish => {}
        () = stop.cancelled() => return,
    }
    let mut outage = Outage::new("deregister", core.config.random);
    while let Err(error) = core.store.deregister(epoch.worker()).await {
        let pause = outage.failed(&error);
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
    outage.over();
    epoch.outbox().close();
    info!(worker = %epoch.worker(), "deregistered");
    core.epochs.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| !Arc::ptr_eq(known, &epoch));
    core.signals.wake_claimer();
}
