use super::fake::{FakeStore, Handlers, config};
use crate::{
    core::Core, epoch::Epoch, executor::activate, queue_runner::QueueRunner, queue_state::HandBack,
    settler::Settler, sync::spawn,
};
use shuttle::future::JoinHandle;
use std::sync::Arc;
use windlass_core::{ClaimRequest, JobStore, QueueDemand};

/// A worker of the queue `q` without the loops that live by timers.
pub(super) struct Bench {
    pub(super) store: FakeStore,
    pub(super) core: Arc<Core>,
    pub(super) epoch: Arc<Epoch>,
    settler: JoinHandle<()>,
}

impl Bench {
    pub(super) async fn start(concurrency: usize, handlers: Handlers) -> Self {
        let store = FakeStore::new();
        Self::on(store, concurrency, handlers).await
    }

    pub(super) async fn on(store: FakeStore, concurrency: usize, handlers: Handlers) -> Self {
        let config = crate::WorkerConfig { random: || 0.5, ..config(concurrency) };
        let core = Core::new(store.shared(), config, Arc::new(handlers));
        let epoch = core.register().await.expect("register");
        let settler = spawn(Settler::new(Arc::clone(&core)).run());
        Self { store, core, epoch, settler }
    }

    pub(super) fn runner(&self) -> &Arc<QueueRunner> {
        &self.core.runners[0]
    }

    /// Claims at most so many jobs and delivers them, as the claimer does.
    pub(super) async fn claim(&self, limit: u32) {
        claim(&self.core, &self.epoch, limit).await;
    }

    /// Waits until nothing runs any more, then until all is settled, as a shutdown does.
    pub(super) async fn finish(self) {
        let unstarted = self.runner().close();
        self.runner().hand_back(unstarted, HandBack::Return);
        self.core.signals.wake_settler();
        crate::shutdown::all_idle(&self.core).await;
        self.core.switches.drain.cancel();
        let runner = Arc::clone(self.runner());
        self.settler.await.expect("the settler ends");
        assert_eq!((self.core.running(), self.core.unsettled()), (0, 0));
        let left = runner.snapshot();
        assert_eq!((left.running, left.ready, left.unsettled), (0, 0, 0));
        assert!(left.counters.finished <= left.counters.claimed);
    }
}

/// Claims under an epoch and delivers, as the claimer does.
pub(super) async fn claim(core: &Arc<Core>, epoch: &Arc<Epoch>, limit: u32) {
    let runner = &core.runners[0];
    let queues = vec![QueueDemand::new(Arc::clone(runner.queue()), limit)];
    let request = ClaimRequest { worker: epoch.worker(), queues };
    let asked_at = tokio::time::Instant::now();
    let Ok(claimed) = JobStore::claim(&*core.store, &request).await else { return core.lose(epoch) };
    for claim in claimed.claims {
        activate(core, runner, runner.deliver(epoch, claim, asked_at, HandBack::Return));
    }
}
