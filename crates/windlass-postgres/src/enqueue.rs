use crate::{
    connection::Connection,
    error::{Effect, store_error},
    row::Json,
    store::{PostgresStore, SEGMENT_TTL, SEGMENTS, lock},
};
use futures_util::pin_mut;
use jiff::Timestamp;
use std::{sync::atomic::Ordering, time::Instant};
use tokio_postgres::{
    Transaction,
    binary_copy::BinaryCopyInWriter,
    types::{ToSql, Type},
};
use windlass_core::{Error, ErrorKind, JobId, NewJob, Result, When};

/// From how many jobs on COPY beats single inserts: it needs one round trip for the ids and two of its own.
const COPY_FROM: usize = 8;

impl PostgresStore {
    pub(crate) async fn enqueue_jobs(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        self.limits.check(jobs)?;
        let lanes = self.lanes_of(jobs).await?;
        let Some(first) = jobs.first() else { return Ok(Vec::new()) };
        let segment = self.segment().await?;
        let mut connection = self.connections.client().await?;
        if jobs.len() == 1 && first.when() == When::Now {
            return Ok(vec![self.insert_one(&connection, segment, lanes[0], first).await?]);
        }
        let fail = |cause| store_error(cause, Effect::Write);
        // Nothing was sent yet that could commit, so a break up to COMMIT is not ambiguous.
        let transaction = connection
            .object
            .build_transaction()
            .isolation_level(tokio_postgres::IsolationLevel::ReadCommitted)
            .start()
            .await
            .map_err(|cause| store_error(cause, Effect::Repeatable))?;
        let ids = self.enqueue_all(&transaction, segment, &lanes, jobs).await?;
        transaction.commit().await.map_err(fail)?;
        Ok(ids)
    }

    /// One job, one round trip: 16k/s from 10 clients with fsync (the prototype's figure).
    async fn insert_one(
        &self,
        connection: &Connection,
        segment: usize,
        lane: i32,
        job: &NewJob,
    ) -> Result<JobId> {
        let attempts = attempts(job);
        let row = connection
            .query_one(
                &self.texts.insert[segment],
                &[
                    (&lane, Type::INT4),
                    (&attempts, Type::INT2),
                    (&job.kind(), Type::TEXT),
                    (&Json(job.args().as_str()), Type::JSON),
                ],
                Effect::Write,
            )
            .await?;
        Ok(JobId(row.get(0)))
    }

    /// Stores jobs inside a transaction, the caller's or our own.
    pub(crate) async fn enqueue_all(
        &self,
        client: &Transaction<'_>,
        segment: usize,
        lanes: &[i32],
        jobs: &[NewJob],
    ) -> Result<Vec<JobId>> {
        let fail = |cause| store_error(cause, Effect::Repeatable);
        if jobs.len() < COPY_FROM && jobs.iter().all(|job| job.when() == When::Now) {
            let mut ids = Vec::with_capacity(jobs.len());
            for (job, lane) in jobs.iter().zip(lanes) {
                let (attempts, args) = (attempts(job), Json(job.args().as_str()));
                let params: [(&(dyn ToSql + Sync), Type); 4] = [
                    (lane, Type::INT4),
                    (&attempts, Type::INT2),
                    (&job.kind(), Type::TEXT),
                    (&args, Type::JSON),
                ];
                let rows = client.query_typed(&self.texts.insert[segment], &params).await.map_err(fail)?;
                ids.push(JobId(rows[0].get(0)));
            }
            return Ok(ids);
        }
        let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
        let take = self.sql(
            "SELECT nextval('{schema}.job_id_seq'), clock_timestamp() FROM generate_series(1, $1) ORDER BY 1",
        );
        let rows = client.query_typed(&take, &[(&count, Type::INT8)]).await.map_err(fail)?;
        let ids: Vec<JobId> = rows.iter().map(|row| JobId(row.get(0))).collect();
        let now: Timestamp = rows[0].get(1);

        let (mut ready, mut later) = (Vec::with_capacity(jobs.len()), Vec::new());
        for (index, job) in jobs.iter().enumerate() {
            match due(job, now)? {
                Some(at) => later.push((index, at)),
                None => ready.push(index),
            }
        }
        if !ready.is_empty() {
            self.copy_ready(client, segment, lanes, jobs, &ids, &ready).await?;
        }
        if !later.is_empty() {
            self.copy_later(client, lanes, jobs, &ids, &later).await?;
        }
        Ok(ids)
    }

    async fn copy_ready(
        &self,
        client: &Transaction<'_>,
        segment: usize,
        lanes: &[i32],
        jobs: &[NewJob],
        ids: &[JobId],
        which: &[usize],
    ) -> Result<()> {
        let fail = |cause| store_error(cause, Effect::Repeatable);
        let sink = client.copy_in(&self.texts.copy[segment]).await.map_err(fail)?;
        let writer =
            BinaryCopyInWriter::new(sink, &[Type::INT8, Type::INT4, Type::INT2, Type::TEXT, Type::JSON]);
        pin_mut!(writer);
        for &index in which {
            let job = &jobs[index];
            let (attempts, args) = (attempts(job), Json(job.args().as_str()));
            let row: [&(dyn ToSql + Sync); 5] = [&ids[index].0, &lanes[index], &attempts, &job.kind(), &args];
            writer.as_mut().write(&row).await.map_err(fail)?;
        }
        writer.finish().await.map_err(fail)?;
        Ok(())
    }

    async fn copy_later(
        &self,
        client: &Transaction<'_>,
        lanes: &[i32],
        jobs: &[NewJob],
        ids: &[JobId],
        which: &[(usize, Timestamp)],
    ) -> Result<()> {
        let fail = |cause| store_error(cause, Effect::Repeatable);
        let copy = self.sql(
            "COPY {schema}.held (id, available_at, lane_id, max_attempts, state, kind, args) FROM STDIN (FORMAT binary)",
        );
        let sink = client.copy_in(&copy).await.map_err(fail)?;
        let types =
            [Type::INT8, Type::TIMESTAMPTZ, Type::INT4, Type::INT2, Type::TEXT, Type::TEXT, Type::JSON];
        let writer = BinaryCopyInWriter::new(sink, &types);
        pin_mut!(writer);
        for (index, at) in which {
            let job = &jobs[*index];
            let (attempts, args) = (attempts(job), Json(job.args().as_str()));
            let row: [&(dyn ToSql + Sync); 7] =
                [&ids[*index].0, at, &lanes[*index], &attempts, &"scheduled", &job.kind(), &args];
            writer.as_mut().write(&row).await.map_err(fail)?;
        }
        writer.finish().await.map_err(fail)?;
        Ok(())
    }

    /// The lane of each job. A lane is made in a transaction of its own, before the jobs: it stays when
    /// they are rolled back, so that what is remembered of it is always true.
    pub(crate) async fn lanes_of(&self, jobs: &[NewJob]) -> Result<Vec<i32>> {
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
    pub(crate) async fn segment(&self) -> Result<usize> {
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

fn attempts(job: &NewJob) -> i16 {
    i16::try_from(job.max_attempts()).unwrap_or(i16::MAX)
}

/// When a job becomes available, if not at once. Delays count from the database's `now`.
fn due(job: &NewJob, now: Timestamp) -> Result<Option<Timestamp>> {
    let at = match job.when() {
        When::At(at) => at,
        When::After(delay) => now.checked_add(delay).map_err(|cause| {
            Error::new(ErrorKind::InvalidOption, format!("delay {delay:?} is too long: {cause}"))
        })?,
        _ => return Ok(None),
    };
    Ok((at > now).then_some(at))
}
