use crate::{
    claim::Reference,
    deadline::Patience,
    error::Effect,
    migrate,
    store::{PostgresStore, lock},
};
use std::time::{Duration, Instant};
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
        let mut connection = self.connections.upkeep("register").await?;
        migrate::ensure_home(self, &mut connection).await?;
        lock(&self.caches.due).forget();
        let row = connection
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
        let worker = WorkerId(row.get(0));
        self.caches.note_queues(worker, &spec.queues);
        Ok(Registration { worker })
    }

    pub(crate) async fn renew(&self, worker: WorkerId) -> Result<Heartbeat> {
        let open = self.caches.holdings(worker, |held| held.open_claims());
        let from = open.as_ref().map(|open| i64::try_from(open.from).unwrap_or(i64::MAX));
        let older = open.map(|open| open.older).unwrap_or_default().into_iter().map(Reference::from);
        let (lanes, seqs): (Vec<i32>, Vec<i64>) = older.map(|claim| (claim.lane, claim.seq)).unzip();
        self.connections
            .settles("heartbeat")
            .await?
            .query(
                &self.sql("SELECT {schema}.heartbeat($1, $2, $3, $4)"),
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

    pub(crate) async fn rescue_overdue(&self, rescuer: WorkerId) -> Result<RescueReport> {
        let mut connection = self.connections.upkeep("rescue").await?;
        let rescue = self.sql("SELECT worker, rescued, discarded, next_end_ms FROM {schema}.rescue($1)");
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

    pub(crate) async fn promote_due(&self, limit: u32) -> Result<Promoted> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let from = lock(&self.caches.due).position();
        let (at, id) = from.map_or((None, None), |(at, id)| (Some(at), Some(id)));
        let asked_at = Instant::now();
        let row = self
            .connections
            .upkeep("promote")
            .await?
            .query_one(
                &self.sql("SELECT promoted, next_due_ms, from_at, from_id FROM {schema}.promote($1, $2, $3)"),
                &[(&limit, Type::INT4), (&at, Type::TIMESTAMPTZ), (&id, Type::INT8)],
                Effect::Repeatable,
            )
            .await?;
        if let (Some(at), Some(id)) = (row.get(2), row.get(3)) {
            lock(&self.caches.due).looked((at, id), from.is_none().then(|| asked_at.elapsed()));
        }
        Ok(Promoted {
            count: row.get::<_, i64>(0).unsigned_abs(),
            next_due: row.get::<_, Option<f64>>(1).map(from_ms),
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

fn from_ms(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(Duration::MAX)
}
