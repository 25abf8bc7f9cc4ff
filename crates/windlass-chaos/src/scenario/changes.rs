//! The store is not what it was: a standby takes over, a pooler stands between, clocks jump, the schema grows.

use super::{Ended, PATIENCE, Trial, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    history::{Fault, Phase},
    node::{Clock, PgBouncer, PoolOptions, PostgresOptions, Sync, left_out},
    run::Run,
};
use anyhow::Result;
use std::{sync::Arc, time::Duration};
use windlass_core::JobStore as _;
use windlass_postgres::{PostgresOptions as WindlassOptions, PostgresStore};

fn crew(run: &mut Run, workers: usize, rate: f64) -> Result<()> {
    for _ in 0..workers {
        run.worker(Work { slots: 20, lease_ms: 2_000, ..Work::default() })?;
    }
    run.producer(Load { mix: Mix::Long(0, 20), rate, lanes: 4, ..Load::default() })?;
    run.wait(Duration::from_secs(1))?;
    run.phase(Phase::Faults);
    Ok(())
}

/// The primary dies and its synchronous standby takes over: nothing acknowledged is lost.
pub(super) fn failover_sync(trial: &Trial) -> Result<Ended> {
    failover(trial, Sync::Sync)
}

/// The same with an asynchronous standby: only what had not been streamed may be lost.
pub(super) fn failover_async(trial: &Trial) -> Result<Ended> {
    failover(trial, Sync::Async)
}

fn failover(trial: &Trial, sync: Sync) -> Result<Ended> {
    let ground = Ground::postgres(PostgresOptions::default())?;
    let primary = ground.server()?;
    let standby = primary.standby(sync)?;
    // The driver tries the hosts in order and takes the one that can be written to.
    let both = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        primary.port(),
        standby.port()
    );
    let mut setup = ground.setup(trial, &both);
    setup.store.clone_from(&both);
    let mut run = Run::open(setup)?;
    run.rules.may_lose_commits = sync == Sync::Async;
    crew(&mut run, 3, 300.0)?;
    run.wait(trial.scaled(Duration::from_secs(5), Duration::from_secs(2)))?;
    run.fault(Fault::Failover, true);
    primary.stop_immediate()?;
    standby.promote()?;
    run.fault(Fault::Failover, false);
    run.wait(Duration::from_secs(3))?;
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}

/// Everything goes through PgBouncer in transaction mode, which is restarted now and then.
pub(super) fn pooler(trial: &Trial) -> Result<Ended> {
    if !PgBouncer::available() {
        return Ok(Ended::Skipped(left_out("pgbouncer")?));
    }
    let ground = Ground::fresh(trial)?;
    let pooler =
        PgBouncer::start(ground.server()?, &PoolOptions { pool_size: 12, ..PoolOptions::default() })?;
    let mut run = ground.open_by(trial, &format!("{}?pooler=transaction", pooler.url()))?;
    crew(&mut run, 3, 250.0)?;
    for _ in 0..trial.scaled(60, 5) {
        let rest = run.rng.u64(300..1_500);
        run.wait(Duration::from_millis(rest))?;
        if run.rng.bool() {
            run.fault(Fault::PoolerRestart, true);
            pooler.restart()?;
            run.fault(Fault::PoolerRestart, false);
        } else if let Some(victim) = run.any_running("worker") {
            run.kill(victim, Duration::from_millis(100))?;
        }
    }
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}

/// The wall clocks of workers jump by hours: every decision is the store's.
pub(super) fn worker_clocks(trial: &Trial) -> Result<Ended> {
    if !Clock::available() {
        return Ok(Ended::Skipped(left_out("libfaketime")?));
    }
    let ground = Ground::fresh(trial)?;
    let mut run = ground.open(trial)?;
    let mut clocks = Vec::new();
    for _ in 0..3 {
        let clock = Arc::new(Clock::new()?);
        run.clocked_worker(Work { slots: 20, lease_ms: 2_000, ..Work::default() }, Arc::clone(&clock))?;
        clocks.push(clock);
    }
    run.producer(Load { mix: Mix::Varied, rate: 150.0, ..Load::default() })?;
    run.wait(Duration::from_millis(500))?;
    run.phase(Phase::Faults);
    for round in 0..trial.scaled(100, 6) {
        let hours = run.rng.f64() * 4.0 - 2.0;
        // Jumps must explain nothing: no lease may be lost for them, so they are not noted as faults.
        clocks[round % 3].move_to(hours * 3_600.0)?;
        run.wait(Duration::from_millis(900))?;
    }
    for clock in &clocks {
        clock.move_to(0.0)?;
    }
    let report = run.conclude(PATIENCE)?;
    Ok(Ended::ran(report))
}

/// The wall clock of the database jumps: leases may end early then, and writes are refused; nothing is lost, also where a worker
/// dies whose claims bear times that the clock has not come to again.
pub(super) fn server_clock(trial: &Trial) -> Result<Ended> {
    if !Clock::available() {
        return Ok(Ended::Skipped(left_out("libfaketime")?));
    }
    let clock = Clock::new()?;
    let options = PostgresOptions { clock: Some(clock.clone()), ..PostgresOptions::default() };
    let ground = Ground::postgres(options)?;
    let mut run = ground.open(trial)?;
    crew(&mut run, 3, 150.0)?;
    for round in 0..trial.scaled(60, 4) {
        run.fault(Fault::ClockJump, true);
        let away = run.rng.f64() * 3_600.0;
        clock.move_to(if round % 2 == 0 { away } else { -away })?;
        if let Some(victim) = run.any_running("worker").filter(|_| round % 2 == 1) {
            run.wait(Duration::from_millis(300))?;
            run.kill(victim, Duration::from_millis(100))?;
        }
        run.wait(Duration::from_millis(1_200))?;
        clock.move_to(0.0)?;
        run.fault(Fault::ClockJump, false);
        run.wait(Duration::from_millis(1_200))?;
    }
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}

/// The schema is migrated again and again while everybody works, which creates every function anew: what started
/// before goes on, and what starts afterwards works beside it.
pub(super) fn versions(trial: &Trial) -> Result<Ended> {
    let ground = Ground::fresh(trial)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let store = runtime.block_on(PostgresStore::connect(&ground.url, WindlassOptions::default()))?;
    runtime.block_on(store.migrate())?;
    let mut setup = ground.setup(trial, &ground.url);
    setup.migrates = false;
    let mut run = Run::open(setup)?;
    crew(&mut run, 3, 300.0)?;
    run.wait(Duration::from_secs(1))?;
    let rounds = trial.scaled(100, 10);
    for _ in 0..rounds {
        runtime.block_on(store.migrate())?;
        run.wait(Duration::from_millis(50))?;
    }
    let note = format!("migrated {rounds} times under load");
    run.producer(Load { once: true, transactions: true, rate: 100.0, batch: 5, ..Load::default() })?;
    run.worker(Work::default())?;
    run.wait(trial.scaled(Duration::from_secs(30), Duration::from_secs(2)))?;
    let report = run.conclude(PATIENCE)?;
    Ok(Ended::Ran(Box::new(report), vec![note]))
}
