//! Enqueueing under an idempotency key: the key and the jobs commit together, so a repeated call finds both
//! or neither.

use crate::{
    batch::{Batch, queues_of},
    connection::commit,
    database::Database,
    error::{Effect, store_error},
    lane::{lanes_in, lanes_on},
    segment::segment,
    turns::{by_turns, waits_for},
};
use std::pin::pin;
use tokio_postgres::{Client, types::Type};
use windlass_core::{EnqueuedOnce, Error, ErrorKind, JobId, NewJob, Result};

/// Stores checked jobs unless the key is known.
pub(crate) async fn enqueue_once(db: &Database, key: &str, jobs: &[NewJob]) -> Result<EnqueuedOnce> {
    by_turns("enqueue_once", db.pools.call_timeout(), |turn| once(db, key, jobs, turn)).await
}

async fn once(db: &Database, key: &str, jobs: &[NewJob], turn: &str) -> Result<EnqueuedOnce> {
    let mut connection = db.client_for("enqueue_once", jobs.len()).await?;
    let segment = segment(db, &connection).await?;
    let lanes = lanes_on(db, &connection, jobs).await?;
    let guard = connection.guard.clone();
    let watch = connection.watch_commit();
    let transaction = guard.run(Effect::Repeatable, pin!(connection.begin())).await?;
    let stored = waits_for(
        turn,
        transaction.client(),
        store_once(db, transaction.client(), key, jobs, segment, lanes),
    );
    let stored = guard.run(Effect::Repeatable, pin!(stored)).await?;
    // A repeated call commits as well: see hold_key in sql/functions/05_enqueue_key.sql.
    guard.run(Effect::Write, pin!(commit(transaction))).await?;
    watch.end()?;
    Ok(stored)
}

/// Within the transaction that is open on the client.
pub(crate) async fn store_once(
    db: &Database,
    transaction: &Client,
    key: &str,
    jobs: &[NewJob],
    segment: usize,
    lanes: Option<Vec<i32>>,
) -> Result<EnqueuedOnce> {
    let count = i32::try_from(jobs.len()).map_err(|_| too_many(jobs.len()))?;
    let queues = queues_of(jobs);
    let take = db.sql(
        "SELECT ids, repeated, taken_at, CASE WHEN NOT repeated THEN set_config('windlass.queues', $3, true) END
         FROM {schema}.take_key($1, $2)",
    );
    let row = transaction
        .query_typed_one(&take, &[(&key, Type::TEXT), (&count, Type::INT4), (&queues, Type::TEXT)])
        .await
        .map_err(|cause| store_error(cause, Effect::Repeatable))?;
    let ids: Vec<JobId> = row.get::<_, Vec<i64>>(0).into_iter().map(JobId).collect();
    let repeated: bool = row.get(1);
    if !repeated {
        let lanes = match lanes {
            Some(lanes) => lanes,
            None => lanes_in(db, transaction, jobs).await?,
        };
        let batch = Batch { segment, lanes, jobs, prepared: None };
        batch.store_under(db, transaction, &ids, row.get(2)).await?;
    }
    Ok(EnqueuedOnce { ids, repeated })
}

fn too_many(count: usize) -> Error {
    let most = i32::MAX;
    Error::new(ErrorKind::InvalidOption, format!("one call enqueues at most {most} jobs, got {count}"))
}
