use crate::{
    dice::Dice,
    handlers::{Act, Script, Wait},
};
use std::time::Duration;
use windlass_core::{QueueLimits, RateLimit, RetryPolicy};
use windlass_runtime::{Settling, WorkerConfig};

/// Kinds of jobs. Not every worker knows `RARE`; `KILLER` takes its process down.
pub const PLAIN: &str = "plain";
pub const RARE: &str = "rare";
pub const KILLER: &str = "killer";
pub const PROBE: &str = "probe";

pub const QUEUES: [&str; 3] = ["a", "b", "c"];

/// The keys of jobs, and how many of each may be held at once; the last one is serial.
pub const AT_ONCE: [(&str, u32); 3] = [("one", 1), ("few", 3), (SERIAL, 1)];
pub const SERIAL: &str = "serial";
/// How many jobs of which key may start in a time.
pub const RATE: (&str, u32, Duration) = ("few", 5, Duration::from_millis(400));

/// What a run is made of, apart from what happens step by step.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub workers: Vec<Worker>,
    /// How many of a hundred calls do not work as they should.
    pub fault_percent: u32,
    /// How long a call takes at most when all is well.
    pub latency_ms: usize,
    /// How long the trouble lasts.
    pub trouble: Duration,
    /// How many of a hundred steps make something happen to a process or the store.
    pub event_percent: u32,
    /// How many of a hundred jobs kill.
    pub killer_percent: u32,
    /// How many of a hundred jobs are suspected to be killers.
    pub suspect_percent: u32,
    /// How many of a hundred enqueues announce themselves to idle workers.
    pub hint_percent: u32,
    /// The limits of queue `a` while there is trouble.
    pub limits: QueueLimits,
    /// Whether jobs have keys, which have limits.
    pub keys: bool,
    /// The one call that does not work, for runs that are otherwise without trouble.
    pub nth_call: Option<crate::nth_call::Nth>,
}

#[derive(Clone, Debug)]
pub struct Worker {
    pub config: WorkerConfig,
    pub knows_rare: bool,
}

impl Scenario {
    pub fn of(seed: u64) -> Self {
        let dice = &mut Dice::new(seed);
        // One in five is nearly quiet: there, every second start has to be explained by nothing.
        let quiet = dice.percent(20);
        Self {
            seed,
            workers: (0..dice.number(1, 3)).map(|_| worker(dice)).collect(),
            fault_percent: if quiet { 0 } else { dice.pick(&[1, 3, 10, 25]) },
            latency_ms: dice.pick(&[0, 2, 30]),
            trouble: dice.millis(1_000, 12_000),
            event_percent: if quiet { 5 } else { dice.pick(&[5, 15, 30]) },
            killer_percent: dice.pick(&[0, 0, 0, 3]),
            suspect_percent: dice.pick(&[0, 5]),
            hint_percent: dice.pick(&[0, 50, 100]),
            limits: limits(dice),
            keys: dice.percent(40),
            nth_call: None,
        }
    }

    /// Whether the jobs and what happens to the worker are always the same.
    pub fn is_scripted(&self) -> bool {
        self.event_percent == 0
    }

    /// A job's behaviour and kind.
    pub fn job(&self, dice: &mut Dice, killers: &mut usize) -> (&'static str, Script) {
        if dice.percent(self.killer_percent) && *killers > 0 {
            *killers -= 1;
            return (KILLER, Script { wait: Wait::None, acts: vec![Act::Kill] });
        }
        let kind = if dice.percent(5) { RARE } else { PLAIN };
        (kind, script(dice))
    }
}

fn limits(dice: &mut Dice) -> QueueLimits {
    let mut limits = QueueLimits::default();
    limits.concurrency = dice.pick(&[None, None, Some(1), Some(3)]);
    let second = Duration::from_secs(1);
    let spread = RateLimit::new(20, 2 * second).with_burst(5);
    limits.rate = dice.pick(&[None, None, Some(RateLimit::new(10, second)), Some(spread)]);
    limits
}

fn worker(dice: &mut Dice) -> Worker {
    let mut config = WorkerConfig {
        name: "simulated".to_owned(),
        lease: dice.pick(&[Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10)]),
        grace_period: dice.pick(&[Duration::ZERO, Duration::from_secs(1), Duration::from_secs(6)]),
        poll_interval: dice.pick(&[Duration::from_millis(300), Duration::from_secs(1)]),
        retry_policy: RetryPolicy { base: dice.millis(0, 500), ..RetryPolicy::default() },
        max_buffered: dice.pick(&[5, 100_000]),
        ..WorkerConfig::default()
    };
    let first = dice.number(0, 2);
    for at in 0..dice.number(1, 3) {
        config = config.with_queue(QUEUES[(first + at) % 3], dice.number(1, 6));
    }
    let knows_rare = dice.percent(70);
    config.settling = dice.pick(&[Settling::Pipelined, Settling::Pipelined, Settling::Strict]);
    Worker { config, knows_rare }
}

fn script(dice: &mut Dice) -> Script {
    let wait = match dice.number(0, 9) {
        0..=3 => Wait::None,
        4 => Wait::Yield(dice.number(1, 5)),
        5 | 6 => Wait::Sleep(dice.millis(0, 300)),
        7 => Wait::Sleep(dice.millis(500, 4_000)),
        8 => Wait::Politely(dice.millis(1_000, 15_000)),
        _ => Wait::Stubbornly(dice.millis(1_000, 15_000)),
    };
    let mut acts: Vec<Act> = (0..dice.pick(&[0, 0, 0, 1, 2, 5])).map(|_| setback(dice)).collect();
    acts.push(dice.pick(&[Act::Complete, Act::Complete, Act::Complete, Act::Cancel, Act::Discard]));
    Script { wait, acts }
}

fn setback(dice: &mut Dice) -> Act {
    let delay = dice.pick(&[Duration::ZERO, Duration::from_millis(50), Duration::from_secs(2)]);
    dice.pick(&[Act::Fail(None), Act::Fail(Some(delay)), Act::Panic, Act::PanicAtOnce, Act::Snooze(delay)])
}
