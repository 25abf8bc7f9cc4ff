use crate::{Client, Context, IntoJob};
use std::sync::Arc;
use tokio_postgres::Transaction;
use windlass_core::{Error, ErrorKind, JobId, Result};
use windlass_postgres::PostgresStore;

/// Jobs as part of your own PostgreSQL transaction.
impl Client {
    /// Enqueues a job inside your transaction: it exists if and when that commits.
    ///
    /// ```no_run
    /// # use windlass::{Client, Job};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Welcome { user: i64 }
    /// # impl Job for Welcome { const KIND: &'static str = "welcome"; }
    /// # async fn sign_up(client: &Client, db: &mut tokio_postgres::Client) -> anyhow::Result<()> {
    /// let tx = db.transaction().await?;
    /// let user = tx.query_one("insert into users default values returning id", &[]).await?.get(0);
    /// client.enqueue_in(&tx, Welcome { user }).await?;
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Self::enqueue`]; [`ErrorKind::Unsupported`] when this client's store is not PostgreSQL.
    pub async fn enqueue_in(&self, tx: &Transaction<'_>, job: impl IntoJob) -> Result<JobId> {
        let ids = self.enqueue_many_in(tx, [job]).await?;
        ids.first().copied().ok_or_else(|| {
            Error::new(ErrorKind::Internal, "the store returned no id for an enqueued job; please report it")
        })
    }

    /// Enqueues jobs inside your transaction and returns their ids in order.
    ///
    /// # Errors
    /// As [`Self::enqueue_in`].
    pub async fn enqueue_many_in<J: IntoJob>(
        &self,
        tx: &Transaction<'_>,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<JobId>> {
        let jobs = jobs.into_iter().map(IntoJob::into_job).collect::<Result<Vec<_>>>()?;
        self.transactional()?.enqueue_in(tx, &jobs).await
    }

    /// Completes a handler's job inside your transaction, so that its effects and its completion commit
    /// together, exactly once. Call it last, commit, and return success.
    ///
    /// ```no_run
    /// # use windlass::{Client, Context};
    /// # async fn handler(client: &Client, db: &mut tokio_postgres::Client, ctx: Context) -> anyhow::Result<()> {
    /// let tx = db.transaction().await?;
    /// tx.execute("update accounts set balance = balance - 5 where id = 1", &[]).await?;
    /// client.complete_in(&tx, &ctx).await?;
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::LeaseLost`] when the job was taken from this worker: roll back.
    /// [`ErrorKind::Unsupported`] when this client's store is not PostgreSQL.
    pub async fn complete_in(&self, tx: &Transaction<'_>, context: &Context) -> Result<()> {
        self.transactional()?.complete_in(tx, context.lease()).await
    }

    fn transactional(&self) -> Result<&Arc<PostgresStore>> {
        self.postgres.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "only a client connected with a postgres:// URL works inside PostgreSQL transactions",
            )
        })
    }
}
