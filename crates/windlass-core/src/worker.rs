use crate::{Error, ErrorKind, Limits, Program, Result, WorkerId};
use std::time::Duration;

/// The shortest lease that stores can keep.
const SHORTEST: Duration = Duration::from_micros(1);

/// How a worker introduces itself to the store.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// A name for people: `host:pid` by default.
    pub name: String,
    /// The queues that it takes jobs from; created when they do not exist.
    pub queues: Vec<String>,
    /// The kinds that it has handlers for. Empty: it takes any kind (a program per job, say).
    pub kinds: Vec<String>,
    /// How long it may be silent before others take its jobs.
    pub lease: Duration,
    /// What it runs.
    pub program: Program,
}

impl WorkerSpec {
    /// Checks what a worker says of itself; a store calls this before it writes anything.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] for a queue, else [`ErrorKind::InvalidOption`], naming the value.
    pub fn check(&self) -> Result<()> {
        self.queues.iter().try_for_each(|queue| Limits::check_queue_name(queue))?;
        Limits::check_no_nul("the name of a worker", [&self.name])?;
        Limits::check_no_nul("a kind", &self.kinds)?;
        self.program.check()?;
        if !(SHORTEST..=Limits::LONGEST).contains(&self.lease) {
            let message = format!("the lease must be a microsecond to 100 years, got {:?}", self.lease);
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Ok(())
    }

    /// There is nobody of this number who could drain: a keeper has nothing to end.
    pub fn none_to_drain(worker: WorkerId) -> Error {
        let message = format!("no worker {worker} takes jobs now; `windlass workers` lists those that do");
        Error::new(ErrorKind::NotFound, message)
    }
}

/// What the store answers to a new worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The worker's identity and fencing token.
    pub worker: WorkerId,
}
