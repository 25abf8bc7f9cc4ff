//! Workers that run elsewhere and ask for their jobs, turn by turn: over HTTP, say.
//!
//! What is here is the part of the engine that such a worker needs: it registers, claims no more than it is asked for,
//! and decides by the engine's rules what becomes of a job. It has no executors and no buffer; its lease is renewed when somebody asks,
//! and so ends when nobody does. Housekeeping is others': [`crate::WorkerEngine::keep`].

mod asking;
mod claiming;
mod due;
mod hints;
mod limits;
mod reporting;
mod settling;
mod sharing;
mod spec;
mod table;
mod telling;
mod time_limits;
mod wanting;

use crate::{
    epoch::Phase,
    load::LoadElsewhere,
    meter::Meter,
    sync::{Mutex, MutexGuard},
};
use std::{
    fmt,
    sync::{Arc, PoisonError, atomic::AtomicBool},
    time::Duration,
};
use table::Table;
use tokio::{
    sync::{Notify, Semaphore, watch},
    task::JoinHandle,
    time::{Instant, timeout},
};
use windlass_core::{ClaimedJob, Error, ErrorKind, Result, Store, WorkerId, WorkerSpec};

pub use crate::{
    QueueConfig,
    lend::{HandIn, Ticket},
};
pub use hints::Hints;
pub use reporting::RemoteReport;
pub use spec::RemoteSpec;
pub use wanting::Wanting;
pub use windlass_core::{Reported, Settled};

/// A job that such a worker was given.
#[derive(Clone, Debug)]
pub struct RemoteJob {
    /// What its outcome is handed in with.
    pub ticket: Ticket,
    /// The job.
    pub job: ClaimedJob,
    /// Its queue.
    pub queue: Arc<str>,
    /// Its priority.
    pub priority: i16,
    /// How long the attempt may take, from when it is handed out.
    pub timeout: Option<Duration>,
}

/// What such a worker has to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// Jobs that it has and that are to stop: somebody wants them [cancelled](windlass_core::JobStore::cancel), or their time is over.
    pub cancel: Vec<Ticket>,
    /// Some of them were not told before, or that it should drain was not.
    pub is_news: bool,
    /// Somebody asked it to [drain](windlass_core::JobStore::drain_worker): it gets no more jobs, and is to end when it has none.
    pub drain: bool,
}

/// One registration of a worker that runs elsewhere. Every call is refused with a lost lease once the store took its jobs away.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> windlass_core::Result<()> {
/// # use std::{sync::Arc, time::Duration};
/// # use windlass_core::{JobStore, Outcome, Store};
/// use windlass_runtime::remote::{HandIn, QueueConfig, RemoteSpec, RemoteWorker};
/// # let store: Arc<dyn Store> = Arc::new(windlass_memory::MemoryStore::new());
/// let queues = vec![QueueConfig { queue: "mail".to_owned(), concurrency: 10 }];
/// let spec = RemoteSpec { name: "php".to_owned(), queues, lease: Duration::from_secs(60), ..RemoteSpec::default() };
/// let worker = RemoteWorker::register(store, spec).await?;
/// worker.beat().await?;
/// let jobs = worker.take(None, &worker.losses()).await?; // as many as it has room for
/// let done = |job: &windlass_runtime::remote::RemoteJob| HandIn { ticket: job.ticket, outcome: Outcome::Complete(None) };
/// worker.settle(jobs.iter().map(done).collect()).await?;
/// worker.end().await?;
/// # Ok(()) }
/// ```
pub struct RemoteWorker {
    store: Arc<dyn Store>,
    spec: RemoteSpec,
    worker: WorkerId,
    table: Mutex<Table>,
    /// How many calls get jobs for it now.
    taking: watch::Sender<usize>,
    /// How often an answer with jobs got lost.
    lost: watch::Sender<u64>,
    /// Wakes who asks for shares of queues with limits, once there is somebody.
    bell: Arc<Notify>,
    shares: AtomicBool,
    /// How often the store was asked for shares, and how often it said something after which there may be more to give out.
    rounds: watch::Sender<u64>,
    gains: watch::Sender<u64>,
    /// Wakes who holds jobs to their time limits, once there is somebody.
    limits_bell: Arc<Notify>,
    holds_limits: AtomicBool,
    /// One call at a time says what the worker said of its jobs: of two, the later one counts.
    reporting: Arc<Semaphore>,
    meter: Meter,
    load: Mutex<LoadElsewhere>,
    /// When the store was told last what was measured.
    told_at: Mutex<Instant>,
}

