//! Lists of jobs, newest first, merged from the log (lane by lane), the held and the dead.
//!
//! Each source comes newest first. Once a page is full, its oldest id is a floor below which the further
//! sources need not look.

use crate::{
    error::{Fault, Outcome},
    position,
    record::Records,
};
use rusqlite::{Connection, Row, ToSql, params};
use windlass_core::{ErrorKind, JobFilter, JobPage, JobRecord, JobState, PageToken};

const LANES: &str = "SELECT lane.id, cursor FROM lane JOIN queue ON queue.id = lane.queue
    WHERE ?1 IS NULL OR queue.name = ?1";
const UNMOVED: &str =
    "SELECT pos & 35184372088831, pos >> 45, kind, args, attempt, max_attempts, crash_count, enqueued_at, pos, attributes
    FROM job WHERE pos BETWEEN ?1 AND ?2 AND id IS NULL AND (?3 IS NULL OR kind = ?3) ORDER BY pos DESC";
const MOVED: &str = "SELECT id, pos >> 45, kind, args, attempt, max_attempts, crash_count, enqueued_at, pos, attributes
    FROM job WHERE id IS NOT NULL AND id > ?1 AND id < ?2 AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR ((pos >> 45) & ~1) IN (SELECT lane.id FROM lane JOIN queue ON queue.id = lane.queue WHERE name = ?4))
    ORDER BY id DESC";
const HELD: &str =
    "SELECT id, lane, kind, args, attempt, max_attempts, crash_count, enqueued_at, state, available_at, attributes
    FROM held WHERE id > ?1 AND id < ?2 AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR lane IN (SELECT lane.id FROM lane JOIN queue ON queue.id = lane.queue WHERE name = ?4))
    AND (?5 IS NULL OR state = ?5) ORDER BY id DESC";
const DEAD: &str =
    "SELECT id, lane, kind, args, attempt, max_attempts, crash_count, enqueued_at, state, reason,
    claimed_at, claimed_by, finished_at, attributes FROM dead WHERE id > ?1 AND id < ?2 AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR lane IN (SELECT lane.id FROM lane JOIN queue ON queue.id = lane.queue WHERE name = ?4))
    AND (?5 IS NULL OR state = ?5) ORDER BY id DESC";
// Running jobs are few among many finished ones, so they are looked for through the open claims.
const RUNNING: &str = "SELECT coalesce(id, pos & 35184372088831) AS job, pos >> 45, kind, args, attempt, max_attempts,
    crash_count, job.enqueued_at, pos, attributes FROM claim CROSS JOIN job WHERE claim.open > 0 AND pos BETWEEN lo AND hi
    AND job > ?1 AND job < ?2 AND (?3 IS NULL OR kind = ?3)
    AND (?4 IS NULL OR ((pos >> 45) & ~1) IN (SELECT lane.id FROM lane JOIN queue ON queue.id = lane.queue WHERE name = ?4))
    ORDER BY job DESC";

/// Jobs by filter, newest first.
pub(crate) fn jobs(conn: &Connection, filter: &JobFilter) -> Outcome<JobPage> {
    let jobs = find(conn, filter)?;
    let full = jobs.len() == filter.limit as usize;
    let next = jobs.last().filter(|_| full).map(|job| PageToken(job.id.to_string()));
    Ok(JobPage { jobs, next })
}

/// A page ends with the job of this id.
fn id_of(token: &PageToken) -> Outcome<i64> {
    let bad = |_| Fault::refused(ErrorKind::InvalidOption, format!("unknown page token {:?}", token.0));
    token.0.parse().map_err(bad)
}

fn find(conn: &Connection, filter: &JobFilter) -> Outcome<Vec<JobRecord>> {
    let after = filter.after.as_ref().map(id_of).transpose()?;
    let before = after.unwrap_or(i64::MAX).min(position::SEQUENCE_MAX + 1);
    let mut page = Page { conn, filter, before, floor: 0, found: Vec::new(), records: Records::new(conn) };
    let wants = |states: &[JobState]| filter.state.is_none_or(|state| states.contains(&state));
    if filter.state == Some(JobState::Running) {
        page.log(RUNNING)?;
        return Ok(page.found);
    }
    if wants(&[JobState::Available, JobState::Scheduled, JobState::Retryable]) {
        page.held()?;
    }
    if wants(&[JobState::Cancelled, JobState::Discarded]) {
        page.dead()?;
    }
    if wants(&[JobState::Available, JobState::Completed]) {
        page.log(MOVED)?;
        page.lanes()?;
    }
    Ok(page.found)
}

