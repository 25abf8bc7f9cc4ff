//! Jobs stored within a transaction under ids of their own.

use crate::{
    batch::{Batch, By, COPY_FROM, queues_of},
    database::Database,
    error::{Effect, store_error},
    new_row::{attempts, is_plain},
    query::Param,
    row::Json,
};
use tokio_postgres::{Client, types::Type};
use windlass_core::{JobId, Result};

/// Stores jobs inside the transaction that is open on the client, the caller's or our own.
pub(crate) async fn append(db: &Database, client: &Client, batch: &Batch<'_>) -> Result<Vec<JobId>> {
    let Batch { jobs, prepared, .. } = batch;
    let fail = |cause| store_error(cause, Effect::Repeatable);
    if jobs.len() < COPY_FROM && jobs.iter().all(is_plain) {
        return insert_few(db, client, batch).await;
    }
    let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
    let queues = queues_of(*jobs);
    let taken = match prepared {
        Some(prepared) => client.query_one(&prepared.take, &[&count, &queues]).await,
        None => {
            let params: [Param<'_>; 2] = [(&count, Type::INT8), (&queues, Type::TEXT)];
            client.query_typed_one(&db.texts.take, &params).await
        }
    };
    let taken = taken.map_err(fail)?;
    let ids = ids_of_blocks(&taken.get::<_, Vec<i64>>(0), taken.get(1), jobs.len());
    // COPY needs a named statement, which a transaction-mode pooler may mix up.
    let by = if db.is_pooled_by_transaction() { By::Insert } else { By::Copy };
    batch.store_under(db, client, &ids, taken.get(2), by).await?;
    Ok(ids)
}

/// A statement for each: cheaper than COPY.
async fn insert_few(db: &Database, client: &Client, batch: &Batch<'_>) -> Result<Vec<JobId>> {
    let mut ids = Vec::with_capacity(batch.jobs.len());
    for (job, lane) in batch.jobs.iter().zip(&batch.lanes) {
        let (attempts, args) = (attempts(job), Json(job.args().as_str()));
        let params: [Param<'_>; 5] = [
            (lane, Type::INT4),
            (&attempts, Type::INT2),
            (&job.kind(), Type::TEXT),
            (&args, Type::JSON),
            (&job.queue(), Type::TEXT),
        ];
        let rows = client.query_typed(&db.texts.insert[batch.segment], &params).await;
        let rows = rows.map_err(|cause| store_error(cause, Effect::Repeatable))?;
        ids.push(JobId(rows[0].get(0)));
    }
    Ok(ids)
}

/// The ids in blocks that begin with these and have `size` each: as many as are needed.
fn ids_of_blocks(blocks: &[i64], size: i64, count: usize) -> Vec<JobId> {
    blocks.iter().flat_map(|first| *first..first + size).map(JobId).take(count).collect()
}
