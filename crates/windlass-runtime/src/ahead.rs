//! Jobs that a worker claimed ahead do not wait with it for a place while other workers have some: they go back to the store.
//!
//! A worker claims ahead what it starts within a few round trips at its present pace. When long jobs suddenly fill its places, that estimate was wrong.
//! While the store has jobs of the queue that nobody takes, no worker has a free place, so nothing goes back then: wholly busy workers beside a backlog
//! write nothing for this.

use crate::{
    core::Core,
    estimate::{Prefetch, RoundTrip},
    outage::Outage,
    queue_runner::QueueRunner,
    queue_state::HandBack,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;
use windlass_core::Result;

/// How long a job that could start waits for a place before it goes back, at least. Also how often to look at most.
const PATIENCE: Duration = Duration::from_millis(500);
/// And at least so many round trips of claims: twice of what is claimed ahead for.
const ROUND_TRIPS: u32 = 8;
/// A worker that handed jobs back claims ahead again one for so many that it finishes, until that is what its pace says.
const FINISHED_PER_JOB: u64 = 8;

/// How far a queue runner may claim ahead.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// How many jobs had finished when it last handed some back; `None` when its pace alone decides.
    handed_back_at: Option<u64>,
    /// How long a claim takes.
    trip: Duration,
}

impl Ahead {
    /// So much of what the pace says. At bursts of long jobs' ends it says too much, time and again.
    pub(crate) fn admits(&mut self, pace: Prefetch, trip: RoundTrip, finished: u64) -> Prefetch {
        self.trip = trip.duration();
        let Some(most) = self.most(finished) else { return pace };
        let admitted = pace.at_most(most);
        if admitted == pace && pace.full > 0 {
            self.handed_back_at = None;
        }
        admitted
    }

    /// How many jobs at most, where that is not up to the pace.
    pub(crate) fn most(&self, finished: u64) -> Option<usize> {
        self.handed_back_at.map(|then| ((finished - then) / FINISHED_PER_JOB) as usize)
    }

    fn patience(&self) -> Duration {
        (self.trip * ROUND_TRIPS).max(PATIENCE)
    }
}

impl QueueRunner {
    /// When the oldest of its ready jobs has waited for long.
    fn ready_too_long_at(&self) -> Option<Instant> {
        let state = self.lock();
        state.ready.waiting_since().map(|since| since + state.ahead.patience())
    }

    /// Whether jobs have waited for long because as many run as may.
    fn is_overfull(&self) -> bool {
        self.ready_too_long_at().is_some_and(|at| at <= Instant::now()) && self.lock().is_full()
    }

    /// Hands back the jobs that have waited for long, unless a place came free.
    fn hand_back_overfull(&self) -> usize {
        let mut state = self.lock();
        let then = Instant::now().checked_sub(state.ahead.patience()).filter(|_| state.is_full());
        let Some(then) = then else { return 0 };
        let before = state.ready.len();
        let unstarted = state.ready.remove_since(then);
        state.hand_back(unstarted, HandBack::Return);
        state.ahead.handed_back_at = Some(state.counters.finished);
        before - state.ready.len()
    }
}

/// Looks until it is dropped, and sleeps while no job is ready.
pub(crate) async fn run(core: Arc<Core>) {
    let mut outage = Outage::new("look for available jobs", core.config.random);
    loop {
        let Some(due) = core.runners.iter().filter_map(|runner| runner.ready_too_long_at()).min() else {
            core.signals.claimed().await;
            continue;
        };
        sleep_until(due).await;
        match look(&core).await {
            Ok(()) => {
                outage.over();
                sleep(PATIENCE).await;
            }
            Err(error) => sleep(outage.failed(&error)).await,
        }
    }
}

async fn look(core: &Core) -> Result<()> {
    let kinds = core.dispatch.kinds();
    for runner in core.runners.iter().filter(|runner| runner.is_overfull()) {
        let queue = runner.queue().to_string();
        if core.store.any_available(&[queue], &kinds).await? {
            continue;
        }
        let jobs = runner.hand_back_overfull();
        debug!(queue = %runner.queue(), jobs, "handed back jobs that waited for a place");
        core.signals.wake_settler();
    }
    Ok(())
}
