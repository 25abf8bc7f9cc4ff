//! Producers wait for their jobs to end, some of which expire, while workers, producers and the database die.

use super::{Ended, Store, Trial, faults::Faults, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    run::Run,
};
use anyhow::Result;
use std::time::Duration;

const LEASE_MS: u64 = 1_500;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    (run.rules.expires, run.rules.waits) = (true, true);
    crew(&mut run, trial)?;
    let faults = Faults {
        length: trial.scaled(Duration::from_secs(240), Duration::from_secs(5)),
        crashes: trial.scaled(8, 1),
        rest: 150..450,
    };
    Ok(Ended::ran(faults.inject(run, &ground, trial, |_| Ok(()))?))
}

fn crew(run: &mut Run, trial: &Trial) -> Result<()> {
    for knows_rare in [true, true, false] {
        run.worker(Work { slots: 8, lease_ms: LEASE_MS, knows_rare, ..Work::default() })?;
    }
    for (mix, rate) in [(Mix::Varied, 100.0), (Mix::Failing, 60.0)] {
        run.producer(Load {
            mix,
            rate,
            batch: 6,
            transactions: trial.store == Store::Postgres,
            meddles: true,
            expires: true,
            waits: true,
            lanes: 2,
            ..Load::default()
        })?;
    }
    Ok(())
}
