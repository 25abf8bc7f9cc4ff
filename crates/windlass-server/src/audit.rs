//! Who tried to change what: a line of the log each, and an entry in the store.

use crate::{auth::Identity, problem::Problem};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, timeout};
use windlass::{Args, AuditEntry, Client};

/// How long an answer waits for its entry to be stored.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many refusals a minute go to the store; the log has all. So nobody who may change nothing fills the store, or pushes out what others did.
const REFUSALS: u32 = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// What a handler adds to its entry; goes with its response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note {
    pub(crate) filter: Option<Value>,
    pub(crate) reason: Option<String>,
    pub(crate) count: Option<u64>,
}

/// An attempt to change or reveal something, with how it ended.
pub(crate) struct Attempt<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) action: &'static str,
    pub(crate) target: String,
    /// `done`, or the code of the refusal.
    pub(crate) outcome: &'static str,
    pub(crate) request_id: String,
    pub(crate) note: Note,
}

/// Where entries go.
pub(crate) struct Audit {
    client: Client,
    /// Nothing can be changed here, so a refusal says nothing.
    read_only: bool,
    /// Since when refusals are counted, and how many were stored.
    refusals: Mutex<Option<(Instant, u32)>>,
}

impl Audit {
    pub(crate) fn new(client: Client, read_only: bool) -> Self {
        Self { client, read_only, refusals: Mutex::default() }
    }

    /// Notes an attempt. What was done is done, so that it cannot be written is only warned of.
    pub(crate) async fn record(&self, attempt: Attempt<'_>) {
        if let Some(entry) = self.entry(attempt) {
            self.store(entry).await;
        }
    }

    /// Notes that somebody is about to see what is hidden; who cannot be noted does not.
    pub(crate) async fn record_or_refuse(&self, attempt: Attempt<'_>) -> Result<(), Problem> {
        let Some(entry) = self.entry(attempt) else { return Ok(()) };
        Ok(self.client.append_audit(&[entry]).await?)
    }

    /// The entry of an attempt, which is also a line of the log.
    fn entry(&self, attempt: Attempt<'_>) -> Option<AuditEntry> {
        let Attempt { identity, action, target, outcome, request_id, note } = attempt;
        let Note { filter, reason, count } = note;
        let (actor, role) = (identity.actor(), identity.role().as_str());
        let via = identity.via().as_str();
        tracing::info!(
            target: "windlass::audit",
            actor, role, via, action, on = target, outcome, count, request_id,
            filter = filter.as_ref().map(tracing::field::display), reason,
            "asked over HTTP"
        );
        if outcome != "done" && (self.read_only || !self.may_store_refusal()) {
            return None;
        }
        let mut entry = AuditEntry::new(actor, action, target).with_via(via).with_outcome(outcome);
        (entry.role, entry.request_id) = (Some(role.to_owned()), Some(request_id));
        (entry.reason, entry.count) = (reason, count);
        entry.filter = filter.and_then(|filter| Args::of(&filter).ok());
        Some(entry)
    }

    pub(crate) async fn store(&self, entry: AuditEntry) {
        if timeout(PATIENCE, self.client.append_audit_or_warn(&[entry])).await.is_err() {
            tracing::warn!(target: "windlass::audit", "the store took too long to write an entry of the audit log");
        }
    }

    fn may_store_refusal(&self) -> bool {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) =
            refusals.filter(|(since, _)| since.elapsed() < MINUTE).unwrap_or((Instant::now(), 0));
        *refusals = Some((since, count.saturating_add(1)));
        count < REFUSALS
    }
}

/// What a call is on: its path below the API, in plain characters where that leaves no doubt where a name ends.
pub(crate) fn target_of(path: &str) -> String {
    let path = path.split_once("/api/v1").map_or(path, |(_, path)| path);
    let slashes = |text: &str| text.matches('/').count();
    match percent_decode_str(path).decode_utf8() {
        Ok(plain) if slashes(&plain) == slashes(path) && !plain.contains(char::is_control) => {
            plain.into_owned()
        }
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::target_of;

    #[test]
    fn names_in_targets_are_plain_where_that_is_clear() {
        for (path, target) in [
            ("/jobs/api/v1/jobs/7/cancel", "/jobs/7/cancel"),
            (
                "/api/v1/queues/mail/key-limits/k%C3%BChn%40example.com",
                "/queues/mail/key-limits/kühn@example.com",
            ),
            ("/api/v1/queues/mail/key-limits/acme%2Fnorth", "/queues/mail/key-limits/acme%2Fnorth"),
            ("/api/v1/schedules/a%0Ab", "/schedules/a%0Ab"),
            ("/api/v1/schedules/%ff", "/schedules/%ff"),
        ] {
            assert_eq!(target_of(path), target);
        }
    }
}
