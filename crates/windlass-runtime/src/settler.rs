use crate::{
    batch::{Batch, Batches},
    config::Settling,
    core::Core,
    epoch::Epoch,
    estimate::RoundTrip,
    outage::Outage,
    refused::{MOST_REFUSALS, instead, is_defect},
    round::{Eagerness, Round},
    signals::Await,
    sync::atomic::Ordering,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use tracing::{error, warn};
use windlass_core::{ClaimRef, Disposition, Result, SettleReply, SettleRequest, Settled};

/// How long finished jobs may wait for the rest of their claim while the claim makes fast progress: as long as about
/// two settle calls, within these bounds.
const LEAST_PATIENCE: Duration = Duration::from_millis(2);
const MOST_PATIENCE: Duration = Duration::from_millis(20);

/// While results come one by one, calls begin at least this far apart: each call costs a flush of the store's log,
/// which the next enqueue would have to wait for.
const SPACING: Duration = Duration::from_millis(2);
/// A call for at least this many jobs is worth its flush, whenever it comes. Shuttle has no clock: there every call is.
const FEW: usize = if cfg!(all(test, feature = "shuttle")) { 0 } else { 100 };

/// Tells the store what became of jobs, by group commit. While one call is under way, or was just begun, results
/// collect; when it returns, they go with the next.
pub(crate) struct Settler {
    core: Arc<Core>,
    round: u64,
    trip: RoundTrip,
    outage: Outage,
}

impl Settler {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let outage = Outage::new("settle", core.config.random);
        Self { core, round: 0, trip: RoundTrip::default(), outage }
    }

    /// Settles until the drain switch is on and nothing is left.
    pub(crate) async fn run(mut self) {
        loop {
            self.round += 1;
            let mut batches = self.collect(Eagerness::Patient).0;
            if batches.is_empty() {
                batches = self.collect(Eagerness::Eager).0;
            }
            if batches.is_empty() {
                batches = self.wait().await;
            }
            if batches.is_empty() && self.core.switches.drain.is_cancelled() && !self.is_dirty() {
                return;
            }
            let began = Instant::now();
            let mut jobs = 0;
            for batch in batches.into_vec() {
                jobs += batch.jobs;
                self.settle(batch).await;
            }
            if (1..FEW).contains(&jobs) {
                self.space_out(began + SPACING).await;
            }
        }
    }

    /// Waits until then, so that results collect, unless somebody waits for them to be stored.
    async fn space_out(&self, until: Instant) {
        let core = &self.core;
        if core.config.settling == Settling::Strict || core.full.load(Ordering::Relaxed) {
            return;
        }
        tokio::select! {
            biased;
            () = core.switches.stop.cancelled() => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }

    fn collect(&self, eagerness: Eagerness) -> (Batches, bool) {
        let mut batches = Batches::default();
        let draining = self.core.switches.drain.is_cancelled();
        let round = Round {
            number: self.round,
            now: Instant::now(),
            eagerness: if draining { Eagerness::Flush } else { eagerness },
            rate: 0.0,
            patience: self.patience(),
        };
        let mut held = false;
        for runner in &self.core.runners {
            held |= runner.collect(&round, &mut batches);
        }
        (batches, held)
    }

    fn patience(&self) -> Duration {
        (self.trip.duration() * 2).clamp(LEAST_PATIENCE, MOST_PATIENCE)
    }

    /// Announces what it waits for, looks once more, and waits.
    async fn wait(&self) -> Batches {
        let signals = &self.core.signals;
        let awaited = if self.is_dirty() { Await::Claim } else { Await::Job };
        signals.announce(awaited);
        let (batches, held) = match cfg!(feature = "bug_no_second_look") {
            true => (Batches::default(), awaited == Await::Claim),
            false => self.collect(Eagerness::Eager),
        };
        if batches.is_empty() && held == (awaited == Await::Claim) {
            tokio::select! {
                biased;
                () = signals.settler_woken() => {}
                () = tokio::time::sleep(self.patience() / 2), if held => {}
                () = self.core.switches.drain.cancelled() => {}
            }
        }
        signals.announce(Await::Nothing);
        batches
    }

    fn is_dirty(&self) -> bool {
        self.core.runners.iter().any(|runner| runner.is_dirty())
    }

    /// Writes one batch, however long that takes. Repeating it is harmless. A batch that the store keeps refusing is
    /// halved, until only the refused job is [settled otherwise](instead). Only when that is refused as well, the
    /// registration is given up, which hands its jobs back.
    async fn settle(&mut self, batch: Batch) {
        let core = Arc::clone(&self.core);
        core.settling.store(batch.jobs, Ordering::Relaxed);
        let mut refusals = 0;
        let mut left = if batch.jobs > 0 { vec![batch.request] } else { vec![] };
        while let Some(request) = left.pop()
            && !batch.epoch.is_lost()
        {
            let error = match self.write(&batch.epoch, &request, &mut refusals).await {
                Ok(()) => continue,
                Err(error) => error,
            };
            let jobs = request.exceptions.len() + request.completions.len();
            match instead(request, &error) {
                Some(parts) => {
                    warn!(%error, entries = jobs, "the store refuses a settlement; looking for the job that it is about");
                    left.extend(parts.into_iter().rev());
                }
                None => {
                    error!(%error, jobs = batch.jobs, "the store refuses a settlement for good; its jobs are handed back");
                    core.lose(&batch.epoch);
                }
            }
        }
        if !batch.epoch.is_lost() {
            core.settled.fetch_add(batch.jobs as u64, Ordering::Relaxed);
        }
        core.settling.store(0, Ordering::SeqCst);
        batch.epoch.claims_closed(batch.closed_claims);
        if core.full.load(Ordering::SeqCst) {
            core.signals.wake_claimer();
        }
    }

    /// Tries until the store accepted it, or the registration was lost. An error says that the store keeps refusing it.
    async fn write(&mut self, epoch: &Arc<Epoch>, request: &SettleRequest, refusals: &mut u32) -> Result<()> {
        let core = Arc::clone(&self.core);
        while !epoch.is_lost() {
            let asked_at = Instant::now();
            match core.store.settle(request).await {
                Ok(reply) => {
                    self.trip.observe(asked_at.elapsed());
                    self.outage.over();
                    self.accept(epoch, request, &reply);
                    break;
                }
                Err(error) if error.is_lease_lost() => core.lose(epoch),
                Err(error) if is_defect(&error) && *refusals == MOST_REFUSALS => return Err(error),
                Err(_) if cfg!(feature = "bug_drop_batch_on_error") => break,
                Err(error) => {
                    *refusals += u32::from(is_defect(&error));
                    let pause = self.outage.failed(&error);
                    tokio::time::sleep(pause).await;
                }
            }
        }
        Ok(())
    }

    fn accept(&self, epoch: &Arc<Epoch>, request: &SettleRequest, reply: &SettleReply) {
        let claims = request.completions.iter().map(|entry| entry.claim);
        let claims = claims.chain(request.exceptions.iter().map(|entry| entry.claim));
        let replies = reply.completions.iter().chain(&reply.exceptions).zip(claims);
        let refused = replies.filter(|(settled, _)| **settled == Settled::Refused).map(|(_, claim)| claim);
        let refused: Vec<ClaimRef> = refused.collect();
        if !refused.is_empty() {
            self.core.forgotten(epoch, &refused);
        }
        let put_off = |what: &Disposition| {
            use Disposition::{Retry, Snooze, Undecryptable};
            matches!(what, Retry { .. } | Snooze { .. } | Undecryptable { .. })
        };
        if request.exceptions.iter().any(|exception| put_off(&exception.disposition)) {
            self.core.put_off.notify_one();
        }
    }
}
