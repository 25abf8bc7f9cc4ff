//! Jobs as operators see them, from wherever they are.

use crate::{
    clock::{Micros, timestamp},
    error::{Fault, Outcome},
    locate::{self, Finder, Log, Place},
    moves::{Dead, Waiting},
    position, report,
};
use rusqlite::{Connection, Row};
use serde_json::value::RawValue;
use std::collections::HashMap;
use windlass_core::{Args, AttemptError, Attributes, Ended, ErrorKind, JobId, JobRecord, JobState, WorkerId};

const LOG: &str =
    "SELECT coalesce(id, pos & 35184372088831), pos >> 45, kind, args, attempt, max_attempts, crash_count,
    enqueued_at, pos, attributes FROM job WHERE pos = ?1";
const WAITING: &str =
    "SELECT id, lane, kind, args, attempt, max_attempts, crash_count, enqueued_at, state, available_at, attributes
    FROM waiting WHERE id = ?1";
const DEAD: &str =
    "SELECT id, lane, kind, args, attempt, max_attempts, crash_count, enqueued_at, state, reason,
    claimed_at, claimed_by, finished_at, attributes FROM dead WHERE id = ?1";
const ERRORS: &str = "SELECT attempt, at, error FROM attempt_error WHERE job = ?1 ORDER BY n";
const RESULTS: &str = "SELECT job, jobs FROM result
    WHERE claim = ?1 AND job >= ?2 AND (job = ?2 OR jobs IS NOT NULL) ORDER BY job";
const RESULT: &str = "SELECT result FROM result WHERE job = ?1";
const LANE: &str = "SELECT name, priority FROM lane JOIN queue ON queue.id = lane.queue WHERE lane.id = ?1";

/// Turns rows into records. All row shapes share their first eight columns.
pub(crate) struct Records<'c> {
    conn: &'c Connection,
    finder: Finder<'c>,
    log: Log<'c>,
    lanes: HashMap<i32, (String, i16)>,
}

/// Those of some jobs that have ended, and those that are unknown.
pub(crate) fn ended(conn: &Connection, ids: &[JobId]) -> Outcome<Ended> {
    let mut ended = Ended::default();
    // Neighbours are of the same lane and claim, which are read once, as is where their lanes are noted.
    let (mut records, mut ids) = (Records::new(conn)?, ids.to_vec());
    ids.sort_unstable();
    for id in ids {
        let Some(place) = records.finder.find(id)? else {
            ended.unknown.push(id);
            continue;
        };
        // What has not ended is looked at again and again, and may be large.
        if place.state(&mut records.log, id)?.is_final() {
            ended.jobs.extend(records.at(&place, id)?);
        }
    }
    Ok(ended)
}

/// In which states jobs are.
pub(crate) fn states(conn: &Connection, ids: &[JobId]) -> Outcome<Vec<Option<JobState>>> {
    let (mut finder, mut log) = (Finder::new(conn)?, Log::new(conn));
    let state = |id: &JobId| finder.find(*id)?.map(|place| place.state(&mut log, *id)).transpose();
    ids.iter().map(state).collect()
}

/// One job with its errors and what its handlers said.
pub(crate) fn job(conn: &Connection, id: JobId) -> Outcome<Option<JobRecord>> {
    let Some(mut record) = Records::new(conn)?.find(id)? else { return Ok(None) };
    let mut find = conn.prepare_cached(ERRORS)?;
    let mut rows = find.query([id.0])?;
    while let Some(row) = rows.next()? {
        record.errors.push(AttemptError {
            attempt: row.get(0)?,
            at: timestamp(row.get(1)?),
            error: row.get(2)?,
        });
    }
    record.report = report::find(conn, id)?.map(Box::new);
    Ok(Some(record))
}

