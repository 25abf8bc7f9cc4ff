//! The audit log: entries in the order in which they were written.

use crate::{MemoryStore, clock::earlier, state::State};
use async_trait::async_trait;
use std::convert::Infallible;
use windlass_core::{AuditEntry, AuditFilter, AuditId, AuditPage, AuditRecord, AuditStore, Result};

#[async_trait]
impl AuditStore for MemoryStore {
    async fn append_audit(&self, entries: &[AuditEntry]) -> Result<()> {
        let entries = AuditEntry::storable(entries)?;
        let mut state = self.state().await;
        let at = state.now().as_microsecond();
        for entry in entries {
            state.last.audit += 1;
            let id = AuditId { at, number: state.last.audit };
            state.audit.insert(id, entry);
        }
        Ok(())
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<AuditPage> {
        filter.check()?;
        let state = self.state().await;
        let before = filter.before.unwrap_or(AuditId { at: i64::MAX, number: i64::MAX });
        let newest_first = state.audit.range(..before).rev();
        let read = newest_first.map(|(id, entry)| Ok::<_, Infallible>(AuditRecord::new(*id, entry.clone())));
        let since = |record: &AuditRecord| filter.since.is_none_or(|since| record.at >= since);
        let Ok(page) = AuditPage::of(filter, read.take_while(|record| record.as_ref().is_ok_and(since)));
        Ok(page)
    }
}

/// Removes entries that are too old or too many.
pub(crate) fn forget(state: &mut State) {
    let young = earlier(state.now(), state.settings.audit_retention).as_microsecond();
    let first_kept = state.last.audit - AuditFilter::MOST_KEPT.cast_signed();
    state.audit.retain(|id, _| id.at > young && id.number > first_kept);
}
