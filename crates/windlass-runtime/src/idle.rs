use crate::backoff::Backoff;
use std::{future::Future, time::Duration};
use windlass_core::{Wake, Wakeup};

/// The pauses after a claim that brought less than was asked for, while jobs come thick and fast: a
/// millisecond fills the next claim. Otherwise the wake-up protocol begins at once, for latency's sake.
const SHORT_PAUSES: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(4)];
const FIRST_WAIT: Duration = Duration::from_millis(5);
const FIRST_DISTRUST: Duration = Duration::from_millis(1);
const LONGEST_DISTRUST: Duration = Duration::from_millis(250);

/// How the claimer passes the time between two claims while there is not enough work.
///
/// A few short pauses when the queue is busy, then the wake-up protocol: arm, claim once more, wait (longer
/// each time, up to the poll interval). A hint that leads to an empty claim is distrusted: the next arming waits, doubling,
/// so that idle workers of other queues do not make every enqueue announce itself.
pub(crate) struct Idle {
    wakeup: Box<dyn Wakeup>,
    pauses: usize,
    armed: bool,
    hinted: bool,
    wait: Backoff,
    distrust: Backoff,
}

impl Idle {
    pub(crate) fn new(wakeup: Box<dyn Wakeup>, poll_interval: Duration, random: fn() -> f64) -> Self {
        Self {
            wakeup,
            pauses: 0,
            armed: false,
            hinted: false,
            wait: Backoff::new(FIRST_WAIT, poll_interval, random),
            distrust: Backoff::new(FIRST_DISTRUST, LONGEST_DISTRUST, random),
        }
    }

    /// A claim brought jobs.
    pub(crate) fn reset(&mut self) {
        self.disarm();
        self.pauses = 0;
        self.hinted = false;
        self.wait.reset();
        self.distrust.reset();
    }

    pub(crate) fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.wakeup.disarm();
        }
    }

    /// Whether the last hint led to an empty claim: perhaps a job was scheduled.
    pub(crate) fn was_misled(&self) -> bool {
        self.hinted
    }

    /// Passes the time until the next claim, or until `interrupted`. `busy`: jobs come thick and fast.
    pub(crate) async fn pause(&mut self, busy: bool, interrupted: impl Future<Output = ()>) {
        let step = async {
            if std::mem::take(&mut self.hinted) {
                self.disarm();
                tokio::time::sleep(self.distrust.step()).await;
            } else if let Some(pause) = SHORT_PAUSES.get(self.pauses).filter(|_| busy) {
                self.pauses += 1;
                tokio::time::sleep(*pause).await;
            } else if self.armed {
                let timeout = self.wait.step();
                self.hinted = self.wakeup.wait(timeout).await == Wake::Hint;
            } else {
                self.armed = true;
                self.wakeup.arm().await;
            }
        };
        tokio::select! {
            () = step => {}
            () = interrupted => {}
        }
    }
}
