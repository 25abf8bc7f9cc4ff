use crate::{AuditEntry, AuditId, AuditRecord, Error, ErrorKind, Limits, Result};
use async_trait::async_trait;
use jiff::Timestamp;

/// The audit log, as a store keeps it: who changed what, for as long as [`Settings::audit_retention`](crate::Settings::audit_retention)
/// says. Entries are added and read, never changed; [housekeeping](crate::JobStore::maintain) removes the oldest.
///
/// The store writes none by itself: whoever changes something for people does, after the change.
///
/// Every method fails with `schema_too_old` where the store has yet to be migrated for it.
#[async_trait]
pub trait AuditStore: Send + Sync + 'static {
    /// Adds entries, all or none, at the store's time. Durable on return. A call that is repeated because its reply was lost adds
    /// them again. What is too long is [cut](AuditEntry::MAX_NAME_BYTES).
    ///
    /// # Errors
    /// What [`AuditEntry::storable`] refuses.
    async fn append_audit(&self, entries: &[AuditEntry]) -> Result<()>;

    /// A page of the log, the newest first. A page costs a bounded amount of work, so it may have fewer entries than were asked for, or
    /// none, although there are [more](AuditPage::next).
    ///
    /// # Errors
    /// What [`AuditFilter::check`] refuses.
    async fn audit(&self, filter: &AuditFilter) -> Result<AuditPage>;
}

/// Which entries of the audit log to read.
///
/// ```
/// use windlass_core::AuditFilter;
/// let filter = AuditFilter { actor: Some("anna".into()), limit: 10, ..AuditFilter::default() };
/// filter.check().unwrap();
/// assert!(AuditFilter { limit: 0, ..filter }.check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only by this actor.
    pub actor: Option<String>,
    /// Only of this action.
    pub action: Option<String>,
    /// Only on this target.
    pub target: Option<String>,
    /// Only from then on.
    pub since: Option<Timestamp>,
    /// Only entries before this one: the [next](AuditPage::next) of the page before.
    pub before: Option<AuditId>,
    /// The most entries of the page, at least 1 and at most [`Self::MAX_LIMIT`].
    pub limit: u32,
}

impl AuditFilter {
    /// The most entries of one page.
    pub const MAX_LIMIT: u32 = 1_000;
    /// For stores: how many entries of its index one page looks at.
    pub const MOST_LOOKED_AT: u32 = 10_000;
    /// How many entries a store keeps, whatever their age: the oldest of more are removed.
    pub const MOST_KEPT: u64 = 1_000_000;

    /// Checks the values; a store calls this first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`], which names the value.
    pub fn check(&self) -> Result<()> {
        let names = [&self.actor, &self.action, &self.target];
        Limits::check_no_nul("an actor, an action or a target", names.into_iter().flatten())?;
        if (1..=Self::MAX_LIMIT).contains(&self.limit) {
            return Ok(());
        }
        let message =
            format!("a page of the audit log has 1 to {} entries, got {}", Self::MAX_LIMIT, self.limit);
        Err(Error::new(ErrorKind::InvalidOption, message))
    }

    /// Whether it selects this entry, wherever the page begins.
    pub fn selects(&self, record: &AuditRecord) -> bool {
        let is = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|wanted| wanted == text);
        let AuditEntry { actor, action, target, .. } = &record.entry;
        is(&self.actor, actor)
            && is(&self.action, action)
            && is(&self.target, target)
            && self.since.is_none_or(|since| record.at >= since)
    }
}

impl Default for AuditFilter {
    fn default() -> Self {
        Self { actor: None, action: None, target: None, since: None, before: None, limit: 100 }
    }
}

/// A page of the audit log.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AuditPage {
    /// The newest first.
    pub entries: Vec<AuditRecord>,
    /// There may be more: what to ask for entries [before](AuditFilter::before).
    pub next: Option<AuditId>,
}

impl AuditPage {
    /// For stores: a page of what was read in order: entries with whether each was selected. Reads one entry more than the page has, and
    /// at most [`AuditFilter::MOST_LOOKED_AT`].
    ///
    /// # Errors
    /// Those of the entries.
    pub fn of<E>(
        filter: &AuditFilter,
        read: impl IntoIterator<Item = std::result::Result<AuditRecord, E>>,
    ) -> std::result::Result<Self, E> {
        let mut page = Self::default();
        let mut last = None;
        for (looked, record) in read.into_iter().enumerate() {
            if page.entries.len() == filter.limit as usize || looked == AuditFilter::MOST_LOOKED_AT as usize {
                page.next = last;
                break;
            }
            let record = record?;
            last = Some(record.id);
            if filter.selects(&record) {
                page.entries.push(record);
            }
        }
        Ok(page)
    }
}
