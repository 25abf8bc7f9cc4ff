//! Jobs of a few keys, whose limits hold while workers, producers and the database die: some have jobs at once,
//! some so many in a time, some are serial.

use super::{Ended, Trial, ground::Ground, limits};
use crate::{
    actor::{Load, Mix},
    database,
    keys::{KEY_LIMIT, has_rate, is_serial, name_of},
};
use anyhow::{Result, ensure};
use std::time::Duration;
use windlass::{Client, KeyLimit, RateLimit};

/// Few, so that each has jobs waiting.
const KEYS: u32 = 8;
/// In full, for 170,000 jobs in eight minutes, which is what two processors carry beside it. As many jobs a second for each key as of the few, those with a rate got more, retries included,
/// than they may start.
const FULL_KEYS: u32 = 240;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.rules.keys = trial.scaled(FULL_KEYS, KEYS);
    let rate = RateLimit::new(2, Duration::from_millis(400));
    run.rules.key_rate = Some(rate);
    let limited = run.block_on(async {
        let client = Client::connect(&ground.url).await?;
        let known = client.store().capabilities().keys;
        if known {
            let few = KeyLimit::default().with_concurrency(KEY_LIMIT as u32);
            let rated = few.with_rate(rate);
            client.limit_keys("default", few).await?;
            for key in 0..run.rules.keys {
                let limit = match key {
                    key if is_serial(key) => KeyLimit::serial(),
                    key if has_rate(key) => rated,
                    _ => continue,
                };
                client.limit_key("default", &name_of(key), limit).await?;
            }
        }
        client.close().await;
        anyhow::Ok(known)
    })?;
    if !limited {
        return Ok(Ended::Skipped("this store limits no keys".to_owned()));
    }
    let rates = trial
        .scaled([(Mix::Varied, 270.0), (Mix::Failing, 100.0)], [(Mix::Varied, 20.0), (Mix::Failing, 20.0)]);
    limits::storm(run, &ground, trial, &rates)
}

/// Gives every key this limit.
async fn limit(url: &str, limit: KeyLimit) -> Result<()> {
    let client = Client::connect(url).await?;
    client.limit_keys("default", limit).await?;
    client.close().await;
    Ok(())
}

/// Every key is serial; in full there are 10,000 of them, and each gets a hundred jobs until the storm is over.
pub(super) fn run_serial(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.rules.keys = trial.scaled(10_000, 100);
    run.rules.all_serial = true;
    run.block_on(limit(&ground.url, KeyLimit::serial()))?;
    let rates = trial
        .scaled([(Mix::Plain, 310.0), (Mix::Failing, 110.0)], [(Mix::Plain, 100.0), (Mix::Failing, 50.0)]);
    let load = Load { keys: run.rules.keys, ..Load::default() };
    limits::crew(&mut run, trial, &rates, &load)?;
    // A twentieth longer than it takes, as there.
    limits::faults(run, &ground, trial, Duration::from_secs(2_550))
}

/// One key has nearly all jobs, and more of them than workers do; claims read so little at once that they look ahead
/// for the others all the time.
pub(super) fn run_backlog(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.block_on(async {
        let database = database::connect(&ground.url).await?;
        database.batch_execute("ALTER DATABASE postgres SET windlass.keyed_page = 16").await?;
        limit(&ground.url, KeyLimit::default()).await
    })?;
    let load = Load { keys: KEYS, loud: true, ..Load::default() };
    limits::crew(&mut run, trial, &[(Mix::Long(20, 60), 300.0), (Mix::Varied, 100.0)], &load)?;
    let ended = limits::faults(run, &ground, trial, limits::FULL_LENGTH)?;
    let lookers = tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let database = database::connect(&ground.url).await?;
        anyhow::Ok(
            database.query_one("SELECT count(*) FROM windlass.key_lookahead", &[]).await?.get::<_, i64>(0),
        )
    })?;
    ensure!(lookers > 0, "no claim has looked ahead: the backlog was too small");
    Ok(ended)
}
