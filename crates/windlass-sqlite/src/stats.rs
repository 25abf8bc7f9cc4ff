//! Counts of queues and the state of the store. Of jobs at most one per lane is read.

use crate::{
    clock::{Micros, timestamp, until},
    error::{Fault, Outcome},
    limits, wal,
};
use rusqlite::{Connection, Row, params};
use std::path::Path;
use windlass_core::{
    Coming, ErrorKind, Load, Program, QueueFilter, QueueStats, StoreStatus, WorkerId, WorkerRecord,
};

const QUEUES: &str =
    "SELECT name, paused NOT IN (0, 2, 11), total(available + no_handler), total(running), total(scheduled),
    total(retryable), total(completed), total(cancelled), total(discarded), min(CASE WHEN available > 0 THEN
        (SELECT coalesce(available_at, enqueued_at) FROM job WHERE pos > cursor ORDER BY pos LIMIT 1) END),
    concurrency, rate, rate_period, rate_burst, keyed, total(no_handler), min(CASE WHEN no_handler > 0 THEN
        (SELECT available_at FROM waiting WHERE waiting.lane = lane.id AND state = 2 ORDER BY available_at LIMIT 1) END)
    FROM queue LEFT JOIN lane ON lane.queue = queue.id WHERE queue.id IN (SELECT id FROM queue
        WHERE (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR instr(lower(name), lower(?2))) AND name > coalesce(?3, '')
        ORDER BY name LIMIT ?4)
    GROUP BY queue.id ORDER BY name";
const ANY_AVAILABLE: &str = "SELECT EXISTS (SELECT 1 FROM queue JOIN lane ON lane.queue = queue.id
    WHERE queue.name IN (SELECT value FROM json_each(?1)) AND paused IN (0, 2, 11)
    AND (EXISTS (SELECT 1 FROM waiting WHERE waiting.lane = lane.id AND state = 0 AND available_at <= ?3)
        OR EXISTS (SELECT 1 FROM waiting WHERE waiting.lane = lane.id AND state = 1 AND available_at <= ?3)
        OR available > 0 AND (NOT queue.keyed OR EXISTS (SELECT 1 FROM keyed_lane k WHERE k.lane = lane.id AND NOT k.ended
        AND (EXISTS (SELECT 1 FROM key_turn t WHERE t.n = k.n AND t.state = 0)
        OR EXISTS (SELECT 1 FROM key_turn t WHERE t.n = k.n AND t.due <= ?3) OR EXISTS (SELECT 1 FROM job
            WHERE pos BETWEEN k.entered + 1 AND (lane.id << 45 | 35184372088831))))) OR no_handler > 0 AND (?2 = '[]' OR EXISTS (
        SELECT 1 FROM json_each(?2) k CROSS JOIN waiting INDEXED BY waiting_no_handler
        WHERE waiting.lane = lane.id AND waiting.kind = k.value AND waiting.state = 2))))";
/// How many jobs of these queues workers hold whose lease is over, or whose jobs are not all taken back yet, and the longest lease of those. Goes from
/// holder to holder.
const DEAD_HOLD: &str = "WITH RECURSIVE holder (id) AS (SELECT min(worker) FROM claim INDEXED BY claim_open WHERE open > 0
        UNION ALL SELECT (SELECT min(worker) FROM claim INDEXED BY claim_open WHERE open > 0 AND worker > holder.id) FROM holder WHERE id IS NOT NULL)
    SELECT total(c.open), coalesce(max(w.lease), 0) FROM holder CROSS JOIN worker w ON w.id = holder.id
        CROSS JOIN claim c INDEXED BY claim_open ON c.worker = w.id AND c.open > 0
        CROSS JOIN lane ON lane.id = ((c.lo >> 45) & ~1) CROSS JOIN queue ON queue.id = lane.queue
        WHERE (w.ended_at IS NOT NULL OR w.heartbeat_at + w.lease < ?2)
        AND paused IN (0, 2, 11) AND queue.name IN (SELECT value FROM json_each(?1))";
/// When the rate of a key of these queues allows more. What is kept for a key may outlive its jobs, so lanes without any are left out.
const KEY_DUE: &str = "SELECT min((SELECT min(t.due) FROM key_turn t WHERE t.n = k.n AND t.due IS NOT NULL))
    FROM queue JOIN lane ON lane.queue = queue.id CROSS JOIN keyed_lane k ON k.lane = lane.id AND NOT k.ended
    WHERE queue.name IN (SELECT value FROM json_each(?1)) AND paused IN (0, 2, 11) AND queue.keyed AND available + no_handler > 0";
