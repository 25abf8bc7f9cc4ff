//! Jobs on offer that nobody takes do not wait with their worker while other workers have room for them: they go back to the store.
//!
//! A worker may have more places than foreign code runs jobs at once: ten of a queue whose jobs two child processes run, say. What it claims beyond that is on offer, and counts
//! as running. As with jobs that were claimed ahead (`overfull.rs`), nothing goes back while the store has jobs of the queue that nobody takes. What does would be claimed again
//! at once, since it left a place: so the queue claims nothing for as long, and others are first. What comes back nevertheless, nobody else wants: it waits twice as long.

use super::{Lender, Ticket};
use crate::{ahead::PATIENCE, core::Core, outage::Outage, overfull::NO_KIND, queue_runner::QueueRunner};
use std::{collections::HashMap, sync::Arc};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tracing::debug;
use windlass_core::{JobId, Result};

/// A job that comes back each time waits for so many looks at most: half a minute.
const MOST_LOOKS: u32 = 64;

/// What is known of the jobs of a queue.
#[derive(Default)]
struct Untaken {
    /// How many looks those on offer have waited for.
    waited: HashMap<Ticket, u32>,
    /// For how many looks those that went back did, and when that was.
    given_back: HashMap<JobId, (u32, Instant)>,
}

impl Untaken {
    /// Those that have waited for long.
    fn due(&mut self, on_offer: &[(Ticket, JobId)]) -> Vec<(Ticket, JobId)> {
        let waits = |ticket| self.waited.get(ticket).map_or(0, |looks| looks + 1);
        self.waited = on_offer.iter().map(|(ticket, _)| (*ticket, waits(ticket))).collect();
        let is_due = |(ticket, job): &&(Ticket, JobId)| self.waited[ticket] >= self.looks(*job);
        on_offer.iter().filter(is_due).copied().collect()
    }

    /// For how many looks this job waits.
    fn looks(&self, job: JobId) -> u32 {
        self.given_back.get(&job).map_or(1, |(looks, _)| (looks * 2).min(MOST_LOOKS))
    }

    fn gave_back(&mut self, jobs: &[(Ticket, JobId)]) {
        let now = Instant::now();
        self.given_back.retain(|_, (_, at)| now - *at < PATIENCE * MOST_LOOKS * 2);
        for (_, job) in jobs {
            let looks = self.looks(*job);
            self.given_back.insert(*job, (looks, now));
        }
    }
}

impl QueueRunner {
    fn rests(&self, rests: bool) {
        self.lock().rests = rests;
    }
}

impl Lender {
    /// Whether nothing is on offer; whoever asks is told when something is.
    fn has_no_offers(&self, news: &Arc<Notify>) -> bool {
        let mut loans = self.lock();
        let none = loans.offered() == 0;
        loans.watcher = none.then(|| Arc::clone(news));
        none
    }
}

/// Looks until it is dropped, and sleeps while nothing is on offer.
pub(super) async fn watch(lender: &Lender, core: &Core) {
    let mut outage = Outage::new("look for available jobs", core.config.random);
    let mut queues: Vec<_> = core.runners.iter().map(|runner| (&**runner, Untaken::default())).collect();
    let (news, mut resting) = (Arc::new(Notify::new()), Vec::new());
    loop {
        if resting.is_empty() && lender.has_no_offers(&news) {
            news.notified().await;
        }
        let mut pause = PATIENCE;
        for (runner, untaken) in &mut queues {
            match look(lender, core, runner, untaken).await {
                Ok(rests) => resting.extend(rests.then_some(*runner)),
                Err(error) => pause = outage.failed(&error),
            }
        }
        if pause == PATIENCE {
            outage.over();
        }
        sleep(pause).await;
        for runner in resting.drain(..) {
            runner.rests(false);
            core.signals.wake_claimer();
        }
    }
}

/// Whether jobs of this queue went back, so that it rests.
async fn look(lender: &Lender, core: &Core, runner: &QueueRunner, untaken: &mut Untaken) -> Result<bool> {
    let on_offer = lender.lock().on_offer(runner.queue());
    let mut due = untaken.due(&on_offer);
    if due.is_empty()
        || core.store.any_available(&[runner.queue().to_string()], &[NO_KIND.to_owned()]).await?
    {
        return Ok(false);
    }
    runner.rests(true);
    lender.change(|loans, calls| due.retain(|(ticket, _)| loans.give_back(*ticket, calls)));
    untaken.gave_back(&due);
    debug!(queue = %runner.queue(), jobs = due.len(), "handed back jobs that nobody was free to run");
    core.signals.wake_settler();
    if due.is_empty() {
        runner.rests(false);
    }
    Ok(!due.is_empty())
}
