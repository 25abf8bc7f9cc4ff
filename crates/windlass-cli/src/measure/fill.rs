use super::latency::Latencies;
use crate::failure::Outcome;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use windlass::{Client, Error, JobId, NewJob};

/// How often the number of enqueued jobs is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What to enqueue: `jobs` jobs numbered from 0, `batch` in a call, by `clients` tasks at once.
#[derive(Clone)]
pub struct Fill {
    /// Where to.
    pub queue: &'static str,
    /// How many jobs.
    pub jobs: u64,
    /// How many of them in each call; 1 enqueues single jobs.
    pub batch: u64,
    /// How many calls are under way at once.
    pub clients: usize,
}

/// How that went.
pub struct Filled {
    /// How long it took.
    pub took: Duration,
    /// The smallest id.
    pub first: JobId,
    /// How long each call took.
    pub calls: Latencies,
}

/// What the tasks share.
#[derive(Default)]
struct Shared {
    next: AtomicU64,
    done: AtomicU64,
}

/// Enqueues the job that `job` makes of each number. `look` is called now and then with the time since the start
/// and the number of jobs enqueued so far.
pub async fn fill<J>(
    client: &Client,
    fill: &Fill,
    job: J,
    mut look: impl FnMut(Duration, u64),
) -> Outcome<Filled>
where
    J: Fn(u64) -> Result<NewJob, Error> + Clone + Send + Sync + 'static,
{
    let shared = Arc::new(Shared::default());
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..fill.clients {
        tasks.spawn(enqueue_some(client.clone(), fill.clone(), job.clone(), Arc::clone(&shared)));
    }
    let (mut first, mut calls) = (None, Latencies::new());
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(ended) => {
                    let (its_first, its_calls) = ended??;
                    first = first.into_iter().chain(its_first).min();
                    calls.merge(&its_calls);
                }
                None => break,
            },
            _ = ticks.tick() => look(started.elapsed(), shared.done.load(Ordering::Relaxed)),
        }
    }
    let took = started.elapsed();
    look(took, shared.done.load(Ordering::Relaxed));
    Ok(Filled { took, first: first.unwrap_or_default(), calls })
}

async fn enqueue_some<J>(
    client: Client,
    fill: Fill,
    job: J,
    shared: Arc<Shared>,
) -> Result<(Option<JobId>, Latencies), Error>
where
    J: Fn(u64) -> Result<NewJob, Error>,
{
    let (mut first, mut calls) = (None, Latencies::new());
    loop {
        let start = shared.next.fetch_add(fill.batch, Ordering::Relaxed);
        let end = fill.jobs.min(start.saturating_add(fill.batch));
        if start >= end {
            return Ok((first, calls));
        }
        let job = |id| Ok(job(id)?.with_queue(fill.queue));
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
