//! The schema and its versions. `PRAGMA user_version` counts them; every step runs in one transaction
//! under the write lock, so processes that open a file at once agree on who creates it.

use crate::{
    error::{Fault, Outcome},
    identity::APPLICATION_ID,
};
use rusqlite::{Connection, OptionalExtension};
use windlass_core::{ErrorKind, MigrationReport};

/// One script per version, in order.
const STEPS: &[&str] = &[
    include_str!("sql/0001_log.sql"),
    include_str!("sql/0002_results.sql"),
    include_str!("sql/0003_cancel_requests.sql"),
    include_str!("sql/0004_unique.sql"),
    include_str!("sql/0005_reports.sql"),
    include_str!("sql/0006_events.sql"),
    include_str!("sql/0007_retention.sql"),
    include_str!("sql/0008_counters.sql"),
    include_str!("sql/0009_schedules.sql"),
    include_str!("sql/0010_limits.sql"),
    include_str!("sql/0011_keys.sql"),
    include_str!("sql/0012_start_waits.sql"),
    include_str!("sql/0013_audit.sql"),
    include_str!("sql/0014_key_rates.sql"),
    include_str!("sql/0015_idle_lanes.sql"),
    include_str!("sql/0016_timings.sql"),
    include_str!("sql/0017_came_back.sql"),
    include_str!("sql/0018_drained_workers.sql"),
    include_str!("sql/0019_worker_programs.sql"),
    include_str!("sql/0020_event_ranges.sql"),
    include_str!("sql/0021_number_lanes.sql"),
    include_str!("sql/0022_ended_workers.sql"),
];

/// The version that this binary reads and writes.
pub(crate) const VERSION: u32 = STEPS.len() as u32;

/// Brings the schema up to [`VERSION`]; repeating it changes nothing.
pub(crate) fn migrate(conn: &Connection) -> Outcome<MigrationReport> {
    let from = version(conn)?;
    if from >= VERSION {
        return Ok(MigrationReport { from, to: from, newer: from > VERSION });
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
    if from >= VERSION {
        return Ok(MigrationReport { from, to: from, newer: from > VERSION });
    }
    for step in STEPS.iter().skip(from as usize) {
        conn.execute_batch(step)?;
    }
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", VERSION)?;
    Ok(MigrationReport { from, to: VERSION, newer: false })
}

/// The version of the file; a newer one only when it says that this program may go on working.
fn version(conn: &Connection) -> Outcome<u32> {
    let version: u32 = conn.query_one("PRAGMA user_version", [], |row| row.get(0))?;
    if version <= VERSION {
        return Ok(version);
    }
    let compatible_with = compatible_with(conn, version)?;
    if compatible_with > VERSION {
        let message = format!(
            "the database has schema version {version}, which needs a program that knows version {compatible_with}; \
             this one knows {VERSION}; use a newer Windlass"
        );
        return Err(Fault::refused(ErrorKind::SchemaTooNew, message));
    }
    Ok(version)
}

/// The oldest program that may work on the file, by the newest version that it knows.
fn compatible_with(conn: &Connection, version: u32) -> Outcome<u32> {
    if !conn.table_exists(None, "migration")? {
        return Ok(version);
    }
    let noted = "SELECT compatible_with FROM migration WHERE version = ?1";
    let noted: Option<u32> = conn.query_one(noted, [version], |row| row.get(0)).optional()?;
    Ok(noted.unwrap_or(version))
}
