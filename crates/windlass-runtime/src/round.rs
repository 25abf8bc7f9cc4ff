use std::time::Duration;
use tokio::time::Instant;

/// What decides whether an open claim is settled now: one look of the settler at all open claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) number: u64,
    pub(crate) now: Instant,
    pub(crate) eagerness: Eagerness,
    /// Jobs of the queue per second.
    pub(crate) rate: f64,
    /// How long a finished job may wait for the rest of its claim while that moves fast.
    pub(crate) patience: Duration,
}

/// How eagerly to settle claims that are only partly finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eagerness {
    /// Those that were so in the round before: under load the others will soon be finished as a whole.
    Patient,
    /// All whose remaining jobs run already: there is nothing else to do.
    Eager,
    /// All.
    Flush,
}
