//! The lanes of jobs that are about to be written. Each connection remembers those that it asked for.

use crate::{
    connection::Connection,
    database::Database,
    error::{Effect, store_error},
    query::{Param, Query},
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
    let (mut lanes, mut unknown) = (Vec::with_capacity(jobs.len()), Asked::default());
    let (mut last, mut missing): (Option<(&str, i16, i32)>, _) = (None, Vec::new());
    for (nth, job) in jobs.iter().map(Borrow::borrow).enumerate() {
        let (queue, priority) = (job.queue(), job.priority());
        let known = match last {
            Some((of, at, lane)) if of == queue && at == priority => Some(lane),
            _ => connection.object.lane(queue, priority),
        };
        match known {
            Some(lane) => last = Some((queue, priority, lane)),
            None => missing.push((nth, unknown.place(job))),
        }
        lanes.push(known.unwrap_or_default());
    }
    if missing.is_empty() {
        return Ok(Some(lanes));
    }
    let rows = connection.query(&db.sql(LANES), &unknown.params(), Effect::Repeatable).await?;
    for ((queue, priority), place) in unknown.places {
        connection.object.set_lane(queue, priority, rows[place].get(0));
    }
    for (nth, place) in missing {
        lanes[nth] = rows[place].get(0);
    }
    Ok(Some(lanes))
}

/// The lane of each job as the transaction that is open on the client sees them, in one round trip. A new lane commits with its
/// jobs; that another transaction makes the same one meanwhile does no harm.
pub(crate) async fn lanes_in(db: &Database, client: &Client, jobs: &[NewJob]) -> Result<Vec<i32>> {
    let mut asked = Asked::default();
    let places: Vec<usize> = jobs.iter().map(|job| asked.place(job)).collect();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let rows = client
        .query_typed(&db.sql(LANES), &asked.params())
        .await
        .map_err(|cause| store_error(cause, Effect::Repeatable))?;
    Ok(places.into_iter().map(|place| rows[place].get(0)).collect())
}

/// The lanes of these queues and priorities, in order.
const LANES: &str =
    "SELECT {schema}.lane_of(q, p) FROM unnest($1, $2) WITH ORDINALITY AS u(q, p, n) ORDER BY n";

/// The queues and priorities to ask for, each once, and where.
#[derive(Default)]
struct Asked<'a> {
    places: HashMap<(&'a str, i16), usize>,
    queues: Vec<&'a str>,
    priorities: Vec<i32>,
}

impl<'a> Asked<'a> {
    fn place(&mut self, job: &'a NewJob) -> usize {
        *self.places.entry((job.queue(), job.priority())).or_insert_with(|| {
            self.queues.push(job.queue());
            self.priorities.push(i32::from(job.priority()));
            self.queues.len() - 1
        })
    }

    fn params(&self) -> [Param<'_>; 2] {
        [(&self.queues, Type::TEXT_ARRAY), (&self.priorities, Type::INT4_ARRAY)]
    }
}
