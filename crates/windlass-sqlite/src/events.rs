//! What happened to jobs, page by page: the log tells who was enqueued, by the job's number, and table `happened` the rest, by claims.

use crate::{
    claim_range::{ClaimRange, Ways, jobs_of_range},
    clock::timestamp,
    error::{Fault, Outcome},
    number_lanes::{NumberLanes, Stretch},
    position,
};
use rusqlite::{Connection, OptionalExtension, Row, Statement, params, types::Value};
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};
use windlass_core::{ErrorKind, EventCursor, EventPage, EventRequest, EventType, JobEvent, JobId, WorkerId};

/// The fewest numbers that one page looks through for jobs that were enqueued; else as many as it may have events.
const NUMBERS: u32 = 1_000;

const HEAD: &str = "SELECT log, kept_n, kept_sequence, (SELECT next_sequence - 1 FROM log_state),
    (SELECT coalesce(max(n), 0) FROM happened) FROM event_log";
const LANES: &str = "SELECT id FROM lane";
const QUEUE: &str = "SELECT queue.name FROM lane JOIN queue ON queue.id = lane.queue WHERE lane.id = ?1";
const APPENDED: &str = "SELECT pos, enqueued_at, kind FROM job WHERE pos BETWEEN ?1 AND ?2 AND id IS NULL";
const ELSEWHERE: &str = "SELECT first, last, at, lane, kind FROM enqueued_range
    WHERE first BETWEEN coalesce((SELECT max(first) FROM enqueued_range WHERE first <= ?1), ?1) AND ?2";
const HAPPENED: &str =
    "SELECT n, mark, at, what, claim, first, last, worker, lane, kind, attempt, reason FROM happened
    WHERE n > ?1 ORDER BY n LIMIT ?2";
const STARTED: &str = "SELECT pos, coalesce(id, pos & 35184372088831) AS job, kind, attempt FROM job WHERE pos BETWEEN ?2 AND ?3
    UNION ALL SELECT pos, job, kind, attempt FROM started_elsewhere WHERE n = ?1 AND pos >= ?2
    ORDER BY pos LIMIT ?4";
const RESTED: &str = "SELECT pos, coalesce(id, pos & 35184372088831) AS job, kind, attempt FROM job
    WHERE pos BETWEEN ?2 AND ?3 AND coalesce((SELECT s.last FROM settlement s WHERE s.claim = ?1
        AND s.first <= coalesce(job.id, pos & 35184372088831) ORDER BY s.first DESC LIMIT 1), -1) < coalesce(id, pos & 35184372088831)
    ORDER BY pos LIMIT ?4";
const RANGE: Ways = jobs_of_range!(
    "pos, coalesce(id, pos & 35184372088831) AS job, kind, attempt",
    "pos, id, kind, attempt",
    " ORDER BY pos LIMIT ?7"
);

/// A place in the stream: jobs up to this number, rows of `happened` up to this one, and of the next up to this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    sequence: i64,
    n: i64,
    pos: i64,
}

/// What is kept, and where it ends.
struct Head {
    log: String,
    kept: Place,
    end: Place,
}

impl Head {
    fn of(conn: &Connection) -> Outcome<Self> {
        Ok(conn.prepare_cached(HEAD)?.query_one([], |row| {
            Ok(Self {
                log: row.get(0)?,
                kept: Place { n: row.get(1)?, sequence: row.get(2)?, pos: 0 },
                end: Place { sequence: row.get(3)?, n: row.get(4)?, pos: 0 },
            })
        })?)
    }

    fn cursor(&self, place: Place) -> EventCursor {
        let mut text = String::with_capacity(48);
        let Place { sequence, n, pos } = place;
        let _ = fmt::write(&mut text, format_args!("s1/{}/{sequence}/{n}/{pos}", self.log));
        text.into()
    }

    fn place(&self, cursor: &EventCursor) -> Outcome<Place> {
        match cursor.as_str() {
            "start" => return Ok(self.kept),
            "now" => return Ok(self.end),
            _ => {}
        }
        let Some((log, place)) = read_cursor(cursor.as_str()) else {
            let message = format!(
                "events cannot be read from {:?}; pass start, now, or a cursor as events gave it",
                cursor.as_str().chars().take(80).collect::<String>()
            );
            return Err(Fault::refused(ErrorKind::InvalidOption, message));
        };
        if log != self.log || place.n > self.end.n || place.sequence > self.end.sequence {
            let message = "the cursor is of another log: of another file, or of this one before an older copy took its place; read on from start or from now";
            return Err(Fault::refused(ErrorKind::EventsExpired, message));
        }
        if place.n < self.kept.n || place.sequence < self.kept.sequence {
            let message = "events behind this cursor were removed past their retention; read on from start, which misses them, or from now, and read in time";
            return Err(Fault::refused(ErrorKind::EventsExpired, message));
        }
        Ok(place)
    }
}

