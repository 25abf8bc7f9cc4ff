//! Schedules: a row for each, and steps that are taken only from the version that they were decided on.

use crate::{
    clock::{Micros, timestamp},
    enqueue::Batch,
    error::Outcome,
    tx::Tx,
};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{collections::HashSet, time::Duration};
use windlass_core::{
    DueSchedules, JobId, Schedule, ScheduleFilter, SchedulePut, ScheduleRecord, ScheduleStep, SchedulesPut,
};

const COLUMNS: &str =
    "name, source, definition, paused, version, decided, next_tick, due_at, last_tick, last_job,
    last_enqueued_at, queued_tick, error";
const CREATE: &str = "INSERT INTO schedule (name, source, definition, version, decided, due_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)";
const CHANGE: &str = "UPDATE schedule SET source = ?2, definition = ?3, version = ?4, error = NULL, decided = ?5, next_tick = ?6,
    due_at = CASE WHEN NOT paused THEN ?7 END WHERE name = ?1";
const PAUSE: &str = "UPDATE schedule SET paused = ?2, version = ?3, next_tick = NULL,
    due_at = CASE WHEN NOT ?2 THEN ?4 END, decided = CASE WHEN ?2 THEN decided ELSE max(decided, ?4) END WHERE name = ?1";
const ADVANCE: &str = "UPDATE schedule SET version = ?2, decided = ?3, next_tick = ?4, due_at = ?5, last_tick = ?6, queued_tick = ?7,
    error = ?8, last_job = coalesce(?9, last_job), last_enqueued_at = CASE WHEN ?9 IS NULL THEN last_enqueued_at ELSE ?10 END
    WHERE name = ?1";
const NEXT_DUE: &str = "SELECT min(due_at) FROM schedule WHERE due_at > ?1";

/// Declares checked schedules.
pub(crate) fn put(tx: &mut Tx<'_>, schedules: &[Schedule], prune: Option<&str>) -> Outcome<SchedulesPut> {
    let puts = schedules.iter().map(|schedule| put_one(tx, schedule)).collect::<Outcome<Vec<_>>>()?;
    let mut pruned = Vec::new();
    if let Some(source) = prune.filter(|source| !source.is_empty()) {
        let mut of_source =
            tx.conn.prepare_cached("SELECT name FROM schedule WHERE source = ?1 ORDER BY name")?;
        let names = of_source.query_map([source], |row| row.get::<_, String>(0))?;
        let declared: HashSet<_> = schedules.iter().map(Schedule::name).collect();
        for name in names {
            let name = name?;
            if !declared.contains(&*name) {
                pruned.push(name);
            }
        }
        for name in &pruned {
            remove_one(tx, name)?;
        }
    }
    if !pruned.is_empty() || puts.iter().any(|put| *put != SchedulePut::Unchanged) {
        changed(tx)?;
    }
    Ok(SchedulesPut { puts, pruned })
}

fn put_one(tx: &mut Tx<'_>, schedule: &Schedule) -> Outcome<SchedulePut> {
    let (name, source, definition) = (schedule.name(), schedule.source(), schedule.to_json());
    let Some(record) = find(tx.conn, name)? else {
        let version = next_version(tx)?;
        tx.conn.prepare_cached(CREATE)?.execute(params![name, source, definition, version, tx.now])?;
        return Ok(SchedulePut::Created);
    };
    if record.source == source && record.definition == definition {
        return Ok(SchedulePut::Unchanged);
    }
    let same_ticks = record.schedule().is_ok_and(|before| before.ticks_like(schedule));
    let decided = record.decided.as_microsecond();
    let decided = if same_ticks { decided } else { decided.max(tx.now) };
    let next = record.next_tick.filter(|_| same_ticks).map(Timestamp::as_microsecond);
    let version = next_version(tx)?;
    let row = params![name, source, definition, version, decided, next, tx.now];
    tx.conn.prepare_cached(CHANGE)?.execute(row)?;
    Ok(SchedulePut::Changed)
}

