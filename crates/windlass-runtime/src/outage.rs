use crate::backoff::Backoff;
use std::time::Duration;
use tracing::{info, warn};
use windlass_core::Error;

/// How one loop deals with a store that fails: it logs the outage once, tries again for ever with growing
/// pauses, and logs the end of the outage.
#[derive(Debug)]
pub(crate) struct Outage {
    task: &'static str,
    backoff: Backoff,
    failures: u64,
}

impl Outage {
    pub(crate) fn new(task: &'static str, random: fn() -> f64) -> Self {
        Self { task, backoff: Backoff::outage(random), failures: 0 }
    }

    /// A call failed. How long to pause.
    pub(crate) fn failed(&mut self, error: &Error) -> Duration {
        self.failures += 1;
        if self.failures == 1 {
            warn!(task = self.task, code = error.code(), %error, "the store failed; trying again until it works");
        }
        self.backoff.step()
    }

    /// A call succeeded.
    pub(crate) fn over(&mut self) {
        if self.failures > 0 {
            info!(task = self.task, failures = self.failures, "the store works again");
            self.failures = 0;
            self.backoff.reset();
        }
    }
}
