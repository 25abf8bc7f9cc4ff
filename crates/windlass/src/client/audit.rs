//! The audit log: who changed what. Of the client a call of one that acts for somebody writes it, too.

use crate::Client;
use windlass_core::{AuditEntry, AuditFilter, AuditPage, Result};

impl Client {
    /// Adds entries to the audit log of the store, all or none. The server and the command line do it for what people change there; calls of a
    /// program such as [`Self::cancel`] are not in it unless the client [acts for somebody](Self::acting_as), or the program says so by this, after the change.
    ///
    /// ```
    /// # use windlass::{AuditEntry, AuditFilter, Client, JobFilter, NewJob, Args};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// # client.enqueue(NewJob::new("mail.send", Args::parse("{}")?)).await?;
    /// let mails = JobFilter { kind: Some("mail.send".into()), ..JobFilter::default() };
    /// let cancelled = client.select(mails).cancel().await?;
    /// let entry = AuditEntry::new("anna", "jobs.cancel", "mail.send")
    ///     .with_count(cancelled.done)
    ///     .with_reason("the provider is down");
    /// client.append_audit(&[entry]).await?;
    /// let page = client.audit(&AuditFilter { actor: Some("anna".into()), ..AuditFilter::default() }).await?;
    /// assert_eq!(page.entries[0].entry.count, Some(1));
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// What [`AuditEntry::storable`] refuses, or the store's. What was changed before stays changed.
    pub async fn append_audit(&self, entries: &[AuditEntry]) -> Result<()> {
        self.store.append_audit(entries).await
    }

    /// The same, but where the entries cannot be written, the log has a warning with each of them: what they tell of has happened.
    pub async fn append_audit_or_warn(&self, entries: &[AuditEntry]) {
        let Err(error) = self.append_audit(entries).await else { return };
        for AuditEntry { actor, via, action, target, count, outcome, .. } in entries {
            tracing::warn!(
                target: "windlass::audit",
                %error, actor, via, action, on = target, count, outcome,
                "an entry of the audit log could not be written"
            );
        }
    }

    /// A page of the audit log, the newest entries first.
    ///
    /// ```
    /// # use windlass::{AuditFilter, Client};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let mut filter = AuditFilter { action: Some("queues.pause".into()), ..AuditFilter::default() };
    /// loop {
    ///     let page = client.audit(&filter).await?;
    ///     for record in &page.entries {
    ///         println!("{} {} {}", record.at, record.entry.actor, record.entry.target);
    ///     }
    ///     filter.before = page.next;
    ///     if filter.before.is_none() {
    ///         break;
    ///     }
    /// }
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// What [`AuditFilter::check`] refuses, or the store's.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<AuditPage> {
        self.store.audit(filter).await
    }
}
