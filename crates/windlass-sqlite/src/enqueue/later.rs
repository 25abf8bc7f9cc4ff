//! Jobs of a batch that wait for their time: a row for each, and one for all of a lane and kind whose ids follow one another, by which events tell that they
//! were enqueued.

use super::{Batch, Packed};
use crate::{
    clock::Micros,
    error::Outcome,
    tx::{Count, Tx},
};
use rusqlite::CachedStatement;

const WAIT: &str = "INSERT INTO waiting (id, lane, state, available_at, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes)
    VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, ?6, 0, ?7, ?8)";

/// Stores them one after the other.
pub(super) struct Later<'b, 'c> {
    batch: &'b Batch,
    lanes: &'b [i32],
    /// Bindings stay from row to row.
    wait: CachedStatement<'c>,
    /// Those that were stored last.
    last: Option<Stretch>,
}

/// Jobs with consecutive ids.
struct Stretch {
    first: i64,
    last: i64,
    /// Of all of them, as of each.
    lane: usize,
    kind: usize,
}

impl Stretch {
    /// Whether this job is the next of them.
    fn goes_on(&self, id: i64, job: &Packed) -> bool {
        id == self.last + 1 && (self.lane, self.kind) == (job.lane, job.kind)
    }
}

impl<'b, 'c> Later<'b, 'c> {
    pub(super) fn new(tx: &Tx<'c>, batch: &'b Batch, lanes: &'b [i32]) -> Outcome<Self> {
        let mut wait = tx.conn.prepare_cached(WAIT)?;
        wait.raw_bind_parameter(7, tx.now)?;
        wait.raw_bind_parameter(8, None::<&str>)?;
        Ok(Self { batch, lanes, wait, last: None })
    }

    /// Stores a job that waits until then.
    pub(super) fn add(
        &mut self,
        tx: &mut Tx<'_>,
        id: i64,
        at: Micros,
        job: &Packed,
        args: &str,
    ) -> Outcome<()> {
        match &mut self.last {
            Some(last) if last.goes_on(id, job) => last.last = id,
            _ => {
                self.end(tx)?;
                self.last = Some(Stretch { first: id, last: id, lane: job.lane, kind: job.kind });
                self.wait.raw_bind_parameter(2, self.lanes[job.lane])?;
                self.wait.raw_bind_parameter(4, self.batch.kinds[job.kind].as_str())?;
            }
        }
        self.wait.raw_bind_parameter(1, id)?;
        self.wait.raw_bind_parameter(3, at)?;
        self.wait.raw_bind_parameter(5, args)?;
        self.wait.raw_bind_parameter(6, job.max_attempts)?;
        if self.batch.attributed {
            self.wait.raw_bind_parameter(8, job.stored_attributes(tx.now))?;
        }
        self.wait.raw_execute()?;
        Ok(())
    }

    /// Counts and notes those that were stored last.
    pub(super) fn end(&mut self, tx: &mut Tx<'_>) -> Outcome<()> {
        let Some(Stretch { first, last, lane, kind }) = self.last.take() else { return Ok(()) };
        tx.count(self.lanes[lane], Count::Scheduled, last - first + 1);
        tx.note_scheduled(first, last, self.lanes[lane], &self.batch.kinds[kind])
    }
}
