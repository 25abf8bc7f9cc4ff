use crate::{
    connection::{Connection, Param},
    error::{Effect, store_error},
    row::Json,
    store::PostgresStore,
};
use futures_util::pin_mut;
use jiff::Timestamp;
use std::pin::pin;
use tokio_postgres::{
    Statement, Transaction,
    binary_copy::BinaryCopyInWriter,
    types::{ToSql, Type},
};
use windlass_core::{Error, ErrorKind, JobId, NewJob, Result, When};

/// From how many jobs on COPY beats single inserts: it needs one round trip for the ids and two of its own.
pub(crate) const COPY_FROM: usize = 8;

/// How many rows are written at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Two round trips, the cheaper for each row.
    Copy,
    /// One statement with arrays, one round trip.
    Insert,
}

/// Checked jobs, their lanes, and the segment that they go to.
pub(crate) struct Batch<'a> {
    pub(crate) segment: usize,
    pub(crate) lanes: Vec<i32>,
    pub(crate) jobs: &'a [NewJob],
    /// The statements that COPY needs, where this connection knows them.
    pub(crate) prepared: Option<Prepared>,
}

/// Prepared once for each connection: preparing them anew costs a batch of 1,000 a tenth of its time.
pub(crate) struct Prepared {
    take: Statement,
    copy: Statement,
}

// The columns' types by what they hold.
const ID: Type = Type::INT8;
const LANE: Type = Type::INT4;
const ATTEMPTS: Type = Type::INT2;
const DUE: Type = Type::TIMESTAMPTZ;

impl PostgresStore {
    pub(crate) async fn enqueue_jobs(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        let Some(first) = jobs.first() else { return Ok(Vec::new()) };
        self.limits.check(jobs)?;
        if jobs.len() == 1 && first.when() == When::Now {
            return Ok(vec![self.enqueue_single(first).await?]);
        }
        let mut connection = self.connections.client_for("enqueue", jobs.len()).await?;
        let segment = self.segment(&connection).await?;
        let lanes = self.lanes_on(&connection, jobs).await?;
        let guard = connection.guard.clone();
        let prepared = guard.run(Effect::Repeatable, pin!(self.prepare(&connection, segment, jobs))).await?;
        let watch = connection.watch_commit();
        let transaction = guard.run(Effect::Repeatable, pin!(begin(&mut connection))).await?;
        let stored = async {
            let lanes = match lanes {
                Some(lanes) => lanes,
                None => self.lanes_in(&transaction, jobs).await?,
            };
            self.enqueue_all(&transaction, &Batch { segment, lanes, jobs, prepared }).await
        };
        let ids = guard.run(Effect::Repeatable, pin!(stored)).await?;
        guard.run(Effect::Write, pin!(commit(transaction))).await?;
        watch.end()?;
        Ok(ids)
    }

    async fn prepare(
        &self,
        connection: &Connection,
        segment: usize,
        jobs: &[NewJob],
    ) -> Result<Option<Prepared>> {
        if jobs.len() < COPY_FROM || self.connections.is_pooled_by_transaction() {
            return Ok(None);
        }
        let fail = |cause| store_error(cause, Effect::Repeatable);
        let take = connection.object.prepare_typed_cached(&self.texts.take, &[Type::INT8]).await;
        let copy = connection.object.prepare_cached(&self.texts.copy[segment]).await;
        Ok(Some(Prepared { take: take.map_err(fail)?, copy: copy.map_err(fail)? }))
    }

