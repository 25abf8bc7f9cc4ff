use super::{Act, Task};
use crate::{checker::Ticking, history::Tick};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{Args, Missed, NewJob, Overlap, Schedule};

/// Later than their ticks some schedules fire, up to this.
const JITTER: Duration = Duration::from_millis(700);

/// The schedules of a run: most tick each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timetable {
    /// How many fire each tick: jobs may overlap, and all missed ticks are caught up with.
    pub exact: u32,
    /// How many pass ticks over, by policies in turn.
    pub others: u32,
}

/// What a schedule does with ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Exact,
    Skip,
    QueueOne,
    Last,
    None,
}

impl Timetable {
    /// The numbers of its schedules.
    pub fn numbers(self) -> std::ops::Range<u32> {
        0..self.exact + self.others
    }

    /// The name of a schedule.
    pub fn name(number: u32) -> String {
        format!("chaos-{number:05}")
    }

    /// A schedule as everybody declares it.
    pub fn schedule(self, number: u32) -> Schedule {
        let policy = self.policy(number);
        let act = match policy {
            // Some end within a second, some do not.
            Policy::Skip | Policy::QueueOne => Act::Sleep(300 + u64::from(number) * 137 % 1_500),
            _ => Act::Done,
        };
        let args = Args::of(&Task { key: Tick::base(number), act }).expect("a task is JSON");
        let (overlap, missed) = match policy {
            Policy::Exact => (Overlap::Allow, Missed::All(Missed::MOST)),
            Policy::Skip => (Overlap::Skip, Missed::All(3)),
            Policy::QueueOne => (Overlap::QueueOne, Missed::All(3)),
            Policy::Last => (Overlap::Allow, Missed::Last),
            Policy::None => (Overlap::Allow, Missed::None),
        };
        let cron = match (number % 2, period(number)) {
            (0, 1) => "* * * * * *".to_owned(),
            (0, seconds) => format!("*/{seconds} * * * * *"),
            (_, seconds) => format!("every {seconds}s"),
        };
        let zone = if number.is_multiple_of(5) { "Asia/Kolkata" } else { "UTC" };
        let jitter = if number % 10 == 7 { JITTER } else { Duration::ZERO };
        Schedule::new(Self::name(number), cron, NewJob::new("work", args))
            .with_zone(zone)
            .with_overlap(overlap)
            .with_missed(missed)
            .with_jitter(jitter)
    }

    /// The same schedule with another job of the same ticks: it keeps them.
    pub fn changed(self, number: u32) -> Schedule {
        let schedule = self.schedule(number);
        let job = schedule.job().clone().with_max_attempts(7);
        schedule.with_job(job)
    }

    /// Whether it is there before any worker is; the others are declared by the workers, all at once.
    pub fn is_early(number: u32) -> bool {
        !number.is_multiple_of(4)
    }

    /// What the checker knows of a schedule.
    pub fn rule(self, number: u32) -> Ticking {
        let policy = self.policy(number);
        Ticking {
            schedule: number,
            every_s: period(number),
            fires_all: policy == Policy::Exact,
            overlaps: !matches!(policy, Policy::Skip | Policy::QueueOne),
            queues: policy == Policy::QueueOne,
            most_missed: match policy {
                Policy::Exact => Missed::MOST.into(),
                Policy::Skip | Policy::QueueOne => 3,
                Policy::Last | Policy::None => 1,
            },
        }
    }

    fn policy(self, number: u32) -> Policy {
        match number.checked_sub(self.exact) {
            None => Policy::Exact,
            Some(other) => [Policy::Skip, Policy::QueueOne, Policy::Last, Policy::None][other as usize % 4],
        }
    }
}

/// Seconds between its ticks.
fn period(number: u32) -> u32 {
    match number % 32 {
        1 | 2 => 2,
        11 | 12 => 3,
        _ => 1,
    }
}
