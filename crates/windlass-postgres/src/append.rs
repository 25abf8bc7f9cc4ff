//! Jobs stored within a transaction under ids of their own.

use crate::{
    batch::{Batch, queues_of},
    database::Database,
    error::{Effect, store_error},
    query::Param,
    statement::Together,
};
use tokio_postgres::{Client, types::Type};
use windlass_core::{JobId, Result};

/// Stores jobs inside the transaction that is open on the client, the caller's or our own.
pub(crate) async fn append(db: &Database, client: &Client, batch: &Batch<'_>) -> Result<Vec<JobId>> {
    let Batch { jobs, prepared, .. } = batch;
    let fail = |cause| store_error(cause, Effect::Repeatable);
    if let Some(together) = Together::of(jobs, batch.segment, &batch.lanes) {
        return together.insert(db, client, Effect::Repeatable).await;
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
    batch.store_under(db, client, &ids, taken.get(2)).await?;
    Ok(ids)
}

/// The ids in blocks that begin with these and have `size` each: as many as are needed.
fn ids_of_blocks(blocks: &[i64], size: i64, count: usize) -> Vec<JobId> {
    blocks.iter().flat_map(|first| *first..first + size).map(JobId).take(count).collect()
}
