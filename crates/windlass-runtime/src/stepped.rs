use crate::{
    Batching, Dispatch, Handler, Settling, WorkerConfig,
    batch_run::run_batch,
    core::Core,
    epoch::{Epoch, Phase},
    executor::running::run,
    heartbeat,
    last_handler::LastHandler,
    popped::Popped,
    queue_runner::QueueRunner,
    queue_state::HandBack,
    reporter,
    settler::Settler,
    turn::{Activation, Done, Step},
};
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};
use windlass_core::{
    Claim, ClaimRequest, ClaimedJob, Disposition, Error, ErrorKind, Exception, JobId, QueueDemand, QueueNeed,
    Result, SettleRequest, Share, ShareRequest, Starts, Store,
};

/// How often a queue is asked again from which somebody else claims just now, and how far apart.
const CONTENDED: (u32, Duration) = (200, Duration::from_millis(5));

/// A worker for tests, which does nothing by itself: each [step](Self::step) works one job or batch, in the task of its caller.
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
        let core = Core::new(store, config, Arc::new(Patient(dispatch)));
        // From now on the settler returns when everything is settled.
        core.switches.drain.cancel();
        let epoch = core.register().await?;
        Ok(Self { core, epoch, handlers: LastHandler::default(), me: Arc::default(), limited: Vec::new() })
    }

    /// Works the next job of the first queue that has one, in the order of the config; or the jobs of a batch, `most` at
    /// most. They are settled on return. A batch runs when it is full or nothing else is left to do; how long it may wait is
    /// not looked at. Empty when there is no job.
    ///
    /// When the future is dropped half-way its jobs wait until the lease has ended.
    ///
    /// # Errors
    /// The store's when it cannot be asked for jobs; a lost lease when it took a job away before it was settled;
    /// `unavailable` when other workers do not let this one claim.
    pub async fn step(&mut self, most: usize) -> Result<Vec<Worked>> {
        let core = Arc::clone(&self.core);
        loop {
            let Some((runner, activation)) = self.take_next(&core, most).await? else {
                return Ok(Vec::new());
            };
            if activation.is_none() {
                continue; // it waits for its batch
            }
            let worked = tokio::select! {
                biased;
                worked = self.work(runner) => worked,
                () = heartbeat::run(Arc::clone(&core)) => Vec::new(),
                () = reporter::run(Arc::clone(&core)) => Vec::new(),
            };
            let taken =
                "the store took a job away before it was settled; does another worker share the store?";
            match self.epoch.phase() {
                Phase::Live if worked.is_empty() => {}
                Phase::Live => return Ok(worked),
                Phase::Draining | Phase::Lost => return Err(Error::new(ErrorKind::LeaseLost, taken)),
            }
        }
    }

    /// Claims a job, or lets a batch start where there is none or enough of them wait. Which queue has work now, if it has.
    async fn take_next<'a>(
        &mut self,
        core: &'a Core,
        most: usize,
    ) -> Result<Option<(&'a Arc<QueueRunner>, Option<Activation>)>> {
        for runner in &core.runners {
            if runner.gathered() >= most {
                return Ok(Some((runner, runner.start_batch())));
            }
            let asked_at = Instant::now();
            if let Some(claim) = self.claim(runner).await? {
                return Ok(Some((runner, runner.deliver(&self.epoch, claim, asked_at, HandBack::Return))));
            }
        }
        let waiting = core.runners.iter().find(|runner| runner.gathered() > 0);
        Ok(waiting.map(|runner| (runner, runner.start_batch())))
    }

    async fn claim(&mut self, runner: &QueueRunner) -> Result<Option<Claim>> {
        let queue = runner.queue();
        let (tries, pause) = CONTENDED;
        let slots = runner.gathered() + 1;
        if self.limited.contains(queue) && !self.may_run(queue, slots).await? {
            return Ok(None);
        }
        for _ in 0..tries {
            let queues = vec![QueueDemand::new(Arc::clone(queue), 1)];
            let mut claimed =
                self.core.store.claim(&ClaimRequest { worker: self.epoch.worker(), queues }).await?;
            if !claimed.limited.is_empty() && !self.limited.contains(queue) {
                self.limited.push(Arc::clone(queue));
                if !self.may_run(queue, slots).await? {
                    return Ok(None);
                }
                continue;
            }
            match claimed.claims.pop() {
                None if claimed.contended => tokio::time::sleep(pause).await,
                Some(claim) if self.limited.contains(queue) => {
                    return self.unless_refused(queue, slots, claim).await;
                }
                claim => return Ok(claim),
            }
        }
        let message =
            format!("other workers keep claiming from queue {queue:?}; give the test its own store");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// Asks for a share of a queue with limits. Whether one job more may run, of so many.
    async fn may_run(&self, queue: &Arc<str>, slots: usize) -> Result<bool> {
        let share = self.share(queue, slots, Starts::default()).await?;
        Ok(share.slots.is_none_or(|got| got as usize >= slots))
    }

    /// The claim of one job, unless its queue limits how many start and it may not: then it is handed back.
    async fn unless_refused(&self, queue: &Arc<str>, slots: usize, claim: Claim) -> Result<Option<Claim>> {
        let costs = claim.jobs.iter().map(ClaimedJob::cost).collect();
        let share = self.share(queue, slots, costs).await?;
        if share.starts != Some(0) {
            return Ok(Some(claim));
        }
        let (reference, disposition) = (claim.reference, Disposition::Return);
        let returned = |job: &ClaimedJob| Exception {
            claim: reference,
            job: job.id,
            position: job.position,
            disposition: disposition.clone(),
        };
        let request = SettleRequest {
            worker: self.epoch.worker(),
            completions: Vec::new(),
            exceptions: claim.jobs.iter().map(returned).collect(),
        };
        self.core.store.settle(&request).await?;
        Ok(None)
    }

    async fn share(&self, queue: &Arc<str>, slots: usize, starts: Starts) -> Result<Share> {
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let need = QueueNeed { queue: Arc::clone(queue), running: 0, slots, starts };
        let request = ShareRequest { worker: self.epoch.worker(), generation: 0, queues: vec![need] };
        let locked =
            || format!("somebody is changing the limits of queue {queue:?}; try again when that is done");
        let share = self.core.store.share(&request).await?.pop().flatten();
        share.ok_or_else(|| Error::new(ErrorKind::Unavailable, locked()))
    }

    /// Runs what is to be run now as an executor does, and settles it.
    async fn work(&mut self, runner: &Arc<QueueRunner>) -> Vec<Worked> {
        let (mut scope, mut done, mut worked) = (None, None, Vec::new());
        loop {
            match runner.turn(done.take(), &mut scope, &self.me).step {
                Step::Run(popped) => {
                    let (Some(scope), job) = (&scope, popped.job.id) else { continue };
                    let found = self.handlers.find(&self.core, &popped.job.kind);
                    let ended = run(&self.core, runner, scope, found, popped).await;
                    worked.push(Worked { job, ran: ran(&ended) });
                    done = Some(ended);
                }
                Step::RunBatch(batch) => {
                    let place = |popped: &Popped| ((popped.slot, popped.index), popped.job.id);
                    let jobs: Vec<_> = batch.iter().map(|job| place(&job.popped)).collect();
                    let waits = || _ = runner.waits();
                    let ended = run_batch(&self.core, runner, &mut self.handlers, batch, waits).await;
                    let ran: HashMap<_, _> =
                        ended.iter().map(|done| ((done.slot, done.index), ran(done))).collect();
                    worked.extend(jobs.into_iter().map(|(place, job)| Worked { job, ran: ran[&place] }));
                    let settled = runner.finish_batch(ended).settled;
                    self.settle(runner, settled).await;
                }
                Step::Settle(settled) => self.settle(runner, vec![settled]).await,
                Step::Sleep | Step::SleepUntil(_) | Step::Exit => return worked,
            }
        }
    }

    async fn settle(&self, runner: &QueueRunner, settled: Vec<oneshot::Receiver<()>>) {
        Settler::new(Arc::clone(&self.core)).run().await;
        for settled in settled {
            // An error means that the settlement was given up, which ends the epoch.
            let _ = settled.await;
        }
        runner.resumes();
    }

    /// Deregisters the worker.
    ///
    /// # Errors
    /// The store's.
    pub async fn stop(self) -> Result<()> {
        self.core.store.deregister(self.epoch.worker()).await
    }
}

/// Handlers whose batches wait until they are told to start.
struct Patient(Arc<dyn Dispatch>);

impl Dispatch for Patient {
    fn kinds(&self) -> Vec<String> {
        self.0.kinds()
    }

    fn find(&self, kind: &str) -> Option<Arc<dyn Handler>> {
        self.0.find(kind)
    }

    fn batched(&self) -> HashMap<String, Batching> {
        self.0.batched().into_iter().map(|(kind, batching)| (kind, batching.patient())).collect()
    }
}

/// Whether its handler ran.
fn ran(done: &Done) -> bool {
    !matches!(done.settlement.disposition(), Some(Disposition::NoHandler | Disposition::Return))
}

impl fmt::Debug for SteppedWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SteppedWorker")
            .field("worker", &self.epoch.worker())
            .field("stats", &self.core.stats())
            .finish_non_exhaustive()
    }
}
