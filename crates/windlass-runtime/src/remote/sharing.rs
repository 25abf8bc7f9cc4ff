//! Asks the store for the shares of a worker that runs elsewhere. There is a task for each worker that met a queue with limits.

use super::{RemoteWorker, due::due_or_rung};
use crate::{outage::Outage, sharer::MOST_QUEUES};
use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};
use tracing::warn;
use windlass_core::{QueueNeed, Result, Share, ShareRequest};

/// Who wants jobs waits for an answer about shares that is due so soon.
pub(super) const SOON: Duration = Duration::from_millis(5);
/// And for that answer so long.
const PATIENCE: Duration = Duration::from_secs(1);

impl RemoteWorker {
    /// A claim was refused because the worker has no share of these queues.
    pub(super) fn limits_are(self: &Arc<Self>, queues: &[Arc<str>]) {
        self.lock().limits_are(queues, false);
        self.share_from_now_on();
    }

    /// A heartbeat said that these queues have limits.
    pub(super) fn limits_told(self: &Arc<Self>, queues: &[Arc<str>]) {
        let is_any = {
            let mut table = self.lock();
            table.limits_told(queues);
            table.limits.is_any()
        };
        if is_any {
            self.share_from_now_on();
        }
    }

    fn share_from_now_on(self: &Arc<Self>) {
        if !self.shares.swap(true, Ordering::Relaxed) {
            tokio::spawn(run(Arc::downgrade(self), Arc::clone(&self.bell)));
        }
        self.ring();
    }

    /// Something changed that the store may have to know.
    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Waits for the store's answer about queues with limits if that is due within this time. Whether there may be more to give out.
    pub(super) async fn await_share(&self, within: Duration) -> bool {
        let gains = *self.gains.borrow();
        let by = Instant::now() + within;
        // A call that is under way knows nothing of what was claimed since it began.
        let calls = if self.lock().limits.asking { 2 } else { 1 };
        for _ in 0..calls {
            let mut rounds = {
                let table = self.lock();
                if !table.share_is_near(by) {
                    break;
                }
                self.rounds.subscribe()
            };
            self.ring();
            if timeout(PATIENCE, rounds.changed()).await.is_err() {
                break;
            }
        }
        *self.gains.borrow() != gains
    }

    /// Asks for what is due.
    async fn ask(&self, generation: u32) -> Result<()> {
        let asked_for = self.lock().begin_asking();
        let (mut answer, mut failed, mut is_more) = (Ok(()), &[][..], false);
        for part in asked_for.chunks(MOST_QUEUES) {
            match self.ask_for(part, generation).await {
                Ok(more) => is_more |= more,
                Err(error) => {
                    (answer, failed) = (Err(error), part);
                    break;
                }
            }
        }
        {
            // At once: who sees that no call is under way waits for the end of another one.
            let mut table = self.lock();
            table.end_asking(failed);
            if is_more {
                self.gains.send_modify(|count| *count += 1);
            }
            self.rounds.send_modify(|count| *count += 1);
        }
        answer?;
        if let Err(error) = self.pay().await {
            warn!(worker = %self.id(), %error, "could not hand jobs back that wait for a start; that is tried again with the next turn");
        }
        Ok(())
    }

    /// Whether somebody who waits may get jobs now.
    async fn ask_for(&self, asked_for: &[(Arc<str>, bool)], generation: u32) -> Result<bool> {
        let mut more = Vec::with_capacity(asked_for.len());
        for (queue, look) in asked_for {
            more.push(*look && self.store.any_available(&[queue.to_string()], &self.spec.kinds).await?);
        }
        let queues = {
            let mut table = self.lock();
            let need =
                |((queue, _), more): (&(Arc<str>, bool), bool)| table.share_need(self.worker, queue, more);
            asked_for.iter().zip(more).filter_map(need).collect()
        };
        let asked_at = Instant::now();
        let request = ShareRequest { worker: self.worker, generation, queues };
        let shares = self.store.share(&request).await?;
        let mut table = self.lock();
        let is_more = |(need, share): (&QueueNeed, &Option<Share>)| {
            table.set_share(&need.queue, share.as_ref(), asked_at)
        };
        // All of them, not only up to the first that brought more.
        Ok(request.queues.iter().zip(&shares).map(is_more).fold(false, |one, other| one | other))
    }
}

/// Asks until the worker ended.
async fn run(worker: Weak<RemoteWorker>, bell: Arc<Notify>) {
    let (mut outage, mut generation) = (Outage::new("share", fastrand::f64), 0);
    while let Some(this) = worker.upgrade() {
        let (is_over, due) = {
            let table = this.lock();
            (table.is_over_for_good(), table.shares_due())
        };
        if is_over {
            return;
        }
        if due.is_none_or(|due| due > Instant::now()) {
            drop(this);
            due_or_rung(due, &bell).await;
            continue;
        }
        match this.fenced(this.ask(generation).await) {
            Ok(()) => outage.over(),
            Err(error) if error.is_lease_lost() => return,
            Err(error) => {
                generation += 1;
                drop(this);
                sleep(outage.failed(&error)).await;
            }
        }
    }
}
