//! A queue runs no more jobs at once than its limit says, while workers, producers and the database die.

use super::{Ended, Store, Trial, faults::Faults, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    run::Run,
};
use anyhow::Result;
use std::time::Duration;
use windlass::QueueLimits;

/// Fewer than the workers' own slots, and no multiple of their number.
const LIMIT: u32 = 5;
const LEASE_MS: u64 = 1_500;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.rules.limit = LIMIT;
    run.block_on(async {
        let client = windlass::Client::connect(&ground.url).await?;
        client.limit("default", &QueueLimits::default().with_concurrency(LIMIT)).await?;
        client.close().await;
        anyhow::Ok(())
    })?;
    storm(run, &ground, trial, &[(Mix::Varied, 20.0), (Mix::Long(5, 60), 60.0)])
}

/// Three workers and a producer for each of these, with its rate, in a storm of faults.
pub(super) fn storm(mut run: Run, ground: &Ground, trial: &Trial, producers: &[(Mix, f64)]) -> Result<Ended> {
    crew(&mut run, trial, producers)?;
    let faults = Faults {
        length: trial.scaled(Duration::from_secs(60), Duration::from_secs(5)),
        crashes: trial.scaled(5, 1),
        rest: 150..450,
    };
    Ok(Ended::ran(faults.inject(run, ground, trial, |_| Ok(()))?))
}

fn crew(run: &mut Run, trial: &Trial, producers: &[(Mix, f64)]) -> Result<()> {
    for knows_rare in [true, true, false] {
        run.worker(Work { slots: 8, lease_ms: LEASE_MS, knows_rare, ..Work::default() })?;
    }
    let keys = run.rules.keys;
    for &(mix, rate) in producers {
        run.producer(Load {
            mix,
            rate,
            batch: 6,
            transactions: trial.store == Store::Postgres,
            meddles: true,
            keys,
            lanes: 2,
            ..Load::default()
        })?;
    }
    Ok(())
}
