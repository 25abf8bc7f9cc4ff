//! Waiting for ends of jobs: settlements tell those who wait, on a connection that LISTENs as long as somebody does.

use crate::{
    database::Database,
    error::Effect,
    listen::{Shared, keep_listening},
    query::Query,
    record::job_record,
};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use windlass_core::{Ended, Ends, JobId, Result, Wake};

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

/// Cost: ended_jobs.
pub(crate) async fn ended(db: &Database, ids: &[JobId]) -> Result<Ended> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let sql = db.sql("SELECT (e.job).*, e.asked FROM {schema}.ended_jobs($1) e");
    let connection = db.client("wait for jobs").await?;
    let mut ended = Ended::default();
    for row in connection.query(&sql, &[(&ids, Type::INT8_ARRAY)], Effect::Repeatable).await? {
        match row.get::<_, Option<i64>>(0) {
            Some(_) => ended.jobs.push(job_record(&row)?),
            None => ended.unknown.push(JobId(row.get(row.len() - 1))),
        }
    }
    Ok(ended)
}
