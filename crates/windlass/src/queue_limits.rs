//! Limits of queues and of keys inside them.

use crate::Client;
#[cfg(doc)]
use windlass_core::{ErrorKind, NewJob};
use windlass_core::{KeyLimit, KeyLimits, KeyLimitsChange, QueueLimits, Result};

impl Client {
    /// Limits how many jobs of a queue run, over all workers of the store: how many at once, how many in a time. Takes effect at
    /// once, and takes the place of the limits before; without any (`QueueLimits::default()`) the queue has none. Jobs that run are
    /// not stopped.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{QueueLimits, RateLimit};
    ///
    /// # async fn limit(client: windlass::Client) -> windlass::Result<()> {
    /// let limits = QueueLimits::default().with_concurrency(10).with_rate(RateLimit::new(100, Duration::from_secs(60)));
    /// client.limit("mail", &limits).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for a value out of range, [`ErrorKind::InvalidName`], or the store's.
    pub async fn limit(&self, queue: &str, limits: &QueueLimits) -> Result<()> {
        self.noted("queues.limit", queue, self.store().limit(queue, limits).await).await
    }

    /// Limits the keys of a queue, over all workers of the store: what holds for the jobs of each [key](NewJob::with_key) that has no limit of its
    /// own. From now on the keys that have jobs share the queue by their weights. Takes effect at once, also for the jobs that are there;
    /// jobs that run are not stopped.
    ///
    /// ```
    /// # #[cfg(feature = "testing")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// use windlass::KeyLimit;
    ///
    /// # let client = windlass::testing::client();
    /// client.limit_keys("reports", KeyLimit::default().with_concurrency(2)).await?;
    /// client.limit_key("reports", "acme", KeyLimit::serial().with_weight(3)).await?;
    /// let limits = client.key_limits("reports").await?.unwrap();
    /// assert_eq!((limits.of("acme").serial, limits.of("other").concurrency), (true, Some(2)));
    /// client.unlimit_key("reports", "acme").await?; // as the others again
    /// client.unlimit_keys("reports").await?;
    /// assert!(client.key_limits("reports").await?.is_none());
    /// # Ok(()) }
    /// # #[cfg(not(feature = "testing"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for a value out of range, [`ErrorKind::InvalidName`], [`ErrorKind::Unsupported`] where the store
    /// limits no keys, or the store's.
    pub async fn limit_keys(&self, queue: &str, limit: KeyLimit) -> Result<()> {
        self.change_keys("queues.limit_keys", queue, None, KeyLimitsChange::Default(limit)).await
    }

    /// Limits one key of a queue, in the place of what holds for [all](Self::limit_keys).
    ///
    /// # Errors
    /// As [`Self::limit_keys`].
    pub async fn limit_key(&self, queue: &str, key: &str, limit: KeyLimit) -> Result<()> {
        let named = vec![(key.to_owned(), Some(limit))];
        self.change_keys("queues.limit_key", queue, Some(key), KeyLimitsChange::Named(named)).await
    }

    /// Takes the limit of one key away: what holds for [all](Self::limit_keys) holds for it.
    ///
    /// # Errors
    /// As [`Self::limit_keys`].
    pub async fn unlimit_key(&self, queue: &str, key: &str) -> Result<()> {
        let named = vec![(key.to_owned(), None)];
        self.change_keys("queues.unlimit_key", queue, Some(key), KeyLimitsChange::Named(named)).await
    }

    /// Takes all limits of a queue's keys away: its jobs run in the order of their arrival, whatever their keys.
    ///
    /// # Errors
    /// As [`Self::limit_keys`].
    pub async fn unlimit_keys(&self, queue: &str) -> Result<()> {
        self.change_keys("queues.unlimit_keys", queue, None, KeyLimitsChange::Off).await
    }

    /// The limits of a queue's keys; `None` where it has none.
    ///
    /// # Errors
    /// The store's.
    pub async fn key_limits(&self, queue: &str) -> Result<Option<KeyLimits>> {
        self.store().key_limits(queue).await
    }

    async fn change_keys(
        &self,
        action: &str,
        queue: &str,
        key: Option<&str>,
        change: KeyLimitsChange,
    ) -> Result<()> {
        let target = key.map_or_else(|| queue.to_owned(), |key| format!("{queue} {key}"));
        let done = self.store().limit_keys(queue, &change).await;
        self.noted(action, &target, done).await
    }
}
