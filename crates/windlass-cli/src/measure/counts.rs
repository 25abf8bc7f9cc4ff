use super::{
    ping::{Ping, PingStart},
    tally::Tally,
};
use serde::{Deserialize, Serialize};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};
use tokio::sync::{Notify, mpsc};
use windlass::{Job, JobId};

/// A job without work.
#[derive(Serialize, Deserialize)]
pub struct Noop {
    /// Its number.
    pub id: u64,
}

impl Job for Noop {
    const KIND: &'static str = "windlass.noop";
}

/// What the handlers of all workers count together.
pub struct Counts {
    /// When the workers were started.
    pub started: Instant,
    /// Which jobs were handled, and how often.
    pub tally: Tally,
    pub(super) all_handled: Notify,
    /// Jobs with smaller ids are not counted.
    first: JobId,
    expected: AtomicU64,
    calls: AtomicU64,
    ping_starts: mpsc::UnboundedSender<PingStart>,
}

impl Counts {
    pub(super) fn new(expected: u64, first: JobId, ping_starts: mpsc::UnboundedSender<PingStart>) -> Self {
        Self {
            started: Instant::now(),
            tally: Tally::new(),
            all_handled: Notify::new(),
            first,
            expected: AtomicU64::new(expected),
            calls: AtomicU64::new(0),
            ping_starts,
        }
    }

    /// Whether a job is one of those that are measured, and not left from an earlier run.
    pub fn is_counted(&self, id: JobId) -> bool {
        id >= self.first
    }

    /// A job was handled.
    pub fn job(&self, id: JobId, number: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.is_counted(id) && self.tally.note(number) == self.expected() {
            self.all_handled.notify_one();
        }
    }

    /// The handler of a ping starts.
    pub(super) fn ping(&self, ping: &Ping) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        // Nobody listens any more when the samples are complete.
        let _ = self.ping_starts.send(PingStart { id: ping.id, at: Instant::now() });
    }

    /// How many jobs are expected; `u64::MAX` while that is not known.
    pub(super) fn expected(&self) -> u64 {
        self.expected.load(Ordering::Relaxed)
    }

    /// Says how many jobs are expected, when that was not known at the start.
    pub fn expect(&self, jobs: u64) {
        self.expected.store(jobs, Ordering::Relaxed);
    }

    /// How many handlers were called, those of older jobs included.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}
