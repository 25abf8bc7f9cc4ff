use crate::{
    core::Core,
    epoch::Epoch,
    load::{Pace, resident_memory},
    outage::Outage,
    sharer,
    sync::atomic::Ordering,
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;
use windlass_core::{Error, ErrorKind, Load, Result};

/// How many times a lease is renewed within its length.
const RENEWALS_PER_LEASE: u32 = 3;

/// A call that hangs longer than the interval divided by this is given up and repeated: a dead connection must not
/// cost the lease while other connections work.
const PATIENCE: u32 = 2;

/// Heartbeats that the store asks for are at least this far apart.
const SPACING: Duration = Duration::from_millis(20);

/// Renews the lease of every epoch that is not lost, until it is aborted: jobs run on during a shutdown.
pub(crate) async fn run(core: Arc<Core>) {
    let lease = core.config.lease;
    let interval = lease / RENEWALS_PER_LEASE;
    let mut outage = Outage::new("heartbeat", core.config.random);
    let mut pace = Pace::new();
    let (mut renewed_at, mut warned, mut pause) = (Instant::now(), false, interval);
    loop {
        pass(&core, pause, renewed_at).await;
        let settled = core.settled.load(Ordering::Relaxed);
        let load = Load { memory_bytes: resident_memory(), jobs_per_second: pace.of(settled) };
        match renew_all(&core, load, interval / PATIENCE).await {
            Ok(()) => {
                outage.over();
                (renewed_at, warned, pause) = (Instant::now(), false, interval);
            }
            Err(error) => {
                pause = outage.failed(&error).min(interval / 2);
                // Only the store decides who holds a job, and it cannot be asked now.
                if renewed_at.elapsed() >= lease && !std::mem::replace(&mut warned, true) {
                    warn!(
                        ?lease,
                        "no heartbeat got through for a whole lease; other workers may take the jobs"
                    );
                }
            }
        }
    }
}

/// Waits until the next heartbeat: so long, or until the store says that it has something to say.
async fn pass(core: &Core, pause: Duration, renewed_at: Instant) {
    let asked = async {
        core.requests.notified().await;
        sleep(SPACING.saturating_sub(renewed_at.elapsed())).await;
    };
    tokio::select! {
        biased;
        () = sleep(pause) => {}
        () = asked => {}
    }
}

async fn renew_all(core: &Arc<Core>, load: Load, patience: Duration) -> Result<()> {
    for epoch in core.epochs() {
        if epoch.is_lost() {
            continue;
        }
        match renew(core, &epoch, load, patience).await {
            Err(error) if error.is_lease_lost() && cfg!(feature = "bug_ignore_lease_lost") => {}
            Err(error) if error.is_lease_lost() => core.lose(&epoch),
            other => other?,
        }
    }
    Ok(())
}

async fn renew(core: &Arc<Core>, epoch: &Arc<Epoch>, load: Load, patience: Duration) -> Result<()> {
    let no_answer = |_| {
        let message = format!("no answer to a heartbeat within {patience:?}");
        Err(Error::new(ErrorKind::Unavailable, message))
    };
    let known =
        timeout(patience, core.store.heartbeat_with(epoch.worker(), load)).await.unwrap_or_else(no_answer)?;
    if !known.cancel.is_empty() {
        core.cancel(epoch, known.cancel);
    }
    if known.drain {
        core.switches.leave.cancel();
    }
    if known.register_anew {
        core.went_back(epoch);
    }
    sharer::limits_are(core, &known.limited);
    Ok(())
}
