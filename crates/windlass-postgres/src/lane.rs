//! Where jobs are written: their lane, and the current segment. Both are remembered.

use crate::{
    enqueue::Batch,
    error::Effect,
    store::{PostgresStore, SEGMENT_TTL, SEGMENTS, lock},
};
use std::{sync::atomic::Ordering, time::Instant};
use tokio_postgres::types::Type;
use windlass_core::{Error, ErrorKind, NewJob, Result};

impl PostgresStore {
    /// Checks jobs and finds where they go.
    pub(crate) async fn batch<'a>(&self, jobs: &'a [NewJob]) -> Result<Batch<'a>> {
        self.limits.check(jobs)?;
        Ok(Batch { segment: self.segment().await?, lanes: self.lanes_of(jobs).await?, jobs })
    }

    /// The lane of each job. A lane is made in a transaction of its own, before the jobs: it stays when
    /// they are rolled back, so that what is remembered of it is always true.
    async fn lanes_of(&self, jobs: &[NewJob]) -> Result<Vec<i32>> {
        let mut lanes = Vec::with_capacity(jobs.len());
        let mut last: Option<(&str, i16, i32)> = None;
        for job in jobs {
            let lane = match last {
                Some((queue, priority, lane)) if queue == job.queue() && priority == job.priority() => lane,
                _ => self.lane(job.queue(), job.priority()).await?,
            };
            last = Some((job.queue(), job.priority(), lane));
            lanes.push(lane);
        }
        Ok(lanes)
    }

    async fn lane(&self, queue: &str, priority: i16) -> Result<i32> {
        if let Some(lane) = self.caches.lane(queue, priority) {
            return Ok(lane);
        }
        let wide = i32::from(priority);
        let row = self
            .connections
            .client()
            .await?
            .query_one(
                &self.sql("SELECT {schema}.lane_of($1, $2)"),
                &[(&queue, Type::TEXT), (&wide, Type::INT4)],
                Effect::Repeatable,
            )
            .await?;
        let lane = row.get(0);
        self.caches.set_lane(queue, priority, lane);
        Ok(lane)
    }

    /// The segment to write to, read again every few seconds.
    async fn segment(&self) -> Result<usize> {
        let fresh = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() < SEGMENT_TTL);
        if !fresh(&lock(&self.caches.segment_read_at)) {
            let row = self
                .connections
                .client()
                .await?
                .query_one(&self.sql("SELECT {schema}.current_segment()"), &[], Effect::Repeatable)
                .await?;
            self.caches.segment.store(row.get(0), Ordering::Relaxed);
            *lock(&self.caches.segment_read_at) = Some(Instant::now());
        }
        let segment = self.caches.segment.load(Ordering::Relaxed);
        usize::try_from(segment).ok().filter(|segment| *segment < SEGMENTS).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("the log says segment {segment}, there are {SEGMENTS}"))
        })
    }
}