struct Page<'c> {
    conn: &'c Connection,
    filter: &'c JobFilter,
    before: i64,
    floor: i64,
    found: Vec<JobRecord>,
    records: Records<'c>,
}

impl<'c> Page<'c> {
    fn held(&mut self) -> Outcome<()> {
        let state = match self.filter.state {
            Some(JobState::Scheduled) => Some(0),
            Some(JobState::Retryable) => Some(1),
            Some(_) => Some(2),
            None => None,
        };
        let (floor, before, filter) = (self.floor, self.before, self.filter);
        let (kind, queue) = (&filter.kind, &filter.queue);
        self.take(HELD, params![floor, before, kind, queue, state], |records, row| {
            records.of_held(row).map(Some)
        })
    }

    fn dead(&mut self) -> Outcome<()> {
        let state = self.filter.state.map(|state| i64::from(state == JobState::Discarded));
        let (floor, before, filter) = (self.floor, self.before, self.filter);
        let (kind, queue) = (&filter.kind, &filter.queue);
        self.take(DEAD, params![floor, before, kind, queue, state], |records, row| {
            records.of_dead(row).map(Some)
        })
    }

    /// A query on the log by id, whose states are derived row by row.
    fn log(&mut self, sql: &str) -> Outcome<()> {
        let (floor, before, filter) = (self.floor, self.before, self.filter);
        let (kind, queue, state) = (&filter.kind, &filter.queue, filter.state);
        self.take(sql, params![floor, before, kind, queue], |records, row| log_row(records, row, state))
    }

    /// The jobs that never moved, lane by lane.
    fn lanes(&mut self) -> Outcome<()> {
        let (filter, state) = (self.filter, self.filter.state);
        for (lane, cursor) in self.lane_cursors()? {
            let mut lo = position::at(lane, self.floor + 1);
            let mut hi = position::at(lane, self.before - 1);
            match state {
                Some(JobState::Available) => lo = lo.max(cursor + 1),
                Some(_) => hi = hi.min(cursor),
                None => {}
            }
            self.take(UNMOVED, params![lo, hi, filter.kind], |records, row| log_row(records, row, state))?;
        }
        Ok(())
    }

    fn lane_cursors(&self) -> Outcome<Vec<(i32, i64)>> {
        let mut find = self.conn.prepare_cached(LANES)?;
        let rows = find.query_map([&self.filter.queue], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Takes a source's newest rows, merges them into the page and raises the floor.
    fn take(
        &mut self,
        sql: &str,
        params: &[&dyn ToSql],
        read: impl Fn(&mut Records<'c>, &Row<'_>) -> Outcome<Option<JobRecord>>,
    ) -> Outcome<()> {
        let (limit, conn) = (self.filter.limit as usize, self.conn);
        let mut find = conn.prepare_cached(sql)?;
        let mut rows = find.query(params)?;
        let mut taken = 0;
        while taken < limit
            && let Some(row) = rows.next()?
        {
            if let Some(record) = read(&mut self.records, row)? {
                self.found.push(record);
                taken += 1;
            }
        }
        self.found.sort_unstable_by_key(|record| std::cmp::Reverse(record.id));
        self.found.truncate(limit);
        if self.found.len() == limit {
            self.floor = self.found.last().map_or(0, |record| record.id.0);
        }
        Ok(())
    }
}

/// A row of the log, if it is in the wanted state. Its args are read only then.
fn log_row(records: &mut Records<'_>, row: &Row<'_>, wanted: Option<JobState>) -> Outcome<Option<JobRecord>> {
    match wanted {
        Some(state) if records.log_state(row)? != state => Ok(None),
        _ => records.of_log(row).map(Some),
    }
}
