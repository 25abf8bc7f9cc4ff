//! Lists of jobs, page by page: state by state, lane by lane, each in the order of the place where it lives.
//!
//! A page ends at its limit, after a number of rows or with so many bytes, whichever comes first. Its token is the stage, the lane and
//! the key of the last row that was looked at.

use crate::{
    error::Outcome,
    moves::{Dead, Waiting},
    position,
    record::Records,
};
use rusqlite::{Connection, Row, ToSql, params};
use std::ops::ControlFlow::{self, Break, Continue};
use windlass_core::{Args, Attributes, JobFilter, JobPage, JobRecord, JobState, PageToken, Wanted};

/// How many rows one page looks at. One whose args are read or whose last error is looked up counts as so many more.
const LOOK_AT: u32 = 50_000;
const ARGS_COST: u32 = 1;
const ERROR_COST: u32 = 4;
/// A page ends with the job that brings its args and results to so many bytes: whoever changes what it has does so in one transaction.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

const LAST_ERROR: &str = "SELECT error FROM attempt_error WHERE job = ?1 ORDER BY n DESC LIMIT 1";

const LANES: &str = "SELECT lane.id, cursor, running, available, no_handler, retryable, scheduled, discarded, cancelled, completed
    FROM lane JOIN queue ON queue.id = lane.queue WHERE (?1 IS NULL OR queue.name = ?1) AND lane.id >= ?2 ORDER BY lane.id";
const LOG: &str =
    "SELECT coalesce(id, pos & 35184372088831), pos >> 45, kind, args, attempt, max_attempts, crash_count,
    enqueued_at, pos, attributes FROM job WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos";
const LOG_BACKWARDS: &str =
    "SELECT coalesce(id, pos & 35184372088831), pos >> 45, kind, args, attempt, max_attempts,
    crash_count, enqueued_at, pos, attributes FROM job WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos DESC";
// There are few among many finished ones.
const OPEN: &str = "SELECT lo, hi FROM claim INDEXED BY claim_open WHERE open > 0 ORDER BY lo";
const CLAIMS: &str = "SELECT lo, hi, completed FROM claim WHERE lo BETWEEN ?1 AND ?2 ORDER BY lo DESC";
const WAITING: &str =
    "SELECT id, lane, kind, args, attempt, max_attempts, crash_count, enqueued_at, state, available_at, attributes
    FROM waiting WHERE lane = ?1 AND state = ?2 AND (available_at, id) > (?3, ?4) ORDER BY available_at, id";
const DEAD: &str =
    "SELECT id, lane, kind, args, attempt, max_attempts, crash_count, enqueued_at, state, reason,
    claimed_at, claimed_by, finished_at, attributes
    FROM dead WHERE lane = ?1 AND state = ?2 AND (finished_at, id) < (?3, ?4) ORDER BY finished_at DESC, id DESC";

/// The places, in the order in which they are listed. The columns of `LANES` that count them have the same order.
const STAGES: [Stage; 8] = [
    Stage::Running,
    Stage::Available,
    Stage::Waiting(Waiting::NoHandler),
    Stage::Waiting(Waiting::Retryable),
    Stage::Waiting(Waiting::Scheduled),
    Stage::Dead(Dead::Discarded),
    Stage::Dead(Dead::Cancelled),
    Stage::Completed,
];
const FIRST_COUNT: usize = 2;
/// The column of a job's args.
const ARGS: usize = 3;

#[derive(Clone, Copy)]
enum Stage {
    Running,
    Available,
    Waiting(Waiting),
    Dead(Dead),
    Completed,
}

impl Stage {
    fn state(self) -> JobState {
        match self {
            Self::Running => JobState::Running,
            Self::Available | Self::Waiting(Waiting::NoHandler) => JobState::Available,
            Self::Waiting(Waiting::Retryable) => JobState::Retryable,
            Self::Waiting(Waiting::Scheduled) => JobState::Scheduled,
            Self::Dead(Dead::Discarded) => JobState::Discarded,
            Self::Dead(Dead::Cancelled) => JobState::Cancelled,
            Self::Completed => JobState::Completed,
        }
    }
}

