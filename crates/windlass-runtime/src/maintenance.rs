use crate::{backoff::spread, core::Core, outage::Outage};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tracing::{debug, info, warn};
use windlass_core::{Promoted, Result};

/// How many due jobs one call makes available.
const PROMOTE_LIMIT: u32 = 1_000;
/// A due time is not rounded down to a busy loop.
const SHORTEST_NAP: Duration = Duration::from_millis(1);
const RESCUE_EVERY: Duration = Duration::from_secs(1);
const LEAD_EVERY: Duration = Duration::from_secs(10);
/// Leadership outlives a missed turn or two.
const TERM: Duration = Duration::from_secs(30);

/// Makes due jobs available, in every worker: on time by this store's next due job, and at the latest
/// every poll interval for those that others scheduled meanwhile.
pub(crate) async fn promote(core: Arc<Core>) {
    let mut outage = Outage::new("promote", core.config.random);
    loop {
        let promoted = match core.store.promote(PROMOTE_LIMIT).await {
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
        }
        if promoted.count < u64::from(PROMOTE_LIMIT) {
            tokio::select! {
                biased;
                () = sleep(nap(&promoted, core.config.poll_interval, (core.config.random)())) => {}
                () = core.put_off.notified() => {}
            }
        }
    }
}

fn nap(promoted: &Promoted, poll_interval: Duration, random: f64) -> Duration {
    let poll = spread(poll_interval, random);
    promoted.next_due.map_or(poll, |due| due.min(poll)).max(SHORTEST_NAP)
}

/// Takes the jobs of dead workers, in every worker.
pub(crate) async fn rescue(core: Arc<Core>) {
    let mut outage = Outage::new("rescue", core.config.random);
    sleep(RESCUE_EVERY.mul_f64((core.config.random)())).await;
    loop {
        match core.store.rescue().await {
            Ok(report) => {
                outage.over();
                if !report.workers.is_empty() {
                    let (rescued, discarded) = (report.rescued, report.discarded);
                    warn!(workers = ?report.workers, rescued, discarded, "rescued the jobs of dead workers");
                    core.signals.wake_claimer();
                }
                sleep(spread(RESCUE_EVERY, (core.config.random)())).await;
            }
            Err(error) => sleep(outage.failed(&error)).await,
        }
    }
}

/// Keeps house, in the one worker that leads.
pub(crate) async fn lead(core: Arc<Core>) {
    let mut outage = Outage::new("maintain", core.config.random);
    let mut leads = false;
    sleep(RESCUE_EVERY.mul_f64((core.config.random)())).await;
    loop {
        match tenure(&core, &mut leads).await {
            Ok(()) => {
                outage.over();
                sleep(spread(LEAD_EVERY, (core.config.random)())).await;
            }
            Err(error) => sleep(outage.failed(&error)).await,
        }
    }
}

async fn tenure(core: &Core, leads: &mut bool) -> Result<()> {
    let Some(epoch) = core.live_epoch() else { return Ok(()) };
    let led = std::mem::replace(leads, core.store.lead(epoch.worker(), TERM).await?);
    if *leads && !led {
        info!(worker = %epoch.worker(), "leads now");
    }
    if *leads {
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
        let due = |next_due| nap(&Promoted { count: 0, next_due }, second, 0.5);
        assert_eq!(due(None), second);
        assert_eq!(due(Some(second / 4)), second / 4);
        assert_eq!(due(Some(second * 9)), second);
        assert_eq!(due(Some(Duration::ZERO)), SHORTEST_NAP);
    }
}
