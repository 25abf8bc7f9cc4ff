use crate::{
    append::append, batch::Batch, claim::Reference, database::Database, error::Effect, lane::lanes_in,
    query::Query, segment::segment, store::PostgresStore, unique::store_unique,
};
use tokio_postgres::{Transaction, types::Type};
use windlass_core::{EnqueuedUnique, JobId, JobLease, NewJob, Result, UniqueBatch};

impl PostgresStore {
    /// Stores jobs inside the caller's transaction: they become available when it commits and never
    /// existed when it rolls back. The transaction may be on any connection to the same database.
    ///
    /// ```no_run
    /// # use windlass_core::{Args, NewJob};
    /// # async fn example(store: windlass_postgres::PostgresStore, mut db: tokio_postgres::Client)
    /// #     -> Result<(), Box<dyn std::error::Error>> {
    /// let tx = db.transaction().await?;
    /// tx.execute("INSERT INTO account (name) VALUES ('ada')", &[]).await?;
    /// store.enqueue_in(&tx, &[NewJob::new("mail.welcome", Args::parse(r#"{"name": "ada"}"#)?)]).await?;
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`JobStore::enqueue`](windlass_core::JobStore::enqueue); after a database error the
    /// transaction is aborted, as after any failed statement.
    pub async fn enqueue_in(&self, tx: &Transaction<'_>, jobs: &[NewJob]) -> Result<Vec<JobId>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        if UniqueBatch::is_needed(jobs) {
            return Ok(self.enqueue_unique_in(tx, jobs).await?.iter().map(|stored| stored.id).collect());
        }
        self.limits.check(jobs)?;
        let segment = self.segment().await?;
        // Asked each time: nobody knows which server this connection was on the last time.
        let lanes = lanes_in(&self.db, tx.client(), jobs).await?;
        append(&self.db, tx.client(), &Batch { segment, lanes, jobs, prepared: None }).await
    }

    /// As [`Self::enqueue_in`], for jobs of which some are [unique](windlass_core::Unique); says of each which job has its key now. A key that another
    /// unfinished transaction took is waited for; so take keys of several calls in one order everywhere.
    ///
    /// # Errors
    /// As [`JobStore::enqueue_unique`](windlass_core::JobStore::enqueue_unique), and `invalid_option` in a transaction that is
    /// not READ COMMITTED.
    pub async fn enqueue_unique_in(
        &self,
        tx: &Transaction<'_>,
        jobs: &[NewJob],
    ) -> Result<Vec<EnqueuedUnique>> {
        self.limits.check(jobs)?;
        let batch = UniqueBatch::of(jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let segment = self.segment().await?;
        Ok(batch.replies(&store_unique(&self.db, tx.client(), &batch, segment, None).await?))
    }

    async fn segment(&self) -> Result<usize> {
        match self.db.caches.segment() {
            Some(segment) => Ok(segment),
            None => segment(&self.db, &self.db.client("enqueue").await?).await,
        }
    }

    /// Settles a job inside the caller's transaction: its effects and its completion commit together, so
    /// they happen exactly once. The handler then returns normally; if the transaction rolled back, it
    /// returns an error and the job is retried.
    ///
    /// Commit soon after it. The server ends a transaction that lies idle for more than a minute after this call,
    /// unless the session has an `idle_in_transaction_session_timeout` of its own: that of a client which is gone
    /// would keep the worker's jobs from being rescued.
    ///
    /// # Errors
    /// `lease_lost` when the job is no longer this worker's; roll back then.
    pub async fn complete_in(&self, tx: &Transaction<'_>, lease: JobLease) -> Result<()> {
        complete_on(&self.db, tx.client(), lease).await
    }
}

pub(crate) async fn complete_on(db: &Database, on: &impl Query, lease: JobLease) -> Result<()> {
    let Reference { lane, seq, token } = lease.claim.into();
    on.query(
        &db.sql("SELECT {schema}.complete_in($1, $2, $3, $4, $5, $6::bigint::text::xid8)"),
        &[
            (&lease.worker.0, Type::INT4),
            (&lane, Type::INT4),
            (&seq, Type::INT8),
            (&token, Type::INT4),
            (&lease.job.0, Type::INT8),
            (&lease.position, Type::INT8),
        ],
        Effect::Repeatable,
    )
    .await?;
    Ok(())
}
