//! The steps that rules are told in: enqueue, claim, settle, and waiting for a condition.
//!
//! Steps panic when the store fails, so that a rule reads as a story and a failure names the rule.

mod held;
mod observe;
mod test_worker;

pub use held::{Held, held, ids};
pub use observe::{empty_segments, errors_of, is_removed, maintain_with, queue, record, rescue_of, state};
pub use test_worker::{TestWorker, worker, worker_on};

use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::Instant;
use windlass_core::{Args, JobId, NewJob, Settings, Store, Wake, Wakeup};

/// The queue of rules that need only one.
pub const QUEUE: &str = "q";
/// The kind of jobs that rules enqueue without caring.
pub const KIND: &str = "noop";
/// A lease that never runs out within a test.
pub const LEASE: Duration = Duration::from_secs(3600);
/// A lease that has run out by the time anybody looks.
pub const TINY_LEASE: Duration = Duration::from_millis(1);
/// How long a condition may take to come true before the rule counts as broken.
pub const DEADLINE: Duration = Duration::from_secs(180);
/// A delay that never ends within a test.
pub const LATER: Duration = Duration::from_secs(3600);
/// Whatever has completed goes with the next housekeeping, and segments move on at every chance.
pub const KEEP_NOTHING: Settings = Settings::DEFAULT.with_retention(Duration::ZERO).with_segment_bytes(1);
/// The crash limit of rules that are not about it.
pub const MAX_CRASHES: u16 = 100;

/// The pause between two looks at a condition.
const POLL: Duration = Duration::from_millis(1);

/// A rest between two looks at what takes ten seconds: to look as fast as it goes takes the processor from the tests beside.
pub async fn rest() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Args that say which job this is.
pub fn args(n: usize) -> Args {
    Args::of(&serde_json::json!({ "n": n })).expect("a small object is valid args")
}

/// A job of [`KIND`] in [`QUEUE`].
pub fn job() -> NewJob {
    NewJob::new(KIND, args(0)).with_queue(QUEUE)
}

/// So many numbered jobs of [`KIND`] in [`QUEUE`].
pub fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|n| NewJob::new(KIND, args(n)).with_queue(QUEUE)).collect()
}

/// Chance, other with each run. Its seed is shown when the test fails.
pub fn random() -> fastrand::Rng {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    fastrand::Rng::with_seed(seed)
}

/// Waits to be told of work. A store that cannot tell yet, because it connects for that, ends the wait early instead.
pub async fn hinted(wakeup: &mut dyn Wakeup, what: &str) {
    let began = Instant::now();
    let wake = wakeup.wait(DEADLINE).await;
    assert!(wake == Wake::Hint || began.elapsed() < DEADLINE, "nobody was told of {what}");
}

/// Enqueues one job.
pub async fn enqueue(store: &Arc<dyn Store>, job: NewJob) -> JobId {
    store.enqueue(&[job]).await.expect("enqueue")[0]
}

/// Enqueues so many [`jobs`] in one call.
pub async fn enqueue_jobs(store: &Arc<dyn Store>, count: usize) -> Vec<JobId> {
    store.enqueue(&jobs(count)).await.expect("enqueue")
}

/// Looks again and again until `look` answers, at most for [`DEADLINE`].
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "still not after {DEADLINE:?}: {what}");
        tokio::time::sleep(POLL).await;
    }
}
