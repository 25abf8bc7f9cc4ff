use crate::{SqliteStore, audit, store::DURABLE};
use async_trait::async_trait;
use windlass_core::{AuditEntry, AuditFilter, AuditPage, AuditStore, Result};

#[async_trait]
impl AuditStore for SqliteStore {
    async fn append_audit(&self, entries: &[AuditEntry]) -> Result<()> {
        let entries = AuditEntry::storable(entries)?;
        if entries.is_empty() {
            return Ok(());
        }
        self.write(DURABLE, move |tx| audit::append(tx, &entries)).await
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<AuditPage> {
        filter.check()?;
        let filter = filter.clone();
        self.read(move |conn| audit::page(conn, &filter)).await
    }
}
