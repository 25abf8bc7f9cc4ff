//! The lanes of jobs that are about to be written. Each connection remembers those that it asked for.

use crate::{
    connection::Connection,
    database::Database,
    error::{Effect, store_error},
    query::Query,
};
use std::{borrow::Borrow, collections::HashMap};
use tokio_postgres::{Client, types::Type};
use windlass_core::{NewJob, Result};

/// The lane of each job, asked once for each connection. A lane is made in a transaction of its own,
/// before the jobs: it stays when they are rolled back, so that what is remembered of it is true for as
/// long as the connection lives. Afterwards it may not be: a failover can lose the commit that made a
/// lane, and jobs of a lane that is not there are never claimed.
///
/// `None` behind a transaction-mode pooler, whose connections outlive the server's: ask
/// [`lanes_in`].
pub(crate) async fn lanes_on<J: Borrow<NewJob> + Sync>(
    db: &Database,
    connection: &Connection,
    jobs: &[J],
) -> Result<Option<Vec<i32>>> {
    if db.is_pooled_by_transaction() {
        return Ok(None);
    }
    let mut lanes = Vec::with_capacity(jobs.len());
    let mut last: Option<(&str, i16, i32)> = None;
    for job in jobs.iter().map(Borrow::borrow) {
        let lane = match last {
            Some((queue, priority, lane)) if queue == job.queue() && priority == job.priority() => lane,
            _ => lane(db, connection, job.queue(), job.priority()).await?,
        };
        last = Some((job.queue(), job.priority(), lane));
        lanes.push(lane);
    }
    Ok(Some(lanes))
}

async fn lane(db: &Database, connection: &Connection, queue: &str, priority: i16) -> Result<i32> {
    if let Some(lane) = connection.object.lane(queue, priority) {
        return Ok(lane);
    }
    let wide = i32::from(priority);
    let row = connection
        .query_one(
            &db.sql("SELECT {schema}.lane_of($1, $2)"),
            &[(&queue, Type::TEXT), (&wide, Type::INT4)],
            Effect::Repeatable,
        )
        .await?;
    let lane = row.get(0);
    connection.object.set_lane(queue, priority, lane);
    Ok(lane)
}

/// The lane of each job as the transaction that is open on the client sees them, in one round trip. A new lane commits with its
/// jobs; that another transaction makes the same one meanwhile does no harm.
pub(crate) async fn lanes_in(db: &Database, client: &Client, jobs: &[NewJob]) -> Result<Vec<i32>> {
    let mut known: HashMap<(&str, i16), usize> = HashMap::new();
    let (mut queues, mut priorities) = (Vec::new(), Vec::new());
    let mut places = Vec::with_capacity(jobs.len());
    for job in jobs {
        places.push(*known.entry((job.queue(), job.priority())).or_insert_with(|| {
            queues.push(job.queue());
            priorities.push(i32::from(job.priority()));
            queues.len() - 1
        }));
    }
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let text =
        db.sql("SELECT {schema}.lane_of(q, p) FROM unnest($1, $2) WITH ORDINALITY AS u(q, p, n) ORDER BY n");
    let rows = client
        .query_typed(&text, &[(&queues, Type::TEXT_ARRAY), (&priorities, Type::INT4_ARRAY)])
        .await
        .map_err(|cause| store_error(cause, Effect::Repeatable))?;
    Ok(places.into_iter().map(|place| rows[place].get(0)).collect())
}
