//! Schedules tick each second while those who lead die, several believe that they lead, and the database dies.

use super::{Ended, Store, Trial, faults::Faults, ground::Ground};
use crate::{
    actor::{Load, Timetable, Work},
    bug::Bug,
    run::Run,
};
use anyhow::Result;
use std::time::{Duration, Instant};

const LEASE_MS: u64 = 1_500;
/// A worker asks every ten seconds whether it still leads. The shorter its term, the more of them believe that they do; the longer, the
/// longer nobody does when one dies.
const TERMS_MS: [u64; 3] = [50, 1_000, 4_000];

/// How often it is looked how far schedules are.
const LOOK_EVERY: Duration = Duration::from_millis(700);

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    let timetable = Timetable { exact: trial.scaled(1_000, 100), others: trial.scaled(100, 28) };
    run.schedule(timetable)?;
    let term_ms = match (trial.bug, trial.full) {
        // What it shows in is two that decide at the same time.
        (Some(Bug::TicksUnfenced), _) => TERMS_MS[0],
        // And what this one does: ticks that nobody was there for.
        (Some(Bug::TicksMissedLost), _) => TERMS_MS[2],
        (_, true) => TERMS_MS[1],
        _ => TERMS_MS[run.rng.usize(..TERMS_MS.len())],
    };
    crew(&mut run, trial, timetable, term_ms)?;
    let faults = Faults {
        length: trial.scaled(Duration::from_secs(600), Duration::from_secs(6)),
        crashes: trial.scaled(6, 1),
        rest: trial.scaled(1_000..3_000, 150..450),
    };
    let every = trial.scaled(Duration::from_secs(5), Duration::from_secs(1));
    let (mut due, mut looked, mut kills) = (Instant::now() + every, Instant::now(), 0_u32);
    let report = faults.inject(run, &ground, trial, |run| {
        if let Some(leader) = run.leader().filter(|_| Instant::now() >= due) {
            let gone = Duration::from_millis(run.rng.u64(0..300));
            run.kill(leader, gone)?;
            // What held one up does not make the next ones late.
            (due, kills) = (due + every, kills + 1);
        }
        if looked.elapsed() >= LOOK_EVERY {
            run.look_at_schedules();
            looked = Instant::now();
        }
        Ok(())
    })?;
    let note = format!("{} ticks fired, {kills} leaders were killed", report.counts.ticks);
    Ok(Ended::Ran(Box::new(report), vec![note]))
}

fn crew(run: &mut Run, trial: &Trial, timetable: Timetable, term_ms: u64) -> Result<()> {
    for _ in 0..trial.scaled(6, 4) {
        run.worker(Work {
            slots: 50,
            lease_ms: LEASE_MS,
            timetable,
            term_ms: Some(term_ms),
            ..Work::default()
        })?;
    }
    run.keeper(timetable)?;
    run.producer(Load {
        rate: 20.0,
        batch: 4,
        transactions: trial.store == Store::Postgres,
        meddles: true,
        ..Load::default()
    })?;
    Ok(())
}
