//! `pg_dump`, and `pg_restore` into a cluster that was never used, while workers and producers run on.

use super::{Ended, PATIENCE, Trial, ground::Ground};
use crate::{
    actor::{Load, Mix, Work},
    database,
    history::{Fault, Phase, What},
    node::{Postgres, PostgresOptions},
    run::Run,
};
use anyhow::{Context as _, Result, ensure};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::{Duration, Instant},
};
use windlass::{Client, ErrorKind};

/// Paused until everybody has moved, so that the dump holds jobs that nobody has claimed.
const LATER: &str = "later";
const DEFAULT: &str = "default";
/// Jobs that plain SQL enqueues in the new cluster before anybody else comes, each way.
const BY_SQL: i64 = 10;
/// How long the new cluster may be busy before it answers.
const ANSWER: Duration = Duration::from_secs(30);

/// Everybody works while the dump is taken and after it: what is acknowledged after its snapshot may be lost.
pub(super) fn under_load(trial: &Trial) -> Result<Ended> {
    let (mut ground, next) = grounds(trial)?;
    let mut run = begin(trial, &ground, false)?;
    run.rules.may_lose_commits = true;
    let dump = dump(&mut run, ground.server()?)?;
    let later = Duration::from_millis(run.rng.u64(100..600));
    run.wait(later)?;
    run.fault(Fault::DatabaseRestart, true);
    ground.proxy()?.refuse(true);
    ground.server()?.stop_immediate()?;
    change_over(&mut run, &mut ground, next, &dump)?;
    run.fault(Fault::DatabaseRestart, false);
    end(trial, run)
}

/// The queues are paused, what runs ends, and nobody reaches the database while the dump is taken: nothing may be
/// lost, and nothing starts twice.
pub(super) fn quiet(trial: &Trial) -> Result<Ended> {
    let (mut ground, next) = grounds(trial)?;
    let mut run = begin(trial, &ground, true)?;
    run.rules.most_living_second_starts = Some(0);
    let url = ground.actors_url()?;
    pause(&mut run, DEFAULT)?;
    while run.block_on(async { running(&url).await })? > 0 {
        run.wait(Duration::from_millis(50))?;
    }
    run.fault(Fault::ConnectionCut, true);
    ground.proxy()?.refuse(true);
    ground.proxy()?.cut_all();
    let dump = dump(&mut run, ground.server()?)?;
    ground.server()?.stop_immediate()?;
    change_over(&mut run, &mut ground, next, &dump)?;
    run.fault(Fault::ConnectionCut, false);
    end(trial, run)
}

/// The two clusters, made side by side.
fn grounds(trial: &Trial) -> Result<(Ground, Postgres)> {
    std::thread::scope(|scope| {
        let next = scope.spawn(|| Postgres::start(PostgresOptions::default()));
        let ground = Ground::proxied(trial);
        let next = next.join().ok().context("making the second cluster panicked")?;
        Ok((ground?, next?))
    })
}

/// `once`: some producers repeat under idempotency keys, across the move as well. Where commits may be lost they would
/// enqueue the lost anew.
fn begin(trial: &Trial, ground: &Ground, once: bool) -> Result<Run> {
    let url = ground.actors_url()?;
    let mut setup = ground.setup(trial, &url);
    setup.store.clone_from(&url);
    let mut run = Run::open(setup)?;
    for _ in 0..3 {
        let queues = [DEFAULT, LATER].map(str::to_owned).to_vec();
        run.worker(Work { slots: 10, queues, lease_ms: 2_000, ..Work::default() })?;
    }
    run.producer(Load { mix: Mix::Varied, rate: 200.0, batch: 5, lanes: 2, ..Load::default() })?;
    run.producer(Load { mix: Mix::Long(200, 900), rate: 15.0, batch: 2, once, ..Load::default() })?;
    let later = Load { mix: Mix::Varied, queue: LATER.to_owned(), ..Load::default() };
    run.producer(Load { rate: 60.0, batch: 5, ..later })?;
    pause(&mut run, LATER)?;
    run.wait(Duration::from_millis(500))?;
    run.phase(Phase::Faults);
    run.wait(trial.scaled(Duration::from_secs(10), Duration::from_millis(1_200)))?;
    Ok(run)
}

/// Pauses a queue, as soon as somebody has made it.
fn pause(run: &mut Run, queue: &str) -> Result<()> {
    let url = run.store().to_owned();
    let client = run.block_on(Client::connect(&url))?;
    while let Err(error) = run.block_on(client.pause(queue)) {
        anyhow::ensure!(error.kind() == ErrorKind::NotFound, error);
        run.wait(Duration::from_millis(20))?;
    }
    run.block_on(client.close());
    Ok(())
}

