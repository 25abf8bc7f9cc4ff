use super::Noop;
use crate::{failure::Outcome, progress::Progress};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use windlass::{Client, Error, IntoJob, JobId};

/// How often progress is told.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What to enqueue: `jobs` jobs numbered from 0, `batch` in a call, by `clients` tasks at once.
#[derive(Clone)]
pub(crate) struct Fill {
    pub(crate) queue: String,
    pub(crate) jobs: u64,
    pub(crate) batch: u64,
    pub(crate) clients: usize,
}

/// What tasks take their numbers from, and add their results to.
#[derive(Default)]
struct Shared {
    next: AtomicU64,
    done: AtomicU64,
}

/// Enqueues. How long it took, and the first id.
pub(crate) async fn fill(
    client: &Client,
    fill: &Fill,
    progress: &mut Progress,
) -> Outcome<(Duration, JobId)> {
    let shared = Arc::new(Shared::default());
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..fill.clients {
        tasks.spawn(enqueue_some(client.clone(), fill.clone(), Arc::clone(&shared)));
    }
    let mut first = None;
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                Some(ended) => first = first.into_iter().chain(ended.map_err(|error| panicked(&error))??).min(),
                None => break,
            },
            _ = ticks.tick() => progress.reach(shared.done.load(Ordering::Relaxed)),
        }
    }
    Ok((started.elapsed(), first.unwrap_or_default()))
}

fn panicked(error: &tokio::task::JoinError) -> crate::failure::Failure {
    crate::failure::Failure::failed("internal", format!("an enqueueing task ended early: {error}"))
}

async fn enqueue_some(client: Client, fill: Fill, shared: Arc<Shared>) -> Result<Option<JobId>, Error> {
    let mut first = None;
    loop {
        let start = shared.next.fetch_add(fill.batch, Ordering::Relaxed);
        let end = fill.jobs.min(start.saturating_add(fill.batch));
        if start >= end {
            return Ok(first);
        }
        let job = |id| Ok(Noop { id }.into_job()?.with_queue(fill.queue.clone()));
        let jobs = (start..end).map(job).collect::<Result<Vec<_>, Error>>()?;
        let ids = client.enqueue_many(jobs).await?;
        first = first.into_iter().chain(ids).min();
        shared.done.fetch_add(end - start, Ordering::Relaxed);
    }
}
