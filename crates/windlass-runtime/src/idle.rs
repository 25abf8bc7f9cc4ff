use crate::backoff::Backoff;
use std::{future::Future, time::Duration};
use windlass_core::{Wake, Wakeup};

/// The pauses after a claim that brought less than was asked for, while jobs come thick and fast: two
/// milliseconds fill the next claim. Otherwise the wake-up protocol begins at once, for latency's sake.
const SHORT_PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(4)];
/// The first wait after arming: an enqueue that looked for idle workers just before, and committed just
/// after the claim, announced nothing.
const FIRST_WAIT: Duration = Duration::from_millis(2);
/// How many hints in a row may lead to nothing before the worker stops asking for them for a while. One or
/// two are what is left of announcements whose jobs an earlier claim took along.
const MOST_MISLED: u32 = 3;
const FIRST_DISTRUST: Duration = Duration::from_millis(1);
const LONGEST_DISTRUST: Duration = Duration::from_millis(250);
/// The pauses after a claim that found others at work on the same lanes: about as long as a claim takes.
const FIRST_WAY: Duration = Duration::from_millis(1);
const LONGEST_WAY: Duration = Duration::from_millis(5);

/// How the claimer passes the time between two claims while there is not enough work.
///
/// A few short pauses when the queue is busy, then the wake-up protocol: arm, claim once more, wait (longer
/// each time, up to the poll interval). Hints that lead to empty claims are distrusted: the next arming
/// waits, doubling, so that idle workers of other queues do not make every enqueue announce itself.
pub(crate) struct Idle {
    wakeup: Box<dyn Wakeup>,
    pauses: usize,
    armed: bool,
    hinted: bool,
    misled: u32,
    wait: Backoff,
    distrust: Backoff,
    way: Backoff,
}

impl Idle {
    pub(crate) fn new(wakeup: Box<dyn Wakeup>, poll_interval: Duration, random: fn() -> f64) -> Self {
        Self {
            wakeup,
            pauses: 0,
            armed: false,
            hinted: false,
            misled: 0,
            wait: Backoff::new(FIRST_WAIT, poll_interval, random),
            distrust: Backoff::new(FIRST_DISTRUST, LONGEST_DISTRUST, random),
            way: Backoff::new(FIRST_WAY, LONGEST_WAY, random),
        }
    }

    /// A claim brought jobs. While jobs come `busy`, enqueues need not announce themselves; otherwise the
    /// worker stays armed, so that the next job is announced whenever it comes.
    pub(crate) fn reset(&mut self, busy: bool) {
        if busy {
            self.disarm();
        }
        self.pauses = 0;
        self.misled = 0;
        self.hinted = false;
        self.wait.reset();
        self.distrust.reset();
        self.way.reset();
    }

    /// Lets others claim who are at it, or returns when `interrupted`. Not idle: there is work.
    pub(crate) async fn give_way(&mut self, interrupted: impl Future<Output = ()>) {
        let pause = self.way.step();
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
    pub(crate) fn was_misled(&self) -> bool {
        self.hinted
    }

    /// Passes the time until the next claim, or until `interrupted`. `busy`: jobs come thick and fast.
    pub(crate) async fn pause(&mut self, busy: bool, interrupted: impl Future<Output = ()>) {
        let step = async {
            self.misled += u32::from(std::mem::take(&mut self.hinted));
            if self.misled > MOST_MISLED {
                self.misled = 0;
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
            biased;
            () = step => {}
            () = interrupted => {}
        }
    }
}
