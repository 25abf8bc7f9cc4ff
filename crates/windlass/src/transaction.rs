#[cfg(feature = "diesel")]
mod diesel;
#[cfg(any(feature = "diesel", feature = "sqlx"))]
mod open;
#[cfg(feature = "sqlx")]
mod sqlx;
mod tokio_postgres;

use crate::{Client, Context, IntoJob};
use std::{future::Future, sync::Arc};
use windlass_core::{Error, ErrorKind, JobId, NewJob, Result};
use windlass_postgres::{PostgresStore, SqlCall};

/// A PostgreSQL transaction of yours, in which [`Client::enqueue_in`] and [`Client::complete_in`] work.
///
/// Implemented for `&tokio_postgres::Transaction`; with the feature `sqlx` for
/// `&mut sqlx::Transaction<Postgres>` and `&mut sqlx::PgConnection`; with the feature `diesel` for
/// `&mut diesel_async::AsyncPgConnection`. What wraps one of them is passed as `&*tx` or `&mut *tx`. For other
/// drivers implement [`Self::run`], or run [`Client::enqueue_sql`] yourself.
///
/// ```
/// use windlass::{Result, SqlCall, SqlParam, SqlTransaction};
/// # struct Transaction;
/// # struct Statement;
/// # impl Statement { fn bind<T>(&mut self, _: T) {} async fn ids(self) -> Result<Vec<i64>> { Ok(vec![]) } }
/// # impl Transaction { fn statement(&mut self, _: &str) -> Statement { Statement } }
/// struct Mine<'a>(&'a mut Transaction);
///
/// impl SqlTransaction for Mine<'_> {
///     async fn run(self, call: SqlCall) -> Result<Vec<i64>> {
///         let mut statement = self.0.statement(&call.text);
///         for param in call.params {
///             match param {
///                 SqlParam::Text(value) => statement.bind(value),
///                 SqlParam::Int4(value) => statement.bind(value),
///                 SqlParam::Int8(value) => statement.bind(value),
///             }
///         }
///         statement.ids().await
///     }
/// }
/// ```
pub trait SqlTransaction: Sized + Send {
    /// Runs a call and returns the one column of its rows, in order.
    ///
    /// # Errors
    /// The database's; [`sqlstate_error`](crate::sqlstate_error) makes them errors of Windlass.
    fn run(self, call: SqlCall) -> impl Future<Output = Result<Vec<i64>>> + Send;

    /// Enqueues jobs, of which there is at least one, and returns their ids in order.
    ///
    /// # Errors
    /// As [`Client::enqueue_in`].
    fn enqueue(
        self,
        store: &PostgresStore,
        jobs: &[NewJob],
    ) -> impl Future<Output = Result<Vec<JobId>>> + Send {
        let call = match jobs {
            [job] => store.enqueue_sql(job),
            jobs => store.enqueue_many_sql(jobs),
        };
        async { Ok(self.run(call?).await?.into_iter().map(JobId).collect()) }
    }

    /// Completes a job by this call, which has a row then. What may also be a connection on which no transaction is open has to refuse that: the
    /// job would be completed by itself, apart from its effects.
    ///
    /// # Errors
    /// As [`Client::complete_in`].
    fn complete(self, call: SqlCall) -> impl Future<Output = Result<()>> + Send {
        async { self.run(call).await.map(drop) }
    }
}

