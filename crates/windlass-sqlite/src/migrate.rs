//! The schema and its versions. `PRAGMA user_version` counts them; every step runs in one transaction
//! under the write lock, so processes that open a file at once agree on who creates it.

use crate::{
    error::{Fault, Outcome},
    identity::APPLICATION_ID,
};
use rusqlite::Connection;
use windlass_core::{ErrorKind, MigrationReport};

/// One script per version, in order.
const STEPS: &[&str] = &[include_str!("sql/0001_log.sql")];

/// The version that this binary reads and writes.
pub(crate) const VERSION: u32 = STEPS.len() as u32;

/// Brings the schema up to [`VERSION`]; repeating it changes nothing.
pub(crate) fn migrate(conn: &Connection) -> Outcome<MigrationReport> {
    let from = version(conn)?;
    if from == VERSION {
        return Ok(MigrationReport { from, to: from });
    }
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let done = steps(conn);
    if done.is_ok() {
        conn.execute_batch("COMMIT")?;
    } else if !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK")?;
    }
    done
}

fn steps(conn: &Connection) -> Outcome<MigrationReport> {
    // Again under the lock: another process may have been first.
    let from = version(conn)?;
    for step in &STEPS[from as usize..] {
        conn.execute_batch(step)?;
    }
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", VERSION)?;
    Ok(MigrationReport { from, to: VERSION })
}

fn version(conn: &Connection) -> Outcome<u32> {
    let version: u32 = conn.query_one("PRAGMA user_version", [], |row| row.get(0))?;
    if version > VERSION {
        let message = format!(
            "the database has schema version {version}, this program knows {VERSION}; use a newer Windlass"
        );
        return Err(Fault::refused(ErrorKind::SchemaTooNew, message));
    }
    Ok(version)
}
