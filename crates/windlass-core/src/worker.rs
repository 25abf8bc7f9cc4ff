use crate::WorkerId;
use std::time::Duration;

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
}

/// What the store answers to a new worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The worker's identity and fencing token.
    pub worker: WorkerId,
}