    /// One job, one round trip.
    pub(crate) async fn enqueue_alone(&self, job: &NewJob) -> Result<JobId> {
        let connection = self.connections.client_for("enqueue", 1).await?;
        let segment = self.segment(&connection).await?;
        let lanes = self.lanes_on(&connection, std::slice::from_ref(job)).await?;
        let lane = lanes.and_then(|lanes| lanes.first().copied());
        let (queue, priority, attempts) = (job.queue(), i32::from(job.priority()), attempts(job));
        let (kind, args) = (job.kind(), Json(job.args().as_str()));
        let rest: [Param<'_>; 3] = [(&attempts, Type::INT2), (&kind, Type::TEXT), (&args, Type::JSON)];
        let [a, b, c] = rest;
        let watch = connection.watch_commit();
        let row = match &lane {
            Some(lane) => {
                let params = [(lane as _, Type::INT4), a, b, c];
                connection.query_one(&self.texts.insert[segment], &params, Effect::Write).await?
            }
            None => {
                let params = [(&queue as _, Type::TEXT), (&priority as _, Type::INT4), a, b, c];
                connection.query_one(&self.texts.insert_named[segment], &params, Effect::Write).await?
            }
        };
        watch.end()?;
        Ok(JobId(row.get(0)))
    }

    /// Stores jobs inside a transaction, the caller's or our own.
    pub(crate) async fn enqueue_all(
        &self,
        client: &Transaction<'_>,
        batch: &Batch<'_>,
    ) -> Result<Vec<JobId>> {
        let Batch { segment, lanes, jobs, prepared } = batch;
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
                let rows = client.query_typed(&self.texts.insert[*segment], &params).await.map_err(fail)?;
                ids.push(JobId(rows[0].get(0)));
            }
            return Ok(ids);
        }
        let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
        let taken = match prepared {
            Some(prepared) => client.query_one(&prepared.take, &[&count]).await,
            None => client.query_typed_one(&self.texts.take, &[(&count, Type::INT8)]).await,
        };
        let taken = taken.map_err(fail)?;
        let ids = ids_of_blocks(&taken.get::<_, Vec<i64>>(0), taken.get(1), jobs.len());
        // COPY needs a named statement, which a transaction-mode pooler may mix up.
        let by = if self.connections.is_pooled_by_transaction() { By::Insert } else { By::Copy };
        self.store_under(client, batch, &ids, taken.get(2), by).await?;
        Ok(ids)
    }

    /// Stores jobs under ids that were taken for them.
    pub(crate) async fn store_under(
        &self,
        client: &Transaction<'_>,
        batch: &Batch<'_>,
        ids: &[JobId],
        now: Timestamp,
        by: By,
    ) -> Result<()> {
        let jobs = batch.jobs;
        let (mut ready, mut later) = (Vec::with_capacity(jobs.len()), Vec::new());
        for (index, job) in jobs.iter().enumerate() {
            match due(job, now)? {
                Some(at) => later.push((index, at)),
                None => ready.push((index, now)),
            }
        }
        for (which, later) in [(ready, false), (later, true)] {
            if !which.is_empty() {
                self.store_rows(client, batch, ids, &which, later, by).await?;
            }
        }
        Ok(())
    }

    /// Stores immediate jobs (`later` false: into the segment) or waiting ones (into `held`).
    async fn store_rows(
        &self,
        client: &Transaction<'_>,
        batch: &Batch<'_>,
        ids: &[JobId],
        which: &[(usize, Timestamp)],
        later: bool,
        by: By,
    ) -> Result<()> {
        let Batch { segment, lanes, jobs, prepared } = batch;
        let (copy, insert, columns): (&str, &str, &[Type]) = if later {
            (
                &self.texts.copy_held,
                &self.texts.unnest_held,
                &[ID, LANE, ATTEMPTS, Type::TEXT, Type::JSON, DUE],
            )
        } else {
            (
                &self.texts.copy[*segment],
                &self.texts.unnest[*segment],
                &[ID, LANE, ATTEMPTS, Type::TEXT, Type::JSON],
            )
        };
        let fail = |cause| store_error(cause, Effect::Repeatable);
        if by == By::Insert {
            let ids: Vec<i64> = which.iter().map(|(index, _)| ids[*index].0).collect();
            let lanes: Vec<i32> = which.iter().map(|(index, _)| lanes[*index]).collect();
            let most: Vec<i16> = which.iter().map(|(index, _)| attempts(&jobs[*index])).collect();
            let kinds: Vec<&str> = which.iter().map(|(index, _)| jobs[*index].kind()).collect();
            let args: Vec<&str> = which.iter().map(|(index, _)| jobs[*index].args().as_str()).collect();
            let due: Vec<Timestamp> = which.iter().map(|(_, at)| *at).collect();
            let mut params: Vec<(&(dyn ToSql + Sync), Type)> = vec![
                (&ids, Type::INT8_ARRAY),
                (&lanes, Type::INT4_ARRAY),
                (&most, Type::INT2_ARRAY),
                (&kinds, Type::TEXT_ARRAY),
                (&args, Type::TEXT_ARRAY),
            ];
            if later {
                params.push((&due, Type::TIMESTAMPTZ_ARRAY));
            }
            client.query_typed(insert, &params).await.map_err(fail)?;
            return Ok(());
        }
        let sink = match prepared {
            Some(prepared) if !later => client.copy_in(&prepared.copy).await,
            _ => client.copy_in(copy).await,
        };
        let sink = sink.map_err(fail)?;
        let writer = BinaryCopyInWriter::new(sink, columns);
        pin_mut!(writer);
        for (index, at) in which {
            let job = &jobs[*index];
            let (most, args) = (attempts(job), Json(job.args().as_str()));
            let row: [&(dyn ToSql + Sync); 6] =
                [&ids[*index].0, &lanes[*index], &most, &job.kind(), &args, at];
            writer.as_mut().write(&row[..columns.len()]).await.map_err(fail)?;
        }
        writer.finish().await.map_err(fail)?;
        Ok(())
    }
}

/// Begins a transaction of our own. What breaks before its COMMIT is not ambiguous.
pub(crate) async fn begin(connection: &mut Connection) -> Result<deadpool_postgres::Transaction<'_>> {
    connection
        .object
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::ReadCommitted)
        .start()
        .await
        .map_err(|cause| store_error(cause, Effect::Repeatable))
}

/// Commits it. What breaks from here on is ambiguous.
pub(crate) async fn commit(transaction: deadpool_postgres::Transaction<'_>) -> Result<()> {
    transaction.commit().await.map_err(|cause| store_error(cause, Effect::Write))
}

/// The ids in blocks that begin with these and have `size` each: as many as are needed.
fn ids_of_blocks(blocks: &[i64], size: i64, count: usize) -> Vec<JobId> {
    blocks.iter().flat_map(|first| *first..first + size).map(JobId).take(count).collect()
}

pub(crate) fn attempts(job: &NewJob) -> i16 {
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
