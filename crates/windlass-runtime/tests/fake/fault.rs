use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::Instant};
use windlass_core::ErrorKind;

/// Which call is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    Register,
    Heartbeat,
    Deregister,
    Claim,
    Settle,
    Report,
    Checkpoints,
    Suspect,
    Share,
    Upkeep,
    /// What the leader asks of schedules.
    Schedules,
}

/// What becomes of it.
#[derive(Clone, Debug)]
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
    /// Takes so long until it happens, or does not, and so long until it answers.
    Late {
        before: Duration,
        happens: bool,
        after: Duration,
        error: Option<ErrorKind>,
    },
    /// The worker loses its lease first.
    TakeLease,
    /// It happens, then the worker loses its lease, and so long later comes the answer.
    TakeLeaseAfter(Duration),
}

/// One process that uses the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// Died: what it sent may arrive, but it sends nothing more and no answer reaches it.
    pub dead: bool,
    /// Cut off until then: nothing goes in or out.
    pub cut_off: Option<Instant>,
}
