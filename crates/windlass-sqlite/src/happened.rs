//! Notes what happens to jobs, in the transaction in which it does. Enqueues are not noted: the log tells of them.

use crate::{error::Outcome, tx::Tx};
use rusqlite::params;
use windlass_core::EventType;

const CLAIMED: &str =
    "INSERT INTO happened (mark, at, what, claim, last, worker) VALUES (?1, ?2, 0, ?3, ?4, ?5)";
const RESTED: &str =
    "INSERT INTO happened (mark, at, what, claim, last, worker) VALUES (?1, ?2, 1, ?3, ?4, ?5)";
const RANGE: &str =
    "INSERT INTO happened (mark, at, what, claim, first, last, worker) VALUES (?1, ?2, 2, ?3, ?4, ?5, ?6)";
const OF_LOG: &str = "INSERT INTO happened (mark, at, what, first, worker, lane, kind, attempt, reason)
    SELECT ?1, ?2, ?3, coalesce(id, pos & 35184372088831), ?4, (pos >> 45) & ~1, kind, attempt + ?5, ?6 FROM job WHERE pos = ?7";
const OF_WAITING: &str = "INSERT INTO happened (mark, at, what, first, lane, kind, attempt, reason)
    SELECT ?1, ?2, ?3, id, lane, kind, attempt, ?4 FROM waiting WHERE id = ?5";
const OF_DEAD: &str = "INSERT INTO happened (mark, at, what, first, lane, kind, attempt)
    SELECT ?1, ?2, ?3, id, lane, kind, attempt FROM dead WHERE id = ?4";
const ENQUEUED: &str = "INSERT OR IGNORE INTO enqueued_range (first, last, at, lane, kind)
    SELECT pos & 35184372088831, pos & 35184372088831, enqueued_at, pos >> 45, kind FROM job WHERE pos = ?1 AND id IS NULL";
const WAIT: &str = "INSERT INTO enqueued_range (first, last, at, lane, kind) VALUES (?1, ?2, ?3, ?4, ?5)";
const STARTED: &str = "INSERT OR IGNORE INTO started_elsewhere (n, pos, job, kind, attempt)
    SELECT c.started, j.pos, coalesce(j.id, j.pos & 35184372088831), j.kind, j.attempt FROM job j
    CROSS JOIN (SELECT started, hi FROM claim WHERE lo <= ?1 ORDER BY lo DESC LIMIT 1) c
    WHERE j.pos = ?1 AND c.hi >= ?1 AND c.started IS NOT NULL";

impl Tx<'_> {
    /// A worker claimed a stretch of a lane. The number of the note.
    pub(crate) fn note_claim(&self, lo: i64, hi: i64, worker: i32) -> Outcome<i64> {
        self.conn.prepare_cached(CLAIMED)?.execute(params![self.mark(), self.now, lo, hi, worker])?;
        Ok(self.conn.last_insert_rowid())
    }

    /// What was left of a claim completed.
    pub(crate) fn note_rest(&self, lo: i64, hi: i64, worker: i32) -> Outcome<()> {
        self.conn.prepare_cached(RESTED)?.execute(params![self.mark(), self.now, lo, hi, worker])?;
        Ok(())
    }

    /// Jobs of a claim completed.
    pub(crate) fn note_range(&self, lo: i64, first: i64, last: i64, worker: i32) -> Outcome<()> {
        self.conn.prepare_cached(RANGE)?.execute(params![self.mark(), self.now, lo, first, last, worker])?;
        Ok(())
    }

    /// Something happened to a job of the log. `begun`: 1 for a job that was started.
    pub(crate) fn note_in_log(
        &self,
        pos: i64,
        what: EventType,
        worker: Option<i32>,
        begun: i64,
        reason: Option<&str>,
    ) -> Outcome<()> {
        let reason = reason.map(windlass_core::Limits::storable_error);
        let row = params![self.mark(), self.now, what.as_str(), worker, begun, reason, pos];
        self.conn.prepare_cached(OF_LOG)?.execute(row)?;
        Ok(())
    }

    /// Something happened to a job that waits.
    pub(crate) fn note_waiting(&self, id: i64, what: EventType, reason: Option<&str>) -> Outcome<()> {
        let row = params![self.mark(), self.now, what.as_str(), reason, id];
        self.conn.prepare_cached(OF_WAITING)?.execute(row)?;
        Ok(())
    }

    /// Something happened to a dead job.
    pub(crate) fn note_dead(&self, id: i64, what: EventType) -> Outcome<()> {
        self.conn.prepare_cached(OF_DEAD)?.execute(params![self.mark(), self.now, what.as_str(), id])?;
        Ok(())
    }

    /// Before a job's row leaves its place in the log: keeps what the log told of it.
    pub(crate) fn keep_told(&self, pos: i64) -> Outcome<()> {
        self.conn.prepare_cached(ENQUEUED)?.execute([pos])?;
        self.conn.prepare_cached(STARTED)?.execute([pos])?;
        Ok(())
    }

    /// Jobs `first` to `last` were enqueued for later, so that the log does not tell of them.
    pub(crate) fn note_scheduled(&self, first: i64, last: i64, lane: i32, kind: &str) -> Outcome<()> {
        self.conn.prepare_cached(WAIT)?.execute(params![first, last, self.now, lane, kind])?;
        Ok(())
    }
}