fn read_cursor(text: &str) -> Option<(&str, Place)> {
    let (log, numbers) = text.strip_prefix("s1/")?.split_once('/')?;
    let mut numbers =
        numbers.split('/').map(|number| number.parse::<i64>().ok().filter(|number| *number >= 0));
    let place = Place { sequence: numbers.next()??, n: numbers.next()??, pos: numbers.next()?? };
    numbers.next().is_none().then_some((log, place))
}

/// A job that was enqueued.
struct Appended {
    sequence: i64,
    at: i64,
    lane: i32,
    kind: String,
}

/// A row of `happened`.
struct Happened {
    n: i64,
    mark: i64,
    at: i64,
    what: Value,
    claim: Option<i64>,
    first: Option<i64>,
    last: Option<i64>,
    worker: Option<i32>,
    lane: Option<i32>,
    kind: Option<String>,
    attempt: Option<u16>,
    reason: Option<String>,
}

/// The next page, from one snapshot of the file.
pub(crate) fn events(conn: &Connection, request: &EventRequest) -> Outcome<EventPage> {
    Reading::begin(conn, request)?.page()
}

struct Reading<'a> {
    conn: &'a Connection,
    request: &'a EventRequest,
    head: Head,
    /// The names of the lanes' queues, as far as they were asked for.
    queues: HashMap<i32, Arc<str>>,
    place: Place,
    /// Rows that were looked at.
    looked_at: usize,
    events: Vec<JobEvent>,
}

impl<'a> Reading<'a> {
    fn begin(conn: &'a Connection, request: &'a EventRequest) -> Outcome<Self> {
        let head = Head::of(conn)?;
        let place = head.place(&request.cursor)?;
        Ok(Self { conn, request, head, queues: HashMap::new(), place, looked_at: 0, events: Vec::new() })
    }

    fn limit(&self) -> usize {
        self.request.limit as usize
    }

    fn is_full(&self) -> bool {
        self.looked_at >= self.limit()
    }

    fn page(mut self) -> Outcome<EventPage> {
        let known = self
            .place
            .sequence
            .saturating_add(self.request.limit.max(NUMBERS).into())
            .min(self.head.end.sequence);
        let mut appended = self.appended(known)?;
        let happened = self.happened()?;
        let all_rows = happened.len() < self.limit();
        let mut stopped = false;
        for row in &happened {
            self.tell_enqueued(&mut appended, row.mark - 1)?;
            // Jobs that were enqueued before it are beyond what this page looks through.
            stopped = self.is_full() || row.mark - 1 > known && known < self.head.end.sequence;
            if stopped || !self.tell_happened(row)? {
                stopped = true;
                break;
            }
        }
        if !stopped && all_rows {
            self.tell_enqueued(&mut appended, i64::MAX)?;
        }
        if appended.is_empty() {
            self.place.sequence = if stopped || !all_rows { self.passed(&happened, known) } else { known };
        }
        let more = self.place != self.head.end;
        Ok(EventPage { next: self.head.cursor(self.place), events: self.events, more })
    }

    /// Up to where there is no job to tell of that was enqueued before what comes next.
    fn passed(&self, happened: &[Happened], known: i64) -> i64 {
        let next = happened.iter().find(|row| row.n > self.place.n);
        next.map_or(self.place.sequence, |row| (row.mark - 1).min(known)).max(self.place.sequence)
    }

    /// The jobs that were enqueued after the place, up to number `known`, in order.
    fn appended(&self, known: i64) -> Outcome<VecDeque<Appended>> {
        let from = self.place.sequence + 1;
        let mut found = Vec::new();
        let mut in_lane = self.conn.prepare_cached(APPENDED)?;
        for stretch in self.stretches(from, known)? {
            let mut rows = in_lane.query(stretch.positions())?;
            while let Some(row) = rows.next()? {
                let sequence = position::sequence_of(row.get(0)?);
                found.push(Appended { sequence, at: row.get(1)?, lane: stretch.lane, kind: row.get(2)? });
            }
        }
        let mut elsewhere = self.conn.prepare_cached(ELSEWHERE)?;
        let mut rows = elsewhere.query([from, known])?;
        while let Some(row) = rows.next()? {
            let (first, last): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (at, lane, kind) = (row.get(2)?, row.get(3)?, row.get::<_, String>(4)?);
            let jobs = first.max(from)..=last.min(known);
            found.extend(jobs.map(|sequence| Appended { sequence, at, lane, kind: kind.clone() }));
        }
        found.sort_unstable_by_key(|job| job.sequence);
        Ok(found.into())
    }

    /// Where jobs of these numbers were appended: in every lane where that is not noted.
    fn stretches(&self, first: i64, last: i64) -> Outcome<Vec<Stretch>> {
        if first > last {
            return Ok(Vec::new());
        }
        if let Some(noted) = NumberLanes::new(self.conn)?.between(first, last)? {
            return Ok(noted);
        }
        let mut lanes = self.conn.prepare_cached(LANES)?;
        let stretch = |row: &Row<'_>| Ok(Stretch { lane: row.get(0)?, first, last });
        Ok(lanes.query_map([], stretch)?.collect::<Result<_, _>>()?)
    }

