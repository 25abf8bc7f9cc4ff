//! Workers: their registration, their leases, and what becomes of the jobs of those that are gone.

use crate::{
    claim::Reference,
    database::Database,
    deadline::Patience,
    error::Effect,
    lock::lock,
    migrate::ensure_home,
    open_claims::PossiblyOpen,
    query::{Param, Query},
    row::{from_ms, get},
    segment::segment,
};
use std::sync::Arc;
use tokio_postgres::{Row, types::Type};
use windlass_core::{
    Error, ErrorKind, Heartbeat, JobId, Load, Program, Registration, RescueReport, Result, WorkerId,
    WorkerSpec,
};

pub(crate) async fn register(db: &Database, spec: &WorkerSpec) -> Result<Registration> {
    spec.check()?;
    let mut connection = db.upkeep("register").await?;
    segment(db, &connection).await?; // refused without the rows of a migration: no job would ever be found
    ensure_home(db, &mut connection).await?;
    lock(&db.caches.due).forget();
    lock(&db.caches.due_schedules).forget();
    let worker = register_on(db, &connection, spec).await?;
    db.caches.note_queues(worker, &spec.queues);
    Ok(Registration { worker })
}

pub(crate) async fn register_on(db: &Database, on: &impl Query, spec: &WorkerSpec) -> Result<WorkerId> {
    let (lease, Program { name, app_version, engine }) = (spec.lease.as_secs_f64(), &spec.program);
    let said: [Param<'_>; 7] = [
        (&spec.name, Type::TEXT),
        (&spec.queues, Type::TEXT_ARRAY),
        (&spec.kinds, Type::TEXT_ARRAY),
        (&lease, Type::FLOAT8),
        (name, Type::TEXT),
        (app_version, Type::TEXT),
        (engine, Type::TEXT),
    ];
    // Registering twice only leaves a worker that holds nothing and expires.
    let (new, old) =
        ("SELECT {schema}.register($1, $2, $3, $4, $5, $6, $7)", "SELECT {schema}.register($1, $2, $3, $4)");
    let row = match on.query_one(&db.sql(new), &said, Effect::Repeatable).await {
        // Not migrated to version 26 yet: nobody notes what it runs.
        Err(error) if error.kind() == ErrorKind::SchemaMissing => {
            on.query_one(&db.sql(old), &said[..4], Effect::Repeatable).await?
        }
        row => row?,
    };
    Ok(WorkerId(row.get(0)))
}

pub(crate) async fn heartbeat(db: &Database, worker: WorkerId, load: Load) -> Result<Heartbeat> {
    let open = db.caches.open_claims(worker, |claims| claims.possibly_open());
    let connection = db.settles("heartbeat").await?;
    // Whoever renews a lease waits for a part of it only, and tries again: not on the connection that was silent.
    let watched = connection.guard.watch();
    let beat = async {
        heartbeat_on(db, &connection, worker, open, load).await?;
        news_on(db, &connection, worker).await
    };
    let beat = beat.await;
    watched.done();
    beat
}

