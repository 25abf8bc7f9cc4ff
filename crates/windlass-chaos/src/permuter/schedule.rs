//! The order's schedule, which bears the name of its queue, and the steps that leaders take.

use jiff::SignedDuration;
use windlass_core::{Args, NewJob, Result, Schedule, ScheduleFilter, ScheduleRecord, ScheduleStep};

/// The kind of what a tick enqueues.
pub(super) const TICK_KIND: &str = "a";

/// How far ticks are apart.
const APART: SignedDuration = SignedDuration::from_secs(1);

/// As it is declared.
pub(super) fn declared(queue: &str) -> Result<Schedule> {
    Ok(Schedule::new(queue, "* * * * * *", job(queue)?))
}

/// Finds it.
pub(super) fn filter(queue: &str) -> ScheduleFilter {
    ScheduleFilter { name: Some(queue.to_owned()), ..ScheduleFilter::default() }
}

/// The step by which the next tick fires; `None` where a leader would let none fire.
pub(super) fn fire(record: &ScheduleRecord) -> Option<ScheduleStep> {
    if record.paused {
        return None;
    }
    let tick = record.decided.checked_add(APART).ok()?;
    let mut step = ScheduleStep::of(record);
    (step.decided, step.last_tick) = (tick, Some(tick));
    step.next_tick = tick.checked_add(APART).ok();
    step.due_at = step.next_tick;
    step.jobs = vec![job(&record.name).ok()?];
    Some(step)
}

fn job(queue: &str) -> Result<NewJob> {
    Ok(NewJob::new(TICK_KIND, Args::parse("{}")?).with_queue(queue.to_owned()))
}
