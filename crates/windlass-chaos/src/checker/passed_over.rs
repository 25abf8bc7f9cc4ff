//! I10 for ticks that did not fire: each was passed over as the schedule's policies say, for a reason that the history shows.
//!
//! Ticks have the time of the wall, jobs that of the recorders; the injector notes now and then how far the one is from the other.

use super::{
    Invariant, Report,
    holds::Job,
    ticking::{Fired, Ticking, micros},
};
use crate::history::{History, What};

/// How exact it is which time on the wall an event has.
const INEXACT_US: i64 = 100_000;
/// The most ticks between two that fired which are looked at: a day of one each second.
const MOST_TICKS: i64 = 86_400;
/// The most that is told of one schedule.
const MOST: usize = 20;

/// What the injector saw of schedules while the run went on.
#[derive(Default)]
pub(super) struct Looks {
    /// How far the time on the wall is ahead of the recorders', in microseconds. Between a look at one and at the other time passes, so the largest is the best.
    ahead: Option<i64>,
    /// Of each schedule up to where it was decided and which tick fired last, whenever it was looked at.
    seen: Vec<(u32, i64, i64)>,
}

impl Looks {
    pub(super) fn of(history: &History) -> Self {
        let mut looks = Self::default();
        for recorded in &history.events {
            match recorded.event.what {
                What::Looked { wall_us } => {
                    looks.ahead = looks.ahead.max(Some(wall_us.saturating_sub(micros_of(recorded.event.at))));
                }
                What::Ticked { schedule, decided_us, last_us } => {
                    looks.seen.push((schedule, decided_us, last_us));
                }
                _ => {}
            }
        }
        looks
    }

    /// The time on the wall at which a recorder noted this, if anybody looked.
    fn wall(&self, at: u64) -> Option<i64> {
        self.ahead.map(|ahead| micros_of(at).saturating_add(ahead))
    }

    /// Whenever somebody looked, the tick that was said to be the last had its job; and where no job keeps the next one waiting, it was the last that was decided.
    pub(super) fn last_ticks(&self, rule: &Ticking, fired: &Fired<'_>, report: &mut Report) {
        let mut told = 0;
        for (_, decided, last) in self.seen.iter().filter(|(schedule, ..)| *schedule == rule.schedule) {
            let is_tick = decided % micros(rule.every()) == 0;
            let (second, why) = if *last > 0 && !fired.contains_key(&(last / 1_000_000)) {
                (last, "fired by its record, and has no job")
            } else if rule.overlaps && is_tick && last != decided {
                (decided, "was the last one decided, and did not fire")
            } else {
                continue;
            };
            report.violate(Invariant::I10, None, format!("{} {why}", rule.show(second / 1_000_000)));
            told += 1;
            if told == MOST {
                return;
            }
        }
    }

    /// Each tick of a schedule whose jobs must not overlap fired, or found the job before not ended (or, where one waits for that, one waiting already), or was
    /// one of too many that were missed. `excused`: a pause may explain it.
    pub(super) fn passed_over(
        &self,
        rule: &Ticking,
        fired: &Fired<'_>,
        decided: i64,
        excused: impl Fn(i64) -> bool,
        report: &mut Report,
    ) {
        let mut ticks = fired.iter().map(|(second, job)| (*second, *job)).peekable();
        while let Some((before, first)) = ticks.next() {
            let next = ticks.peek().copied();
            let end = next.map_or_else(|| decided.div_euclid(1_000_000) + 1, |(second, _)| second);
            // One that waits when the run stops all schedules never fires.
            let waits = rule.queues && next.is_some();
            let free = if waits { self.claimed(first) } else { self.ended(first) };
            let Some(free) = free else { continue };
            let most = i64::from(rule.most_missed) * rule.every();
            let was_missed = |tick: i64| match next {
                // Who decided on it saw so many later ones due.
                Some((_, job)) => self.claimed(job).is_none_or(|at| at >= micros(tick.saturating_add(most))),
                None => decided >= micros(tick.saturating_add(most)),
            };
            let between = (1..MOST_TICKS).map(|nth| before.saturating_add(nth * rule.every()));
            let is_wrong = |tick: &i64| {
                free.saturating_add(INEXACT_US) < micros(*tick) && !was_missed(*tick) && !excused(*tick)
            };
            for tick in between.take_while(|tick| *tick < end).filter(is_wrong).take(MOST) {
                let text = format!("{} was passed over, and nothing kept it from firing", rule.show(tick));
                report.violate(Invariant::I10, Some(first.id), text);
            }
        }
    }

    /// When it was known to have ended.
    fn ended(&self, job: &Job) -> Option<i64> {
        let last = job.holds.last().filter(|hold| hold.ended().is_some())?;
        self.wall(last.answers.iter().map(|(.., noted)| *noted).max()?)
    }

    /// When somebody had it for certain.
    fn claimed(&self, job: &Job) -> Option<i64> {
        self.wall(job.holds.iter().map(|hold| hold.claimed).min()?)
    }
}

fn micros_of(at: u64) -> i64 {
    i64::try_from(at / 1_000).unwrap_or(i64::MAX)
}
