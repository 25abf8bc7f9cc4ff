use crate::{
    Settings, System,
    children::{Children, Report},
    enqueue,
    outcome::Outcome,
    tally::verify,
};
use anyhow::{bail, ensure};
use std::time::{Duration, Instant};

/// After so long without a job handled or completed, no more will be.
const STALLED: Duration = Duration::from_secs(60);
/// How often the store is asked whether the last completions are committed.
const ASK_EVERY: Duration = Duration::from_millis(2);

/// Enqueues the jobs, then times worker processes until the last is completed.
pub(crate) async fn measure<S: System>(system: &S, settings: &Settings) -> anyhow::Result<Outcome> {
    let enqueued_in = enqueue::fill(system, settings, 1).await?;
    analyze(settings).await?;
    let mut children = Children::start(settings, settings.processes).await?;
    let began = Instant::now();
    children.go().await?;
    let took = finish(system, &children, settings.jobs).await?.duration_since(began);
    let reports = children.stop().await?;
    check(system, settings.jobs, &reports).await?;
    let outcome = Outcome::default().rate("enqueued", settings.jobs, enqueued_in);
    Ok(outcome.rate("completed", settings.jobs, took).with("per_second", per_second(&reports)))
}

/// Gives the planner the figures of the filled tables, as the database would by itself a minute later.
async fn analyze(settings: &Settings) -> anyhow::Result<()> {
    let (client, connection) = tokio_postgres::connect(&settings.url, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    client.batch_execute("ANALYZE").await?;
    drop(client);
    Ok(connection.await??)
}

/// Waits until each job is handled, and the store holds no job that is not completed. Returns when that was so: the
/// answer is of the time of the question, and some systems take long to answer.
pub(crate) async fn finish<S: System>(system: &S, children: &Children, jobs: u64) -> anyhow::Result<Instant> {
    let (mut progress, mut seen) = ((0, u64::MAX), Instant::now());
    loop {
        let (handled, asked) = (children.handled()?, Instant::now());
        // The count is not free: it is asked for only when it can be none.
        let unfinished = if handled < jobs { u64::MAX } else { system.unfinished().await? };
        if unfinished == 0 {
            return Ok(asked);
        }
        if progress != (handled, unfinished) {
            (progress, seen) = ((handled, unfinished), Instant::now());
        }
        if seen.elapsed() > STALLED {
            let left = system.unfinished().await?;
            bail!("nothing happened for {STALLED:?}: {handled} of {jobs} jobs handled, {left} not completed");
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Verifies what was done, once the workers have stopped.
pub(crate) async fn check<S: System>(system: &S, jobs: u64, reports: &[Report]) -> anyhow::Result<()> {
    let runs: Vec<_> = reports.iter().map(|report| report.runs.clone()).collect();
    verify(jobs, &runs)?;
    let unfinished = system.unfinished().await?;
    ensure!(
        unfinished == 0,
        "all jobs were handled, but the store holds {unfinished} that are not completed"
    );
    Ok(())
}

/// Jobs handled in each second by all workers together.
pub(crate) fn per_second(reports: &[Report]) -> Vec<u64> {
    let length = reports.iter().map(|report| report.per_second.len()).max().unwrap_or(0);
    let sum = |second| reports.iter().filter_map(|report| report.per_second.get(second)).sum();
    (0..length).map(sum).collect()
}
