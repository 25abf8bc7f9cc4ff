//! Jobs of a few keys, whose limits hold while workers, producers and the database die: some have jobs at once, some are serial.

use super::{Ended, Trial, ground::Ground, limits};
use crate::{
    actor::Mix,
    keys::{KEY_LIMIT, is_serial, name_of},
};
use anyhow::Result;
use windlass::{Client, KeyLimit};

/// Few, so that each has jobs waiting.
const KEYS: u32 = 8;

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
    limits::storm(run, &ground, trial, &[(Mix::Varied, 20.0), (Mix::Failing, 20.0)])
}
