use crate::{Producer, Settings, System, outcome::Outcome};
use anyhow::ensure;
use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Barrier, task::JoinSet};

/// Enqueues the jobs; nobody works them.
pub(crate) async fn measure<S: System>(system: &S, settings: &Settings) -> anyhow::Result<Outcome> {
    let took = fill(system, settings, settings.clients).await?;
    let stored = system.unfinished().await?;
    ensure!(stored == settings.jobs, "{} jobs were enqueued, but the store holds {stored}", settings.jobs);
    Ok(Outcome::default().rate("enqueued", settings.jobs, took))
}

/// Enqueues all jobs by clients that begin together, each a part of the ids.
pub(crate) async fn fill<S: System>(
    system: &S,
    settings: &Settings,
    clients: usize,
) -> anyhow::Result<Duration> {
    let begin = Arc::new(Barrier::new(clients + 1));
    let mut crew = JoinSet::new();
    for (index, producer) in system.producers(clients).await?.into_iter().enumerate() {
        let part = |index: usize| settings.jobs * index as u64 / clients as u64;
        let (ids, batch, begin) = (part(index)..part(index + 1), settings.batch, Arc::clone(&begin));
        crew.spawn(async move {
            begin.wait().await;
            produce(producer, ids, batch).await
        });
    }
    begin.wait().await;
    let began = Instant::now();
    while let Some(done) = crew.join_next().await {
        done??;
    }
    Ok(began.elapsed())
}

async fn produce(mut producer: impl Producer, ids: Range<u64>, batch: u64) -> anyhow::Result<()> {
    let mut next = ids.start;
    while next < ids.end {
        if batch == 1 {
            producer.one(next).await?;
        } else {
            producer.many(next..ids.end.min(next + batch)).await?;
        }
        next += batch;
    }
    Ok(())
}
