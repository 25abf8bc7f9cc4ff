//! Asks the store for the worker's share of queues with limits. Where there are none it sleeps for ever.

use crate::{core::Core, epoch::Epoch, executor::activate, outage::Outage, queue_runner::QueueRunner};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, sleep_until};
use windlass_core::{Result, ShareRequest};

/// How many queues are asked for in one call. The store keeps locks of each until the call ends, and has room for some thousands of all callers.
pub(crate) const MOST_QUEUES: usize = 100;
/// How long to wait while the worker is not registered.
const NO_EPOCH: Duration = Duration::from_millis(50);

/// A claim was refused because the worker has no share of these queues.
pub(crate) fn ask_for(core: &Core, queues: &[Arc<str>]) {
    for runner in core.runners.iter().filter(|runner| queues.contains(runner.queue())) {
        runner.ask_for_share(false, core.config.random);
        core.signals.wake_sharer();
    }
}

/// The store says which of the worker's queues have limits, perhaps because something about them changed.
pub(crate) fn limits_are(core: &Core, queues: &[Arc<str>]) {
    for runner in &core.runners {
        if queues.contains(runner.queue()) || runner.is_limited() {
            runner.ask_for_share(true, core.config.random);
            core.signals.wake_sharer();
        }
    }
}

/// Asks until it is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    let (mut outage, mut generation) = (Outage::new("share", core.config.random), 0);
    loop {
        let due = core.runners.iter().filter_map(|runner| runner.share_due()).min();
        let Some(due) = due else {
            core.signals.sharer_woken().await;
            continue;
        };
        if due > Instant::now() {
            tokio::select! {
                biased;
                () = core.signals.sharer_woken() => {}
                // Jobs that none was held of for a while may be claimed again.
                () = sleep_until(due) => core.signals.wake_claimer(),
            }
            continue;
        }
        let Some(epoch) = core.live_epoch() else {
            // The claimer registers anew.
            sleep(NO_EPOCH).await;
            continue;
        };
        match ask(&core, &epoch, generation).await {
            Ok(()) => outage.over(),
            Err(error) if error.is_lease_lost() => core.lose(&epoch),
            Err(error) => {
                generation += 1;
                sleep(outage.failed(&error)).await;
            }
        }
    }
}

async fn ask(core: &Arc<Core>, epoch: &Arc<Epoch>, generation: u32) -> Result<()> {
    let now = Instant::now();
    let is_due = |runner: &&Arc<QueueRunner>| runner.share_due().is_some_and(|due| due <= now);
    let runners: Vec<_> = core.runners.iter().filter(is_due).collect();
    for part in runners.chunks(MOST_QUEUES) {
        ask_of(core, epoch, generation, part).await?;
    }
    Ok(())
}

async fn ask_of(
    core: &Arc<Core>,
    epoch: &Arc<Epoch>,
    generation: u32,
    runners: &[&Arc<QueueRunner>],
) -> Result<()> {
    let kinds = core.dispatch.kinds();
    let mut queues = Vec::with_capacity(runners.len());
    for runner in runners {
        let queue = [runner.queue().to_string()];
        let more = runner.share_needs_look() && core.store.any_available(&queue, &kinds).await?;
        queues.extend(runner.share_need(epoch.worker(), more));
    }
    let asked_at = Instant::now();
    let request = ShareRequest { worker: epoch.worker(), generation, queues };
    let reply = core.store.share(&request).await;
    if reply.is_err() {
        runners.iter().for_each(|runner| runner.share_failed());
    }
    for (runner, share) in runners.iter().zip(reply?) {
        activate(core, runner, runner.set_share(epoch, share.as_ref(), asked_at));
    }
    core.signals.wake_claimer();
    core.signals.wake_settler();
    Ok(())
}
