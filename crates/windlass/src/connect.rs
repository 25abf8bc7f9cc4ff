use windlass_core::{Error, ErrorKind, Limits, Result, StoreKind};

use crate::Client;

/// How a client reaches its store, besides the URL.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Bounds on what may be enqueued.
    pub limits: Limits,
    /// PostgreSQL: the schema that holds Windlass's tables. `None` means `windlass`.
    pub schema: Option<String>,
    /// PostgreSQL: the most connections that clients use at once. `None` means the store's default.
    pub pool_size: Option<usize>,
    /// PostgreSQL: how long a call may go without an answer before its connection is given up. `None` means
    /// the store's default, 10 s.
    pub call_timeout: Option<std::time::Duration>,
    /// SQLite: the source of time. `None` means the machine's clock; tests put one that they move in its place.
    #[cfg(feature = "sqlite")]
    pub clock: Option<windlass_sqlite::Clock>,
}

impl ConnectOptions {
    /// Sets the bounds on what may be enqueued.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets PostgreSQL's schema.
    #[must_use]
    pub fn with_schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Sets how many PostgreSQL connections clients use at once.
    #[must_use]
    pub fn with_pool_size(mut self, pool_size: usize) -> Self {
        self.pool_size = Some(pool_size);
        self
    }

    /// Sets how long a call to PostgreSQL may go without an answer.
    #[must_use]
    pub fn with_call_timeout(mut self, call_timeout: std::time::Duration) -> Self {
        self.call_timeout = Some(call_timeout);
        self
    }

    /// Sets the source of time of a SQLite file, for tests.
    ///
    /// ```
    /// use std::{sync::{Arc, atomic::{AtomicI64, Ordering::SeqCst}}, time::Duration};
    /// use windlass::{Client, ConnectOptions, IntoJob, JobState, NewJob, Args, SqliteClock, Timestamp};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}/jobs.db", dir.path().display());
    /// let now = Arc::new(AtomicI64::new(1_800_000_000));
    /// let clock = Arc::clone(&now);
    /// let clock = SqliteClock::new(move || Timestamp::from_second(clock.load(SeqCst)).unwrap());
    /// let client = Client::connect_with(&url, ConnectOptions::default().with_clock(clock)).await?;
    /// client.enqueue(NewJob::new("a", Args::of(&1)?).with_delay(Duration::from_secs(60))).await?;
    /// let queues = ["default".to_owned()];
    /// let due = async || client.any_available(&queues, &[]).await;
    /// assert!(!due().await?);
    /// now.fetch_add(60, SeqCst);
    /// assert!(due().await?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "sqlite")]
    #[must_use]
    pub fn with_clock(mut self, clock: windlass_sqlite::Clock) -> Self {
        self.clock = Some(clock);
        self
    }
}

impl Client {
    /// Connects to the store that a URL names: `sqlite:FILE` or `postgres://user@host/database`.
    ///
    /// # Errors
    /// A malformed URL, a store that this build does not have, or one that cannot be reached.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, ConnectOptions::default()).await
    }

    /// Connects with options.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_with(url: &str, options: ConnectOptions) -> Result<Self> {
        connect(url, options).await
    }
}

async fn connect(url: &str, options: ConnectOptions) -> Result<Client> {
    match StoreKind::of(url)? {
        StoreKind::Postgres => postgres(url, options).await,
        StoreKind::Sqlite => sqlite(url, options).await,
        other => Err(Error::new(ErrorKind::Unsupported, format!("no support for {other:?} in this build"))),
    }
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str, options: ConnectOptions) -> Result<Client> {
    use windlass_postgres::{PostgresOptions, PostgresStore};
    #[cfg(feature = "sqlite")]
    if options.clock.is_some() {
        let message = "PostgreSQL has its own clock: only that of a SQLite file can be another one";
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    let mut to = PostgresOptions::default();
    to.limits = options.limits;
    to.schema = options.schema.unwrap_or(to.schema);
    to.pool_size = options.pool_size.unwrap_or(to.pool_size);
    to.call_timeout = options.call_timeout.unwrap_or(to.call_timeout);
    Ok(Client::from_postgres(PostgresStore::connect(url, to).await?))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str, _: ConnectOptions) -> Result<Client> {
    Err(not_built("postgres"))
}

#[cfg(feature = "sqlite")]
async fn sqlite(url: &str, options: ConnectOptions) -> Result<Client> {
    use windlass_sqlite::{SqliteOptions, SqliteStore};
    let clock = options.clock.unwrap_or_default();
    let options = SqliteOptions { limits: options.limits, clock, ..SqliteOptions::default() };
    let url = url.to_owned();
    // Opening reads the file and may wait for another process's lock.
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&url, options)).await;
    let store =
        opened.map_err(|cause| Error::new(ErrorKind::Internal, format!("opening failed: {cause}")))??;
    Ok(Client::from_store(std::sync::Arc::new(store)))
}

#[cfg(not(feature = "sqlite"))]
async fn sqlite(_: &str, _: ConnectOptions) -> Result<Client> {
    Err(not_built("sqlite"))
}

#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
fn not_built(feature: &str) -> Error {
    let message =
        format!("this build has no {feature} store; turn on the feature `{feature}` of the crate windlass");
    Error::new(ErrorKind::Unsupported, message)
}
