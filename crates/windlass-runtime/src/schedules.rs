//! Schedules: the worker that leads decides about those that are due.
//!
//! Nothing here makes a tick fire once. Whoever decides has the store take the step only from the record that it decided on, so a
//! worker that believes to lead and does not, or that died half-way, is harmless. Leadership only saves the work of the others.

use crate::{
    backoff::{Backoff, spread},
    core::Core,
    outage::Outage,
    schedule_steps::{Size, take, together},
};
use jiff::Timestamp;
use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::sleep;
use windlass_core::{ErrorKind, JobId, Result, ScheduleRecord, ScheduleStep};
use windlass_schedule::{Decider, Decision, LastJob};

/// How many schedules one look decides about; more are due at once.
const AT_ONCE: u32 = 500;
/// How many more it looks at, at most: twice as many as the look before met that somebody has locked. These are the longest due, and would be all that looks ever see.
const MOST_LOCKED: u32 = 20_000;
/// The longest time between two looks: the store's clock may have been set forward, a hint may be lost.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The pause before a schedule is looked at again that somebody changed meanwhile. It doubles up to the longest while steps go on being refused: somebody who is
/// about to change a schedule may have it locked for long.
const CHANGED: Duration = Duration::from_millis(10);
const LOCKED: Duration = Duration::from_secs(1);
/// A schedule that is due in a moment must not make a busy loop.
const SHORTEST: Duration = Duration::from_millis(1);

/// Looks whenever a schedule is due, while this worker leads.
pub(crate) async fn run(core: Arc<Core>) {
    let mut outage = Outage::new("schedules", core.config.random);
    let mut decider = Decider::default();
    let mut refused = Refused { backoff: Backoff::new(CHANGED, LOCKED, core.config.random), locked: 0 };
    loop {
        if !core.leads.load(Ordering::Relaxed) {
            decider = Decider::default();
            core.schedules.notified().await;
            continue;
        }
        let pause = match look(&core, &mut decider, &mut refused).await {
            Ok(pause) => {
                outage.over();
                pause
            }
            // An older schema has no schedules.
            Err(error) if error.kind() == ErrorKind::SchemaTooOld => LOOK_EVERY,
            Err(error) => outage.failed(&error),
        };
        tokio::select! {
            biased;
            () = sleep(pause) => {}
            () = core.schedules.notified() => {}
        }
    }
}

/// Decides about what is due. How long until the next look.
async fn look(core: &Core, decider: &mut Decider, refused: &mut Refused) -> Result<Duration> {
    let limit = AT_ONCE + refused.locked;
    let due = core.store.due_schedules(limit).await?;
    let mut next = due.next_due.unwrap_or(LOOK_EVERY);
    let (mut records, mut decided, mut taken) = (&due.due[..], 0, 0);
    while !records.is_empty() {
        let steps = decide_some(core, decider, &mut records, due.now).await?;
        decided += steps.len();
        let mut rest = &steps[..];
        while !rest.is_empty() {
            let (some, behind) = rest.split_at(together(rest));
            rest = behind;
            let is_taken = take(core, some).await?;
            for (step, _) in some.iter().zip(is_taken).filter(|(_, is_taken)| *is_taken) {
                taken += 1;
                let until = step.due_at.map(|at| Duration::try_from(at.duration_since(due.now)));
                next = next.min(until.map_or(LOOK_EVERY, |until| until.unwrap_or_default()));
            }
        }
    }
    if due.due.len() >= limit as usize && taken > 0 {
        next = Duration::ZERO;
    }
    next = next.min(refused.after(decided - taken));
    let longest = spread(LOOK_EVERY, (core.config.random)());
    Ok(next.min(longest).max(SHORTEST))
}

/// What the looks before met of steps that were not taken.
struct Refused {
    backoff: Backoff,
    locked: u32,
}

impl Refused {
    /// A look has ended in which so many steps were not taken. How long to wait at most.
    fn after(&mut self, refused: usize) -> Duration {
        self.locked = u32::try_from(2 * refused).unwrap_or(MOST_LOCKED).min(MOST_LOCKED);
        if refused == 0 {
            self.backoff.reset();
            return LOOK_EVERY;
        }
        self.backoff.step()
    }
}

/// Decides about the first of these records: as many as lead to the jobs of a call, so that the jobs of all need not be in memory at once.
async fn decide_some(
    core: &Core,
    decider: &mut Decider,
    records: &mut &[ScheduleRecord],
    now: Timestamp,
) -> Result<Vec<ScheduleStep>> {
    let (mut steps, mut size) = (Vec::new(), Size::default());
    let mut unsure: Vec<&ScheduleRecord> = Vec::new();
    while let [record, behind @ ..] = *records {
        *records = behind;
        match decider.decide(record, now, None) {
            Decision::Step(step) => {
                size.add(&step);
                steps.push(*step);
            }
            Decision::NeedsLastJob => unsure.push(record),
        }
        if !size.fits() {
            break;
        }
    }
    if unsure.is_empty() {
        return Ok(steps);
    }
    let ids: Vec<JobId> = unsure.iter().filter_map(|record| record.last_job).collect();
    let ended = core.store.ended(&ids).await?;
    let ended: HashSet<JobId> = ended.jobs.iter().map(|job| job.id).chain(ended.unknown).collect();
    for record in unsure {
        let has_ended = record.last_job.is_none_or(|job| ended.contains(&job));
        let last = if has_ended { LastJob::Ended } else { LastJob::Unfinished };
        if let Decision::Step(step) = decider.decide(record, now, Some(last)) {
            steps.push(*step);
        }
    }
    Ok(steps)
}
