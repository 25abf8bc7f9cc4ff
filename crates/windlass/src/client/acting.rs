//! A client that acts for somebody: what it changes is noted in the audit log, after the change.

use crate::Client;
use std::sync::Arc;
use windlass_core::{AuditEntry, Error, ErrorKind, JobEdit, JobId, Result};

impl Client {
    /// The same client, acting for somebody: what it changes is an entry of the [audit log](Self::audit), one for each call. That is what cancels, retries, edits and deletes
    /// jobs, pauses, resumes and limits queues, drains workers, sets schedules, settings and retention. Enqueues and what workers do are none. Where the entry cannot
    /// be written, the log has a warning with it, and the change stays.
    ///
    /// Shares the connections of this client, so a client for each person or request costs nothing. With nobody named, nothing is noted: a program that
    /// cancels its own jobs all the time would push what people did out of the log.
    ///
    /// ```
    /// # use windlass::{AuditFilter, Client, NewJob, Args};
    /// # #[cfg(feature = "sqlite")]
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await?;
    /// # client.migrate().await?;
    /// let id = client.enqueue(NewJob::new("mail.send", Args::parse("{}")?)).await?;
    /// client.acting_as("billing")?.cancel(&[id]).await?;
    /// let page = client.audit(&AuditFilter { actor: Some("billing".into()), ..AuditFilter::default() }).await?;
    /// assert_eq!(page.entries[0].entry.action, "jobs.cancel");
    /// # Ok(()) }
    /// # #[cfg(not(feature = "sqlite"))] fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for an empty name.
    pub fn acting_as(&self, actor: impl Into<Arc<str>>) -> Result<Self> {
        let actor = actor.into();
        if actor.trim().is_empty() {
            let message =
                "who acts has an empty name; name the person or program, as in acting_as(\"billing\")";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Ok(Self { actor: Some(actor), ..self.clone() })
    }

    /// Notes how a change ended where the client acts for somebody, and hands its answer on. What failed for certain, before it changed anything, is not noted.
    pub(crate) async fn noted<T>(&self, action: &str, target: &str, done: Result<T>) -> Result<T> {
        self.noted_as(done, |actor, _| vec![AuditEntry::new(actor, action, target)]).await
    }

    /// The same for jobs that were named, with how many of them were changed.
    pub(crate) async fn noted_jobs<R: 'static>(
        &self,
        action: &str,
        edit: Option<&JobEdit>,
        ids: &[JobId],
        done: Result<Vec<R>>,
        is_done: impl Fn(&R) -> bool,
    ) -> Result<Vec<R>> {
        let count = match &done {
            Ok(replies) => Some(replies.iter().filter(|reply| is_done(reply)).count()),
            // What was done before an error is done.
            Err(error) => Some(error.replies::<R>().iter().flatten().filter(|reply| is_done(reply)).count())
                .filter(|done| *done > 0),
        };
        let entry = |actor: &str, _: Option<&Vec<R>>| {
            let mut entry = AuditEntry::of_jobs(actor, action, ids);
            if let Some(edit) = edit {
                entry = entry.with_edit(edit);
            }
            entry.count = count.map(|done| done as u64);
            vec![entry]
        };
        self.noted_as(done, entry).await
    }

    /// The same with these entries for the actor and the answer.
    pub(crate) async fn noted_as<T>(
        &self,
        done: Result<T>,
        entries: impl FnOnce(&str, Option<&T>) -> Vec<AuditEntry>,
    ) -> Result<T> {
        let Some(actor) = &self.actor else { return done };
        let entries = entries(actor, done.as_ref().ok()).into_iter();
        let entries: Vec<_> = entries.filter_map(|entry| entry.ended(&done)).collect();
        for entries in entries.chunks(AuditEntry::MAX_BATCH) {
            self.append_audit_or_warn(entries).await;
        }
        done
    }
}
