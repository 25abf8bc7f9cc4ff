//! A queue runs no more jobs at once, or starts no more in a time, than its limit says, while workers, producers and the database die.

use super::{Ended, Store, Trial, faults::Faults, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    run::Run,
};
use anyhow::Result;
use std::time::Duration;
use windlass::{QueueLimits, RateLimit};

/// Fewer than the workers' own slots, and no multiple of their number.
const LIMIT: u32 = 5;
const LEASE_MS: u64 = 1_500;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let (ground, mut run) = limited(trial, &QueueLimits::default().with_concurrency(LIMIT))?;
    run.rules.limit = LIMIT;
    storm(run, &ground, trial, &[(Mix::Varied, 20.0), (Mix::Long(5, 60), 60.0)])
}

/// The time that a rate counts in.
const PERIOD: Duration = Duration::from_secs(4);

/// The same with a rate.
pub(super) fn run_rates(trial: &Trial) -> Result<Ended> {
    // Fewer than the producers enqueue; what is left when a long storm is over has to end.
    let rate = RateLimit::new(trial.scaled(240, 140), PERIOD);
    let (ground, mut run) = limited(trial, &QueueLimits::default().with_rate(rate))?;
    run.rules.rate = Some(rate);
    storm(run, &ground, trial, &[(Mix::Varied, 20.0), (Mix::Long(5, 60), 60.0)])
}

/// A run whose queue has these limits from the start.
fn limited(trial: &Trial, limits: &QueueLimits) -> Result<(Ground, Run)> {
    let ground = Ground::proxied(trial)?;
    let run = ground.open(trial)?;
    run.block_on(async {
        let client = windlass::Client::connect(&ground.url).await?;
        client.limit("default", limits).await?;
        client.close().await;
        anyhow::Ok(())
    })?;
    Ok((ground, run))
}

/// Three workers and a producer for each of these, with its rate, in a storm of faults.
pub(super) fn storm(mut run: Run, ground: &Ground, trial: &Trial, producers: &[(Mix, f64)]) -> Result<Ended> {
    let keys = run.rules.keys;
    crew(&mut run, trial, producers, &Load { keys, ..Load::default() })?;
    faults(run, ground, trial)
}

/// The storm, over a run that has its crew.
pub(super) fn faults(run: Run, ground: &Ground, trial: &Trial) -> Result<Ended> {
    let faults = Faults {
        length: trial.scaled(Duration::from_secs(60), Duration::from_secs(5)),
        crashes: trial.scaled(5, 1),
        rest: 150..450,
    };
    Ok(Ended::ran(faults.inject(run, ground, trial, |_| Ok(()))?))
}

/// `load`: the keys of the jobs.
pub(super) fn crew(run: &mut Run, trial: &Trial, producers: &[(Mix, f64)], load: &Load) -> Result<()> {
    for knows_rare in [true, true, false] {
        run.worker(Work { slots: 8, lease_ms: LEASE_MS, knows_rare, ..Work::default() })?;
    }
    for &(mix, rate) in producers {
        run.producer(Load {
            mix,
            rate,
            batch: 6,
            transactions: trial.store == Store::Postgres,
            meddles: true,
            lanes: 2,
            ..load.clone()
        })?;
    }
    Ok(())
}
