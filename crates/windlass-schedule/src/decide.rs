use crate::{Timing, jitter};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};
use windlass_core::{Missed, Overlap, Result, Schedule, ScheduleRecord, ScheduleStep};

/// How long until the next look whether the job has ended that a queued tick waits for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The first stretch of time before now that is searched for missed ticks; each further one is twice as long.
const FIRST_STRETCH: Duration = Duration::from_secs(60);
/// The most bytes of args that one step enqueues: a thousand missed ticks of a job of a megabyte are too many for one call of a store. It is at least one job; those behind
/// it stay due.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Whether the last job of a schedule still runs or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastJob {
    /// It has ended, or there is none.
    Ended,
    /// It has not.
    Unfinished,
}

/// What a look at a due schedule leads to.
#[derive(Clone, Debug)]
pub enum Decision {
    /// First look whether its last job has ended, then decide again.
    NeedsLastJob,
    /// The step to take.
    Step(Box<ScheduleStep>),
}

/// Decides about schedules. Remembers what it read of them: reading an expression costs more than finding its next tick.
#[derive(Debug, Default)]
pub struct Decider {
    read: HashMap<String, Read>,
    bytes: usize,
}

#[derive(Debug)]
struct Read {
    definition: String,
    schedule: Schedule,
    timing: Timing,
}

impl Decider {
    /// The most schedules that are remembered, and the most bytes of their definitions; beyond it the memory starts anew.
    const MOST: usize = 10_000;
    const MOST_BYTES: usize = 32 * 1024 * 1024;

    /// Decides about a schedule that is due, when it is `now` by the store's clock. A schedule that cannot be read gets its
    /// error, and is never due again.
    pub fn decide(&mut self, record: &ScheduleRecord, now: Timestamp, last_job: Option<LastJob>) -> Decision {
        match self.read(record) {
            Ok(read) => try_decide(record, &read.schedule, &read.timing, now, last_job),
            Err(error) => Decision::Step(Box::new(ScheduleStep::of(record).refused(&error))),
        }
    }

    fn read(&mut self, record: &ScheduleRecord) -> Result<&Read> {
        let is_known = self.read.get(&record.name).is_some_and(|read| read.definition == record.definition);
        if !is_known {
            if self.read.len() >= Self::MOST || self.bytes >= Self::MOST_BYTES {
                self.read.clear();
                self.bytes = 0;
            }
            self.bytes += record.definition.len();
            let schedule = record.schedule()?;
            let (timing, definition) = (Timing::of(&schedule)?, record.definition.clone());
            self.read.insert(record.name.clone(), Read { definition, schedule, timing });
        }
        Ok(&self.read[&record.name])
    }
}

fn try_decide(
    record: &ScheduleRecord,
    schedule: &Schedule,
    timing: &Timing,
    now: Timestamp,
    last_job: Option<LastJob>,
) -> Decision {
    let mut step = ScheduleStep::of(record);
    let mut fires = Vec::new();
    if record.due_at.is_some_and(|due| due <= now) {
        let looked = due_ticks(record, schedule, timing, now);
        step.decided = looked.decided;
        fires = looked.fire;
    }
    fires.splice(0..0, record.queued_tick);
    step.queued_tick = None;
    if !fires.is_empty() && schedule.overlap() != Overlap::Allow && record.last_job.is_some() {
        match last_job {
            None => return Decision::NeedsLastJob,
            Some(LastJob::Ended) => {}
            Some(LastJob::Unfinished) => {
                // The first that waits is the one that is kept.
                step.queued_tick = fires.first().copied().filter(|_| schedule.overlap() == Overlap::QueueOne);
                fires.clear();
            }
        }
    }
    if schedule.overlap() != Overlap::Allow && fires.len() > 1 {
        // The first has only just begun for those behind it.
        let behind = fires.split_off(1);
        step.queued_tick = behind.first().copied().filter(|_| schedule.overlap() == Overlap::QueueOne);
    }
    let fits = (MOST_BYTES / schedule.job().args().len().max(1)).max(1);
    if fires.len() > fits {
        fires.truncate(fits);
        step.decided = record.decided.max(fires[fits - 1]);
    }
    step.jobs = fires.iter().map(|tick| schedule.job_at(Some(*tick))).collect();
    step.last_tick = fires.last().copied().or(record.last_tick);
    step.next_tick = timing.next_after(step.decided);
    let due = step.next_tick.map(|tick| due_at(schedule, timing, tick));
    let look = step.queued_tick.map(|_| later(now, LOOK_AGAIN));
    step.due_at = due.into_iter().chain(look).min();
    step.error = None;
    Decision::Step(Box::new(step))
}

/// What has become due.
struct Due {
    decided: Timestamp,
    fire: Vec<Timestamp>,
}

fn due_ticks(record: &ScheduleRecord, schedule: &Schedule, timing: &Timing, now: Timestamp) -> Due {
    let most = match schedule.missed() {
        Missed::All(most) => usize::from(most),
        _ => 1,
    };
    let is_due = |tick: &Timestamp| due_at(schedule, timing, *tick) <= now;
    // There are none behind its end, however long ago that was.
    let end = schedule.ends_at().map_or(now, |end| end.min(now));
    let mut stretch = FIRST_STRETCH;
    let mut last = loop {
        let from = earlier(end, stretch).max(record.decided);
        let mut last = VecDeque::new();
        for tick in timing.after(from).take_while(is_due) {
            last.push_back(tick);
            if last.len() > most {
                last.pop_front();
            }
        }
        if last.len() >= most || from == record.decided {
            break last;
        }
        stretch *= 2;
    };
    let decided = last.back().copied().unwrap_or(record.decided);
    if schedule.missed() == Missed::None {
        last.retain(|tick| later(*tick, schedule.jitter() + Missed::LATE) >= now);
    }
    Due { decided, fire: last.into() }
}

/// When a tick fires: later by its part of the jitter, and before the next tick, so that they stay in order.
fn due_at(schedule: &Schedule, timing: &Timing, tick: Timestamp) -> Timestamp {
    let most = schedule.jitter();
    if most.is_zero() {
        return tick;
    }
    let gap = timing.next_after(tick).and_then(|next| Duration::try_from(next.duration_since(tick)).ok());
    later(tick, jitter(schedule.name(), tick, gap.map_or(most, |gap| gap.min(most))))
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}
