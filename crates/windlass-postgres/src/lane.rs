//! Where jobs are written: their lane, and the current segment. Both are remembered.

use crate::{
    connection::Connection,
    error::{Effect, store_error},
    store::{PostgresStore, SEGMENT_TTL, SEGMENTS, lock},
};
use std::{collections::HashMap, sync::atomic::Ordering, time::Instant};
use tokio_postgres::{Transaction, types::Type};
use windlass_core::{Error, ErrorKind, NewJob, Result};

impl PostgresStore {
    /// The lane of each job, asked once for each connection. A lane is made in a transaction of its own,
    /// before the jobs: it stays when they are rolled back, so that what is remembered of it is true for as
    /// long as the connection lives. Afterwards it may not be: a failover can lose the commit that made a
    /// lane, and jobs of a lane that is not there are never claimed.
    ///
    /// `None` behind a transaction-mode pooler, whose connections outlive the server's: ask
    /// [`Self::lanes_in`].
    pub(crate) async fn lanes_on(
        &self,
        connection: &Connection,
        jobs: &[NewJob],
    ) -> Result<Option<Vec<i32>>> {
        if self.connections.is_pooled_by_transaction() {
            return Ok(None);
        }
        let mut lanes = Vec::with_capacity(jobs.len());
        let mut last: Option<(&str, i16, i32)> = None;
        for job in jobs {
            let lane = match last {
                Some((queue, priority, lane)) if queue == job.queue() && priority == job.priority() => lane,
                _ => self.lane(connection, job.queue(), job.priority()).await?,
            };
            last = Some((job.queue(), job.priority(), lane));
            lanes.push(lane);
        }
        Ok(Some(lanes))
    }

    async fn lane(&self, connection: &Connection, queue: &str, priority: i16) -> Result<i32> {
        if let Some(lane) = connection.object.lane(queue, priority) {
            return Ok(lane);
        }
        let wide = i32::from(priority);
        let row = connection
            .query_one(
                &self.sql("SELECT {schema}.lane_of($1, $2)"),
                &[(&queue, Type::TEXT), (&wide, Type::INT4)],
                Effect::Repeatable,
            )
            .await?;
        let lane = row.get(0);
        connection.object.set_lane(queue, priority, lane);
        Ok(lane)
    }

    /// The lane of each job as the transaction sees them, in one round trip. A new lane commits with its
    /// jobs; that another transaction makes the same one meanwhile does no harm.
    pub(crate) async fn lanes_in(&self, client: &Transaction<'_>, jobs: &[NewJob]) -> Result<Vec<i32>> {
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
        let text = self.sql(
            "SELECT {schema}.lane_of(q, p) FROM unnest($1, $2) WITH ORDINALITY AS u(q, p, n) ORDER BY n",
        );
        let rows = client
            .query_typed(&text, &[(&queues, Type::TEXT_ARRAY), (&priorities, Type::INT4_ARRAY)])
            .await
            .map_err(|cause| store_error(cause, Effect::Repeatable))?;
        Ok(places.into_iter().map(|place| rows[place].get(0)).collect())
    }

    /// The segment to write to, read again every few seconds.
    pub(crate) async fn segment(&self, connection: &Connection) -> Result<usize> {
        if let Some(segment) = self.fresh_segment() {
            return Ok(segment);
        }
        let sql = self.sql("SELECT {schema}.current_segment()");
        let segment: i16 = connection.query_one(&sql, &[], Effect::Repeatable).await?.get(0);
        let known = usize::try_from(segment).ok().filter(|segment| *segment < SEGMENTS).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("the log says segment {segment}, there are {SEGMENTS}"))
        })?;
        self.caches.segment.store(known, Ordering::Relaxed);
        *lock(&self.caches.segment_read_at) = Some(Instant::now());
        Ok(known)
    }

    /// The segment, when it was read a short time ago.
    pub(crate) fn fresh_segment(&self) -> Option<usize> {
        let read_at = *lock(&self.caches.segment_read_at);
        let fresh = read_at.is_some_and(|at| at.elapsed() < SEGMENT_TTL);
        fresh.then(|| self.caches.segment.load(Ordering::Relaxed))
    }
}
