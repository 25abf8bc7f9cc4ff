use crate::{backoff::spread, core::Core, outage::Outage};
use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};
use windlass_core::{Promoted, Result};

/// How many due jobs one call makes available; the second while more are due.
const PROMOTE_LIMITS: [u32; 2] = [1_000, 5_000];
/// The shortest pause: a job that is due at once must not make a busy loop.
const SHORTEST_NAP: Duration = Duration::from_millis(1);
/// A worker that does not lead, and finds nothing to promote, looks this many times less often.
const STANDBY: u32 = 5;
/// Such a worker also looks up to this much later than a job is due, so that not all of them ask at once.
const MOST_JITTER: Duration = Duration::from_millis(20);
/// While delayed jobs come, the worker that leads looks this often for those that were enqueued since. A job with a
/// short delay that is enqueued while nobody is idle wakes nobody. The store answers by one index probe.
const BUSY_POLL: Duration = Duration::from_millis(50);
/// How long after the last promotion that goes on.
const BUSY_FOR: Duration = Duration::from_secs(60);
const RESCUE_EVERY: Duration = Duration::from_secs(1);
/// While no lease is about to end, each worker looks this many times per lease, for leases of new workers.
const RESCUES_PER_LEASE: u32 = 3;
const LEAD_EVERY: Duration = Duration::from_secs(10);
/// How long leadership lasts without renewal: it survives one or two missed renewals.
const TERM: Duration = Duration::from_secs(30);

/// Makes due jobs available: on time for the next due job that the store told of. For jobs that others scheduled
/// since, the worker that leads looks at least every poll interval. The other workers stand by: a thousand idle
/// workers must not ask a thousand times a second.
pub(crate) async fn promote(core: Arc<Core>) {
    let mut outage = Outage::new("promote", core.config.random);
    let mut limit = PROMOTE_LIMITS[0];
    let mut promoted_at: Option<Instant> = None;
    loop {
        let promoted = match core.store.promote(limit).await {
            Ok(promoted) => promoted,
            Err(error) => {
                sleep(outage.failed(&error)).await;
                continue;
            }
        };
        outage.over();
        if promoted.count > 0 {
            debug!(count = promoted.count, "made due jobs available");
            core.signals.wake_claimer();
            promoted_at = Some(Instant::now());
        }
        if promoted.count >= u64::from(limit) {
            limit = PROMOTE_LIMITS[1];
            continue;
        }
        limit = PROMOTE_LIMITS[0];
        let leads = core.leads.load(Ordering::Relaxed);
        let stands_by = !leads && promoted.count == 0;
        let is_busy = leads && promoted_at.is_some_and(|at| at.elapsed() < BUSY_FOR);
        let poll = if is_busy { core.config.poll_interval.min(BUSY_POLL) } else { core.config.poll_interval };
        let nap = nap(&promoted, poll, stands_by, core.config.random);
        promotes_at(&core, Some(Instant::now() + nap));
        tokio::select! {
            biased;
            () = sleep(nap) => {}
            () = core.put_off.notified() => {}
        }
        promotes_at(&core, None);
    }
}

fn promotes_at(core: &Core, at: Option<Instant>) {
    *core.promotes_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
}

fn nap(promoted: &Promoted, poll_interval: Duration, stands_by: bool, random: fn() -> f64) -> Duration {
    let (polls, jitter) = if stands_by { (STANDBY, MOST_JITTER) } else { (1, Duration::ZERO) };
    let poll = spread(poll_interval * polls, random());
    promoted.next_due.map_or(poll, |due| (due + jitter.mul_f64(random())).min(poll)).max(SHORTEST_NAP)
}

/// Rescues the jobs of dead workers. Every worker does so, whenever the next lease can end.
pub(crate) async fn rescue(core: Arc<Core>) {
    let lease = core.config.lease;
    let mut outage = Outage::new("rescue", core.config.random);
    loop {
        // The oldest: it has been in touch with the store for the longest.
        let Some(epoch) = core.epochs().into_iter().find(|epoch| !epoch.is_lost()) else {
            sleep(RESCUE_EVERY).await;
            continue;
        };
        match core.store.rescue(epoch.worker()).await {
            Ok(report) => {
                outage.over();
                if !report.workers.is_empty() {
                    let (rescued, discarded) = (report.rescued, report.discarded);
                    warn!(workers = ?report.workers, rescued, discarded, "rescued the jobs of dead workers");
                    core.signals.wake_claimer();
                }
                let longest = (lease / RESCUES_PER_LEASE).max(RESCUE_EVERY);
                let until_next = report.next_end.map_or(longest, |next| next.clamp(RESCUE_EVERY, longest));
                sleep(spread(until_next, (core.config.random)())).await;
            }
            Err(error) => sleep(outage.failed(&error)).await,
        }
    }
}

/// Runs the store's maintenance, in the one worker that leads.
pub(crate) async fn lead(core: Arc<Core>) {
    let mut outage = Outage::new("maintain", core.config.random);
    sleep(RESCUE_EVERY.mul_f64((core.config.random)())).await;
    loop {
        match maintain_if_leading(&core).await {
            Ok(()) => {
                outage.over();
                sleep(spread(LEAD_EVERY, (core.config.random)())).await;
            }
            Err(error) => sleep(outage.failed(&error)).await,
        }
    }
}

async fn maintain_if_leading(core: &Core) -> Result<()> {
    let Some(epoch) = core.live_epoch() else { return Ok(()) };
    let leads = core.store.lead(epoch.worker(), TERM).await?;
    let led = core.leads.swap(leads, Ordering::Relaxed);
    if leads && !led {
        info!(worker = %epoch.worker(), "leads now");
        core.schedules.notify_one();
        // It has looked for due jobs as one that stands by, and nobody else may look more often.
        core.put_off.notify_one();
    }
    if leads {
        let report = core.store.maintain().await?;
        debug!(?report, "kept house");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_until_the_next_job_is_due_but_never_longer_than_the_poll_interval() {
        let second = Duration::from_secs(1);
        let due = |next_due| nap(&Promoted { count: 0, next_due }, second, false, || 0.5);
        assert_eq!(due(None), second);
        assert_eq!(due(Some(second / 4)), second / 4);
        assert_eq!(due(Some(second * 9)), second);
        assert_eq!(due(Some(Duration::ZERO)), SHORTEST_NAP);
        let standby = |next_due| nap(&Promoted { count: 0, next_due }, second, true, || 0.5);
        assert_eq!(standby(None), second * STANDBY);
        assert_eq!(standby(Some(second / 4)), second / 4 + MOST_JITTER / 2);
    }
}
