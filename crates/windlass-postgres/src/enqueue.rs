//! Calls that enqueue, each in one transaction of its own.

use crate::{
    batch::{Batch, By, COPY_FROM, queues_of},
    connection::{Connection, Param},
    error::{Effect, store_error},
    row::Json,
    store::PostgresStore,
};
use std::pin::pin;
use tokio_postgres::{Transaction, types::Type};
use windlass_core::{JobId, NewJob, Result, When};

impl PostgresStore {
    pub(crate) async fn enqueue_jobs(&self, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        let Some(first) = jobs.first() else { return Ok(Vec::new()) };
        self.limits.check(jobs)?;
        if jobs.len() == 1 && is_plain(first) {
            return Ok(vec![self.enqueue_single(first).await?]);
        }
        let mut connection = self.connections.client_for("enqueue", jobs.len()).await?;
        let segment = self.segment(&connection).await?;
        let lanes = self.lanes_on(&connection, jobs).await?;
        let guard = connection.guard.clone();
        let prepared =
            guard.run(Effect::Repeatable, pin!(self.prepare_copy(&connection, segment, jobs))).await?;
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
        let to = (&queue as _, Type::TEXT);
        let watch = connection.watch_commit();
        let row = match &lane {
            Some(lane) => {
                let params = [(lane as _, Type::INT4), a, b, c, to];
                connection.query_one(&self.texts.insert[segment], &params, Effect::Write).await?
            }
            None => {
                let params = [to, (&priority as _, Type::INT4), a, b, c];
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
        let Batch { jobs, prepared, .. } = batch;
        let fail = |cause| store_error(cause, Effect::Repeatable);
        if jobs.len() < COPY_FROM && jobs.iter().all(is_plain) {
            return self.insert_few(client, batch).await;
        }
        let count = i64::try_from(jobs.len()).unwrap_or(i64::MAX);
        let queues = queues_of(*jobs);
        let taken = match prepared {
            Some(prepared) => client.query_one(&prepared.take, &[&count, &queues]).await,
            None => {
                let params: [Param<'_>; 2] = [(&count, Type::INT8), (&queues, Type::TEXT)];
                client.query_typed_one(&self.texts.take, &params).await
            }
        };
        let taken = taken.map_err(fail)?;
        let ids = ids_of_blocks(&taken.get::<_, Vec<i64>>(0), taken.get(1), jobs.len());
        // COPY needs a named statement, which a transaction-mode pooler may mix up.
        let by = if self.connections.is_pooled_by_transaction() { By::Insert } else { By::Copy };
        self.store_under(client, batch, &ids, taken.get(2), by).await?;
        Ok(ids)
    }

    /// A statement for each: cheaper than COPY.
    async fn insert_few(&self, client: &Transaction<'_>, batch: &Batch<'_>) -> Result<Vec<JobId>> {
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
            let rows = client.query_typed(&self.texts.insert[batch.segment], &params).await;
            let rows = rows.map_err(|cause| store_error(cause, Effect::Repeatable))?;
            ids.push(JobId(rows[0].get(0)));
        }
        Ok(ids)
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

/// Whether a job is available at once and has no attributes: what the statements for single jobs can write.
fn is_plain(job: &NewJob) -> bool {
    job.when() == When::Now && job.attributes().is_none()
}

pub(crate) fn attempts(job: &NewJob) -> i16 {
    i16::try_from(job.max_attempts()).unwrap_or(i16::MAX)
}

/// The ids in blocks that begin with these and have `size` each: as many as are needed.
fn ids_of_blocks(blocks: &[i64], size: i64, count: usize) -> Vec<JobId> {
    blocks.iter().flat_map(|first| *first..first + size).map(JobId).take(count).collect()
}
