//! Steps of schedules on their way to the store: so many together that the store answers in time.

use crate::core::Core;
use tracing::{debug, warn};
use windlass_core::{Result, ScheduleStep};

/// The most jobs of one call, and the most bytes of their args: a tick after an outage may fire a thousand.
const MOST_JOBS: usize = 1_000;
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// How much steps enqueue.
#[derive(Default)]
pub(crate) struct Size {
    jobs: usize,
    bytes: usize,
}

impl Size {
    pub(crate) fn add(&mut self, step: &ScheduleStep) {
        self.jobs += step.jobs.len();
        self.bytes += step.jobs.iter().map(|job| job.args().len()).sum::<usize>();
    }

    /// Whether it goes in one call.
    pub(crate) fn fits(&self) -> bool {
        self.jobs <= MOST_JOBS && self.bytes <= MOST_BYTES
    }
}

/// How many of these steps go in one call: at least one.
pub(crate) fn together(steps: &[ScheduleStep]) -> usize {
    let mut size = Size::default();
    let fits = |step: &&ScheduleStep| {
        size.add(step);
        size.fits()
    };
    steps.iter().take_while(fits).count().max(1)
}

/// Takes the steps. Whether each was taken. A schedule whose job the store refuses gets that as its error, and does not hold up
/// the others.
pub(crate) async fn take(core: &Core, steps: &[ScheduleStep]) -> Result<Vec<bool>> {
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
