//! A storm over a fleet of several languages: workers of the SDKs beside those in Rust, judged as one.

use super::{Ended, Store, Trial, faults::Faults, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    run::Run,
};
use anyhow::Result;
use std::time::Duration;

const LEASE_MS: u64 = 1_500;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    if trial.actors.is_empty() {
        let why =
            "no worker of another language: name one with --actor; scripts/chaos-actors says which there are";
        return Ok(Ended::Skipped(why.to_owned()));
    }
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    crew(&mut run, trial)?;
    let faults = Faults {
        length: trial.scaled(Duration::from_secs(60), Duration::from_secs(6)),
        crashes: trial.scaled(5, 1),
        rest: 100..350,
    };
    Ok(Ended::ran(faults.inject(run, &ground, trial, |_| Ok(()))?))
}

/// One worker in Rust, and of each other language two: only one of them knows all kinds.
fn crew(run: &mut Run, trial: &Trial) -> Result<()> {
    let work = |knows_rare| Work { slots: 8, lease_ms: LEASE_MS, knows_rare, ..Work::default() };
    run.worker(work(false))?;
    for actor in &trial.actors {
        for knows_rare in [true, false] {
            run.worker_by(actor, work(knows_rare))?;
        }
    }
    for once in [false, true] {
        run.producer(Load {
            mix: if once { Mix::Failing } else { Mix::Varied },
            rate: 150.0,
            batch: 5,
            once,
            transactions: trial.store == Store::Postgres,
            meddles: true,
            lanes: 2,
            ..Load::default()
        })?;
    }
    Ok(())
}
