use crate::{deadline::Patience, error::Effect, store::PostgresStore};
use jiff::Timestamp;
use std::time::Duration;
use tokio_postgres::types::Type;
use windlass_core::{
    Heartbeat, JobId, Limits, Promoted, Registration, RescueReport, Result, WorkerId, WorkerSpec,
};

impl PostgresStore {
    pub(crate) async fn register_worker(&self, spec: &WorkerSpec) -> Result<Registration> {
        for queue in &spec.queues {
            Limits::check_queue_name(queue)?;
        }
        let lease = spec.lease.as_secs_f64();
        let row = self
            .connections
            .upkeep("register")
            .await?
            .query_one(
                &self.sql("SELECT {schema}.register($1, $2, $3, $4)"),
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
        Ok(Registration { worker: WorkerId(row.get(0)) })
    }

    pub(crate) async fn renew(&self, worker: WorkerId) -> Result<Heartbeat> {
        let since = self.caches.holdings(worker, |held| held.open_since());
        let since = since.and_then(|micros| Timestamp::from_microsecond(micros).ok());
        self.connections
            .settles("heartbeat")
            .await?
            .query(
                &self.sql("SELECT {schema}.heartbeat($1, $2)"),
                &[(&worker.0, Type::INT4), (&since, Type::TIMESTAMPTZ)],
                Effect::Repeatable,
            )
            .await?;
        Ok(Heartbeat::default())
    }

    pub(crate) async fn end(&self, worker: WorkerId) -> Result<()> {
        self.connections
            .upkeep("deregister")
            .await?
            .query(
                &self.sql("SELECT rescued FROM {schema}.end_worker($1, false)"),
                &[(&worker.0, Type::INT4)],
                Effect::Repeatable,
            )
            .await?;
        self.caches.forget_worker(worker);
        Ok(())
    }

    pub(crate) async fn note_suspect(&self, worker: WorkerId, job: Option<JobId>) -> Result<()> {
        let job = job.map(|job| job.0);
        self.connections
            .settles("suspect")
            .await?
            .query(
                &self.sql("SELECT {schema}.suspect($1, $2)"),
                &[(&worker.0, Type::INT4), (&job, Type::INT8)],
                Effect::Repeatable,
            )
            .await?;
        Ok(())
    }

    pub(crate) async fn rescue_overdue(&self) -> Result<RescueReport> {
        let mut connection = self.connections.upkeep("rescue").await?;
        let overdue = self.sql("SELECT * FROM {schema}.overdue_workers()");
        let end = self.sql("SELECT rescued, discarded FROM {schema}.end_worker($1, true)");
        let mut report = RescueReport::default();
        for row in connection.query(&overdue, &[], Effect::Repeatable).await? {
            let worker: i32 = row.get(0);
            connection.extend(Patience::Long);
            let ended = connection.query_one(&end, &[(&worker, Type::INT4)], Effect::Repeatable).await?;
            // NULL: another rescuer was faster, the worker came back, or a write of it is under way.
            if let (Some(rescued), Some(discarded)) =
                (ended.get::<_, Option<i64>>(0), ended.get::<_, Option<i64>>(1))
            {
                report.workers.push(WorkerId(worker));
                report.rescued += rescued.unsigned_abs();
                report.discarded += discarded.unsigned_abs();
            }
        }
        Ok(report)
    }

    pub(crate) async fn promote_due(&self, limit: u32) -> Result<Promoted> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let row = self
            .connections
            .upkeep("promote")
            .await?
            .query_one(
                &self.sql("SELECT promoted, next_due_ms FROM {schema}.promote($1)"),
                &[(&limit, Type::INT4)],
                Effect::Repeatable,
            )
            .await?;
        Ok(Promoted {
            count: row.get::<_, i64>(0).unsigned_abs(),
            next_due: row
                .get::<_, Option<f64>>(1)
                .map(|ms| Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(Duration::MAX)),
        })
    }

    pub(crate) async fn take_lead(&self, worker: WorkerId, term: Duration) -> Result<bool> {
        let term = term.as_secs_f64();
        let row = self
            .connections
            .settles("lead")
            .await?
            .query_one(
                &self.sql("SELECT {schema}.lead($1, make_interval(secs => $2))"),
                &[(&worker.0, Type::INT4), (&term, Type::FLOAT8)],
                Effect::Repeatable,
            )
            .await?;
        Ok(row.get(0))
    }

    pub(crate) async fn give_up_lead(&self, worker: WorkerId) -> Result<()> {
        self.connections
            .settles("resign")
            .await?
            .query(
                &self.sql("DELETE FROM {schema}.leader WHERE worker_id = $1"),
                &[(&worker.0, Type::INT4)],
                Effect::Repeatable,
            )
            .await?;
        Ok(())
    }
}
