use crate::{core::Core, outage::Outage};
use std::sync::Arc;
use tokio::time::{Instant, sleep};
use tracing::warn;

/// A lease is renewed so often within its length.
const RENEWALS_PER_LEASE: u32 = 3;

/// Renews the lease of every epoch that is not lost, until it is aborted: jobs run on during a shutdown.
pub(crate) async fn run(core: Arc<Core>) {
    let lease = core.config.lease;
    let interval = lease / RENEWALS_PER_LEASE;
    let mut outage = Outage::new("heartbeat", core.config.random);
    let (mut renewed_at, mut warned, mut pause) = (Instant::now(), false, interval);
    loop {
        sleep(pause).await;
        match renew_all(&core).await {
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

async fn renew_all(core: &Arc<Core>) -> windlass_core::Result<()> {
    for epoch in core.epochs() {
        if epoch.is_lost() {
            continue;
        }
        match core.store.heartbeat(epoch.worker()).await {
            Err(error) if error.is_lease_lost() && cfg!(feature = "bug_ignore_lease_lost") => {}
            Err(error) if error.is_lease_lost() => core.lose(&epoch),
            other => other?,
        }
    }
    Ok(())
}
