//! The database and the way to it fail; workers and producers live on.

use super::{Ended, PATIENCE, Trial, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    history::{Fault, Phase},
    node::{Postgres, PostgresOptions, Tmpfs},
    proxy::{Chance, CommitCuts, CutPoint, Direction},
    run::Run,
};
use anyhow::Result;
use std::time::{Duration, Instant};

/// Paced work, so that "back to 90 %" means that everybody works again, not how fast the machine is.
fn paced(trial: &Trial, ground: &Ground) -> Result<Run> {
    let mut run = ground.open(trial)?;
    run.rules.recovers = true;
    for _ in 0..3 {
        run.worker(Work { slots: 20, lease_ms: 3_000, ..Work::default() })?;
    }
    for _ in 0..2 {
        run.producer(Load { mix: Mix::Plain, rate: 200.0, batch: 5, lanes: 2, ..Load::default() })?;
    }
    run.wait(Duration::from_secs(4))?;
    run.phase(Phase::Faults);
    Ok(run)
}

/// Long enough after an outage to see the throughput of before.
fn recover(run: &mut Run) -> Result<()> {
    let calm = run.rng.u64(3_500..5_000);
    run.wait(Duration::from_millis(calm))
}

/// Until a server whose backend was killed takes connections again: on a busy machine that takes seconds.
fn until_recovered(run: &mut Run, server: &Postgres) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    run.wait(Duration::from_millis(500))?;
    while let Err(away) = server.sql("SELECT 1") {
        if Instant::now() > end {
            return Err(away);
        }
        run.wait(Duration::from_millis(50))?;
    }
    Ok(())
}

/// Immediate shutdowns, killed postmasters and killed backends, with jobs under way.
pub(super) fn crashes(trial: &Trial) -> Result<Ended> {
    let ground = Ground::fresh(trial)?;
    let server = ground.server()?;
    let mut run = paced(trial, &ground)?;
    for _ in 0..trial.scaled(105, 4) {
        run.fault(Fault::DatabaseCrash, true);
        match run.rng.u32(0..10) {
            0 => {
                server.kill_postmaster()?;
                server.start_again()?;
            }
            1 => {
                let mut rng = run.rng.fork();
                server.kill_backend(&mut rng)?;
                until_recovered(&mut run, server)?;
            }
            2 => server.restart_fast()?,
            _ => {
                server.stop_immediate()?;
                let gone = run.rng.u64(0..800);
                run.wait(Duration::from_millis(gone))?;
                server.start_again()?;
            }
        }
        run.fault(Fault::DatabaseCrash, false);
        recover(&mut run)?;
    }
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}

/// Connections cut, refused, stalled and swallowed, server processes terminated, no connection to be had.
pub(super) fn network(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = paced(trial, &ground)?;
    for round in 0..trial.scaled(105, 6) {
        let length = Duration::from_millis(run.rng.u64(300..2_500));
        break_network(&mut run, &ground, round % 6, length)?;
        recover(&mut run)?;
    }
    let counts = ground.proxy()?.counts();
    Ok(Ended::Ran(Box::new(run.conclude(PATIENCE)?), vec![format!("proxy: {counts:?}")]))
}

fn break_network(run: &mut Run, ground: &Ground, what: u32, length: Duration) -> Result<()> {
    let (proxy, server) = (ground.proxy()?, ground.server()?);
    let ways = [Direction::ClientToServer, Direction::ServerToClient, Direction::Both];
    let way = ways[run.rng.usize(0..3)];
    let fault = match what {
        0 | 1 => Fault::ConnectionCut,
        2 => Fault::Blackhole,
        3 => Fault::BackendTerminated,
        4 => Fault::PoolExhausted,
        _ => Fault::Delay,
    };
    run.fault(fault, true);
    match what {
        0 => {
            proxy.refuse(true);
            proxy.cut_all();
            run.wait(length)?;
        }
        1 => {
            proxy.half_close(way);
            run.wait(Duration::from_millis(100))?;
            proxy.cut_all();
        }
        2 => {
            // Swallowed bytes desynchronise a connection for good, so those end with the fault.
            proxy.blackhole(way, true);
            run.wait(length)?;
            proxy.cut_all();
        }
        3 => {
            terminate_backends(server, 1.0)?;
        }
        4 => exhaust(run, server, length)?,
        _ => {
            proxy.set_delay(Duration::from_millis(40), Duration::from_millis(40));
            run.wait(length)?;
        }
    }
    proxy.heal();
    run.fault(fault, false);
    Ok(())
}

/// Terminates this share of the server processes, each by chance.
pub(super) fn terminate_backends(server: &Postgres, share: f64) -> Result<()> {
    server.sql(&format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < {share}"
    ))?;
    Ok(())
}

