//! Producers race for a few unique keys while workers, producers and the database die.

use super::{
    Ended, PATIENCE, Store, Trial,
    ground::Ground,
    storm::{crash, strike},
};
use crate::{
    actor::{Load, Mix, Work},
    history::{Fault, Phase},
    proxy::{Chance, CommitCuts, CutPoint, writes},
    run::Run,
};
use anyhow::Result;
use std::time::{Duration, Instant};

/// Few, so that most enqueues find their key taken.
const KEYS: u32 = 30;
const LEASE_MS: u64 = 1_500;
/// The share of commits that is cut.
const CUT: f64 = 0.02;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.rules.unique_keys = KEYS;
    crew(&mut run, trial)?;
    run.wait(Duration::from_millis(700))?;
    run.phase(Phase::Faults);
    if let Some(proxy) = &ground.proxy {
        run.fault(Fault::CommitCut, true);
        let points = [CutPoint::BeforeForward, CutPoint::AfterForward, CutPoint::Racing];
        proxy.cut_commits(Some(
            CommitCuts::new(&points, Chance::Probability(CUT), trial.seed).counting(writes),
        ));
    }
    let length = trial.scaled(Duration::from_secs(60), Duration::from_secs(4));
    // What a bug needs to show is time in which jobs run and fail.
    let crashes = if trial.bug.is_some() { 0 } else { trial.scaled(5, 1) };
    let (began, mut crashed) = (Instant::now(), 0);
    while began.elapsed() < length {
        let rest = run.rng.u64(150..450);
        run.wait(Duration::from_millis(rest))?;
        strike(&mut run, &ground, trial)?;
        let due = began.elapsed() > length.mul_f64(f64::from(crashed + 1) / f64::from(crashes + 1));
        if let Some(server) = ground.server.as_ref().filter(|_| due && crashed < crashes) {
            crash(&mut run, server)?;
            crashed += 1;
        }
    }
    if let Some(proxy) = &ground.proxy {
        proxy.cut_commits(None);
        run.fault(Fault::CommitCut, false);
    }
    let patience = if trial.bug.is_some() { PATIENCE / 4 } else { PATIENCE };
    Ok(Ended::ran(run.conclude(patience)?))
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
    Ok(())
}