    fn happened(&self) -> Outcome<Vec<Happened>> {
        let mut find = self.conn.prepare_cached(HAPPENED)?;
        let rows = find.query_map(params![self.place.n, self.request.limit], |row| {
            Ok(Happened {
                n: row.get(0)?,
                mark: row.get(1)?,
                at: row.get(2)?,
                what: row.get(3)?,
                claim: row.get(4)?,
                first: row.get(5)?,
                last: row.get(6)?,
                worker: row.get(7)?,
                lane: row.get(8)?,
                kind: row.get(9)?,
                attempt: row.get(10)?,
                reason: row.get(11)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Tells of the jobs that were enqueued up to this number, as long as there is room.
    fn tell_enqueued(&mut self, appended: &mut VecDeque<Appended>, upto: i64) -> Outcome<()> {
        while let Some(job) = appended.front()
            && job.sequence <= upto
            && !self.is_full()
        {
            self.place.sequence = job.sequence;
            let event = (EventType::Enqueued, JobId(job.sequence), job.at);
            self.tell(event, position::base(job.lane), &job.kind, |_| {})?;
            appended.pop_front();
        }
        Ok(())
    }

    /// Tells of one row. False: there was no room for all of it.
    fn tell_happened(&mut self, row: &Happened) -> Outcome<bool> {
        let lo = row.claim.unwrap_or(0);
        let last = row.last.unwrap_or(0);
        let from = lo.max(self.place.pos.saturating_add(1));
        let left = self.limit() - self.looked_at;
        let told = match &row.what {
            Value::Integer(0) => {
                let mut find = self.conn.prepare_cached(STARTED)?;
                self.tell_jobs(row, EventType::Started, &mut find, params![row.n, from, last, left as i64])?
            }
            Value::Integer(1) => {
                let mut find = self.conn.prepare_cached(RESTED)?;
                self.tell_jobs(row, EventType::Completed, &mut find, params![lo, from, last, left as i64])?
            }
            Value::Integer(_) => {
                let ids = ClaimRange::of(self.conn, lo, (row.first.unwrap_or(0), last))?;
                let mut find = self.conn.prepare_cached(ids.sql(&RANGE))?;
                let [from, hi, first, last, at, upto] = ids.params(from);
                let range = params![from, hi, first, last, at, upto, left as i64];
                self.tell_jobs(row, EventType::Completed, &mut find, range)?
            }
            what => {
                if let Value::Text(name) = what
                    && let Ok(event) = name.parse()
                {
                    (self.place.n, self.place.pos) = (row.n, 0);
                    let (job, kind) =
                        (JobId(row.first.unwrap_or(0)), row.kind.as_deref().unwrap_or_default());
                    self.tell((event, job, row.at), row.lane.unwrap_or(0), kind, |event| {
                        event.attempt = row.attempt.unwrap_or(0);
                        event.worker = row.worker.map(WorkerId);
                        event.reason.clone_from(&row.reason);
                    })?;
                }
                0
            }
        };
        // As many as were asked for: there may be more.
        if told == left && !matches!(row.what, Value::Text(_)) {
            return Ok(false);
        }
        (self.place.n, self.place.pos) = (row.n, 0);
        Ok(true)
    }

    /// Tells the same of several jobs. How many.
    fn tell_jobs(
        &mut self,
        row: &Happened,
        what: EventType,
        find: &mut Statement<'_>,
        params: impl rusqlite::Params,
    ) -> Outcome<usize> {
        let lane = position::base(position::lane_of(row.claim.unwrap_or(0)));
        let mut found = find.query(params)?;
        let mut told = 0;
        while let Some(job) = found.next()? {
            self.place.pos = job.get(0)?;
            let (id, kind, attempt) = (JobId(job.get(1)?), job.get::<_, String>(2)?, job.get::<_, u16>(3)?);
            self.tell((what, id, row.at), lane, &kind, |event| {
                event.attempt = attempt.saturating_add(1);
                event.worker = row.worker.map(WorkerId);
            })?;
            told += 1;
        }
        Ok(told)
    }

    fn tell(
        &mut self,
        (what, job, at): (EventType, JobId, i64),
        lane: i32,
        kind: &str,
        fill: impl FnOnce(&mut JobEvent),
    ) -> Outcome<()> {
        self.looked_at += 1;
        let queue = self.queue(lane)?;
        if self.request.matches(&queue, kind, what) {
            let mut event = JobEvent::new(self.head.cursor(self.place), what, job, timestamp(at));
            (event.queue, event.kind) = (queue, kind.into());
            fill(&mut event);
            self.events.push(event);
        }
        Ok(())
    }

    /// The name of the lane's queue; empty where that was removed.
    fn queue(&mut self, lane: i32) -> Outcome<Arc<str>> {
        if let Some(known) = self.queues.get(&lane) {
            return Ok(Arc::clone(known));
        }
        let name: Option<String> =
            self.conn.prepare_cached(QUEUE)?.query_one([lane], |row| row.get(0)).optional()?;
        let name: Arc<str> = name.unwrap_or_default().into();
        self.queues.insert(lane, Arc::clone(&name));
        Ok(name)
    }
}