const WORKERS: &str = "SELECT id, name, queues, started_at, heartbeat_at,
    ended_at IS NULL AND heartbeat_at + lease >= ?1 AS live, draining_at IS NOT NULL,
    program, app_version, engine, memory_bytes, jobs_per_second FROM worker ORDER BY live DESC, id DESC LIMIT ?2";

/// Whether a worker of these queues and kinds (none: all) would be given a job now, or when those are promoted whose time
/// has come. Jobs of the log and due ones count whatever their kind: a worker that does not know it puts them aside.
pub(crate) fn any_available(
    conn: &Connection,
    queues: &[String],
    kinds: &[String],
    now: Micros,
) -> Outcome<bool> {
    let (queues, kinds) = (serde_json::json!(queues).to_string(), serde_json::json!(kinds).to_string());
    Ok(conn.prepare_cached(ANY_AVAILABLE)?.query_one((queues, kinds, now), |row| row.get(0))?)
}

/// What of these queues becomes available by itself, but for what waits for its time.
pub(crate) fn coming(conn: &Connection, queues: &[String], now: Micros) -> Outcome<Coming> {
    let queues = serde_json::json!(queues).to_string();
    let due: Option<Micros> = conn.prepare_cached(KEY_DUE)?.query_one([&queues], |row| row.get(0))?;
    Ok(conn.prepare_cached(DEAD_HOLD)?.query_one((queues, now), |row| {
        Ok(Coming {
            key_due: due.map(|due| until(due, now)),
            held: count(row, 0)?,
            lease: until(row.get(1)?, 0),
        })
    })?)
}

/// Queues, by name. The counts are kept by those who move jobs.
pub(crate) fn queues(conn: &Connection, filter: &QueueFilter) -> Outcome<Vec<QueueStats>> {
    let mut find = conn.prepare_cached(QUEUES)?;
    let most = filter.limit.map_or(i64::MAX, i64::from);
    let rows = find.query_map(params![filter.name, filter.search, filter.after, most], |row| {
        Ok(QueueStats {
            name: row.get(0)?,
            paused: row.get(1)?,
            limits: limits::of(row, 10)?,
            keyed: row.get(14)?,
            available: count(row, 2)?,
            no_handler: count(row, 15)?,
            running: count(row, 3)?,
            scheduled: count(row, 4)?,
            retryable: count(row, 5)?,
            completed: count(row, 6)?,
            cancelled: count(row, 7)?,
            discarded: count(row, 8)?,
            oldest_available_at: row.get::<_, Option<Micros>>(9)?.map(timestamp),
            oldest_no_handler_at: row.get::<_, Option<Micros>>(16)?.map(timestamp),
            estimates: Vec::new(),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// `total()` answers with a float, exact far beyond the largest sequence number.
fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, f64>(column).map(|count| count.max(0.0) as u64)
}

/// The store's state.
pub(crate) fn status(conn: &Connection, path: &Path, now: Micros) -> Outcome<StoreStatus> {
    let schema_version = conn.query_one("PRAGMA user_version", [], |row| row.get(0))?;
    let store = format!("SQLite {}", rusqlite::version());
    Ok(StoreStatus::new(store, schema_version, size(conn, path)?, workers(conn, now)?))
}

fn size(conn: &Connection, path: &Path) -> Outcome<u64> {
    let pages: u32 = conn.query_one("PRAGMA page_count", [], |row| row.get(0))?;
    let page: u32 = conn.query_one("PRAGMA page_size", [], |row| row.get(0))?;
    Ok(u64::from(pages) * u64::from(page) + wal::size(&wal::file(path)))
}

fn workers(conn: &Connection, now: Micros) -> Outcome<Vec<WorkerRecord>> {
    let mut find = conn.prepare_cached(WORKERS)?;
    let mut rows = find.query(params![now, StoreStatus::MOST_WORKERS as i64 + 1])?;
    let mut workers = Vec::new();
    while let Some(row) = rows.next()? {
        let queues: String = row.get(2)?;
        workers.push(WorkerRecord {
            id: WorkerId(row.get(0)?),
            name: row.get(1)?,
            queues: serde_json::from_str(&queues).map_err(|cause| {
                Fault::refused(ErrorKind::Internal, format!("a worker's queues are damaged: {cause}"))
            })?,
            started_at: timestamp(row.get(3)?),
            heartbeat_at: timestamp(row.get(4)?),
            live: row.get(5)?,
            draining: row.get(6)?,
            program: Program { name: row.get(7)?, app_version: row.get(8)?, engine: row.get(9)? },
            load: Load {
                memory_bytes: row.get::<_, Option<i64>>(10)?.map(i64::unsigned_abs),
                jobs_per_second: row.get(11)?,
            },
        });
    }
    Ok(workers)
}
