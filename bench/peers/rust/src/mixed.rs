use crate::{
    Producer as _, Settings, System,
    children::Children,
    drain::{check, finish, per_second},
    outcome::Outcome,
};
use anyhow::Context as _;
use std::time::{Duration, Instant};

/// How often the producer looks whether there is room.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// One producer feeds one worker process, for a time.
pub(crate) async fn measure<S: System>(system: &S, settings: &Settings) -> anyhow::Result<Outcome> {
    let mut producer = system.producers(1).await?.pop().context("the system made no producer")?;
    let batch = settings.batch.min(settings.backlog);
    let mut children = Children::start(settings, 1).await?;
    let began = Instant::now();
    children.go().await?;
    let mut enqueued = 0;
    while began.elapsed() < settings.span {
        if enqueued + batch <= children.handled()? + settings.backlog {
            producer.many(enqueued..enqueued + batch).await?;
            enqueued += batch;
        } else {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    finish(system, &children, enqueued).await?;
    let reports = children.stop().await?;
    check(system, enqueued, &reports).await?;
    let mut series = per_second(&reports);
    series.resize(settings.span.as_secs() as usize, 0);
    let completed = series.iter().sum();
    let outcome = Outcome::default().with("enqueued", enqueued).rate("completed", completed, settings.span);
    Ok(outcome.with("per_second", series))
}
