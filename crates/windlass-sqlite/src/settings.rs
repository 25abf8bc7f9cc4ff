//! The policy of the store: one row, the same for every worker.

use crate::{
    clock::{Micros, micros},
    error::Outcome,
    tx::Tx,
};
use rusqlite::{Connection, params};
use std::time::Duration;
use windlass_core::{Settings, SettingsChange};

const READ: &str =
    "SELECT retention, dead_retention, segment_bytes, max_crashes, audit_retention FROM setting";
const WRITE: &str = "UPDATE setting SET retention = ?1, dead_retention = ?2, segment_bytes = ?3, max_crashes = ?4, audit_retention = ?5";

pub(crate) fn read(conn: &Connection) -> Outcome<Settings> {
    let time = |micros: Micros| Duration::from_micros(micros.unsigned_abs());
    let settings = conn.prepare_cached(READ)?.query_one([], |row| {
        Ok(Settings::default()
            .with_retention(time(row.get(0)?))
            .with_dead_retention(time(row.get(1)?))
            .with_segment_bytes(row.get::<_, i64>(2)?.unsigned_abs())
            .with_max_crashes(row.get(3)?)
            .with_audit_retention(time(row.get(4)?)))
    })?;
    Ok(settings)
}

/// Changes what a checked change names.
pub(crate) fn change(tx: &mut Tx<'_>, change: &SettingsChange) -> Outcome<()> {
    let settings = change.of(read(tx.conn)?);
    let bytes = i64::try_from(settings.segment_bytes).unwrap_or(i64::MAX);
    let (keep, keep_dead) = (micros(settings.retention), micros(settings.dead_retention));
    let keep_audit = micros(settings.audit_retention);
    let row = params![keep, keep_dead, bytes, settings.max_crashes, keep_audit];
    tx.conn.prepare_cached(WRITE)?.execute(row)?;
    Ok(())
}