/// Takes the place of every connection, and keeps it.
fn exhaust(run: &mut Run, server: &Postgres, length: Duration) -> Result<()> {
    terminate_backends(server, 1.0)?;
    let url = format!("{}?application_name=hog", server.url());
    let hogs = run.block_on(async {
        let mut hogs = Vec::new();
        // Bounded: a server has a few hundred connections at most.
        for _ in 0..1_000 {
            let Ok((client, connection)) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await else {
                break;
            };
            hogs.push((client, tokio::spawn(connection)));
        }
        hogs
    });
    run.wait(length)?;
    for (_, connection) in hogs {
        connection.abort();
    }
    Ok(())
}

/// How soon a call must find out that nobody answers: `PostgresOptions::call_timeout`.
const NOTICED: Duration = Duration::from_secs(10);

/// Half-open connections that nobody ends: a worker must notice by itself.
pub(super) fn half_open(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = paced(trial, &ground)?;
    for _ in 0..trial.scaled(30, 1) {
        run.fault(Fault::Blackhole, true);
        ground.proxy()?.strand();
        run.wait(NOTICED)?;
        run.fault(Fault::Blackhole, false);
        run.wait(Duration::from_secs(5))?;
    }
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}

/// Connections cut before, after and while a COMMIT is answered; producers repeat under their keys.
pub(super) fn commits(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.worker(Work { slots: 50, lease_ms: 5_000, ..Work::default() })?;
    for _ in 0..2 {
        run.producer(Load { once: true, rate: 4_000.0, batch: 6, lanes: 4, ..Load::default() })?;
    }
    run.wait(Duration::from_millis(300))?;
    run.phase(Phase::Faults);
    run.fault(Fault::CommitCut, true);
    let points = [CutPoint::BeforeForward, CutPoint::AfterForward, CutPoint::Racing];
    let proxy = ground.proxy()?;
    proxy.cut_commits(Some(CommitCuts::new(&points, Chance::Probability(0.5), trial.seed)));
    let target = trial.scaled(20_000, 300);
    while proxy.counts().commits_cut < target {
        run.wait(Duration::from_millis(20))?;
    }
    proxy.cut_commits(None);
    run.fault(Fault::CommitCut, false);
    let counts = proxy.counts();
    let note = format!("{} of {} commits were cut", counts.commits_cut, counts.commits_seen);
    Ok(Ended::Ran(Box::new(run.conclude(PATIENCE)?), vec![note]))
}

/// Notifications vanish: polling finds the work.
pub(super) fn deaf(trial: &Trial) -> Result<Ended> {
    let ground = Ground::proxied(trial)?;
    let mut run = ground.open(trial)?;
    run.fault(Fault::NotificationsLost, true);
    ground.proxy()?.swallow_notifications(true);
    run.worker(Work { slots: 5, lease_ms: 5_000, ..Work::default() })?;
    run.producer(Load { rate: 2.0, batch: 1, ..Load::default() })?;
    run.phase(Phase::Faults);
    run.wait(trial.scaled(Duration::from_secs(300), Duration::from_secs(6)))?;
    let swallowed = ground.proxy()?.counts().swallowed;
    if swallowed == 0 {
        run.fail("the proxy swallowed no notification".to_owned());
    }
    let report = run.conclude(Duration::from_secs(10))?;
    Ok(Ended::Ran(Box::new(report), vec![format!("{swallowed} notifications swallowed")]))
}

/// The disk fills up under the database, and is freed.
pub(super) fn disk_full(trial: &Trial) -> Result<Ended> {
    if !Tmpfs::available() {
        return Ok(Ended::Skipped("mounting a small disk needs root".to_owned()));
    }
    let disk = Tmpfs::mount(400 << 20)?;
    let settings = [("max_wal_size", "64MB"), ("min_wal_size", "32MB"), ("shared_buffers", "32MB")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let options =
        PostgresOptions { settings, folder: Some(disk.path().to_owned()), ..PostgresOptions::default() };
    let ground = Ground::postgres(options)?;
    let mut run = paced(trial, &ground)?;
    for _ in 0..trial.scaled(30, 1) {
        run.fault(Fault::DiskFull, true);
        disk.fill()?;
        run.wait(Duration::from_secs(3))?;
        disk.free()?;
        let server = ground.server()?;
        // A server that could not write its log has stopped; whoever frees the disk starts it again.
        if server.sql("SELECT 1").is_err() {
            server.stop_immediate().ok();
            server.start_again()?;
        }
        run.fault(Fault::DiskFull, false);
        recover(&mut run)?;
    }
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}
