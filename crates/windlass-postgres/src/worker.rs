//! Workers: their registration, their leases, and what becomes of the jobs of those that are gone.

use crate::{
    claim::Reference, database::Database, deadline::Patience, error::Effect, lock::lock,
    migrate::ensure_home, row::from_ms,
};
use tokio_postgres::types::Type;
use windlass_core::{Heartbeat, JobId, Limits, Registration, RescueReport, Result, WorkerId, WorkerSpec};

pub(crate) async fn register(db: &Database, spec: &WorkerSpec) -> Result<Registration> {
    for queue in &spec.queues {
        Limits::check_queue_name(queue)?;
    }
    let lease = spec.lease.as_secs_f64();
    let mut connection = db.upkeep("register").await?;
    ensure_home(db, &mut connection).await?;
    lock(&db.caches.due).forget();
    let row = connection
        .query_one(
            &db.sql("SELECT {schema}.register($1, $2, $3, $4)"),
            &[
                (&spec.name, Type::TEXT),
                (&spec.queues, Type::TEXT_ARRAY),
                (&spec.kinds, Type::TEXT_ARRAY),
                (&lease, Type::FLOAT8),
            ],
            // Registering twice only leaves a worker that holds nothing and expires.
            Effect::Repeatable,
        )
        .await?;
    let worker = WorkerId(row.get(0));
    db.caches.note_queues(worker, &spec.queues);
    Ok(Registration { worker })
}

pub(crate) async fn heartbeat(db: &Database, worker: WorkerId) -> Result<Heartbeat> {
    let open = db.caches.open_claims(worker, |claims| claims.possibly_open());
    let from = open.as_ref().map(|open| i64::try_from(open.from).unwrap_or(i64::MAX));
    let older = open.map(|open| open.older).unwrap_or_default().into_iter().map(Reference::from);
    let (lanes, seqs): (Vec<i32>, Vec<i64>) = older.map(|claim| (claim.lane, claim.seq)).unzip();
    db.settles("heartbeat")
        .await?
        .query(
            &db.sql("SELECT {schema}.heartbeat($1, $2, $3, $4)"),
            &[
                (&worker.0, Type::INT4),
                (&from, Type::INT8),
                (&lanes, Type::INT4_ARRAY),
                (&seqs, Type::INT8_ARRAY),
            ],
            Effect::Repeatable,
        )
        .await?;
    Ok(Heartbeat::default())
}

pub(crate) async fn deregister(db: &Database, worker: WorkerId) -> Result<()> {
    db.upkeep("deregister")
        .await?
        .query(
            &db.sql("SELECT rescued FROM {schema}.end_worker($1, false)"),
            &[(&worker.0, Type::INT4)],
            Effect::Repeatable,
        )
        .await?;
    db.caches.forget_worker(worker);
    Ok(())
}

pub(crate) async fn suspect(db: &Database, worker: WorkerId, job: Option<JobId>) -> Result<()> {
    let job = job.map(|job| job.0);
    db.settles("suspect")
        .await?
        .query(
            &db.sql("SELECT {schema}.suspect($1, $2)"),
            &[(&worker.0, Type::INT4), (&job, Type::INT8)],
            Effect::Repeatable,
        )
        .await?;
    Ok(())
}

pub(crate) async fn rescue(db: &Database, rescuer: WorkerId) -> Result<RescueReport> {
    let mut connection = db.upkeep("rescue").await?;
    let rescue = db.sql("SELECT worker, rescued, discarded, next_end_ms FROM {schema}.rescue($1)");
    let mut report = RescueReport::default();
    loop {
        connection.extend(Patience::Long);
        let row = connection.query_one(&rescue, &[(&rescuer.0, Type::INT4)], Effect::Repeatable).await?;
        report.next_end = row.get::<_, Option<f64>>(3).map(from_ms);
        let Some(worker) = row.get::<_, Option<i32>>(0) else { return Ok(report) };
        report.workers.push(WorkerId(worker));
        report.rescued += row.get::<_, i64>(1).unsigned_abs();
        report.discarded += row.get::<_, i64>(2).unsigned_abs();
    }
}
