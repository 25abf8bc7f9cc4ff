//! What the store keeps, and for how long.

use crate::Client;
use windlass_core::{AuditEntry, Result, RetentionRule, Settings, SettingsChange};

impl Client {
    /// The store's policy: what it keeps, and how many crashes a job survives.
    ///
    /// # Errors
    /// The store's.
    pub async fn settings(&self) -> Result<Settings> {
        self.store.settings().await
    }

    /// Changes the store's policy, for every worker on it: all of it, so that what somebody else changed since it was read is as it was before. [`Self::change_settings`] changes single values.
    ///
    /// ```
    /// # use windlass::{Client, Settings};
    /// # use std::time::Duration;
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let week = Duration::from_secs(7 * 86_400);
    /// client.configure(&client.settings().await?.with_retention(week)).await?;
    /// assert_eq!(client.settings().await?.retention, week);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`InvalidOption`](crate::ErrorKind::InvalidOption) for [what cannot work](Settings::check), or the store's.
    pub async fn configure(&self, settings: &Settings) -> Result<()> {
        self.noted("settings.put", "settings", self.store.configure(settings).await).await
    }

    /// Changes what is named of the store's policy, for every worker on it; the rest stays as it is, also where somebody changes that at the same time.
    ///
    /// ```
    /// # use windlass::{Client, SettingsChange};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// client.change_settings(&SettingsChange::new().with_max_crashes(7)).await?;
    /// assert_eq!(client.settings().await?.max_crashes, 7);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// As [`Self::configure`].
    pub async fn change_settings(&self, change: &SettingsChange) -> Result<()> {
        self.noted("settings.put", "settings", self.store.change_settings(change).await).await
    }

    /// What is kept of single queues and outcomes, beside the [settings](Self::settings), which hold for all.
    ///
    /// # Errors
    /// The store's.
    pub async fn retention(&self) -> Result<Vec<RetentionRule>> {
        self.store.retention().await
    }

    /// Keeps these rules, all or none, each in the place of the one of its queue and outcome; one that says nothing removes
    /// that. The housekeeping of the workers goes by them, seconds later.
    ///
    /// ```
    /// # use windlass::{Client, JobState, RetentionRule};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let last_thousand = RetentionRule::of("mail", JobState::Discarded).with_count(1_000);
    /// client.set_retention(&[last_thousand.clone()]).await?;
    /// assert_eq!(client.retention().await?, [last_thousand]);
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`InvalidOption`](crate::ErrorKind::InvalidOption) for [what cannot work](RetentionRule::check_all), or the store's.
    pub async fn set_retention(&self, rules: &[RetentionRule]) -> Result<()> {
        let target = |rule: &RetentionRule| format!("{} {}", rule.queue_name(), rule.outcome);
        let entry = |actor: &str, rule| AuditEntry::new(actor, "retention.put", target(rule));
        let done = self.store.set_retention(rules).await;
        self.noted_as(done, |actor, _| rules.iter().map(|rule| entry(actor, rule)).collect()).await
    }
}
