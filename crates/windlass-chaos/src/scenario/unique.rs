//! Producers race for a few unique keys, and put jobs in each other's place, while workers, producers and the database die.

use super::{Ended, Store, Trial, faults::Faults, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    run::Run,
};
use anyhow::Result;
use std::time::Duration;

/// Few, so that most enqueues find their key taken.
const KEYS: u32 = 30;
/// Of those that jobs have for a while, and for how long.
const WINDOW_KEYS: u32 = 8;
const WINDOW_MS: u64 = 700;
/// Keys whose jobs take each other's place, in a queue that has too few slots for them, so that some wait in line.
const REPLACED_KEYS: u32 = 6;
const CALM: &str = "calm";
const LEASE_MS: u64 = 1_500;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    (run.rules.unique_keys, run.rules.replaced_keys) = (KEYS, REPLACED_KEYS);
    crew(&mut run, trial)?;
    let faults = Faults {
        length: trial.scaled(Duration::from_secs(60), Duration::from_secs(4)),
        // What a bug needs to show is time in which jobs run and fail.
        crashes: if trial.bug.is_some() { 0 } else { trial.scaled(5, 1) },
        rest: 150..450,
    };
    Ok(Ended::ran(faults.inject(run, &ground, trial, |_| Ok(()))?))
}

fn crew(run: &mut Run, trial: &Trial) -> Result<()> {
    for knows_rare in [true, true, false] {
        run.worker(Work { slots: 8, lease_ms: LEASE_MS, knows_rare, ..Work::default() })?;
    }
    for varied in [true, false] {
        run.producer(Load {
            mix: if varied { Mix::Varied } else { Mix::Failing },
            rate: 200.0,
            batch: 6,
            transactions: trial.store == Store::Postgres,
            unique_keys: KEYS,
            lanes: 4,
            ..Load::default()
        })?;
    }
    run.producer(Load {
        rate: 80.0,
        batch: 4,
        unique_keys: WINDOW_KEYS,
        window_ms: WINDOW_MS,
        extends: true,
        lanes: 2,
        ..Load::default()
    })?;
    run.worker(Work { slots: 1, lease_ms: LEASE_MS, queues: vec![CALM.to_owned()], ..Work::default() })?;
    run.producer(Load {
        mix: Mix::Failing,
        rate: 150.0,
        batch: 6,
        unique_keys: REPLACED_KEYS,
        replaces: true,
        lanes: 4,
        queue: CALM.to_owned(),
        ..Load::default()
    })?;
    Ok(())
}
