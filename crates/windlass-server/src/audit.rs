//! Who tried to change what: a line of the log each, and the newest in memory.

use crate::auth::Identity;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// How many entries the memory of a process keeps. The log has all.
const KEPT: usize = 1_000;

/// One attempt to change or reveal something, refusals included.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    pub(crate) actor: String,
    pub(crate) role: &'static str,
    pub(crate) via: &'static str,
    pub(crate) action: &'static str,
    pub(crate) target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
    /// `done`, or the code of the refusal.
    pub(crate) outcome: &'static str,
    pub(crate) request_id: String,
}

/// What a handler adds to its entry; goes with its response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note {
    pub(crate) filter: Option<Value>,
    pub(crate) reason: Option<String>,
    pub(crate) count: Option<u64>,
}

/// An attempt, with how it ended.
pub(crate) struct Attempt<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) action: &'static str,
    pub(crate) target: String,
    pub(crate) outcome: &'static str,
    pub(crate) request_id: String,
    pub(crate) note: Note,
}

/// The newest entries.
#[derive(Default)]
pub(crate) struct Audit(Mutex<(u64, VecDeque<Entry>)>);

impl Audit {
    pub(crate) fn record(&self, attempt: Attempt<'_>) {
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
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.0 += 1;
        let entry = Entry {
            id: kept.0.to_string(),
            at: Timestamp::now(),
            actor: actor.to_owned(),
            role,
            via,
            action,
            target,
            filter,
            reason,
            count,
            outcome,
            request_id,
        };
        kept.1.push_front(entry);
        kept.1.truncate(KEPT);
    }

    /// The newest entries before this one, and whether more follow.
    pub(crate) fn page(&self, before: u64, limit: usize) -> (Vec<Entry>, bool) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut page = kept.1.iter().filter(|entry| entry.id.parse().is_ok_and(|id: u64| id < before));
        let items = page.by_ref().take(limit).cloned().collect();
        (items, page.next().is_some())
    }
}
