//! The audit log: a row for each entry.

use crate::{
    clock::{Micros, micros},
    error::{Fault, Outcome},
    tx::Tx,
};
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use windlass_core::{Args, AuditEntry, AuditFilter, AuditId, AuditPage, AuditRecord, Settings};

/// The most rows that one transaction removes.
const CHUNK: usize = 1_000;

const APPEND: &str =
    "INSERT INTO audit_entry (at, actor, role, via, action, target, filter, reason, count, outcome, request_id)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const OLD: &str = "DELETE FROM audit_entry WHERE id IN (SELECT id FROM audit_entry WHERE at <= ?1 ORDER BY at, id LIMIT ?2)";
const TOO_MANY: &str = "DELETE FROM audit_entry WHERE id IN
    (SELECT id FROM audit_entry WHERE id <= (SELECT max(id) FROM audit_entry) - ?1 ORDER BY id LIMIT ?2)";

/// Adds entries that can be stored.
pub(crate) fn append(tx: &Tx<'_>, entries: &[AuditEntry]) -> Outcome<()> {
    let mut insert = tx.conn.prepare_cached(APPEND)?;
    for entry in entries {
        insert.execute(params![
            tx.now,
            entry.actor,
            entry.role,
            entry.via,
            entry.action,
            entry.target,
            entry.filter.as_ref().map(Args::as_str),
            entry.reason,
            entry.count.map(u64::cast_signed),
            entry.outcome,
            entry.request_id
        ])?;
    }
    Ok(())
}

/// Reads by the index of the column that selects most, and stops when the page is full.
pub(crate) fn page(conn: &Connection, filter: &AuditFilter) -> Outcome<AuditPage> {
    let columns = [("target", &filter.target), ("actor", &filter.actor), ("action", &filter.action)];
    let by = columns.into_iter().find_map(|(column, value)| value.as_ref().map(|value| (column, value)));
    let (index, only) = match by {
        None => ("audit_at", String::new()),
        Some((column, _)) => (&*format!("audit_{column}"), format!("{column} = ?4 AND")),
    };
    let sql = format!(
        "SELECT id, at, actor, role, via, action, target, filter, reason, count, outcome, request_id
         FROM audit_entry INDEXED BY {index} WHERE {only} at >= ?1 AND (at, id) < (?2, ?3) ORDER BY at DESC, id DESC"
    );
    let since = filter.since.map_or(Micros::MIN, |since| microseconds_from(&since));
    let before = filter.before.unwrap_or(AuditId { at: Micros::MAX, number: i64::MAX });
    let mut find = conn.prepare_cached(&sql)?;
    let mut rows = match by {
        None => find.query(params![since, before.at, before.number])?,
        Some((_, value)) => find.query(params![since, before.at, before.number, value])?,
    };
    let read = std::iter::from_fn(|| rows.next().map_err(Fault::from).transpose().map(|row| record(row?)));
    AuditPage::of(filter, read)
}

/// The first microsecond that is not before this time.
fn microseconds_from(at: &Timestamp) -> Micros {
    let whole = at.as_microsecond();
    whole + Micros::from(Timestamp::from_microsecond(whole).is_ok_and(|whole| whole < *at))
}

fn record(row: &Row<'_>) -> Outcome<AuditRecord> {
    let mut entry =
        AuditEntry::new(row.get::<_, String>(2)?, row.get::<_, String>(5)?, row.get::<_, String>(6)?)
            .with_via(row.get::<_, String>(4)?)
            .with_outcome(row.get::<_, String>(10)?);
    let filter: Option<String> = row.get(7)?;
    (entry.role, entry.filter) = (row.get(3)?, filter.as_deref().map(Args::from_store).transpose()?);
    (entry.reason, entry.request_id) = (row.get(8)?, row.get(11)?);
    entry.count = row.get::<_, Option<i64>>(9)?.map(i64::unsigned_abs);
    Ok(AuditRecord::new(AuditId { at: row.get(1)?, number: row.get(0)? }, entry))
}

/// Removes a chunk of the entries that are too old or too many. Whether there may be more.
pub(crate) fn forget(tx: &Tx<'_>, settings: &Settings) -> Outcome<bool> {
    let before = tx.now.saturating_sub(micros(settings.audit_retention));
    let old = tx.conn.prepare_cached(OLD)?.execute(params![before, CHUNK as i64])?;
    let kept = AuditFilter::MOST_KEPT.cast_signed();
    let too_many = tx.conn.prepare_cached(TOO_MANY)?.execute([kept, CHUNK as i64])?;
    Ok(old == CHUNK || too_many == CHUNK)
}
