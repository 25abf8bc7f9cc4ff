//! Everything at once, as a bad day does it: the scenario that seeded bugs are tried with.

use super::{Ended, PATIENCE, Store, Trial, ground::Ground, outages};
use crate::{
    actor::{Load, Mix, Work},
    bug::Bug,
    history::{Fault, Phase},
    node::Postgres,
    proxy::{Chance, CommitCuts, CutPoint, writes},
    run::Run,
};
use anyhow::Result;
use std::time::{Duration, Instant};
use windlass::Settings;

const LEASE: Duration = Duration::from_millis(1_500);
/// A storm is over when it has lasted, when so many faults struck, and when producers noted so much: a busy
/// machine needs longer for the same storm. But not for ever.
const STRIKES: u32 = 25;
const EVENTS: u64 = 2_000;
const LONGEST: u32 = 6;
/// The share of commits that is cut.
const CUT: f64 = 0.02;

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.rules.removes_completed = trial.bug.is_some_and(Bug::needs_rotation);
    let postgres = trial.store == Store::Postgres;
    for knows_rare in [true, true, false] {
        run.worker(Work { slots: 8, lease_ms: LEASE.as_millis() as u64, knows_rare, ..Work::default() })?;
    }
    for once in [false, true] {
        run.producer(Load {
            mix: Mix::Varied,
            rate: 150.0,
            batch: 5,
            once,
            transactions: postgres,
            meddles: true,
            lanes: 2,
            ..Load::default()
        })?;
    }
    run.wait(Duration::from_millis(700))?;
    run.phase(Phase::Faults);
    if let Some(proxy) = &ground.proxy {
        run.fault(Fault::CommitCut, true);
        let cut = if trial.bug == Some(Bug::BlindRetry) { 5.0 * CUT } else { CUT };
        let points = [CutPoint::BeforeForward, CutPoint::AfterForward, CutPoint::Racing];
        let ours = |sql: &str| writes(sql) || ["claim(", "settle("].iter().any(|name| sql.contains(name));
        proxy
            .cut_commits(Some(CommitCuts::new(&points, Chance::Probability(cut), trial.seed).counting(ours)));
    }
    let length = trial.scaled(Duration::from_secs(60), Duration::from_secs(5));
    // What a bug needs to show, its storm has more of.
    let crashes = match trial.bug {
        Some(Bug::AsyncCommit) => 3,
        // A crash that forgets claims explains a count that stays, and one that hits everybody any lost lease around it.
        Some(Bug::CrashNotCounted | Bug::RescueByTimeAlone) => 0,
        _ => trial.scaled(5, 1),
    };
    let (began, mut crashed, mut strikes) = (Instant::now(), 0, 0);
    while began.elapsed() < length * LONGEST {
        let rest = run.rng.u64(40..250);
        run.wait(Duration::from_millis(rest))?;
        strike(&mut run, &ground, trial)?;
        strikes += 1;
        if let Some(server) = ground.server.as_ref().filter(|_| strikes * (crashes + 1) / STRIKES > crashed) {
            if crashed < crashes {
                crash(&mut run, server)?;
            }
            crashed += 1;
        }
        if began.elapsed() > length && strikes > STRIKES && run.produced_events() > EVENTS {
            break;
        }
    }
    if let Some(proxy) = &ground.proxy {
        proxy.cut_commits(None);
        run.fault(Fault::CommitCut, false);
    }
    // A store with a bug may never drain, and need not be waited for long.
    let patience = if trial.bug.is_some() { PATIENCE / 4 } else { PATIENCE };
    Ok(Ended::ran(run.conclude(patience)?))
}

pub(super) fn crash(run: &mut Run, server: &Postgres) -> Result<()> {
    run.fault(Fault::DatabaseCrash, true);
    server.stop_immediate()?;
    server.start_again()?;
    run.fault(Fault::DatabaseCrash, false);
    Ok(())
}

pub(super) fn strike(run: &mut Run, ground: &Ground, trial: &Trial) -> Result<()> {
    if trial.bug.is_some_and(Bug::needs_rotation) {
        rotate(run, &ground.url)?;
    }
    let mut which = run.rng.u32(0..100);
    if trial.bug == Some(Bug::ReturnCompletes) && which < 35 {
        which = 60; // jobs come back at shutdowns
    }
    if trial.bug == Some(Bug::CrashNotCounted) {
        which /= 3;
    }
    match (which, &ground.server) {
        (0..35, _) => {
            if let Some(worker) = run.any_running("worker") {
                let gone = Duration::from_millis(run.rng.u64(0..600));
                run.kill(worker, gone)?;
            }
        }
        (35..55, _) => {
            if let Some(worker) = run.any_running("worker") {
                let length = LEASE.mul_f64(0.3 + 2.2 * run.rng.f64());
                run.pause(worker, length)?;
            }
        }
        (55..70, _) => {
            if let Some(worker) = run.any_running("worker") {
                let twice = run.rng.bool();
                run.terminate(worker, twice)?;
            }
        }
        (70..76, _) => {
            if let Some(producer) = run.any_running("producer") {
                run.kill(producer, Duration::from_millis(100))?;
            }
        }
        (_, Some(server)) => {
            run.fault(Fault::BackendTerminated, true);
            let share = run.rng.f64();
            // A server that is down has no backends to terminate.
            let _ = outages::terminate_backends(server, share);
            run.fault(Fault::BackendTerminated, false);
        }
        _ => {}
    }
    Ok(())
}

/// Moves on to the next segment and removes what it can, at once.
fn rotate(run: &Run, url: &str) -> Result<()> {
    let now = Settings::DEFAULT
        .with_retention(Duration::ZERO)
        .with_dead_retention(Duration::from_secs(3_600))
        .with_segment_bytes(1);
    run.block_on(async {
        let client = windlass::Client::connect(url).await?;
        // Held up by whoever writes: the next round tries again.
        let _ = client.configure(&now).await;
        let _ = client.store().maintain().await;
        client.close().await;
        Ok(())
    })
}