/// A page of jobs.
pub(crate) fn jobs(conn: &Connection, filter: &JobFilter) -> Outcome<JobPage> {
    let after = filter.position()?.unwrap_or_default();
    let (wanted, records) = (filter.wanted()?, Records::new(conn)?);
    let mut page =
        Page { conn, filter, wanted, looked: 0, bytes: 0, at: after, jobs: Vec::new(), records, open: None };
    let next = page.fill()?.is_break().then(|| PageToken::new(filter, &page.at));
    Ok(JobPage { jobs: page.jobs, next })
}

struct Page<'c> {
    conn: &'c Connection,
    filter: &'c JobFilter,
    wanted: Wanted,
    looked: u32,
    /// Of the jobs that it has.
    bytes: usize,
    /// Stage, lane, and the key of the last row that was looked at, if there was one.
    at: Vec<i64>,
    jobs: Vec<JobRecord>,
    records: Records<'c>,
    /// Where all open claims begin and end, once they were asked for.
    open: Option<Vec<(i64, i64)>>,
}

impl Page<'_> {
    fn fill(&mut self) -> Outcome<ControlFlow<()>> {
        for (nth, &stage) in (0..).zip(&STAGES) {
            let from = self.at.first().map_or(0, |&stage| stage);
            let wanted = self.filter.state.is_none_or(|state| state == stage.state());
            if nth < from || !wanted {
                continue;
            }
            if nth > from {
                self.at.clear();
            }
            for (lane, cursor) in self.lanes(nth)? {
                if self.at.get(1) != Some(&lane.into()) {
                    self.at = vec![nth, lane.into()];
                }
                if self.lane(stage, lane, cursor)?.is_break() {
                    return Ok(Break(()));
                }
            }
        }
        Ok(Continue(()))
    }

    /// The lanes that have jobs of a stage, with their cursors, from where the page before ended.
    fn lanes(&self, stage: i64) -> Outcome<Vec<(i32, i64)>> {
        let mut find = self.conn.prepare_cached(LANES)?;
        let mut rows = find.query(params![self.filter.queue, self.at.get(1).copied().unwrap_or(0)])?;
        let mut lanes = Vec::new();
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(FIRST_COUNT + stage as usize)? > 0 {
                lanes.push((row.get(0)?, row.get(1)?));
            }
        }
        Ok(lanes)
    }

    fn lane(&mut self, stage: Stage, lane: i32, cursor: i64) -> Outcome<ControlFlow<()>> {
        let (first, twin) = (position::at(lane, 0), position::at(position::direct(lane), 0));
        let key = (self.at.get(2).copied(), self.at.get(3).copied());
        let upwards = (key.0.unwrap_or(i64::MIN), key.1.unwrap_or(0));
        let downwards = (key.0.unwrap_or(i64::MAX), key.1.unwrap_or(0));
        let before = key.0.map_or(i64::MAX, |pos| pos.saturating_sub(1));
        match stage {
            Stage::Running => {
                for (lo, hi) in self.open_claims(first, twin | position::SEQUENCE_MAX)? {
                    let lo = lo.max(upwards.0.saturating_add(1));
                    if self.log(LOG, lo, hi, JobState::Running)?.is_break() {
                        return Ok(Break(()));
                    }
                }
                Ok(Continue(()))
            }
            Stage::Available => {
                self.log(LOG_BACKWARDS, cursor + 1, before.min(twin - 1), JobState::Available)
            }
            Stage::Completed => self.completed((first, twin | position::SEQUENCE_MAX), key.0),
            Stage::Waiting(state) => {
                let from = params![lane, state as i64, upwards.0, upwards.1];
                self.take(WAITING, from, &[9, 0], |records, row| records.of_waiting(row).map(Some))
            }
            Stage::Dead(state) => {
                let from = params![lane, state as i64, downwards.0, downwards.1];
                self.take(DEAD, from, &[12, 0], |records, row| records.of_dead(row).map(Some))
            }
        }
    }

    /// The claims of a lane, those of its twin before, the newest first; the jobs of each as they were handed out.
    fn completed(&mut self, (first, last): (i64, i64), after: Option<i64>) -> Outcome<ControlFlow<()>> {
        let conn = self.conn;
        let mut find = conn.prepare_cached(CLAIMS)?;
        let mut claims = find.query([first, after.unwrap_or(last)])?;
        while let Some(claim) = claims.next()? {
            if self.looked >= LOOK_AT {
                return Ok(Break(()));
            }
            self.looked += 1;
            let (lo, hi): (i64, i64) = (claim.get(0)?, claim.get(1)?);
            // The page before ended in this one.
            let from = after.filter(|after| (lo..=hi).contains(after)).map_or(lo, |after| after + 1);
            // Those of one of which nothing completed may be thousands that run.
            if claim.get::<_, i64>(2)? > 0 && self.log(LOG, from, hi, JobState::Completed)?.is_break() {
                return Ok(Break(()));
            }
            self.at.truncate(2);
            self.at.push(hi);
        }
        Ok(Continue(()))
    }

    /// The open claims between two positions, in order. All are read with the first lane.
    fn open_claims(&mut self, first: i64, last: i64) -> Outcome<Vec<(i64, i64)>> {
        if self.open.is_none() {
            let mut find = self.conn.prepare_cached(OPEN)?;
            let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            self.open = Some(rows.collect::<Result<_, _>>()?);
        }
        let open = self.open.as_deref().unwrap_or_default();
        let before = |end: i64| open.partition_point(|(lo, _)| *lo < end);
        Ok(open[before(first)..before(last)].to_vec())
    }

    /// Takes what is in the wanted state from a stretch of the log. The args of the rest are not read.
    fn log(&mut self, sql: &str, lo: i64, hi: i64, wanted: JobState) -> Outcome<ControlFlow<()>> {
        self.take(sql, params![lo, hi], &[8], |records, row| match records.log_state(row)? {
            state if state == wanted => records.of_log(row).map(Some),
            _ => Ok(None),
        })
    }

    /// Takes rows until there are no more or the page is over, which breaks. `key`: the columns of a row's key.
    fn take(
        &mut self,
        sql: &str,
        params: &[&dyn ToSql],
        key: &[usize],
        read: impl Fn(&mut Records<'_>, &Row<'_>) -> Outcome<Option<JobRecord>>,
    ) -> Outcome<ControlFlow<()>> {
        let mut find = self.conn.prepare_cached(sql)?;
        let mut rows = find.query(params)?;
        loop {
            let is_full = self.jobs.len() >= self.filter.limit as usize || self.bytes >= PAGE_BYTES;
            if is_full || self.looked >= LOOK_AT {
                return Ok(Break(()));
            }
            let Some(row) = rows.next()? else { return Ok(Continue(())) };
            self.looked += 1;
            self.at.truncate(2);
            for &column in key {
                self.at.push(row.get(column)?);
            }
            if self.is_wanted(row)?
                && let Some(record) = read(&mut self.records, row)?
                && self.has_error(&record)?
            {
                self.bytes += record.args.len() + record.result.as_ref().map_or(0, Args::len);
                self.jobs.push(record);
            }
        }
    }

    /// Whether the last error of a job is wanted: what made it fail for good, or else the last that is kept.
    fn has_error(&mut self, record: &JobRecord) -> Outcome<bool> {
        if !self.wanted.looks_at_errors() {
            return Ok(true);
        }
        if record.state == JobState::Discarded {
            return Ok(self.wanted.has_error(record.reason.as_deref()));
        }
        self.looked += ERROR_COST;
        let mut find = self.conn.prepare_cached(LAST_ERROR)?;
        let mut rows = find.query([record.id.0])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        let error = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        Ok(self.wanted.has_error(Some(error)))
    }

    fn is_wanted(&mut self, row: &Row<'_>) -> Outcome<bool> {
        if let Some(kind) = &self.filter.kind
            && row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)? != kind
        {
            return Ok(false);
        }
        if let Some(tag) = &self.filter.tag {
            let text = row.get_ref("attributes")?.as_str_or_null().map_err(rusqlite::Error::from)?;
            let attributes = Attributes::from_store(text.unwrap_or_default())?;
            if attributes.is_none_or(|attributes| !attributes.tags.contains(tag)) {
                return Ok(false);
            }
        }
        if self.filter.args.is_none() {
            return Ok(true);
        }
        self.looked += ARGS_COST;
        Ok(self.wanted.has_args(row.get_ref(ARGS)?.as_str().map_err(rusqlite::Error::from)?))
    }
}
