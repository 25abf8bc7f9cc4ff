//! Files as programs of older versions made them.

use crate::fixture::Fixture;
use rusqlite::Connection;
use std::path::Path;

const STEPS: &[&str] = &[
    include_str!("../../src/sql/0001_log.sql"),
    include_str!("../../src/sql/0002_results.sql"),
    include_str!("../../src/sql/0003_cancel_requests.sql"),
    include_str!("../../src/sql/0004_unique.sql"),
    include_str!("../../src/sql/0005_reports.sql"),
    include_str!("../../src/sql/0006_events.sql"),
    include_str!("../../src/sql/0007_retention.sql"),
    include_str!("../../src/sql/0008_counters.sql"),
    include_str!("../../src/sql/0009_schedules.sql"),
    include_str!("../../src/sql/0010_limits.sql"),
    include_str!("../../src/sql/0011_keys.sql"),
    include_str!("../../src/sql/0012_start_waits.sql"),
    include_str!("../../src/sql/0013_audit.sql"),
    include_str!("../../src/sql/0014_key_rates.sql"),
    include_str!("../../src/sql/0015_idle_lanes.sql"),
    include_str!("../../src/sql/0016_timings.sql"),
    include_str!("../../src/sql/0017_came_back.sql"),
    include_str!("../../src/sql/0018_drained_workers.sql"),
    include_str!("../../src/sql/0019_worker_programs.sql"),
    include_str!("../../src/sql/0020_event_ranges.sql"),
    include_str!("../../src/sql/0021_number_lanes.sql"),
];

/// A new file of this version of the schema, and a connection of an older program to it.
pub(crate) fn file_of(version: u8, path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    STEPS[..usize::from(version)].iter().for_each(|step| conn.execute_batch(step).unwrap());
    conn.pragma_update(None, "user_version", version).unwrap();
    let ours = Fixture::new();
    let newest = Connection::open(ours.path()).unwrap();
    let mark: i32 = newest.query_one("PRAGMA application_id", [], |row| row.get(0)).unwrap();
    conn.pragma_update(None, "application_id", mark).unwrap();
    conn
}
