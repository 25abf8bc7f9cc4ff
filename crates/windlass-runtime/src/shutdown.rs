use crate::{
    core::{Core, INTERRUPT_WAIT},
    queue_state::HandBack,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tracing::{error, info, warn};

/// How long handlers whose futures are to be dropped may still block their threads before the worker goes on
/// without them.
const EVICT_WAIT: Duration = Duration::from_secs(1);
/// How long a claim under way may take when nothing else is waited for.
const CLAIM_WAIT: Duration = Duration::from_secs(1);
/// How long the last timings may take: nothing depends on them.
const MEASURED_WAIT: Duration = Duration::from_secs(1);
/// How long settling the last results may take, and how long deregistering may.
const LAST_CALL_WAIT: Duration = Duration::from_secs(5);

/// The tasks of a worker beside its executors.
pub(crate) struct Tasks {
    pub(crate) claimer: JoinHandle<()>,
    pub(crate) settler: JoinHandle<()>,
    pub(crate) heartbeat: JoinHandle<()>,
    pub(crate) reporter: JoinHandle<()>,
    pub(crate) upkeep: JoinSet<()>,
}

/// Waits until the worker is told to stop, and shuts it down in order. A task that dies before that stops the worker
/// too: better no worker than half of one.
pub(crate) async fn supervise(core: Arc<Core>, mut tasks: Tasks) {
    let stop = core.switches.stop.clone();
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = left(&core) => {}
        died = &mut tasks.claimer => died_early("claimer", &died),
        died = &mut tasks.settler => died_early("settler", &died),
        died = &mut tasks.heartbeat => died_early("heartbeat", &died),
        died = &mut tasks.reporter => died_early("reporter", &died),
        Some(died) = tasks.upkeep.join_next() => died_early("maintenance", &died),
    }
    stop.cancel();
    info!(running = core.running(), "stopping");
    tasks.upkeep.abort_all();
    hand_back_unstarted(&core);
    finish_running(&core, &mut tasks.claimer).await;
    tasks.claimer.abort();
    if cfg!(feature = "bug_deregister_before_flush") {
        let _ = timeout(LAST_CALL_WAIT, deregister_all(&core)).await;
    }
    core.switches.drain.cancel();
    if !tasks.settler.is_finished() && timeout(LAST_CALL_WAIT, &mut tasks.settler).await.is_err() {
        warn!(
            unsettled = core.unsettled(),
            "the store did not take the last results; these jobs will run again"
        );
    }
    tasks.settler.abort();
    tasks.reporter.abort();
    core.epochs().iter().for_each(|epoch| epoch.outbox().close());
    if timeout(MEASURED_WAIT, core.meter.send(&*core.store)).await.is_err() {
        info!("the store did not take the last timings; they are lost");
    }
    tasks.heartbeat.abort();
    if timeout(LAST_CALL_WAIT, deregister_all(&core)).await.is_err() {
        warn!("the store did not answer; it will notice by the lease that this worker is gone");
    }
    info!("stopped");
    core.switches.ended.cancel();
}

/// Waits until the worker was asked to drain, and has: however long its jobs take.
async fn left(core: &Core) {
    core.switches.leave.cancelled().await;
    info!(running = core.running(), "draining, as somebody asked from afar");
    hand_back_unstarted(core);
    all_idle(core).await;
}

fn died_early(task: &str, died: &Result<(), tokio::task::JoinError>) {
    error!(task, ?died, "a task of the worker died; this is a defect in Windlass, please report it");
}

/// Jobs that run may take long, so those behind them are returned one by one, now. When none runs,
/// deregistering is about to hand back everything.
fn hand_back_unstarted(core: &Core) {
    let unstarted: Vec<_> = core.runners.iter().map(|runner| runner.close()).collect();
    let how = if core.running() > 0 { HandBack::Return } else { HandBack::Forget };
    for (runner, unstarted) in core.runners.iter().zip(unstarted) {
        runner.hand_back(unstarted, how);
    }
    core.signals.wake_settler();
}

/// Gives running jobs the grace period, then tells them to stop, then drops them.
async fn finish_running(core: &Core, claimer: &mut JoinHandle<()>) {
    let over = async {
        all_idle(core).await;
        // A claim under way is settled as returned. One that hangs is left to deregistering, which hands
        // its jobs back or fences it off.
        if !claimer.is_finished() && timeout(CLAIM_WAIT, &mut *claimer).await.is_err() {
            claimer.abort();
        }
    };
    tokio::pin!(over);
    let force = &core.switches.force;
    tokio::select! {
        biased;
        () = &mut over => return,
        () = tokio::time::sleep(core.config.grace_period) => warn!(running = core.running(), "the grace period is over; running handlers are cancelled"),
        () = force.cancelled() => warn!(running = core.running(), "handing back running jobs now"),
    }
    core.epochs().iter().for_each(|epoch| epoch.interrupt());
    tokio::select! {
        biased;
        () = &mut over => return,
        () = tokio::time::sleep(INTERRUPT_WAIT) => {}
        () = force.cancelled() => {}
    }
    core.epochs().iter().for_each(|epoch| epoch.evict());
    if timeout(EVICT_WAIT, over).await.is_err() {
        warn!(
            running = core.running(),
            "handlers block their threads; their jobs are handed back although they still run"
        );
    }
}

pub(crate) async fn all_idle(core: &Core) {
    while core.running() > 0 {
        core.signals.idle().await;
    }
}

async fn deregister_all(core: &Core) {
    for epoch in core.epochs().into_iter().rev() {
        let worker = epoch.worker();
        if let Err(error) = core.store.resign(worker).await {
            info!(%worker, %error, "could not resign; leadership ends with its term");
        }
        if let Err(error) = core.store.deregister(worker).await {
            warn!(%worker, %error, "could not deregister; the store will notice by the lease that this worker is gone");
        }
    }
}