/// A page.
pub(crate) fn list(conn: &Connection, filter: &ScheduleFilter) -> Outcome<Vec<ScheduleRecord>> {
    let ScheduleFilter { name, source, after, limit } = filter;
    let mut sql = format!("SELECT {COLUMNS} FROM schedule WHERE name > ?1");
    let mut values = vec![after.clone().unwrap_or_default()];
    for (column, value) in [("name", name), ("source", source)] {
        if let Some(value) = value {
            values.push(value.clone());
            sql.push_str(&format!(" AND {column} = ?{}", values.len()));
        }
    }
    sql.push_str(&format!(" ORDER BY name LIMIT {}", (*limit).min(ScheduleFilter::MOST)));
    let mut page = conn.prepare_cached(&sql)?;
    let rows = page.query_map(rusqlite::params_from_iter(values), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Removes schedules.
pub(crate) fn remove(tx: &mut Tx<'_>, names: &[String]) -> Outcome<Vec<bool>> {
    let removed = names.iter().map(|name| remove_one(tx, name)).collect::<Outcome<Vec<_>>>()?;
    if removed.contains(&true) {
        changed(tx)?;
    }
    Ok(removed)
}

fn remove_one(tx: &Tx<'_>, name: &str) -> Outcome<bool> {
    Ok(tx.conn.prepare_cached("DELETE FROM schedule WHERE name = ?1")?.execute([name])? > 0)
}

/// Pauses schedules, or has them go on.
pub(crate) fn pause(tx: &mut Tx<'_>, names: &[String], paused: bool) -> Outcome<Vec<bool>> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let is_paused = "SELECT paused FROM schedule WHERE name = ?1";
        let before: Option<bool> =
            tx.conn.prepare_cached(is_paused)?.query_one([name], |row| row.get(0)).optional()?;
        found.push(before.is_some());
        if before.is_some_and(|before| before != paused) {
            let version = next_version(tx)?;
            tx.conn.prepare_cached(PAUSE)?.execute(params![name, paused, version, tx.now])?;
            changed(tx)?;
        }
    }
    Ok(found)
}

/// What has something to be decided, when it is `now`.
pub(crate) fn due(conn: &Connection, now: Micros, limit: u32) -> Outcome<DueSchedules> {
    let sql = format!("SELECT {COLUMNS} FROM schedule WHERE due_at <= ?1 ORDER BY due_at, name LIMIT ?2");
    let due = conn.prepare_cached(&sql)?.query_map(params![now, limit], read)?.collect::<Result<_, _>>()?;
    let next: Option<Micros> = conn.prepare_cached(NEXT_DUE)?.query_one([now], |row| row.get(0))?;
    let next_due = next.map(|at| Duration::from_micros(at.saturating_sub(now).unsigned_abs()));
    Ok(DueSchedules { now: timestamp(now), due, next_due })
}

/// A step and the jobs that go with it, on their way to the writer.
pub(crate) struct PackedStep {
    pub(crate) step: ScheduleStep,
    jobs: Batch,
}

impl PackedStep {
    /// Copies the jobs, which were checked.
    pub(crate) fn pack(step: &ScheduleStep) -> Self {
        Self { jobs: Batch::pack(&step.jobs), step: step.clone() }
    }

    /// Takes the step, unless the schedule is another one by now.
    pub(crate) fn take(&self, tx: &mut Tx<'_>) -> Outcome<Option<Vec<JobId>>> {
        let step = &self.step;
        let known = "SELECT 1 FROM schedule WHERE name = ?1 AND version = ?2";
        if !tx.conn.prepare_cached(known)?.exists(params![step.name, step.version])? {
            return Ok(None);
        }
        let ids = if self.jobs.len() == 0 { Vec::new() } else { self.jobs.append(tx)? };
        let version = next_version(tx)?;
        let micros = |at: Option<Timestamp>| at.map(Timestamp::as_microsecond);
        tx.conn.prepare_cached(ADVANCE)?.execute(params![
            step.name,
            version,
            step.decided.as_microsecond(),
            micros(step.next_tick),
            micros(step.due_at),
            micros(step.last_tick),
            micros(step.queued_tick),
            step.error,
            ids.last().map(|id| id.0),
            tx.now,
        ])?;
        Ok(Some(ids))
    }
}

fn next_version(tx: &Tx<'_>) -> Outcome<i64> {
    let next = "UPDATE schedule_counter SET version = version + 1 RETURNING version";
    Ok(tx.conn.prepare_cached(next)?.query_one([], |row| row.get(0))?)
}

/// Other processes look for it.
fn changed(tx: &Tx<'_>) -> Outcome<()> {
    tx.conn.prepare_cached("UPDATE schedule_counter SET changes = changes + 1")?.execute([])?;
    Ok(())
}

fn find(conn: &Connection, name: &str) -> Outcome<Option<ScheduleRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM schedule WHERE name = ?1");
    Ok(conn.prepare_cached(&sql)?.query_one([name], read).optional()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<ScheduleRecord> {
    let at = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<Micros>>(column)?.map(timestamp));
    let (name, source, definition) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let mut record = ScheduleRecord::new(name, source, definition, row.get(4)?, timestamp(row.get(5)?));
    record.paused = row.get(3)?;
    record.next_tick = at(6)?;
    record.due_at = at(7)?;
    record.last_tick = at(8)?;
    record.last_job = row.get::<_, Option<i64>>(9)?.map(JobId);
    record.last_enqueued_at = at(10)?;
    record.queued_tick = at(11)?;
    record.error = row.get(12)?;
    Ok(record)
}
