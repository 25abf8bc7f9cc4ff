//! Calls that enqueue, each in one transaction of its own.

use crate::{
    append::append,
    batch::{Batch, Prepared},
    connection::commit,
    database::Database,
    error::Effect,
    group_commit::GroupCommit,
    lane::{lanes_in, lanes_on},
    new_row::Place,
    segment::segment,
    statement::{Placed, Together, insert_on, is_plain},
};
use std::pin::pin;
use windlass_core::{JobId, NewJob, Result};

/// Stores checked jobs.
pub(crate) async fn enqueue(
    db: &Database,
    group: &GroupCommit<Placed>,
    jobs: &[NewJob],
) -> Result<Vec<JobId>> {
    let Some(first) = jobs.first() else { return Ok(Vec::new()) };
    let place =
        Place::of(first).filter(|_| jobs.len() == 1 && (is_plain(first) || !db.is_pooled_by_transaction()));
    if let Some(place) = place {
        return Ok(vec![group.enqueue(&Placed { job: first.clone(), place }).await?]);
    }
    let mut connection = db.client_for("enqueue", jobs.len()).await?;
    let segment = segment(db, &connection).await?;
    let lanes = lanes_on(db, &connection, jobs).await?;
    if let Some(together) = lanes.as_deref().and_then(|lanes| Together::of(jobs, segment, lanes)) {
        return insert_on(db, &connection, &together).await;
    }
    let guard = connection.guard.clone();
    let prepared = guard.run(Effect::Repeatable, pin!(Prepared::on(db, &connection, segment, jobs))).await?;
    let watch = connection.watch_commit();
    let transaction = guard.run(Effect::Repeatable, pin!(connection.begin())).await?;
    let stored = async {
        let lanes = match lanes {
            Some(lanes) => lanes,
            None => lanes_in(db, transaction.client(), jobs).await?,
        };
        append(db, transaction.client(), &Batch { segment, lanes, jobs, prepared }).await
    };
    let ids = guard.run(Effect::Repeatable, pin!(stored)).await?;
    guard.run(Effect::Write, pin!(commit(transaction))).await?;
    watch.end()?;
    Ok(ids)
}
