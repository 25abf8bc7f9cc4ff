//! Jobs that a worker claimed ahead do not wait with it for a place while other workers have some: they go back to the store.
//!
//! A worker claims ahead what it starts within a few round trips at its present pace. When long jobs suddenly fill its places, that estimate was wrong.
//! While the store has jobs of the queue that nobody takes, no worker has a free place, so nothing goes back then: wholly busy workers beside a backlog
//! write nothing for this. Jobs that wait for a worker that knows their kind say nothing of the others, which leave them there also with free places.

use crate::{ahead::PATIENCE, core::Core, outage::Outage, queue_runner::QueueRunner, queue_state::HandBack};
use std::sync::Arc;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::debug;
use windlass_core::Result;

/// What no job's kind is: a worker that knew it alone would find what any other finds.
pub(crate) const NO_KIND: &str = "";

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
        let finished = state.counters.finished;
        state.ahead.handed_back(finished);
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
    for runner in core.runners.iter().filter(|runner| runner.is_overfull()) {
        let queue = runner.queue().to_string();
        if core.store.any_available(&[queue], &[NO_KIND.to_owned()]).await? {
            continue;
        }
        let jobs = runner.hand_back_overfull();
        debug!(queue = %runner.queue(), jobs, "handed back jobs that waited for a place");
        core.signals.wake_settler();
    }
    Ok(())
}
