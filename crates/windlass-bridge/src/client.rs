use crate::{Engine, Failure};
use serde_json::json;
use windlass::{JobId, NewJob};

/// A client for code without an async runtime: each call blocks its thread.
#[derive(Clone, Debug)]
pub struct Client {
    engine: Engine,
    pub(crate) inner: windlass::Client,
}

impl Client {
    /// Opens the store that a URL names: `postgres://user@host/database` or `sqlite:FILE`.
    ///
    /// # Errors
    /// A malformed URL, or a store that cannot be opened.
    pub fn open(engine: &Engine, url: &str) -> Result<Self, Failure> {
        let inner = engine.run(windlass::Client::connect(url))?;
        Ok(Self { engine: engine.clone(), inner })
    }

    /// Creates or upgrades the store's schema.
    ///
    /// # Errors
    /// The store's.
    pub fn migrate(&self) -> Result<(), Failure> {
        self.engine.run(async { self.inner.migrate().await.map(drop) })
    }

    /// Enqueues jobs: all or none. Their ids, in order.
    ///
    /// # Errors
    /// What breaks a limit, or the store's.
    pub fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<i64>, Failure> {
        let ids = self.engine.run(self.inner.enqueue_many(jobs))?;
        Ok(ids.into_iter().map(|id| id.0).collect())
    }

    /// The same without waiting: calls back from another thread.
    ///
    /// # Errors
    /// In a forked child.
    pub fn start_enqueue(
        &self,
        jobs: Vec<NewJob>,
        done: impl FnOnce(Result<Vec<i64>, Failure>) + Send + 'static,
    ) -> Result<(), Failure> {
        let client = self.inner.clone();
        let ids = async move {
            let ids = client.enqueue_many(jobs).await?;
            Ok::<_, windlass::Error>(ids.into_iter().map(|id| id.0).collect())
        };
        self.engine.start(ids, done)
    }

    /// A job as JSON; `None` when there is none.
    ///
    /// # Errors
    /// The store's.
    pub fn job(&self, id: i64) -> Result<Option<String>, Failure> {
        let job = self.engine.run(self.inner.job(JobId(id)))?;
        Ok(job.map(|job| json!(job).to_string()))
    }

    /// Closes its connections.
    pub fn close(&self) {
        // A fork has no connection of its own to close.
        let _ = self.engine.run(async {
            self.inner.close().await;
            Ok::<_, Failure>(())
        });
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}
