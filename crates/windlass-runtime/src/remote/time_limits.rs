//! Holds the jobs of a worker that runs elsewhere to their time. It is told when that is over, or that a job is to be cancelled, and after the grace the attempt
//! has failed, or is cancelled, whatever the worker does. There is a task for each worker that was given a job with a limit, or was told to cancel one.

use super::{
    RemoteWorker,
    due::due_or_rung,
    settling::By,
    table::{Held, Table},
    whole,
};
use crate::{
    epoch::Phase,
    lend::{HandIn, Ticket},
    outage::Outage,
    time_limit,
};
use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use windlass_core::{Outcome, Result};

impl Held {
    /// When its time, and so much more, is over.
    fn over_at(&self, more: Duration) -> Option<Instant> {
        self.handed_at?.checked_add(self.given.timeout?.saturating_add(more))
    }

    /// Whether its time is over.
    pub(super) fn is_late(&self) -> bool {
        self.over_at(Duration::ZERO).is_some_and(|at| at <= Instant::now())
    }

    /// How the attempt fails that ended in this error after its time was over.
    pub(super) fn late_error(&self, error: &str) -> Option<String> {
        self.is_late().then(|| time_limit::text(self.given.timeout.unwrap_or_default(), error))
    }
}

impl Table {
    /// When the time of a job is over of which the worker was not told that yet.
    pub(super) fn next_limit(&self) -> Option<Instant> {
        self.jobs
            .values()
            .filter(|held| !held.told_late)
            .filter_map(|held| held.over_at(Duration::ZERO))
            .min()
    }

    /// When a job is taken away that nobody settles just now: after the grace that follows its time, or a request to cancel it.
    fn end_of(&self, held: &Held, grace: Duration) -> Option<Instant> {
        if held.settling > 0 {
            return None;
        }
        // One that was taken away and could not be settled.
        if held.timed_out {
            return held.handed_at;
        }
        let cancelled = self.told_to_cancel_at(held).and_then(|told| told.checked_add(grace));
        [held.over_at(grace), cancelled].into_iter().flatten().min()
    }

    /// When the next one is taken away.
    fn next_end(&self, grace: Duration) -> Option<Instant> {
        self.jobs.values().filter_map(|held| self.end_of(held, grace)).min()
    }

    /// The jobs that are taken away now: from here on they are not the worker's.
    fn time_out(&mut self, grace: Duration) -> Vec<Ticket> {
        let now = Instant::now();
        let is_over = |held: &Held| self.end_of(held, grace).is_some_and(|at| at <= now);
        let over: Vec<_> =
            self.jobs.iter().filter(|(_, held)| is_over(held)).map(|(ticket, _)| *ticket).collect();
        for ticket in &over {
            self.jobs.entry(*ticket).and_modify(|held| held.timed_out = true);
        }
        over
    }
}

impl RemoteWorker {
    /// When a [beat](Self::beat) has news because the time of a job is over.
    pub fn next_limit(&self) -> Option<Instant> {
        self.lock().next_limit()
    }

    /// It was given a job with a time limit, or told to stop one.
    pub(super) fn hold_limits(self: &Arc<Self>) {
        if !self.holds_limits.swap(true, Ordering::Relaxed) {
            tokio::spawn(run(Arc::downgrade(self), Arc::clone(&self.limits_bell)));
        }
        self.limits_bell.notify_one();
    }

    async fn time_out(self: &Arc<Self>) -> Result<()> {
        let grace = self.spec.timeout_grace;
        let outcome = || {
            let error =
                format!("the worker went on for {grace:?} more, and nothing it says is taken any more");
            Outcome::Retry { after: None, error }
        };
        let over = self.lock().time_out(grace);
        let done = over.into_iter().map(|ticket| HandIn { ticket, outcome: outcome() }).collect();
        let worker = Arc::clone(self);
        whole(tokio::spawn(async move { worker.settle_whole(done, By::TimeLimit).await })).await?;
        Ok(())
    }
}

/// Holds to the limits until the worker ended.
async fn run(worker: Weak<RemoteWorker>, bell: Arc<Notify>) {
    let mut outage = Outage::new("time out", fastrand::f64);
    while let Some(this) = worker.upgrade() {
        let (phase, due) = {
            let table = this.lock();
            (table.phase(), table.next_end(this.spec.timeout_grace))
        };
        if phase == Phase::Lost {
            return;
        }
        if due.is_none_or(|due| due > Instant::now()) {
            drop(this);
            due_or_rung(due, &bell).await;
            continue;
        }
        match this.time_out().await {
            Ok(()) => outage.over(),
            Err(error) if error.is_lease_lost() => return,
            Err(error) => {
                drop(this);
                sleep(outage.failed(&error)).await;
            }
        }
    }
}
