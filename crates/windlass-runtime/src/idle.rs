use crate::backoff::Backoff;
use std::{future::Future, time::Duration};
use windlass_core::{Wake, Wakeup};

/// The pauses after a claim that brought less than was asked for, while the queue is busy: two milliseconds
/// fill the next claim. Otherwise the wake-up protocol begins at once, because that costs the least latency.
const SHORT_PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(4)];
/// The first wait after arming is short: an enqueue that looked for idle workers just before the arming, and
/// committed just after the claim, announced nothing.
const FIRST_WAIT: Duration = Duration::from_millis(2);
/// How many hints in a row may lead to empty claims before the worker stops asking for hints for a while. One
/// or two are normal: an earlier claim already took the jobs that they announced.
const MOST_FALSE_HINTS: u32 = 3;
/// How long it stays unarmed then: the first time, and at most.
const FIRST_UNARMED: Duration = Duration::from_millis(1);
const LONGEST_UNARMED: Duration = Duration::from_millis(250);
/// The pauses after a claim that found other workers claiming from the same lanes: about as long as a claim takes.
const FIRST_YIELD: Duration = Duration::from_millis(1);
const LONGEST_YIELD: Duration = Duration::from_millis(5);

/// How the claimer passes the time between two claims while there is not enough work.
///
/// A few short pauses when the queue is busy, then the wake-up protocol: arm, claim once more, wait (longer
/// each time, up to the poll interval). After too many hints that led to empty claims the worker stays unarmed
/// for a time that doubles, so that idle workers of other queues do not make every enqueue announce itself.
pub(crate) struct Idle {
    wakeup: Box<dyn Wakeup>,
    pauses: usize,
    armed: bool,
    /// The last wait ended in a hint.
    hinted: bool,
    /// How many hints in a row led to empty claims.
    false_hints: u32,
    wait: Backoff,
    unarmed: Backoff,
    yielding: Backoff,
}

impl Idle {
    pub(crate) fn new(wakeup: Box<dyn Wakeup>, poll_interval: Duration, random: fn() -> f64) -> Self {
        Self {
            wakeup,
            pauses: 0,
            armed: false,
            hinted: false,
            false_hints: 0,
            wait: Backoff::new(FIRST_WAIT, poll_interval, random),
            unarmed: Backoff::new(FIRST_UNARMED, LONGEST_UNARMED, random),
            yielding: Backoff::new(FIRST_YIELD, LONGEST_YIELD, random),
        }
    }

    /// A claim brought jobs. While the queue is `busy`, enqueues need not announce themselves; otherwise the
    /// worker stays armed, so that the next job is announced whenever it comes.
    pub(crate) fn reset(&mut self, busy: bool) {
        if busy {
            self.disarm();
        }
        self.pauses = 0;
        self.false_hints = 0;
        self.hinted = false;
        self.wait.reset();
        self.unarmed.reset();
        self.yielding.reset();
    }

    /// Pauses so that other workers can claim, or returns when `interrupted`. The worker does not count as idle:
    /// there is work.
    pub(crate) async fn yield_to_others(&mut self, interrupted: impl Future<Output = ()>) {
        let pause = self.yielding.step();
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = interrupted => {}
        }
    }

    pub(crate) fn disarm(&mut self) {
        if std::mem::take(&mut self.armed) {
            self.wakeup.disarm();
        }
    }

    /// Whether the last hint led to an empty claim: perhaps a job was scheduled.
    pub(crate) fn was_hinted(&self) -> bool {
        self.hinted
    }

    /// Passes the time until the next claim, or until `interrupted`. `busy`: claims would follow
    /// one another for a few jobs each.
    pub(crate) async fn pause(&mut self, busy: bool, interrupted: impl Future<Output = ()>) {
        let step = async {
            self.false_hints += u32::from(std::mem::take(&mut self.hinted));
            if self.false_hints > MOST_FALSE_HINTS {
                self.false_hints = 0;
                self.disarm();
                tokio::time::sleep(self.unarmed.step()).await;
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
            biased;
            () = step => {}
            () = interrupted => {}
        }
    }
}
