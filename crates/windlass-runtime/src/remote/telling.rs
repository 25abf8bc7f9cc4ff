//! How the store is told what was measured of a worker that runs elsewhere, which has no task of its own.

use super::RemoteWorker;
use crate::meter::{INTERVAL, tell};
use std::sync::{Arc, PoisonError};
use tokio::time::Instant;

impl RemoteWorker {
    /// Tells the store how long its jobs waited and ran and why they failed, unless it was told within ten seconds: beside its caller, who does not wait.
    /// Each [beat](Self::beat) and [settlement](Self::settle) does that; call it every second or so, for when the worker says nothing.
    pub fn tell_when_due(&self) {
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if told_at.elapsed() >= INTERVAL {
            *told_at = Instant::now();
            drop(told_at);
            self.tell_rest();
        }
    }

    /// The same at once, of a worker that is going to be dropped without its [end](Self::end).
    pub fn tell_rest(&self) {
        let (store, timings) = (Arc::clone(&self.store), self.meter.take());
        if !timings.is_empty() {
            tokio::spawn(async move { tell(&*store, timings).await });
        }
    }
}
