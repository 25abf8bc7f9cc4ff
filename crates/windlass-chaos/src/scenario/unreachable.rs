//! Nobody reaches the database for longer than a lease, while workers hold jobs.

use super::{Ended, PATIENCE, Trial, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    history::{Fault, Phase},
    proxy::Direction,
    run::Run,
};
use anyhow::Result;
use std::time::Duration;

const QUICK: &str = "default";
const SLOW: &str = "slow";
/// Of 10,000 jobs so many may start again although the process of their first worker lived.
const MOST_AGAIN: u64 = 1;

/// The database is away for two or three leases, again and again, and handlers go on meanwhile. Nothing that ends then
/// is settled before it is back. One worker in two outages dies, so that there is somebody to be rescued.
pub(super) fn outage(trial: &Trial) -> Result<Ended> {
    let lease = Duration::from_millis(trial.scaled(3_000, 2_000));
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.rules.most_living_second_starts = Some(MOST_AGAIN);
    // Fewer than what the workers manage while the database is there.
    crew(&mut run, lease, trial.scaled(5.0, 15.0))?;
    run.wait(Duration::from_millis(700))?;
    run.phase(Phase::Faults);
    let (rounds, most) = trial.scaled((40, 3.0), (2, 2.2));
    for round in 0..rounds {
        let length = lease.mul_f64(2.0 + (most - 2.0) * run.rng.f64());
        let victim = if round % 2 == 1 { run.any_running("worker") } else { None };
        be_away(&mut run, &ground, trial.seed + round, length, victim)?;
        // Whoever is to be rescued is, after one lease in touch.
        let calm = lease.mul_f64(trial.scaled(1.5, 0.6) + 0.2 * run.rng.f64());
        run.wait(calm)?;
    }
    let report = run.conclude(PATIENCE)?;
    let (held, again) = (report.counts.held_through_outages, report.counts.living_second_starts);
    let note = format!("{held} jobs were held through an outage, {again} of living workers started again");
    Ok(Ended::Ran(Box::new(report), vec![note]))
}

fn crew(run: &mut Run, lease: Duration, slow_rate: f64) -> Result<()> {
    let lease_ms = lease.as_millis() as u64;
    for _ in 0..3 {
        let queues = [QUICK, SLOW].map(str::to_owned).to_vec();
        run.worker(Work { slots: 20, queues, lease_ms, ..Work::default() })?;
    }
    let quick = Load { mix: Mix::Long(0, 20), rate: 300.0, batch: 5, lanes: 2, ..Load::default() };
    run.producer(quick)?;
    let slow =
        Load { mix: Mix::Long(lease_ms / 3, lease_ms * 3 / 2), rate: slow_rate, batch: 3, ..Load::default() };
    run.producer(Load { queue: SLOW.to_owned(), ..slow })?;
    Ok(())
}

/// The network is cut or swallows everything, or the server is down, cleanly or as after a crash.
fn be_away(run: &mut Run, ground: &Ground, how: u64, length: Duration, victim: Option<usize>) -> Result<()> {
    let (proxy, server) = (ground.proxy()?, ground.server()?);
    let faults = [Fault::ConnectionCut, Fault::DatabaseCrash, Fault::Blackhole, Fault::DatabaseRestart];
    let fault = faults[(how % 4) as usize];
    run.fault(fault, true);
    match fault {
        Fault::ConnectionCut => {
            proxy.refuse(true);
            proxy.cut_all();
        }
        Fault::Blackhole => {
            // Not the answers alone: then heartbeats of whoever has more connections open go on being heard.
            let ways = [Direction::ClientToServer, Direction::Both];
            proxy.blackhole(ways[run.rng.usize(0..2)], true);
        }
        Fault::DatabaseCrash => {
            // A commit that is waited for brings every claim of before to the disk: a crash forgets only the newest, and
            // those were answered after the fault began.
            server.sql("CREATE TABLE public.flushed (); DROP TABLE public.flushed")?;
            server.stop_immediate()?;
            proxy.refuse(true);
        }
        _ => server.stop_fast()?,
    }
    let early = length.mul_f64(run.rng.f64() / 2.0);
    run.wait(early)?;
    if let Some(worker) = victim {
        run.kill(worker, length)?;
    }
    run.wait(length - early)?;
    if fault == Fault::Blackhole {
        // Swallowed bytes desynchronise a connection for good, so those end with the fault.
        proxy.cut_all();
    }
    server.start_again()?;
    // Noted first: what is claimed after a crash, which may have the numbers of claims that it forgot, is noted after its end.
    run.fault(fault, false);
    proxy.heal();
    Ok(())
}