/// What the store allows of queues with limits from now on: see [`RemoteWorker::gains`].
#[derive(Clone, Debug)]
pub struct Gains(watch::Receiver<u64>);

impl Gains {
    /// Waits until it allows more.
    pub async fn next(&mut self) {
        // An error would be that the worker is gone, and with it whoever could be given jobs.
        let _ = self.0.changed().await;
    }
}

/// The answers to a worker that get lost from now on: see [`RemoteWorker::again`].
#[derive(Clone, Debug)]
pub struct Losses(watch::Receiver<u64>);

impl Losses {
    /// Waits until one is.
    pub async fn next(&mut self) {
        // An error would be that the worker is gone, and with it whoever could be answered.
        let _ = self.0.changed().await;
    }

    fn is_any(&self) -> bool {
        !matches!(self.0.has_changed(), Ok(false))
    }
}

impl RemoteWorker {
    /// The most jobs that one has at the same time.
    pub const MOST_JOBS: usize = 1_000;
    /// No further job when the args of those it has are so many bytes together: 8 MiB.
    pub const MOST_BYTES: usize = 8 << 20;
    /// A lease was renewed so short a time ago that it needs no heartbeat.
    const FRESH: Duration = Duration::from_millis(500);

    /// Registers one; its lease begins.
    ///
    /// # Errors
    /// `invalid_option` or `invalid_name` for what cannot work, or the store's.
    pub async fn register(store: Arc<dyn Store>, spec: RemoteSpec) -> Result<Arc<Self>> {
        spec.check()?;
        let registered = WorkerSpec {
            name: spec.name.clone(),
            queues: spec.queues.iter().map(|queue| queue.queue.clone()).collect(),
            kinds: spec.kinds.clone(),
            lease: spec.lease + Self::FRESH,
            program: spec.program.clone(),
        };
        let worker = store.register(&registered).await?.worker;
        let table = Mutex::new(Table::new(&spec.queues));
        Ok(Arc::new(Self {
            store,
            spec,
            worker,
            table,
            taking: watch::Sender::new(0),
            lost: watch::Sender::new(0),
            bell: Arc::default(),
            shares: AtomicBool::new(false),
            rounds: watch::Sender::new(0),
            gains: watch::Sender::new(0),
            limits_bell: Arc::default(),
            holds_limits: AtomicBool::new(false),
            reporting: Arc::new(Semaphore::new(1)),
            meter: Meter::default(),
            load: Mutex::new(LoadElsewhere::new()),
            told_at: Mutex::new(Instant::now()),
        }))
    }

    /// Its registration.
    pub fn id(&self) -> WorkerId {
        self.worker
    }

    /// The job of this ticket, if the worker has it.
    pub fn job(&self, ticket: Ticket) -> Option<ClaimedJob> {
        self.lock().find(ticket).map(|held| held.given.job.clone())
    }

    /// What it said of itself.
    pub fn spec(&self) -> &RemoteSpec {
        &self.spec
    }

