//! The audit log. The rules are in sql/functions/80_audit.sql.

use crate::{
    error::Effect,
    query::{Param, Query},
    row::{Json, JsonText, get},
    store::PostgresStore,
};
use async_trait::async_trait;
use jiff::Timestamp;
use tokio_postgres::{Row, types::Type};
use windlass_core::{
    AuditEntry, AuditFilter, AuditId, AuditPage, AuditRecord, AuditStore, Error, ErrorKind, Result,
};

const APPEND: &str = "SELECT {schema}.append_audit($1)";
/// The columns in the order in which [`read`] takes them.
const PAGE: &str =
    "SELECT p.fits, (p.entry).id, (p.entry).at, (p.entry).actor, (p.entry).role, (p.entry).via, (p.entry).action, (p.entry).target,
            (p.entry).filter, (p.entry).reason, (p.entry).count, (p.entry).outcome, (p.entry).request_id
     FROM {schema}.audit_page($1, $2, $3, $4, $5, $6, $7) AS p";

#[async_trait]
impl AuditStore for PostgresStore {
    async fn append_audit(&self, entries: &[AuditEntry]) -> Result<()> {
        let entries = AuditEntry::storable(entries)?;
        if entries.is_empty() {
            return Ok(());
        }
        let json = serde_json::to_string(&entries).map_err(|cause| {
            Error::new(ErrorKind::Internal, format!("cannot write audit entries as JSON: {cause}"))
        })?;
        let sql = self.db.sql(APPEND);
        let connection = self.db.client("append_audit").await?;
        connection.query(&sql, &[(&Json(&json), Type::JSON)], Effect::Write).await.map_err(too_old)?;
        Ok(())
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<AuditPage> {
        filter.check()?;
        let AuditFilter { actor, action, target, since, before, limit } = filter;
        // Nothing is older, and the server knows no times before 4713 BC.
        let since = since.map(|since| since.max(Timestamp::UNIX_EPOCH));
        let before_at = before.and_then(|id| Timestamp::from_microsecond(id.at.max(0)).ok());
        let before_id = before.map(|id| id.number);
        let most = i32::try_from(limit + 1).unwrap_or(i32::MAX);
        let params: [Param<'_>; 7] = [
            (actor, Type::TEXT),
            (action, Type::TEXT),
            (target, Type::TEXT),
            (&since, Type::TIMESTAMPTZ),
            (&before_at, Type::TIMESTAMPTZ),
            (&before_id, Type::INT8),
            (&most, Type::INT4),
        ];
        let sql = self.db.sql(PAGE);
        let connection = self.db.client("audit").await?;
        let rows = connection.query(&sql, &params, Effect::Repeatable).await.map_err(too_old)?;
        let mut page = AuditPage::default();
        for row in &rows {
            let record = read(row)?;
            if !get::<bool>(row, 0)? {
                page.next = Some(record.id); // the look ended there
            } else if page.entries.len() < *limit as usize {
                page.entries.push(record);
            } else {
                page.next = page.entries.last().map(|last| last.id);
            }
        }
        Ok(page)
    }
}

fn read(row: &Row) -> Result<AuditRecord> {
    let mut entry = AuditEntry::new(get::<String>(row, 3)?, get::<String>(row, 6)?, get::<String>(row, 7)?)
        .with_via(get::<String>(row, 5)?)
        .with_outcome(get::<String>(row, 11)?);
    (entry.role, entry.reason, entry.request_id) = (get(row, 4)?, get(row, 9)?, get(row, 12)?);
    entry.filter = get::<Option<JsonText<'_>>>(row, 8)?.map(|filter| filter.args()).transpose()?;
    entry.count = get::<Option<i64>>(row, 10)?.map(i64::unsigned_abs);
    let at = get::<Timestamp>(row, 2)?.as_microsecond();
    Ok(AuditRecord::new(AuditId { at, number: get(row, 1)? }, entry))
}

/// Table and functions are missing in a schema that is older than this program.
fn too_old(error: Error) -> Error {
    if error.kind() != ErrorKind::SchemaMissing {
        return error;
    }
    let message = "the schema is older than the audit log; run `windlass migrate`";
    Error::new(ErrorKind::SchemaTooOld, message).with_source(error)
}
