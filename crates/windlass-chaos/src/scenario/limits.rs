//! A queue runs no more jobs at once, or starts no more in a time, than its limit says, while workers, producers and the database die.

use super::{Ended, Store, Trial, faults::Faults, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    run::Run,
};
use anyhow::Result;
use std::time::Duration;
use windlass::{QueueLimits, RateLimit};

/// How many jobs may run at once: fewer than the workers' own slots, and no multiple of their number.
const LIMIT: u32 = 5;
/// The same in full: what the jobs need while workers die all the time and keep their slots until they are missed.
const FULL_LIMIT: u32 = 70;
const LEASE_MS: u64 = 1_500;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let limit = trial.scaled(FULL_LIMIT, LIMIT);
    let (ground, mut run) = limited(trial, &QueueLimits::default().with_concurrency(limit))?;
    run.rules.limit = limit;
    storm(run, &ground, trial, &producers(trial))
}

/// The time that a rate counts in.
const PERIOD: Duration = Duration::from_secs(4);

/// The same with a rate.
pub(super) fn run_rates(trial: &Trial) -> Result<Ended> {
    // Fewer than the producers enqueue; what is left when a long storm is over has to end.
    let rate = RateLimit::new(trial.scaled(3_000, 140), PERIOD);
    let (ground, mut run) = limited(trial, &QueueLimits::default().with_rate(rate))?;
    run.rules.rate = Some(rate);
    storm(run, &ground, trial, &producers(trial))
}

/// What each enqueues, and how many jobs in a second: in full, 200,000 and some until the storm is over, which is what two processors can carry beside it.
fn producers(trial: &Trial) -> [(Mix, f64); 2] {
    trial.scaled(
        [(Mix::Varied, 30.0), (Mix::Long(5, 60), 420.0)],
        [(Mix::Varied, 20.0), (Mix::Long(5, 60), 60.0)],
    )
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

/// Workers and a producer for each of these, with its rate, in a storm of faults.
pub(super) fn storm(mut run: Run, ground: &Ground, trial: &Trial, producers: &[(Mix, f64)]) -> Result<Ended> {
    let keys = run.rules.keys;
    crew(&mut run, trial, producers, &Load { keys, ..Load::default() })?;
    faults(run, ground, trial, FULL_LENGTH)
}

/// How long a storm lasts in full: a twentieth longer than what the producers promise takes, since they enqueue nothing while the database is down.
pub(super) const FULL_LENGTH: Duration = Duration::from_secs(475);

/// The storm, over a run that has its crew.
pub(super) fn faults(run: Run, ground: &Ground, trial: &Trial, full_length: Duration) -> Result<Ended> {
    let faults = Faults {
        length: trial.scaled(full_length, Duration::from_secs(5)),
        crashes: trial.scaled(5, 1),
        rest: 150..450,
    };
    Ok(Ended::ran(faults.inject(run, ground, trial, |_| Ok(()))?))
}

/// `load`: the keys of the jobs.
pub(super) fn crew(run: &mut Run, trial: &Trial, producers: &[(Mix, f64)], load: &Load) -> Result<()> {
    for knows_rare in trial.scaled(&[true, true, true, false][..], &[true, true, false]) {
        let slots = trial.scaled(40, 8);
        run.worker(Work { slots, lease_ms: LEASE_MS, knows_rare: *knows_rare, ..Work::default() })?;
    }
    for &(mix, rate) in producers {
        run.producer(Load {
            mix,
            rate,
            batch: trial.scaled(30, 6),
            transactions: trial.store == Store::Postgres,
            meddles: true,
            lanes: 2,
            ..load.clone()
        })?;
    }
    Ok(())
}
