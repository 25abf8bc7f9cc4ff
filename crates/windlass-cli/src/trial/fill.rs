use super::Load;
use crate::{
    failure::{Failure, Outcome},
    measure::{Latencies, Timeline},
    progress::Progress,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::{JoinError, JoinSet};
use windlass::{Client, Error, JobId};

/// How often progress is told and the timeline continued.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What to enqueue: `jobs` jobs numbered from 0, `batch` in a call, by `clients` tasks at once.
#[derive(Clone)]
pub(crate) struct Fill {
    pub(crate) queue: String,
    pub(crate) jobs: u64,
    pub(crate) batch: u64,
    pub(crate) clients: usize,
    pub(crate) load: Load,
}

/// How that went.
pub(crate) struct Filled {
    pub(crate) took: Duration,
    pub(crate) first: JobId,
    /// Of each call.
    pub(crate) calls: Latencies,
    /// How many jobs were enqueued in each second.
    pub(crate) per_second: Vec<u64>,
}

/// What tasks take their numbers from, and add their results to.
#[derive(Default)]
struct Shared {
    next: AtomicU64,
    done: AtomicU64,
}

/// Enqueues.
pub(crate) async fn fill(client: &Client, fill: &Fill, progress: &mut Progress) -> Outcome<Filled> {
    let shared = Arc::new(Shared::default());
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..fill.clients {
        tasks.spawn(enqueue_some(client.clone(), fill.clone(), Arc::clone(&shared)));
    }
    let (mut first, mut calls, mut timeline) = (None, Latencies::new(), Timeline::default());
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(ended) => {
                    let (its_first, its_calls) = ended.map_err(|error| panicked(&error))??;
                    first = first.into_iter().chain(its_first).min();
                    calls.merge(&its_calls);
                }
                None => break,
            },
            _ = ticks.tick() => {
                let done = shared.done.load(Ordering::Relaxed);
                timeline.record(started.elapsed(), done);
                progress.reach(done);
            }
        }
    }
    let took = started.elapsed();
    timeline.record(took, shared.done.load(Ordering::Relaxed));
    Ok(Filled { took, first: first.unwrap_or_default(), calls, per_second: timeline.per_second() })
}

pub(super) fn panicked(error: &JoinError) -> Failure {
    Failure::failed("internal", format!("an enqueueing task ended early: {error}"))
}

async fn enqueue_some(
    client: Client,
    fill: Fill,
    shared: Arc<Shared>,
) -> Result<(Option<JobId>, Latencies), Error> {
    let (mut first, mut calls) = (None, Latencies::new());
    loop {
        let start = shared.next.fetch_add(fill.batch, Ordering::Relaxed);
        let end = fill.jobs.min(start.saturating_add(fill.batch));
        if start >= end {
            return Ok((first, calls));
        }
        let job = |id| Ok(fill.load.job(id)?.with_queue(fill.queue.clone()));
        let mut jobs = (start..end).map(job).collect::<Result<Vec<_>, Error>>()?;
        let called = Instant::now();
        let lowest = match jobs.pop() {
            Some(only) if fill.batch == 1 => Some(client.enqueue(only).await?),
            last => client.enqueue_many(jobs.into_iter().chain(last)).await?.into_iter().min(),
        };
        calls.record(called.elapsed());
        first = first.into_iter().chain(lowest).min();
        shared.done.fetch_add(end - start, Ordering::Relaxed);
    }
}
