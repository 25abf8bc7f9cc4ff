//! Processes that are killed, paused and told to stop, one kind at a time and in numbers.

use super::{Ended, PATIENCE, Store, Trial, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    history::{Fault, Phase},
    run::Run,
};
use anyhow::Result;
use std::time::Duration;

/// On SQLite all processes wait for one writer lock, which is not fair: heartbeats come late on a busy
/// machine.
fn lease_ms(trial: &Trial) -> u64 {
    if trial.store == Store::Postgres { 2_000 } else { 5_000 }
}

/// Opens a run with workers, and producers of jobs of up to 20 ms: some are always in flight.
fn crew(trial: &Trial, ground: &Ground, workers: usize, work: &Work, rate: f64) -> Result<Run> {
    let mut run = ground.open(trial)?;
    for _ in 0..workers {
        run.worker(work.clone())?;
    }
    for _ in 0..2 {
        run.producer(Load { mix: Mix::Long(0, 20), rate: rate / 2.0, lanes: 2, ..Load::default() })?;
    }
    run.wait(Duration::from_secs(1))?;
    run.phase(Phase::Faults);
    Ok(run)
}

/// SIGKILL of workers and now and then of a producer; a million jobs over a thousand kills.
pub(super) fn kills(trial: &Trial) -> Result<Ended> {
    let ground = Ground::fresh(trial)?;
    let work = Work { slots: 50, lease_ms: lease_ms(trial), ..Work::default() };
    let mut run = crew(trial, &ground, 6, &work, trial.scaled(2_600.0, 600.0))?;
    // A producer notes each job twice: sent, and acknowledged.
    let (mut strikes, wanted, events) = (0, trial.scaled(1_050, 25), trial.scaled(2_050_000, 4_000));
    while strikes < wanted || (run.produced_events() < events && strikes < 10 * wanted) {
        strikes += 1;
        let rest = run.rng.u64(100..trial.scaled(700, 200));
        run.wait(Duration::from_millis(rest))?;
        let kind = if run.rng.u32(0..20) == 0 { "producer" } else { "worker" };
        if let Some(victim) = run.any_running(kind) {
            let gone = run.rng.u64(0..300);
            run.kill(victim, Duration::from_millis(gone))?;
        }
    }
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}

/// SIGSTOP beyond the lease, then SIGCONT: what the sleeper says then must be refused.
pub(super) fn pauses(trial: &Trial) -> Result<Ended> {
    let ground = Ground::fresh(trial)?;
    let work = Work { slots: 20, lease_ms: 1_000, ..Work::default() };
    let mut run = crew(trial, &ground, 10, &work, 300.0)?;
    let mut paused = 0;
    while paused < trial.scaled(1_000, 25) {
        run.wait(Duration::from_millis(trial.scaled(250, 120)))?;
        // Somebody must be there to rescue.
        if run.running("worker").len() < 4 {
            continue;
        }
        if let Some(victim) = run.any_running("worker") {
            let length = run.rng.u64(1_500..2_800);
            run.pause(victim, Duration::from_millis(length))?;
            paused += 1;
        }
    }
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}

/// Rolling SIGTERMs with a grace period shorter than some jobs; some get a second one at once.
pub(super) fn terminations(trial: &Trial) -> Result<Ended> {
    let ground = Ground::fresh(trial)?;
    let mut run = ground.open(trial)?;
    for _ in 0..5 {
        run.worker(Work { slots: 20, lease_ms: lease_ms(trial), grace_ms: 100, ..Work::default() })?;
    }
    run.producer(Load { mix: Mix::Long(0, 250), rate: 250.0, lanes: 2, ..Load::default() })?;
    run.wait(Duration::from_secs(1))?;
    run.phase(Phase::Faults);
    for _ in 0..trial.scaled(1_000, 25) {
        let rest = run.rng.u64(10..150);
        run.wait(Duration::from_millis(rest))?;
        if let Some(victim) = run.any_running("worker") {
            let twice = run.rng.u32(0..4) == 0;
            run.terminate(victim, twice)?;
        }
    }
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}

/// Jobs that run longer than the lease, on workers that live: nothing may start twice.
pub(super) fn long_jobs(trial: &Trial) -> Result<Ended> {
    let ground = Ground::fresh(trial)?;
    let mut run = ground.open(trial)?;
    for _ in 0..4 {
        run.worker(Work { slots: trial.scaled(4_000, 800), lease_ms: lease_ms(trial), ..Work::default() })?;
    }
    let (count, lease) = (trial.scaled(100_000, 1_000), lease_ms(trial));
    let mix = Mix::Long(lease * 5 / 4, lease * 3);
    run.producer(Load { mix, rate: trial.scaled(1_200.0, 400.0), count: Some(count), ..Load::default() })?;
    run.phase(Phase::Faults);
    while !run.running("producer").is_empty() {
        run.wait(Duration::from_millis(100))?;
    }
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}

/// Jobs that abort their worker or its memory, on workers with a cap: each is found out, the others live.
pub(super) fn poison(trial: &Trial) -> Result<Ended> {
    const CAP: u64 = 256 << 20;
    let ground = Ground::fresh(trial)?;
    let mut run = ground.open(trial)?;
    run.poison = true;
    for _ in 0..4 {
        run.capped_worker(Work { slots: 10, lease_ms: 1_000, ..Work::default() }, CAP)?;
    }
    let count = trial.scaled(20_000, 400);
    run.producer(Load {
        mix: Mix::Poison(trial.scaled(200, 120)),
        rate: 200.0,
        count: Some(count),
        ..Load::default()
    })?;
    run.phase(Phase::Faults);
    while !run.running("producer").is_empty() {
        run.wait(Duration::from_millis(100))?;
    }
    // Each pill kills up to five workers, a lease apart.
    let report = run.conclude(trial.scaled(PATIENCE * 10, PATIENCE * 2))?;
    let deaths = report.counts.faults.get(&Fault::Poison).copied().unwrap_or(0);
    let note = format!("{deaths} workers died of their jobs");
    Ok(Ended::Ran(Box::new(report), vec![note]))
}
