use super::{KEEP_NOTHING, TestWorker, eventually, worker_on};
use std::sync::Arc;
use windlass_core::{JobId, JobRecord, JobState, MaintainReport, QueueStats, RescueReport, Settings, Store};

/// The job as an operator sees it; it must exist.
pub async fn record(store: &Arc<dyn Store>, id: JobId) -> JobRecord {
    let found = store.job(id).await.expect("look a job up");
    found.unwrap_or_else(|| panic!("job {id} is gone"))
}

/// The job's state; it must exist.
pub async fn state(store: &Arc<dyn Store>, id: JobId) -> JobState {
    record(store, id).await.state
}

/// The job's errors: attempt and text, oldest first.
pub async fn errors_of(store: &Arc<dyn Store>, id: JobId) -> Vec<(u16, String)> {
    record(store, id).await.errors.into_iter().map(|error| (error.attempt, error.error)).collect()
}

/// The counts of a queue; it must exist.
pub async fn queue(store: &Arc<dyn Store>, name: &str) -> QueueStats {
    let queues = store.queues().await.expect("list queues");
    queues.into_iter().find(|queue| queue.name == name).unwrap_or_else(|| panic!("no queue {name}"))
}

/// Rescues until the store declares this worker dead, and returns that report.
pub async fn rescue_of(store: &Arc<dyn Store>, worker: &TestWorker, max_crashes: u16) -> RescueReport {
    let settings = store.settings().await.expect("settings").with_max_crashes(max_crashes);
    store.configure(&settings).await.expect("configure");
    let rescuer = worker_on(store).await.id;
    eventually("the worker is declared dead", || async {
        let report = store.rescue(rescuer).await.expect("rescue");
        report.workers.contains(&worker.id).then_some(report)
    })
    .await
}

/// How many rounds of housekeeping remove what they may: more than there are segments.
const MANY_ROUNDS: usize = 50;

/// Whether this completed job is gone after housekeeping that keeps nothing. A store may keep it until its claim is over.
pub async fn is_removed(store: &Arc<dyn Store>, id: JobId) -> bool {
    for _ in 0..MANY_ROUNDS {
        maintain_with(store, KEEP_NOTHING).await;
        if store.job(id).await.expect("look a job up").is_none() {
            return true;
        }
    }
    false
}

/// One round of housekeeping under a policy.
pub async fn maintain_with(store: &Arc<dyn Store>, settings: Settings) -> MaintainReport {
    store.configure(&settings).await.expect("configure");
    store.maintain().await.expect("maintain")
}

/// More rounds of housekeeping than any store has segments: what has completed goes with its own.
pub async fn empty_segments(store: &Arc<dyn Store>) {
    for _ in 0..12 {
        maintain_with(store, KEEP_NOTHING).await;
    }
}
