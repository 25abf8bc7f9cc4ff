//! Where a job is now, from its id alone.

use crate::{
    clock::Micros,
    error::{Fault, Outcome},
    moves::{Dead, Waiting},
    number_lanes::NumberLanes,
    position,
    tx::Tx,
};
use rusqlite::{Connection, Row, params};
use windlass_core::{ErrorKind, JobId, JobState};

const NEXT: &str = "SELECT next_sequence FROM log_state";
const WAITING: &str = "SELECT lane, state FROM waiting WHERE id = ?1";
const DEAD: &str = "SELECT lane, state FROM dead WHERE id = ?1";
const MOVED: &str = "SELECT pos FROM job WHERE id = ?1";
const UNMOVED: &str = "SELECT pos FROM job WHERE pos = ?1 AND id IS NULL";
// A probe per lane, for a job whose lane is not noted: where it would be if it never moved.
const IN_ANY_LANE: &str = "SELECT job.pos FROM lane CROSS JOIN job
    WHERE job.pos = (lane.id << 45) | ?1 AND job.id IS NULL";
const CURSOR: &str = "SELECT cursor FROM lane WHERE id = ?1";
const CLAIM: &str = "SELECT lo, hi, open, worker, claimed_at, finished_at FROM claim WHERE lo <= ?1
    ORDER BY lo DESC LIMIT 1";
const SETTLED: &str =
    "SELECT last, at FROM settlement WHERE claim = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1";

/// Where a job is.
pub(crate) enum Place {
    Log { pos: i64 },
    Waiting { lane: i32, state: Waiting },
    Dead { lane: i32, state: Dead },
}

impl Place {
    /// The state of the job that is there.
    pub(crate) fn state(&self, log: &mut Log<'_>, id: JobId) -> Outcome<JobState> {
        Ok(match self {
            Self::Log { pos } => log.state(*pos, id.0)?.state,
            Self::Waiting { state, .. } => state.job_state(),
            Self::Dead { state, .. } => state.job_state(),
        })
    }
}

/// Finds a job, also one of this transaction.
pub(crate) fn find(tx: &Tx<'_>, id: JobId) -> Outcome<Option<Place>> {
    Finder::within(tx).find(id)
}

/// Finds jobs, and remembers what it read of the lanes of their numbers for neighbours.
pub(crate) struct Finder<'c> {
    conn: &'c Connection,
    /// The number that no job has yet, nor any after it.
    next: i64,
    lanes: Option<NumberLanes<'c>>,
}

impl<'c> Finder<'c> {
    /// Of what is committed.
    pub(crate) fn new(conn: &'c Connection) -> Outcome<Self> {
        let next = conn.prepare_cached(NEXT)?.query_one([], |row| row.get(0))?;
        Ok(Self { conn, next, lanes: None })
    }

    /// Also of what this transaction stored until now.
    pub(crate) fn within(tx: &Tx<'c>) -> Self {
        Self { conn: tx.conn, next: tx.mark(), lanes: None }
    }

    pub(crate) fn find(&mut self, id: JobId) -> Outcome<Option<Place>> {
        if !(1..self.next).contains(&id.0) {
            return Ok(None);
        }
        let pair = |row: &Row<'_>| Ok((row.get::<_, i32>(0)?, row.get::<_, i64>(1)?));
        if let Some((lane, state)) = first(self.conn, WAITING, id.0, pair)? {
            return Ok(Some(Place::Waiting { lane, state: Waiting::of(state) }));
        }
        if let Some((lane, state)) = first(self.conn, DEAD, id.0, pair)? {
            return Ok(Some(Place::Dead { lane, state: Dead::of(state) }));
        }
        let pos = match first(self.conn, MOVED, id.0, |row| row.get(0))? {
            Some(pos) => Some(pos),
            None => self.unmoved(id.0)?,
        };
        Ok(pos.map(|pos| Place::Log { pos }))
    }

    /// Where the job stands if it is where it was appended.
    fn unmoved(&mut self, id: i64) -> Outcome<Option<i64>> {
        let lanes = match &mut self.lanes {
            Some(lanes) => lanes,
            None => self.lanes.insert(NumberLanes::new(self.conn)?),
        };
        if let Some(lane) = lanes.lane(id)?
            && let Some(pos) = first(self.conn, UNMOVED, position::at(lane, id), |row| row.get(0))?
        {
            return Ok(Some(pos));
        }
        if lanes.has(id) { Ok(None) } else { first(self.conn, IN_ANY_LANE, id, |row| row.get(0)) }
    }
}

