//! Jobs of a few keys, whose limits hold while workers, producers and the database die: some have jobs at once, some are serial.

use super::{Ended, Store, Trial, faults::Faults, ground::Ground};
use crate::{
    actor::{KEY_LIMIT, Load, Mix, Work, is_serial, name_of},
    run::Run,
};
use anyhow::Result;
use std::time::Duration;
use windlass::{Client, KeyLimit};

/// Few, so that each has jobs waiting.
const KEYS: u32 = 8;
const LEASE_MS: u64 = 1_500;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.rules.keys = KEYS;
    let limited = run.block_on(async {
        let client = Client::connect(&ground.url).await?;
        let known = client.store().capabilities().keys;
        if known {
            client.limit_keys("default", KeyLimit::default().with_concurrency(KEY_LIMIT as u32)).await?;
            for key in (0..KEYS).filter(|key| is_serial(*key)) {
                client.limit_key("default", &name_of(key), KeyLimit::serial()).await?;
            }
        }
        client.close().await;
        anyhow::Ok(known)
    })?;
    if !limited {
        return Ok(Ended::Skipped("this store limits no keys".to_owned()));
    }
    crew(&mut run, trial)?;
    let faults = Faults {
        length: trial.scaled(Duration::from_secs(60), Duration::from_secs(5)),
        crashes: trial.scaled(5, 1),
        rest: 150..450,
    };
    Ok(Ended::ran(faults.inject(run, &ground, trial, |_| Ok(()))?))
}

fn crew(run: &mut Run, trial: &Trial) -> Result<()> {
    for knows_rare in [true, true, false] {
        run.worker(Work { slots: 8, lease_ms: LEASE_MS, knows_rare, ..Work::default() })?;
    }
    for mix in [Mix::Varied, Mix::Failing] {
        run.producer(Load {
            mix,
            rate: 20.0,
            batch: 6,
            transactions: trial.store == Store::Postgres,
            meddles: true,
            keys: KEYS,
            lanes: 2,
            ..Load::default()
        })?;
    }
    Ok(())
}