/// What the worker has to know.
pub(crate) async fn news_on(db: &Database, on: &impl Query, worker: WorkerId) -> Result<Heartbeat> {
    let [new, old] = [", {schema}.is_outdated($1)", ""].map(|outdated| {
        db.sql(&format!(
            "SELECT ARRAY(SELECT {{schema}}.cancel_requests($1)), {{schema}}.limited_queues($1), {{schema}}.is_draining($1){outdated}"
        ))
    });
    let id: [Param<'_>; 1] = [(&worker.0, Type::INT4)];
    let (row, tells) = match on.query_one(&new, &id, Effect::Repeatable).await {
        // The functions are of before: nobody says whether there was a failover.
        Err(error) if error.kind() == ErrorKind::SchemaMissing => {
            (on.query_one(&old, &id, Effect::Repeatable).await, false)
        }
        row => (row, true),
    };
    match row {
        Ok(row) => {
            let mut heartbeat = news_of(&row)?;
            heartbeat.drain = get(&row, 2)?;
            heartbeat.register_anew = tells && get(&row, 3)?;
            Ok(heartbeat)
        }
        // Not migrated to version 24 yet: nobody can ask it to drain.
        Err(error) if error.kind() == ErrorKind::SchemaMissing => older_news_on(db, on, worker).await,
        Err(error) => Err(error),
    }
}

async fn older_news_on(db: &Database, on: &impl Query, worker: WorkerId) -> Result<Heartbeat> {
    let news = db.sql("SELECT ARRAY(SELECT {schema}.cancel_requests($1)), {schema}.limited_queues($1)");
    match on.query_one(&news, &[(&worker.0, Type::INT4)], Effect::Repeatable).await {
        Ok(row) => news_of(&row),
        // Not migrated to version 12 yet: no queue has limits.
        Err(error) if error.kind() == ErrorKind::SchemaMissing => {
            let mut heartbeat = Heartbeat::default();
            heartbeat.cancel = cancel_requests_on(db, on, worker).await?;
            Ok(heartbeat)
        }
        Err(error) => Err(error),
    }
}

/// What stores of every version with limits say.
fn news_of(row: &Row) -> Result<Heartbeat> {
    let mut heartbeat = Heartbeat::default();
    heartbeat.cancel = get::<Vec<i64>>(row, 0)?.into_iter().map(JobId).collect();
    heartbeat.limited = get::<Vec<&str>>(row, 1)?.into_iter().map(Arc::from).collect();
    Ok(heartbeat)
}

/// The jobs that this worker holds and that are to be cancelled.
pub(crate) async fn cancel_requests_on(
    db: &Database,
    on: &impl Query,
    worker: WorkerId,
) -> Result<Vec<JobId>> {
    let requests = db.sql("SELECT {schema}.cancel_requests($1)");
    match on.query(&requests, &[(&worker.0, Type::INT4)], Effect::Repeatable).await {
        Ok(rows) => Ok(rows.iter().map(|row| JobId(row.get(0))).collect()),
        // Not migrated to version 3 yet: nobody can ask.
        Err(error) if error.kind() == ErrorKind::SchemaMissing => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// `open`: the claims that can be open; `None`: as before.
pub(crate) async fn heartbeat_on(
    db: &Database,
    on: &impl Query,
    worker: WorkerId,
    open: Option<PossiblyOpen>,
    load: Load,
) -> Result<()> {
    let from = open.as_ref().map(|open| i64::try_from(open.from).unwrap_or(i64::MAX));
    let older = open.map(|open| open.older).unwrap_or_default().into_iter().map(Reference::from);
    let (lanes, seqs): (Vec<i32>, Vec<i64>) = older.map(|claim| (claim.lane, claim.seq)).unzip();
    let memory = load.memory_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let said: [Param<'_>; 6] = [
        (&worker.0, Type::INT4),
        (&from, Type::INT8),
        (&lanes, Type::INT4_ARRAY),
        (&seqs, Type::INT8_ARRAY),
        (&memory, Type::INT8),
        (&load.jobs_per_second, Type::FLOAT8),
    ];
    let (new, old) =
        ("SELECT {schema}.heartbeat($1, $2, $3, $4, $5, $6)", "SELECT {schema}.heartbeat($1, $2, $3, $4)");
    match on.query(&db.sql(new), &said, Effect::Repeatable).await {
        // Not migrated to version 26 yet: nobody notes the load.
        Err(error) if error.kind() == ErrorKind::SchemaMissing => {
            on.query(&db.sql(old), &said[..4], Effect::Repeatable).await?;
        }
        beaten => drop(beaten?),
    }
    Ok(())
}

/// Asks a worker to take no more jobs.
pub(crate) async fn drain(db: &Database, worker: WorkerId) -> Result<()> {
    let drain = &db.sql("SELECT {schema}.drain_worker($1)");
    let asked = db.by_turns("drain a worker", |on| async move {
        on.query_one(drain, &[(&worker.0, Type::INT4)], Effect::Repeatable).await
    });
    let row = asked.await.map_err(too_old)?;
    if get(&row, 0)? { Ok(()) } else { Err(WorkerSpec::none_to_drain(worker)) }
}

fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "workers are drained from afar since schema version 24; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}

pub(crate) async fn deregister(db: &Database, worker: WorkerId) -> Result<()> {
    let connection = db.upkeep("deregister").await?;
    // Else each claim since the last heartbeat counts as open, a million jobs where they returned results. What it says is for the speed only.
    let open = db.caches.open_claims(worker, |claims| claims.possibly_open());
    if open.is_some()
        && let Err(error) = heartbeat_on(db, &connection, worker, open, Load::default()).await
    {
        tracing::debug!(%worker, %error, "the last heartbeat of a worker that ends");
    }
    end_worker_on(db, &connection, worker, false).await?;
    db.caches.forget_worker(worker);
    Ok(())
}

/// Takes back what the worker holds. `crashed`: only if its lease is over. Whether there was a worker to end.
pub(crate) async fn end_worker_on(
    db: &Database,
    on: &impl Query,
    worker: WorkerId,
    crashed: bool,
) -> Result<bool> {
    let end = db.sql("SELECT rescued FROM {schema}.end_worker($1, $2)");
    let row =
        on.query_one(&end, &[(&worker.0, Type::INT4), (&crashed, Type::BOOL)], Effect::Repeatable).await?;
    Ok(row.get::<_, Option<i64>>(0).is_some())
}

pub(crate) async fn suspect(db: &Database, worker: WorkerId, job: Option<JobId>) -> Result<()> {
    suspect_on(db, &db.settles("suspect").await?, worker, job).await
}

pub(crate) async fn suspect_on(
    db: &Database,
    on: &impl Query,
    worker: WorkerId,
    job: Option<JobId>,
) -> Result<()> {
    let (suspect, job) = (db.sql("SELECT {schema}.suspect($1, $2)"), job.map(|job| job.0));
    on.query(&suspect, &[(&worker.0, Type::INT4), (&job, Type::INT8)], Effect::Repeatable).await?;
    Ok(())
}

pub(crate) async fn rescue(db: &Database, rescuer: WorkerId) -> Result<RescueReport> {
    let mut connection = db.upkeep("rescue").await?;
    let rescue = db.sql(
        "SELECT worker, rescued, discarded, next_end_ms, (SELECT count(*) FROM {schema}.worker WHERE ended_at IS NULL)
         FROM {schema}.rescue($1)",
    );
    let mut report = RescueReport::default();
    loop {
        connection.extend(Patience::Long);
        let row = connection.query_one(&rescue, &[(&rescuer.0, Type::INT4)], Effect::Repeatable).await?;
        report.next_end = row.get::<_, Option<f64>>(3).map(from_ms);
        db.caches.note_live_workers(usize::try_from(row.get::<_, i64>(4)).unwrap_or(0));
        let Some(worker) = row.get::<_, Option<i32>>(0) else { return Ok(report) };
        report.workers.push(WorkerId(worker));
        report.rescued += row.get::<_, i64>(1).unsigned_abs();
        report.discarded += row.get::<_, i64>(2).unsigned_abs();
    }
}
