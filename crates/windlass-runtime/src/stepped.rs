use crate::{
    Dispatch, Settling, WorkerConfig,
    core::Core,
    disposition::Settlement,
    epoch::{Epoch, Phase},
    executor::{LastHandler, run},
    heartbeat,
    queue_runner::{HandBack, QueueRunner},
    reporter,
    settler::Settler,
    turn::Step,
};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};
use windlass_core::{
    Claim, ClaimRequest, Disposition, Error, ErrorKind, JobId, QueueDemand, QueueNeed, Result, ShareRequest,
    Store,
};

/// How often a queue is asked again from which somebody else claims just now, and how far apart.
const CONTENDED: (u32, Duration) = (200, Duration::from_millis(5));

/// A worker for tests, which does nothing by itself: each [step](Self::step) works one job, in the task of its caller.
///
/// Jobs run, end and are settled by the same code as in a [`WorkerEngine`](crate::WorkerEngine); only who claims
/// when is decided by the caller. It promotes and rescues nothing.
pub struct SteppedWorker {
    core: Arc<Core>,
    epoch: Arc<Epoch>,
    handlers: LastHandler,
    me: Arc<Notify>,
    /// Queues that have limits, as far as the worker knows.
    limited: Vec<Arc<str>>,
}

/// What a step of a [`SteppedWorker`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Worked {
    /// Which job it claimed and settled.
    pub job: JobId,
    /// Whether its handler ran. If not, the worker does not know the kind, and the job waits for one that does; or it
    /// was handed back.
    pub ran: bool,
}

impl SteppedWorker {
    /// Registers a worker. Call it within a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As [`WorkerEngine::start`](crate::WorkerEngine::start).
    pub async fn start(
        store: Arc<dyn Store>,
        config: WorkerConfig,
        dispatch: Arc<dyn Dispatch>,
    ) -> Result<Self> {
        config.check()?;
        let config = WorkerConfig { settling: Settling::Strict, ..config };
        let core = Core::new(store, config, dispatch);
        // From now on the settler returns when everything is settled.
        core.switches.drain.cancel();
        let epoch = core.register().await?;
        Ok(Self { core, epoch, handlers: LastHandler::default(), me: Arc::default(), limited: Vec::new() })
    }

    /// Works one job: the next of the first queue that has one, in the order of the config. It is settled on return.
    /// `None` when there is no job.
    ///
    /// When the future is dropped half-way its job waits until the lease has ended.
    ///
    /// # Errors
    /// The store's when it cannot be asked for jobs; a lost lease when it took the job away before it was settled;
    /// `unavailable` when other workers do not let this one claim.
    pub async fn step(&mut self) -> Result<Option<Worked>> {
        let core = Arc::clone(&self.core);
        for runner in &core.runners {
            let asked_at = Instant::now();
            let Some(claim) = self.claim(runner).await? else { continue };
            let worked = tokio::select! {
                biased;
                worked = self.work(runner, claim, asked_at) => worked,
                () = heartbeat::run(Arc::clone(&core)) => None,
                () = reporter::run(Arc::clone(&core)) => None,
            };
            let taken =
                "the store took a job away before it was settled; does another worker share the store?";
            return match self.epoch.phase() {
                Phase::Live => Ok(worked),
                Phase::Draining | Phase::Lost => Err(Error::new(ErrorKind::LeaseLost, taken)),
            };
        }
        Ok(None)
    }

    async fn claim(&mut self, runner: &QueueRunner) -> Result<Option<Claim>> {
        let queue = runner.queue();
        let (tries, pause) = CONTENDED;
        if self.limited.contains(queue) && !self.take_share(queue).await? {
            return Ok(None);
        }
        for _ in 0..tries {
            let queues = vec![QueueDemand::new(Arc::clone(queue), 1)];
            let mut claimed =
                self.core.store.claim(&ClaimRequest { worker: self.epoch.worker(), queues }).await?;
            if !claimed.limited.is_empty() && !self.limited.contains(queue) {
                self.limited.push(Arc::clone(queue));
                if !self.take_share(queue).await? {
                    return Ok(None);
                }
                continue;
            }
            match claimed.claims.pop() {
                None if claimed.contended => tokio::time::sleep(pause).await,
                claim => return Ok(claim),
            }
        }
        let message =
            format!("other workers keep claiming from queue {queue:?}; give the test its own store");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Asks for a share of a queue with limits. Whether one job may run now.
    async fn take_share(&self, queue: &Arc<str>) -> Result<bool> {
        let need = QueueNeed { queue: Arc::clone(queue), running: 0, slots: 1, starts: 1 };
        let request = ShareRequest { worker: self.epoch.worker(), generation: 0, queues: vec![need] };
        let shares = self.core.store.share(&request).await?;
        Ok(shares.iter().all(|share| share.slots != Some(0) && share.starts != Some(0)))
    }

    /// Runs a claim's job as an executor does, and settles it.
    async fn work(&mut self, runner: &Arc<QueueRunner>, claim: Claim, asked_at: Instant) -> Option<Worked> {
        // Wakes or starts an executor, which is this one.
        let _ = runner.deliver(&self.epoch, claim, asked_at, HandBack::Return);
        let (mut scope, mut done, mut worked) = (None, None, None);
        loop {
            match runner.turn(done.take(), &mut scope, &self.me).step {
                Step::Run(popped) => {
                    let (Some(scope), job) = (&scope, popped.job.id) else { continue };
                    let ended = run(&self.core, runner, scope, &mut self.handlers, popped).await;
                    let ran = !matches!(
                        ended.settlement,
                        Settlement::ByItself(Disposition::NoHandler | Disposition::Return)
                    );
                    (done, worked) = (Some(ended), Some(Worked { job, ran }));
                }
                Step::Settle(settled) => {
                    Settler::new(Arc::clone(&self.core)).run().await;
                    // An error means that the settlement was given up, which ends the epoch.
                    let _ = settled.await;
                    runner.resumes();
                }
                Step::Sleep | Step::Exit => return worked,
            }
        }
    }

    /// Deregisters the worker.
    ///
    /// # Errors
    /// The store's.
    pub async fn stop(self) -> Result<()> {
        self.core.store.deregister(self.epoch.worker()).await
    }
}

impl fmt::Debug for SteppedWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SteppedWorker")
            .field("worker", &self.epoch.worker())
            .field("stats", &self.core.stats())
            .finish_non_exhaustive()
    }
}
