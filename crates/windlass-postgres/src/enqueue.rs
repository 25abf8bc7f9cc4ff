//! Calls that enqueue, each in one transaction of its own.

use crate::{
    append::append,
    batch::{Batch, Prepared},
    connection::commit,
    database::Database,
    error::Effect,
    group_commit::GroupCommit,
    lane::{lanes_in, lanes_on},
    new_row::is_plain,
    segment::segment,
};
use std::pin::pin;
use windlass_core::{JobId, NewJob, Result};

/// Stores checked jobs.
pub(crate) async fn enqueue(
    db: &Database,
    group: &GroupCommit<NewJob>,
    jobs: &[NewJob],
) -> Result<Vec<JobId>> {
    let Some(first) = jobs.first() else { return Ok(Vec::new()) };
    if jobs.len() == 1 && is_plain(first) {
        return Ok(vec![group.enqueue(first).await?]);
    }
    let mut connection = db.client_for("enqueue", jobs.len()).await?;
    let segment = segment(db, &connection).await?;
    let lanes = lanes_on(db, &connection, jobs).await?;
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
