use crate::{backoff::Backoff, hint_budget::HintBudget};
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
/// After so many of those in a row that were blocked by somebody who does not claim, it is one who has the lanes for long: then it waits as for new jobs, so long at most, since
/// nobody is told when that one is through.
const MOST_BLOCKED: u32 = 16;
const LONGEST_BLOCKED: Duration = Duration::from_millis(250);

/// The pause between claims while no hint is left to ask for.
const POLL_WITHOUT_HINTS: Duration = Duration::from_millis(4);

/// How the claimer passes the time between two claims while there is not enough work.
///
/// A few short pauses when the queue is busy, then the wake-up protocol: arm, claim once more, wait (longer
/// each time, up to the poll interval). After too many hints that led to empty claims the worker stays unarmed
/// for a time that doubles, so that idle workers of other queues do not make every enqueue announce itself. And
/// the more workers a hint wakes, the fewer it asks for: beyond its budget it polls.
pub(crate) struct Idle {
    wakeup: Box<dyn Wakeup>,
    pauses: usize,
    armed: bool,
    /// The last wait ended in a hint.
    hinted: bool,
    /// How many hints in a row led to empty claims.
    false_hints: u32,
    budget: HintBudget,
    wait: Backoff,
    unarmed: Backoff,
    yielding: Backoff,
    /// How often in a row others had the lanes who do not claim.
    blocked: u32,
}

impl Idle {
    pub(crate) fn new(wakeup: Box<dyn Wakeup>, poll_interval: Duration, random: fn() -> f64) -> Self {
        Self {
            wakeup,
            pauses: 0,
            armed: false,
            hinted: false,
            false_hints: 0,
            budget: HintBudget::new(),
            wait: Backoff::new(FIRST_WAIT, poll_interval, random),
            unarmed: Backoff::new(FIRST_UNARMED, LONGEST_UNARMED, random),
            yielding: Backoff::new(FIRST_YIELD, LONGEST_YIELD, random),
            blocked: 0,
        }
    }

    /// A claim brought jobs. While the queue is `busy`, or no hint is left to ask for, enqueues need not announce
    /// themselves; otherwise the worker stays armed, so that the next job is announced whenever it comes.
    pub(crate) fn reset(&mut self, busy: bool) {
        if busy || self.budget.is_spent(self.wakeup.listeners()) {
            self.disarm();
        }
        self.pauses = 0;
        self.false_hints = 0;
        self.hinted = false;
        self.wait.reset();
        self.unarmed.reset();
        self.yielding.reset();
        self.blocked = 0;
    }

    /// Pauses so that other workers can claim, or returns when `interrupted`. The worker does not count as idle:
    /// there is work. Where that is `blocked` for long it waits as for new jobs, which other queues may get.
    pub(crate) async fn yield_to_others(&mut self, blocked: bool, interrupted: impl Future<Output = ()>) {
        self.blocked = if blocked { self.blocked + 1 } else { 0 };
        if self.blocked > MOST_BLOCKED {
            self.blocked = MOST_BLOCKED;
            let _ = tokio::time::timeout(LONGEST_BLOCKED, self.pause(false, interrupted)).await;
            return;
        }
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
            } else if self.budget.is_spent(self.wakeup.listeners()) {
                self.disarm();
                tokio::time::sleep(POLL_WITHOUT_HINTS).await;
            } else if self.armed {
                let timeout = self.wait.step();
                if self.wakeup.wait(timeout).await == Wake::Hint {
                    self.hinted = true;
                    self.budget.take();
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use std::{
        future::pending,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };
    use tokio::time::Instant;

    /// Nothing is enqueued.
    struct Silence;

    #[async_trait]
    impl Wakeup for Silence {
        async fn arm(&mut self) {}

        async fn wait(&mut self, timeout: Duration) -> Wake {
            tokio::time::sleep(timeout).await;
            Wake::Timeout
        }

        fn disarm(&mut self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_its_lanes_taken_for_long_looks_a_few_times_a_second() {
        let mut idle = Idle::new(Box::new(Silence), Duration::from_secs(30), || 0.5);
        for _ in 0..2 {
            let mut looks = 0;
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(60) {
                idle.yield_to_others(true, pending()).await;
                looks += 1;
            }
            assert!((240..280).contains(&looks), "{looks}");
            // Another claims there by now, or has only just begun to change something.
            for blocked in [false, true] {
                let began = Instant::now();
                idle.yield_to_others(blocked, pending()).await;
                assert!(began.elapsed() <= LONGEST_YIELD);
            }
        }
    }

    /// Jobs come every millisecond: a hint follows each arming at once.
    struct Flood {
        listeners: usize,
        hints: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl Wakeup for Flood {
        async fn arm(&mut self) {}

        async fn wait(&mut self, _: Duration) -> Wake {
            tokio::time::sleep(Duration::from_millis(1)).await;
            self.hints.fetch_add(1, Ordering::Relaxed);
            Wake::Hint
        }

        fn disarm(&mut self) {}

        fn listeners(&self) -> usize {
            self.listeners
        }
    }

    async fn hints_in_ten_seconds(listeners: usize) -> usize {
        let hints = Arc::default();
        let wakeup = Box::new(Flood { listeners, hints: Arc::clone(&hints) });
        let mut idle = Idle::new(wakeup, Duration::from_secs(1), || 0.5);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            idle.pause(false, pending()).await;
            idle.reset(false); // each claim brings a job
        }
        hints.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_workers_a_hint_wakes_the_fewer_are_asked_for() {
        assert!(hints_in_ten_seconds(1).await > 9_000);
        let beside_many = hints_in_ten_seconds(1_000).await;
        assert!((50..=120).contains(&beside_many), "{beside_many}");
    }
}