/// The first row of a query with one parameter.
pub(crate) fn first<T>(
    conn: &Connection,
    sql: &str,
    param: i64,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Outcome<Option<T>> {
    let mut find = conn.prepare_cached(sql)?;
    let mut rows = find.query([param])?;
    Ok(rows.next()?.map(read).transpose()?)
}

/// What became of a job of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogState {
    pub(crate) state: JobState,
    pub(crate) claimed_at: Option<Micros>,
    pub(crate) claimed_by: Option<i32>,
    pub(crate) finished_at: Option<Micros>,
    /// The claim that it is of; 0 for none.
    pub(crate) claim: i64,
}

/// A claim as far as a job's state needs it.
#[derive(Clone, Copy, Debug)]
struct Covering {
    lo: i64,
    hi: i64,
    open: i64,
    worker: i32,
    claimed_at: Micros,
    finished_at: Option<Micros>,
}

/// Derives states of jobs of the log, and remembers the last lane and claim for neighbours.
pub(crate) struct Log<'c> {
    conn: &'c Connection,
    cursor: Option<(i32, i64)>,
    claim: Option<Covering>,
}

impl<'c> Log<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self { conn, cursor: None, claim: None }
    }

    /// The state of the job at `pos`.
    pub(crate) fn state(&mut self, pos: i64, id: i64) -> Outcome<LogState> {
        let lane = position::lane_of(pos);
        // What is in a direct twin was handed out as it was appended.
        if lane == position::base(lane) && pos > self.cursor(lane)? {
            let state = JobState::Available;
            return Ok(LogState { state, claimed_at: None, claimed_by: None, finished_at: None, claim: 0 });
        }
        let claim = self.claim(pos)?;
        let settled_at = match claim.open {
            0 => settled(self.conn, claim.lo, id)?.or(claim.finished_at),
            _ => settled(self.conn, claim.lo, id)?,
        };
        Ok(LogState {
            state: if settled_at.is_some() { JobState::Completed } else { JobState::Running },
            claimed_at: Some(claim.claimed_at),
            claimed_by: Some(claim.worker),
            finished_at: settled_at,
            claim: claim.lo,
        })
    }

    fn cursor(&mut self, lane: i32) -> Outcome<i64> {
        if let Some((known, cursor)) = self.cursor
            && known == lane
        {
            return Ok(cursor);
        }
        let cursor = first(self.conn, CURSOR, lane.into(), |row| row.get(0))?
            .ok_or_else(|| Fault::refused(ErrorKind::Internal, format!("lane {lane} has jobs but no row")))?;
        self.cursor = Some((lane, cursor));
        Ok(cursor)
    }

    fn claim(&mut self, pos: i64) -> Outcome<Covering> {
        if let Some(claim) = self.claim
            && (claim.lo..=claim.hi).contains(&pos)
        {
            return Ok(claim);
        }
        let claim = first(self.conn, CLAIM, pos, |row| {
            Ok(Covering {
                lo: row.get(0)?,
                hi: row.get(1)?,
                open: row.get(2)?,
                worker: row.get(3)?,
                claimed_at: row.get(4)?,
                finished_at: row.get(5)?,
            })
        })?;
        let claim = claim
            .filter(|claim| claim.hi >= pos)
            .ok_or_else(|| Fault::refused(ErrorKind::Internal, format!("no claim covers position {pos}")))?;
        self.claim = Some(claim);
        Ok(claim)
    }
}

fn settled(conn: &Connection, claim: i64, id: i64) -> Outcome<Option<Micros>> {
    let mut find = conn.prepare_cached(SETTLED)?;
    let mut rows = find.query(params![claim, id])?;
    let found = rows.next()?.map(|row| Ok::<_, rusqlite::Error>((row.get(0)?, row.get(1)?))).transpose()?;
    Ok(found.and_then(|(last, at): (i64, Micros)| (last >= id).then_some(at)))
}
