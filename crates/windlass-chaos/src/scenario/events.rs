//! Somebody reads what happens to jobs while workers, producers, the reader itself and the database die.

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

const LEASE_MS: u64 = 1_500;
/// The share of commits that is cut.
const CUT: f64 = 0.02;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
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
    let length = trial.scaled(Duration::from_secs(60), Duration::from_secs(5));
    let crashes = trial.scaled(5, 1);
    let (began, mut crashed) = (Instant::now(), 0);
    while began.elapsed() < length {
        let rest = run.rng.u64(100..350);
        run.wait(Duration::from_millis(rest))?;
        strike(&mut run, &ground, trial)?;
        let strikes_reader = run.rng.u32(0..3) == 0;
        if let Some(listener) = run.any_running("listener").filter(|_| strikes_reader) {
            let gone = Duration::from_millis(run.rng.u64(0..300));
            run.kill(listener, gone)?;
        }
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
