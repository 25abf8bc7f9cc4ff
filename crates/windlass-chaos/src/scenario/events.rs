//! Somebody reads what happens to jobs while workers, producers, the reader itself and the database die.

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
    crew(&mut run, trial)?;
    let faults = Faults {
        length: trial.scaled(Duration::from_secs(60), Duration::from_secs(5)),
        crashes: trial.scaled(5, 1),
        rest: 100..350,
    };
    let report = faults.inject(run, &ground, trial, |run| {
        let strikes_reader = run.rng.u32(0..4) == 0;
        if let Some(listener) = run.any_running("listener").filter(|_| strikes_reader) {
            let gone = Duration::from_millis(run.rng.u64(0..300));
            run.kill(listener, gone)?;
        }
        Ok(())
    })?;
    Ok(Ended::ran(report))
}

fn crew(run: &mut Run, trial: &Trial) -> Result<()> {
    run.listener()?;
    for knows_rare in [true, true, false] {
        run.worker(Work { slots: 8, lease_ms: LEASE_MS, knows_rare, ..Work::default() })?;
    }
    for once in [false, true] {
        run.producer(Load {
            mix: Mix::Varied,
            rate: 200.0,
            batch: 6,
            once,
            transactions: trial.store == Store::Postgres,
            meddles: true,
            lanes: 4,
            ..Load::default()
        })?;
    }
    Ok(())
}