/// How many jobs run.
async fn running(url: &str) -> Result<u64> {
    let client = Client::connect(url).await?;
    let running = client.queues().await?.iter().map(|queue| queue.running).sum();
    client.close().await;
    Ok(running)
}

/// A dump of a snapshot whose time is known.
fn dump(run: &mut Run, server: &Postgres) -> Result<PathBuf> {
    run.fault(Fault::Dump, true);
    let (session, snapshot) = run.block_on(async {
        let session = database::connect(&server.url()).await?;
        session.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let snapshot: String = session.query_one("SELECT pg_export_snapshot()", &[]).await?.get(0);
        anyhow::Ok((session, snapshot))
    })?;
    run.fault(Fault::Dump, false);
    let file = server.dump(&snapshot)?;
    drop(session);
    Ok(file)
}

/// The next server takes the place of the first, which is down, at the same address.
fn change_over(run: &mut Run, ground: &mut Ground, next: Postgres, dump: &std::path::Path) -> Result<()> {
    next.restore(dump)?;
    run.fault(Fault::Restore, true);
    enqueue_by_sql(run, &next)?;
    ground.proxy()?.retarget(SocketAddr::from((Ipv4Addr::LOCALHOST, next.port())));
    ground.proxy()?.heal();
    ground.server = Some(next);
    run.fault(Fault::Restore, false);
    Ok(())
}

/// Jobs of the new cluster before any worker comes: plain, in savepoints, one of which is rolled back, and in a
/// block that catches errors. Rows of subtransactions carry another transaction's id than that of their job.
fn enqueue_by_sql(run: &Run, server: &Postgres) -> Result<()> {
    const WAYS: i64 = 4;
    let text = "CREATE FUNCTION pg_temp.enqueue(n bigint) RETURNS bigint LANGUAGE sql AS $$
            SELECT windlass.enqueue('work', jsonb_build_object('key', n, 'act', 'done')) $$;
        CREATE FUNCTION pg_temp.caught(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$
            BEGIN RETURN pg_temp.enqueue(n); EXCEPTION WHEN division_by_zero THEN RETURN NULL; END $$";
    // The injector is process 0, so its keys are small.
    run.note_all((1..=BY_SQL * WAYS).map(|key| What::EnqueueSent { key }));
    run.block_on(async {
        let session = database::connect(&server.url()).await?;
        session.batch_execute(text).await?;
        let enqueue = async |way: &str, key: i64| {
            let row = session.query_one(&format!("SELECT pg_temp.{way}({key})"), &[]).await?;
            anyhow::Ok(row.get::<_, i64>(0))
        };
        for first in (0..BY_SQL).map(|n| n * WAYS + 1) {
            let mut noted = vec![What::EnqueueAcked { key: first, id: enqueue("enqueue", first).await? }];
            session.batch_execute("BEGIN; SELECT pg_current_xact_id(); SAVEPOINT kept").await?;
            noted.push(What::EnqueueAcked { key: first + 1, id: enqueue("enqueue", first + 1).await? });
            session.batch_execute("SAVEPOINT dropped").await?;
            noted.push(What::RolledBack { key: first + 2, id: enqueue("enqueue", first + 2).await? });
            session.batch_execute("ROLLBACK TO dropped").await?;
            noted.push(What::EnqueueAcked { key: first + 3, id: enqueue("caught", first + 3).await? });
            session.batch_execute("COMMIT").await?;
            run.note_all(noted);
        }
        Ok(())
    })
}

/// Everybody works on, at last what was paused too.
fn end(trial: &Trial, mut run: Run) -> Result<Ended> {
    let url = run.store().to_owned();
    let moved = run.block_on(async {
        let client = Client::connect(&url).await?;
        let until = Instant::now() + ANSWER;
        for queue in [DEFAULT, LATER] {
            // Whoever puts the log in order gives up where others hold it up, and says that it may be tried again.
            while let Err(error) = client.resume(queue).await {
                ensure!(error.is_retryable() && Instant::now() < until, error);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        client.close().await;
        anyhow::Ok(())
    });
    moved.context("the new cluster does not answer")?;
    run.wait(trial.scaled(Duration::from_secs(5), Duration::from_millis(1_500)))?;
    Ok(Ended::ran(run.conclude(PATIENCE)?))
}