/// Jobs as part of your own PostgreSQL transaction.
impl Client {
    /// Enqueues a job inside your [transaction](SqlTransaction): it exists if and when that commits.
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
    /// With sqlx:
    ///
    #[cfg_attr(feature = "sqlx", doc = "```no_run")]
    #[cfg_attr(not(feature = "sqlx"), doc = "```ignore")]
    /// # use windlass::{Client, NewJob};
    /// # async fn sign_up(client: &Client, pool: sqlx::PgPool, welcome: NewJob) -> anyhow::Result<()> {
    /// let mut tx = pool.begin().await?;
    /// sqlx::query("insert into users default values").execute(&mut *tx).await?;
    /// client.enqueue_in(&mut tx, welcome).await?;
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// With diesel-async:
    ///
    #[cfg_attr(feature = "diesel", doc = "```no_run")]
    #[cfg_attr(not(feature = "diesel"), doc = "```ignore")]
    /// # use windlass::{Client, NewJob};
    /// # use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
    /// # async fn sign_up(client: &Client, db: &mut AsyncPgConnection, welcome: NewJob) -> anyhow::Result<()> {
    /// db.transaction::<_, anyhow::Error, _>(async |tx| {
    ///     diesel::sql_query("insert into users default values").execute(tx).await?;
    ///     client.enqueue_in(&mut *tx, welcome).await?;
    ///     Ok(())
    /// })
    /// .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Through sqlx and diesel the args are stored as `jsonb` prints them, and many jobs cost more than through
    /// tokio-postgres, which can COPY.
    ///
    /// # Errors
    /// As [`Self::enqueue`]; [`ErrorKind::Unsupported`] when this client's store is not PostgreSQL.
    ///
    /// Of a [unique](crate::Unique) job the id is that of the job that has its key. The transaction must be READ COMMITTED then, and whoever
    /// wants the same key waits until it ends, so take several keys in one call or in one order everywhere.
    pub async fn enqueue_in(&self, tx: impl SqlTransaction, job: impl IntoJob) -> Result<JobId> {
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
        tx: impl SqlTransaction,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<JobId>> {
        let mut jobs = self.new_jobs(jobs)?;
        let store = self.transactional()?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let sending = self.sending(&mut jobs);
        sending.end(tx.enqueue(store, &jobs).await)
    }

    /// The SQL that enqueues a job, for any driver: run it where you like. It returns the job's id.
    ///
    /// ```
    /// # use windlass::{Client, Job, SqlParam};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Welcome { user: i64 }
    /// # impl Job for Welcome { const KIND: &'static str = "welcome"; }
    /// # fn sign_up(client: &Client) -> windlass::Result<()> {
    /// let call = client.enqueue_sql(Welcome { user: 7 })?;
    /// println!("{}", call.text); // SELECT "windlass".enqueue($1::text, $2::text::jsonb, ...) AS id
    /// for (number, param) in (1..).zip(&call.params) {
    ///     match param {
    ///         SqlParam::Text(value) => println!("bind ${number} as text: {value}"),
    ///         SqlParam::Int4(value) => println!("bind ${number} as integer: {value}"),
    ///         SqlParam::Int8(value) => println!("bind ${number} as bigint: {value}"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Args or options that break the limits; [`ErrorKind::Unsupported`] when this client's store is not
    /// PostgreSQL.
    pub fn enqueue_sql(&self, job: impl IntoJob) -> Result<SqlCall> {
        let mut job = [self.new_job(job)?];
        let sending = self.sending(&mut job);
        sending.end(self.transactional()?.enqueue_sql(&job[0]))
    }

    /// The SQL that enqueues jobs under an idempotency key, for any driver: it returns their ids in order, those of the first call where it is repeated. The transaction
    /// must be READ COMMITTED; who repeats it meanwhile waits for its end.
    ///
    /// # Errors
    /// As [`Self::enqueue_sql`], and as [`Self::enqueue_many_once`]; no jobs are an error, too, since no statement enqueues none.
    pub fn enqueue_many_once_sql<J: IntoJob>(
        &self,
        key: &str,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<SqlCall> {
        let mut jobs = self.new_jobs(jobs)?;
        if jobs.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                "no statement enqueues no job: name one at least",
            ));
        }
        let sending = self.sending(&mut jobs);
        sending.end(self.transactional()?.enqueue_many_once_sql(key, &jobs))
    }

    /// Completes a handler's job inside your [transaction](SqlTransaction), so that its effects and its completion
    /// commit together, exactly once. Call it last, commit, and return success.
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
    /// [`ErrorKind::InvalidOption`] for a connection of sqlx or diesel on which no transaction is open.
    /// [`ErrorKind::Unsupported`] when this client's store is not PostgreSQL.
    pub async fn complete_in(&self, tx: impl SqlTransaction, context: &Context) -> Result<()> {
        tx.complete(self.complete_sql(context)?).await
    }

    /// The SQL that completes a handler's job, for any driver: see [`Self::complete_in`]. It fails with SQLSTATE `WL001` when the job was taken
    /// from this worker.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when this client's store is not PostgreSQL.
    pub fn complete_sql(&self, context: &Context) -> Result<SqlCall> {
        Ok(self.transactional()?.complete_sql(context.lease()))
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
