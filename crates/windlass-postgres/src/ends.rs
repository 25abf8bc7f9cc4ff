//! Waiting for ends of jobs: settlements tell those who wait, on a connection that LISTENs as long as somebody does.

use crate::{
    database::Database,
    error::Effect,
    listen::{Shared, keep_listening},
    query::{Param, Query},
    record::job_record,
};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use windlass_core::{Ended, Ends, ErrorKind, JobId, Result, Wake};

/// Hints of ends; behind a transaction-mode pooler none come.
pub(crate) struct PostgresEnds {
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

impl PostgresEnds {
    pub(crate) fn start(db: &Database) -> Option<Self> {
        if db.is_pooled_by_transaction() {
            return None;
        }
        let shared = Arc::new(Shared::default());
        let name = format!("\"{}.ends\"", db.schema);
        let listen = db.sql("SELECT pg_advisory_lock_shared(hashtext({name} || '.ends'), 0)");
        let listen = format!("LISTEN {name}; {listen}");
        let listening = tokio::spawn(keep_listening(Arc::clone(&db.pools), Arc::clone(&shared), listen));
        Some(Self { shared, listening })
    }
}

impl Drop for PostgresEnds {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

#[async_trait]
impl Ends for PostgresEnds {
    async fn wait(&mut self, timeout: Duration) -> Wake {
        match tokio::time::timeout(timeout, self.shared.hint.notified()).await {
            Ok(()) => Wake::Hint,
            Err(_) => Wake::Timeout,
        }
    }
}

const ENDED: &str = "SELECT (e.job).*, e.asked FROM {schema}.ended_jobs($1) e";
/// In a schema of before table version 27.
const ENDED_ONE_BY_ONE: &str =
    "SELECT r.*, u.id FROM unnest($1) AS u(id) CROSS JOIN LATERAL {schema}.find_job(u.id) f
    LEFT JOIN LATERAL {schema}.job_record(u.id) r ON true
    WHERE f.place IS NULL OR f.place = 'dead' OR f.settled_at IS NOT NULL";

/// Cost: ended_jobs.
pub(crate) async fn ended(db: &Database, ids: &[JobId]) -> Result<Ended> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let connection = db.client("wait for jobs").await?;
    let ids: [Param<'_>; 1] = [(&ids, Type::INT8_ARRAY)];
    let asked = connection.query(&db.sql(ENDED), &ids, Effect::Repeatable).await;
    let rows = match asked {
        Err(error) if error.kind() == ErrorKind::SchemaMissing => {
            connection.query(&db.sql(ENDED_ONE_BY_ONE), &ids, Effect::Repeatable).await?
        }
        rows => rows?,
    };
    let mut ended = Ended::default();
    for row in rows {
        match row.get::<_, Option<i64>>(0) {
            Some(_) => ended.jobs.push(job_record(&row)?),
            None => ended.unknown.push(JobId(row.get(row.len() - 1))),
        }
    }
    Ok(ended)
}