    /// A sign of life: renews the lease, and says what there is to know.
    ///
    /// # Errors
    /// A lost lease, or the store's.
    pub async fn beat(self: &Arc<Self>) -> Result<Beat> {
        let phase = self.lock().phase();
        match phase {
            Phase::Lost => return Err(self.lost()),
            // What it was given is settled; what the store counts beside that goes back.
            Phase::Draining if self.lock().handed().is_empty() => {
                self.end().await?;
                return Err(self.lost());
            }
            Phase::Live | Phase::Draining => {}
        }
        self.tell_when_due();
        let asked_at = Instant::now();
        if !self.lock().is_fresh(Self::FRESH) {
            let load = self.load().now();
            let heartbeat = self.fenced(self.store.heartbeat_with(self.worker, load).await)?;
            self.lock().renewed(asked_at, &heartbeat);
            self.limits_told(&heartbeat.limited);
        }
        let beat = self.lock().tell_stops();
        if beat.is_news {
            self.hold_limits();
        }
        Ok(beat)
    }

    /// Its process says how many bytes of memory it uses; people are told with its next [beat](Self::beat).
    pub fn uses_memory(&self, bytes: u64) {
        self.load().memory_bytes = Some(bytes);
    }

    /// The store has something to say to it: its next [beat](Self::beat) asks.
    pub fn told(&self) {
        self.lock().told();
        self.ring();
    }

    /// Begins to watch whether more may be [taken](Wanting::take) of queues with limits.
    pub fn gains(&self) -> Gains {
        Gains(self.gains.subscribe())
    }

    /// Begins to watch whether an answer gets lost.
    pub fn losses(&self) -> Losses {
        Losses(self.lost.subscribe())
    }

    /// An answer to it got lost: the jobs that it was given and that are not settled. [Calls](Self::take) of before give it no more:
    /// those that are under way are waited for, because what they bring was lost, too.
    pub async fn again(&self) -> Vec<RemoteJob> {
        self.lost.send_modify(|count| *count += 1);
        // An error would be that nobody counts any more, and it is counted here.
        let _ = self.taking.subscribe().wait_for(|count| *count == 0).await;
        self.lock().handed()
    }

    /// Ends it: the store hands back what it has, at once and without using up attempts.
    ///
    /// # Errors
    /// The store's; it notices by the lease, then.
    pub async fn end(&self) -> Result<()> {
        self.lock().advance(Phase::Lost);
        self.ring();
        self.limits_bell.notify_one();
        let ended = self.store.deregister(self.worker).await;
        // Nothing depends on it.
        let _ = timeout(Duration::from_secs(1), self.meter.send(&*self.store)).await;
        ended
    }

    fn load(&self) -> MutexGuard<'_, LoadElsewhere> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic under the lock would be a defect; what was handed out can still be settled.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the lease was lost, where a call says so.
    fn fenced<T>(&self, answer: Result<T>) -> Result<T> {
        answer.inspect_err(|error| {
            if error.is_lease_lost() {
                self.lock().advance(Phase::Lost);
            }
        })
    }

    fn lost(&self) -> Error {
        let message = format!("worker {} lost its lease, or ended; register anew", self.worker);
        Error::new(ErrorKind::LeaseLost, message)
    }
}

/// Whoever asks for its shares, or holds its jobs to their time, ends.
impl Drop for RemoteWorker {
    fn drop(&mut self) {
        self.ring();
        self.limits_bell.notify_one();
    }
}

impl fmt::Debug for RemoteWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteWorker")
            .field("id", &self.worker)
            .field("name", &self.spec.name)
            .finish_non_exhaustive()
    }
}

/// A call that gets jobs, until it is over.
struct Taking(Arc<RemoteWorker>);

impl Taking {
    fn begin(worker: &Arc<RemoteWorker>) -> Self {
        worker.taking.send_modify(|count| *count += 1);
        Self(Arc::clone(worker))
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.taking.send_modify(|count| *count -= 1);
    }
}

/// Waits for a call that goes on when nobody waits for it any more: what it was given must not be forgotten.
async fn whole<T>(call: JoinHandle<Result<T>>) -> Result<T> {
    call.await.unwrap_or_else(|error| {
        Err(Error::new(ErrorKind::Internal, format!("a call of a worker did not end: {error}")))
    })
}
