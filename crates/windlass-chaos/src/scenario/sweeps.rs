//! Thousands of jobs are cancelled, edited and deleted by filter while workers drain them and die.

use super::{Ended, PATIENCE, Trial, ground::Ground, storm::crash};
use crate::{
    actor::{Load, Mix, Work},
    history::Phase,
    run::Run,
};
use anyhow::Result;
use std::time::{Duration, Instant};

const LEASE_MS: u64 = 1_500;
/// The queue whose jobs are taken back.
const SWEPT: &str = "swept";

pub(super) fn run(trial: &Trial) -> Result<Ended> {
    let ground = Ground::fresh(trial)?;
    let mut run = ground.open(trial)?;
    run.rules.takes_back = true;
    crew(&mut run)?;
    run.wait(Duration::from_millis(700))?;
    run.phase(Phase::Faults);
    let length = trial.scaled(Duration::from_secs(90), Duration::from_secs(4));
    let crashes = trial.scaled(3, 1);
    let (began, mut crashed) = (Instant::now(), 0);
    while began.elapsed() < length {
        let rest = run.rng.u64(200..600);
        run.wait(Duration::from_millis(rest))?;
        let who = if run.rng.u32(0..6) == 0 { "producer" } else { "worker" };
        if let Some(victim) = run.any_running(who) {
            let gone = Duration::from_millis(run.rng.u64(0..400));
            run.kill(victim, gone)?;
        }
        let due = began.elapsed() > length.mul_f64(f64::from(crashed + 1) / f64::from(crashes + 1));
        if let Some(server) = ground.server.as_ref().filter(|_| due && crashed < crashes) {
            crash(&mut run, server)?;
            crashed += 1;
        }
    }
    let patience = if trial.bug.is_some() { PATIENCE / 4 } else { PATIENCE };
    let report = run.conclude(patience)?;
    let note = format!("{} jobs were cancelled or deleted by filter", report.counts.taken_back);
    Ok(Ended::Ran(Box::new(report), vec![note]))
}

fn crew(run: &mut Run) -> Result<()> {
    let queues = vec!["default".to_owned(), SWEPT.to_owned()];
    for _ in 0..3 {
        run.worker(Work { slots: 6, lease_ms: LEASE_MS, queues: queues.clone(), ..Work::default() })?;
    }
    // More than workers that die keep up with, so that there is something to take back.
    for mix in [Mix::Long(5, 40), Mix::Failing] {
        let queue = SWEPT.to_owned();
        run.producer(Load {
            mix,
            rate: 300.0,
            batch: 100,
            lanes: 2,
            sweeps: true,
            queue,
            ..Load::default()
        })?;
    }
    run.producer(Load { mix: Mix::Failing, rate: 50.0, ..Load::default() })?;
    Ok(())
}