impl<'c> Records<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Outcome<Self> {
        Ok(Self { conn, finder: Finder::new(conn)?, log: Log::new(conn), lanes: HashMap::new() })
    }

    /// The job with this id, without the errors of its attempts and what its handlers said.
    fn find(&mut self, id: JobId) -> Outcome<Option<JobRecord>> {
        self.finder.find(id)?.map_or(Ok(None), |place| self.at(&place, id))
    }

    fn at(&mut self, place: &Place, id: JobId) -> Outcome<Option<JobRecord>> {
        match place {
            Place::Log { pos } => self.one(LOG, *pos, Self::of_log),
            Place::Waiting { .. } => self.one(WAITING, id.0, Self::of_waiting),
            Place::Dead { .. } => self.one(DEAD, id.0, Self::of_dead),
        }
    }

    fn one(
        &mut self,
        sql: &str,
        key: i64,
        read: impl Fn(&mut Self, &Row<'_>) -> Outcome<JobRecord>,
    ) -> Outcome<Option<JobRecord>> {
        let conn = self.conn;
        let mut find = conn.prepare_cached(sql)?;
        let mut rows = find.query([key])?;
        rows.next()?.map(|row| read(self, row)).transpose()
    }

    /// A row of the log; column 8 is its position.
    pub(crate) fn of_log(&mut self, row: &Row<'_>) -> Outcome<JobRecord> {
        let mut record = self.common(row)?;
        let state = self.log.state(row.get(8)?, record.id.0)?;
        record.state = state.state;
        record.claimed_at = state.claimed_at.map(timestamp);
        record.claimed_by = state.claimed_by.map(WorkerId);
        record.finished_at = state.finished_at.map(timestamp);
        if record.state == JobState::Completed {
            record.result = self.result(state.claim, record.id)?;
        }
        if state.claimed_at.is_some() {
            record.attempt = record.attempt.saturating_add(1);
        }
        Ok(record)
    }

    /// The state of a row of the log, before the rest of it is read.
    pub(crate) fn log_state(&mut self, row: &Row<'_>) -> Outcome<JobState> {
        Ok(self.log.state(row.get(8)?, row.get(0)?)?.state)
    }

    /// A waiting row; then state and time.
    pub(crate) fn of_waiting(&mut self, row: &Row<'_>) -> Outcome<JobRecord> {
        let at: Micros = row.get(9)?;
        let waits = Waiting::of(row.get(8)?);
        let (scheduled_at, reason) = match waits {
            Waiting::Scheduled | Waiting::Retryable => (Some(timestamp(at)), None),
            Waiting::NoHandler => (None, Some(JobRecord::NO_HANDLER.to_owned())),
        };
        Ok(JobRecord { state: waits.job_state(), scheduled_at, reason, ..self.common(row)? })
    }

    /// A dead row; then state, reason and times.
    pub(crate) fn of_dead(&mut self, row: &Row<'_>) -> Outcome<JobRecord> {
        let mut record = self.common(row)?;
        record.state = Dead::of(row.get(8)?).job_state();
        record.reason = Some(row.get(9)?);
        record.claimed_at = row.get::<_, Option<Micros>>(10)?.map(timestamp);
        record.claimed_by = row.get::<_, Option<i32>>(11)?.map(WorkerId);
        record.finished_at = Some(timestamp(row.get(12)?));
        Ok(record)
    }

    fn common(&mut self, row: &Row<'_>) -> Outcome<JobRecord> {
        let (queue, priority) = self.lane(position::base(row.get(1)?))?;
        let attributes: Option<String> = row.get("attributes")?;
        let attributes =
            Attributes::from_store(attributes.as_deref().unwrap_or_default())?.unwrap_or_default();
        Ok(JobRecord {
            id: JobId(row.get(0)?),
            state: JobState::Available,
            kind: row.get(2)?,
            queue,
            priority,
            attempt: row.get(4)?,
            max_attempts: row.get(5)?,
            crash_count: row.get(6)?,
            args: Args::from_store(row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?)?,
            enqueued_at: timestamp(row.get(7)?),
            scheduled_at: None,
            claimed_at: None,
            claimed_by: None,
            finished_at: None,
            reason: None,
            key: attributes.key,
            meta: attributes.meta,
            tags: attributes.tags,
            cost: attributes.cost,
            timeout: attributes.timeout,
            retry_policy: attributes.retry_policy,
            expires_at: attributes.expires_at,
            result: None,
            errors: Vec::new(),
            report: None,
        })
    }

    /// What a job returned that completed under this claim: from a row of its own, or from the batch that has it. Results may be large, so that only
    /// that row's are read.
    fn result(&self, claim: i64, job: JobId) -> Outcome<Option<Args>> {
        let damaged = |cause| Fault::refused(ErrorKind::Internal, format!("results are damaged: {cause}"));
        let mut find = self.conn.prepare_cached(RESULTS)?;
        let mut rows = find.query([claim, job.0])?;
        while let Some(row) = rows.next()? {
            let last = row.get(0)?;
            let read = || locate::first(self.conn, RESULT, last, |row| row.get::<_, String>(0));
            let Some(jobs) = row.get_ref(1)?.as_str_or_null().map_err(rusqlite::Error::from)? else {
                return Ok(read()?.as_deref().map(Args::from_store).transpose()?);
            };
            let jobs: Vec<i64> = serde_json::from_str(jobs).map_err(damaged)?;
            if let Ok(nth) = jobs.binary_search(&job.0) {
                let results = read()?.unwrap_or_default();
                let results: Vec<&RawValue> = serde_json::from_str(&results).map_err(damaged)?;
                return Ok(results.get(nth).map(|result| Args::from_store(result.get())).transpose()?);
            }
        }
        Ok(None)
    }

    fn lane(&mut self, lane: i32) -> Outcome<(String, i16)> {
        if let Some(known) = self.lanes.get(&lane) {
            return Ok(known.clone());
        }
        let found = locate::first(self.conn, LANE, lane.into(), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let found: (String, i16) = found
            .ok_or_else(|| Fault::refused(ErrorKind::Internal, format!("lane {lane} has jobs but no row")))?;
        self.lanes.insert(lane, found.clone());
        Ok(found)
    }
}
