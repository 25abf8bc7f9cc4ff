//! Schedules: the worker that leads decides about those that are due.
//!
//! Nothing here makes a tick fire once. Whoever decides has the store take the step only from the record that it decided on, so a
//! worker that believes to lead and does not, or that died half-way, is harmless. Leadership only saves the work of the others.

use crate::{
    backoff::{Backoff, spread},
    core::Core,
    outage::Outage,
};
use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::sleep;
use tracing::{debug, warn};
use windlass_core::{DueSchedules, ErrorKind, JobId, Result, ScheduleRecord, ScheduleStep};
use windlass_schedule::{Decider, Decision, LastJob};

/// How many schedules one look decides about; more are due at once.
const AT_ONCE: u32 = 500;
/// The most jobs of one call, and the most bytes of their args: a tick after an outage may fire a thousand.
const MOST_JOBS: usize = 1_000;
const MOST_BYTES: usize = 4 * 1024 * 1024;
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
    let mut refused = Backoff::new(CHANGED, LOCKED, core.config.random);
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
async fn look(core: &Core, decider: &mut Decider, refused: &mut Backoff) -> Result<Duration> {
    let due = core.store.due_schedules(AT_ONCE).await?;
    let mut next = due.next_due.unwrap_or(LOOK_EVERY);
    let steps = decide_all(core, decider, &due).await?;
    let mut rest = &steps[..];
    let mut count = 0;
    while !rest.is_empty() {
        let (some, behind) = rest.split_at(together(rest));
        rest = behind;
        for (step, taken) in some.iter().zip(take(core, some).await?) {
            if taken {
                count += 1;
                let until = step.due_at.map(|at| Duration::try_from(at.duration_since(due.now)));
                next = next.min(until.map_or(LOOK_EVERY, |until| until.unwrap_or_default()));
            }
        }
    }
    if due.due.len() >= AT_ONCE as usize && count > 0 {
        next = Duration::ZERO;
    }
    if count == steps.len() {
        refused.reset();
    } else {
        next = next.min(refused.step());
    }
    let longest = spread(LOOK_EVERY, (core.config.random)());
    Ok(next.min(longest).max(SHORTEST))
}

async fn decide_all(core: &Core, decider: &mut Decider, due: &DueSchedules) -> Result<Vec<ScheduleStep>> {
    let mut steps = Vec::with_capacity(due.due.len());
    let mut unsure: Vec<&ScheduleRecord> = Vec::new();
    for record in &due.due {
        match decider.decide(record, due.now, None) {
            Decision::Step(step) => steps.push(*step),
            Decision::NeedsLastJob => unsure.push(record),
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
        if let Decision::Step(step) = decider.decide(record, due.now, Some(last)) {
            steps.push(*step);
        }
    }
    Ok(steps)
}

/// How many of these steps go in one call: at least one.
fn together(steps: &[ScheduleStep]) -> usize {
    let (mut jobs, mut bytes) = (0, 0);
    let fits = |step: &&ScheduleStep| {
        jobs += step.jobs.len();
        bytes += step.jobs.iter().map(|job| job.args().len()).sum::<usize>();
        jobs <= MOST_JOBS && bytes <= MOST_BYTES
    };
    steps.iter().take_while(fits).count().max(1)
}

/// Takes the steps. Whether each was taken. A schedule whose job the store refuses gets that as its error, and does not hold up
/// the others.
async fn take(core: &Core, steps: &[ScheduleStep]) -> Result<Vec<bool>> {
    let taken = match core.store.advance_schedules(steps).await {
        Err(error) if error.is_invalid_input() => return take_each(core, steps).await,
        taken => taken?,
    };
    if taken.iter().flatten().any(|ids| !ids.is_empty()) {
        core.signals.wake_claimer();
    }
    for (step, ids) in steps.iter().zip(&taken) {
        match (&step.error, ids) {
            (_, None) => debug!(schedule = step.name, "somebody else was first, or has it locked"),
            (Some(error), _) => warn!(schedule = step.name, error, "does not fire: its definition is wrong"),
            (None, Some(ids)) => {
                debug!(schedule = step.name, jobs = ids.len(), next = ?step.next_tick, "decided");
            }
        }
    }
    Ok(taken.iter().map(Option::is_some).collect())
}

async fn take_each(core: &Core, steps: &[ScheduleStep]) -> Result<Vec<bool>> {
    let mut taken = Vec::with_capacity(steps.len());
    for step in steps {
        let ids = match core.store.advance_schedules(std::slice::from_ref(step)).await {
            Err(error) if error.is_invalid_input() => {
                warn!(schedule = step.name, %error, "does not fire: its job is refused");
                core.store.advance_schedules(&[step.clone().refused(&error)]).await?
            }
            ids => ids?,
        };
        taken.extend(ids.iter().map(Option::is_some));
    }
    core.signals.wake_claimer();
    Ok(taken)
}
