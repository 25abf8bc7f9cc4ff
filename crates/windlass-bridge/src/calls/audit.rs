//! The audit log: reading it, and adding what a program did for somebody.

use super::{done, read, say};
use crate::Failure;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::pin::Pin;
use windlass::{Args, AuditEntry, AuditFilter, Client};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    actor: Option<String>,
    action: Option<String>,
    target: Option<String>,
    since: Option<Timestamp>,
    before: Option<String>,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Added {
    actor: String,
    action: String,
    target: String,
    role: Option<String>,
    filter: Option<serde_json::Value>,
    reason: Option<String>,
    count: Option<u64>,
    outcome: Option<String>,
    request_id: Option<String>,
}

impl Added {
    fn entry(self) -> windlass::Result<AuditEntry> {
        let mut entry = AuditEntry::new(self.actor, self.action, self.target);
        entry.filter = self.filter.map(|filter| Args::of(&filter)).transpose()?;
        (entry.role, entry.reason, entry.count, entry.request_id) =
            (self.role, self.reason, self.count, self.request_id);
        Ok(match self.outcome {
            Some(outcome) => entry.with_outcome(outcome),
            None => entry,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entries {
    entries: Vec<Added>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Acting<'a> {
    actor: String,
    op: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// Does another operation for somebody.
pub(super) fn acting<'a>(
    client: &'a Client,
    payload: &'a str,
) -> Pin<Box<dyn Future<Output = Result<String, Failure>> + Send + 'a>> {
    Box::pin(async move {
        let Acting { actor, op, payload } = read(payload)?;
        super::call(&client.acting_as(actor)?, &op, payload.get()).await
    })
}

pub(super) async fn call(client: &Client, op: &str, payload: &str) -> windlass::Result<String> {
    if op == "append_audit" {
        let Entries { entries } = read(payload)?;
        let entries: Vec<_> = entries.into_iter().map(Added::entry).collect::<windlass::Result<_>>()?;
        client.append_audit(&entries).await?;
        return done();
    }
    let Asked { actor, action, target, since, before, limit } = read(payload)?;
    let before = before.map(|id| id.parse()).transpose()?;
    let limit = limit.unwrap_or(AuditFilter::default().limit);
    let page = client.audit(&AuditFilter { actor, action, target, since, before, limit }).await?;
    say(&serde_json::json!({ "entries": page.entries, "next": page.next }))
}
