use super::ping::Arrival;
use crate::measure::{SharedLatencies, Tally};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, mpsc};
use windlass::{JobId, Timestamp};

/// What the handlers of a crew note, all at once.
pub(super) struct Notes {
    pub(super) tally: Tally,
    /// From when a job was to start to when it did.
    pub(super) delays: SharedLatencies,
    pub(super) all_handled: Notify,
    /// What the times in jobs count from.
    pub(super) started: Instant,
    /// Older jobs are not counted.
    first: JobId,
    expected: AtomicU64,
    calls: AtomicU64,
    early: AtomicU64,
    arrivals: mpsc::UnboundedSender<Arrival>,
}

impl Notes {
    pub(super) fn new((expected, first): (u64, JobId), arrivals: mpsc::UnboundedSender<Arrival>) -> Self {
        Self {
            tally: Tally::new(),
            delays: SharedLatencies::new(),
            all_handled: Notify::new(),
            started: Instant::now(),
            first,
            expected: AtomicU64::new(expected),
            calls: AtomicU64::new(0),
            early: AtomicU64::new(0),
            arrivals,
        }
    }

    /// A job was handled.
    pub(super) fn job(&self, id: JobId, number: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if id >= self.first && self.tally.note(number) == self.expected() {
            self.all_handled.notify_one();
        }
    }

    /// A job starts that was to be sent so many microseconds after the start.
    pub(super) fn sent(&self, id: JobId, number: u64, sent_us: u64) {
        if id >= self.first {
            let delay = self.started.elapsed().saturating_sub(Duration::from_micros(sent_us));
            self.delays.record(number, delay);
        }
        self.job(id, number);
    }

    /// A job starts that was due at a time of the wall clock.
    pub(super) fn due(&self, id: JobId, number: u64, due_us: i64) {
        if id >= self.first {
            let late = Timestamp::now().as_microsecond() - due_us;
            if late < 0 {
                self.early.fetch_add(1, Ordering::Relaxed);
            }
            self.delays.record(number, Duration::from_micros(late.max(0) as u64));
        }
        self.job(id, number);
    }

    /// A ping starts.
    pub(super) fn ping(&self, id: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        // Nobody listens any more when the samples are complete.
        let _ = self.arrivals.send(Arrival { id, at: Instant::now() });
    }

    /// How many jobs are expected; `u64::MAX` while that is not known.
    pub(super) fn expected(&self) -> u64 {
        self.expected.load(Ordering::Relaxed)
    }

    pub(super) fn expect(&self, jobs: u64) {
        self.expected.store(jobs, Ordering::Relaxed);
    }

    /// How many handlers were called, those of older jobs included.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// How many jobs started before they were due.
    pub(super) fn early(&self) -> u64 {
        self.early.load(Ordering::Relaxed)
    }
}
