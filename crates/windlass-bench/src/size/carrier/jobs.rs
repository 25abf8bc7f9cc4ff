//! Burdens of jobs, enqueued in bulk by a client.

use crate::{load, options::batch_of, size::burden::Burden};
use std::time::Duration;
use windlass::{Client, IntoJob, NewJob, Result};
use windlass_cli::{
    failure::Outcome,
    measure::{Fill, Noop, fill},
};

/// How many jobs each of many queues has.
const JOBS_OF_A_QUEUE: u64 = 10;
/// Of how many queues one call enqueues jobs.
const QUEUES_AT_ONCE: u64 = 100;
/// How many connections enqueue.
const CLIENTS: usize = 2;
/// Scheduled jobs are due in a day, from an hour after they were enqueued on: none of them during the measurement.
pub(super) const DUE: (Duration, Duration) = (Duration::from_secs(3_600), Duration::from_secs(86_400));
/// What the JSON around the text of a large job takes at most.
const AROUND: usize = 64;

/// Available jobs of one queue.
pub(super) async fn waiting(client: &Client, amount: u64) -> Outcome {
    pour(client, amount, |id| Noop { id }.into_job()).await
}

pub(super) async fn scheduled(client: &Client, amount: u64) -> Outcome {
    pour(client, amount, move |id| Ok(Noop { id }.into_job()?.with_delay(due_in(id, amount)))).await
}

/// Jobs whose args are 1 MiB, the most that a store takes by default.
pub(super) async fn bytes(client: &Client, amount: u64) -> Outcome {
    let bytes = (1 << 20) - AROUND;
    let work = Fill { queue: Burden::QUEUE, jobs: amount, batch: batch_of(bytes as u64), clients: CLIENTS };
    load::fill(client, &work, load::Load::carrying(bytes), true).await?;
    Ok(())
}

/// A few jobs in each of many queues.
pub(super) async fn queues(client: &Client, amount: u64) -> Outcome {
    let mut queue = 0;
    while queue < amount {
        let end = amount.min(queue + QUEUES_AT_ONCE);
        let jobs = (queue..end).flat_map(|number| (0..JOBS_OF_A_QUEUE).map(move |id| (number, id)));
        let jobs = jobs.map(|(number, id)| {
            Ok(Noop { id }.into_job()?.with_queue(format!("{}.{number}", Burden::QUEUE)))
        });
        client.enqueue_many(jobs.collect::<Result<Vec<_>>>()?).await?;
        queue = end;
    }
    Ok(())
}

/// When job `id` of so many is due, if they are spread evenly.
pub(super) fn due_in(id: u64, amount: u64) -> Duration {
    DUE.0 + DUE.1.mul_f64(id as f64 / amount.max(1) as f64)
}

async fn pour(
    client: &Client,
    jobs: u64,
    job: impl Fn(u64) -> Result<NewJob> + Clone + Send + Sync + 'static,
) -> Outcome {
    let work = Fill { queue: Burden::QUEUE, jobs, batch: batch_of(0), clients: CLIENTS };
    fill(client, &work, job, |_, _| {}).await?;
    Ok(())
}
