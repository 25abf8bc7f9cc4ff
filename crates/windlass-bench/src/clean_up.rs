use crate::{
    options::{QUEUE, SOURCE},
    store::connect,
};
use std::time::{Duration, Instant};
use windlass::{Client, Context, JobFilter, JobState, QueueLimits, RawJob, Worker};
use windlass_cli::{
    failure::Outcome,
    measure::{MeasuredStore, counts},
};

/// How long the jobs of a case that ended may take to be gone: longer than the lease of a worker that died.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many times in a row nothing must be found: a call that was dropped under way may still commit.
const QUIET: u32 = 4;
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many jobs the worker takes at once.
const CONCURRENCY: usize = 100;

/// Removes the jobs that a case left in the user's store when it failed or was interrupted. Returns how many are
/// left nevertheless.
pub(crate) async fn clean_up(store: &MeasuredStore) -> Outcome<u64> {
    let client = connect(store, 2).await?;
    // What `limited` left would hold the worker up. Where the store knows no limits, there are none.
    let _ = client.limit(QUEUE, &QueueLimits::default()).await;
    // And schedules would go on for ever.
    let _ = client.schedules().put_all_of(SOURCE, []).await;
    let worker = Worker::builder(&client)
        .queue(QUEUE, CONCURRENCY)
        .handle_any(|_: RawJob, _: Context| async {})
        .start()
        .await?;
    let began = Instant::now();
    let mut left;
    let mut quiet = 0;
    loop {
        // A worker would get neither in time.
        for state in [JobState::Scheduled, JobState::Retryable] {
            cancel(&client, state).await?;
        }
        let counts = counts(&client, QUEUE).await?;
        left = counts.available + counts.running + counts.scheduled + counts.retryable;
        quiet = if left == 0 { quiet + 1 } else { 0 };
        if quiet == QUIET || began.elapsed() > PATIENCE {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    worker.shutdown().await;
    client.close().await;
    Ok(left)
}

/// Cancels all jobs of the queue that are in this state.
async fn cancel(client: &Client, state: JobState) -> Outcome {
    let (state, queue) = (Some(state), Some(QUEUE.to_owned()));
    let mut filter = JobFilter { state, queue, limit: JobFilter::MAX_LIMIT, ..JobFilter::default() };
    loop {
        let page = client.jobs(&filter).await?;
        let ids: Vec<_> = page.iter().map(|job| job.id).collect();
        client.cancel(&ids).await?;
        match page.next {
            Some(next) => filter.after = Some(next),
            None => return Ok(()),
        }
    }
}
