use crate::{
    Dispatch, Handler, WorkerConfig, WorkerStats, claimer::Claimer, core::Core, heartbeat, maintenance,
    measuring, overfull, reporter, schedules, settler::Settler, sharer, shutdown,
};
use std::{fmt, sync::Arc, time::Duration};
use tokio::task::JoinSet;
use windlass_core::{Program, Result, Store};

/// Starts workers.
#[derive(Debug)]
pub struct WorkerEngine;

impl WorkerEngine {
    /// Registers a worker with the store and sets it to work. Call it within a tokio runtime with time
    /// enabled; everything it starts runs there.
    ///
    /// # Errors
    /// An option that cannot work ([`WorkerConfig::check`]), or the store's when it refuses or cannot be
    /// reached. Once started, a worker survives every outage of the store.
    pub async fn start(
        store: Arc<dyn Store>,
        config: WorkerConfig,
        dispatch: Arc<dyn Dispatch>,
    ) -> Result<EngineHandle> {
        config.check()?;
        Self::run(store, config, dispatch).await
    }

    /// Registers a worker without queues: it takes no jobs, and does for the store what every worker does beside that. It makes due jobs available, takes
    /// the jobs of dead workers, enqueues what schedules say, keeps house where it leads. For processes that hand jobs out to
    /// [workers elsewhere](crate::remote), which may be the only ones.
    ///
    /// `lease`: how soon it notices that another worker died; a third of it at the latest.
    ///
    /// # Errors
    /// The store's.
    pub async fn keep(store: Arc<dyn Store>, name: &str, lease: Duration) -> Result<EngineHandle> {
        let plain = WorkerConfig::default();
        // It is not the application.
        let program = Program { app_version: None, ..plain.program };
        let config = WorkerConfig { name: name.to_owned(), lease, program, ..plain };
        Self::run(store, config, Arc::new(NoHandlers)).await
    }

    async fn run(
        store: Arc<dyn Store>,
        config: WorkerConfig,
        dispatch: Arc<dyn Dispatch>,
    ) -> Result<EngineHandle> {
        let core = Core::new(store, config, dispatch);
        core.register().await?;
        let mut upkeep = JoinSet::new();
        upkeep.spawn(maintenance::promote(Arc::clone(&core)));
        upkeep.spawn(maintenance::rescue(Arc::clone(&core)));
        upkeep.spawn(maintenance::lead(Arc::clone(&core)));
        upkeep.spawn(sharer::run(Arc::clone(&core)));
        upkeep.spawn(overfull::run(Arc::clone(&core)));
        upkeep.spawn(schedules::run(Arc::clone(&core)));
        upkeep.spawn(measuring::run(Arc::clone(&core)));
        let tasks = shutdown::Tasks {
            claimer: tokio::spawn(Claimer::new(Arc::clone(&core)).run()),
            settler: tokio::spawn(Settler::new(Arc::clone(&core)).run()),
            heartbeat: tokio::spawn(heartbeat::run(Arc::clone(&core))),
            reporter: tokio::spawn(reporter::run(Arc::clone(&core))),
            upkeep,
        };
        tokio::spawn(shutdown::supervise(Arc::clone(&core), tasks));
        Ok(EngineHandle { core })
    }
}

/// Of a worker that takes no jobs.
struct NoHandlers;

impl Dispatch for NoHandlers {
    fn kinds(&self) -> Vec<String> {
        Vec::new()
    }

    fn find(&self, _: &str) -> Option<Arc<dyn Handler>> {
        None
    }
}

/// A running worker. Dropping it begins a graceful shutdown in the background.
pub struct EngineHandle {
    core: Arc<Core>,
}

impl EngineHandle {
    /// Begins a graceful shutdown: claims no more, hands back what is not started, lets running jobs
    /// finish within the grace period. Returns at once.
    pub fn stop(&self) {
        self.core.switches.stop.cancel();
    }

    /// [Stops](Self::stop) and waits until the worker is deregistered.
    pub async fn shutdown(&self) {
        self.stop();
        self.wait().await;
    }

    /// Ready when no more jobs are to be started: a shutdown begins, however that comes about, or somebody asks the worker to drain.
    pub(crate) fn stopping(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let (leave, stop) = (self.core.switches.leave.clone(), self.core.switches.stop.clone());
        async move {
            tokio::select! {
                biased;
                () = leave.cancelled() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Ends the grace period of a shutdown: drops the running handlers and hands their jobs back now.
    /// Begins a shutdown when there was none. Returns at once; [`Self::wait`] waits for the end.
    pub fn abort_now(&self) {
        self.core.switches.force.cancel();
        self.core.switches.stop.cancel();
    }

    /// Whether somebody asked the worker to [drain](windlass_core::JobStore::drain_worker).
    pub fn is_draining(&self) -> bool {
        self.core.switches.leave.is_cancelled()
    }

    /// Waits until the worker ended, however that came about.
    pub async fn wait(&self) {
        self.core.switches.ended.cancelled().await;
    }

    /// What the worker did and holds.
    pub fn stats(&self) -> WorkerStats {
        self.core.stats()
    }

    /// Whether the worker has claims that are not settled to the end, or waits for the answer to one.
    pub fn has_open_claims(&self) -> bool {
        self.core.epochs().iter().any(|epoch| epoch.has_open_claims())
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineHandle")
            .field("name", &self.core.config.name)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
