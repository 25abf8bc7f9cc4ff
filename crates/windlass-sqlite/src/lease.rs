//! A claim while jobs of it are open, and what handing them back does.

use crate::{
    cancel_request,
    clock::Micros,
    error::Outcome,
    moves::{self, Dead, End},
    position,
    room::Room,
    tx::{Count, Tx},
};
use rusqlite::{Row, params};
use windlass_core::{ClaimRef, Disposition, EventType, JobId, WorkerId};

const FIND: &str = "SELECT lo, hi, worker, open, completed, claimed_at, moved FROM claim WHERE lo = ?1 AND token = ?2 AND worker = ?3";
const OPEN_OF: &str =
    "SELECT lo, hi, worker, open, completed, claimed_at, moved FROM claim WHERE worker = ?1 AND open > 0";
const SAVE: &str = "UPDATE claim SET open = ?2, completed = ?3, finished_at = ?4, changed = (SELECT max(n) FROM happened) WHERE lo = ?1";
const COVERING: &str =
    "SELECT last FROM settlement WHERE claim = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1";
// Reads neither the args, which may be large, nor what is stored after them: of jobs that completed, too.
const ROWS: &str =
    "SELECT pos, coalesce(id, pos & 35184372088831), octet_length(args) FROM job WHERE pos BETWEEN ?1 AND ?2";
const CRASHES: &str = "SELECT crash_count FROM job WHERE pos = ?1";

/// A claim's row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) lo: i64,
    pub(crate) hi: i64,
    pub(crate) worker: i32,
    /// Jobs that are not settled.
    pub(crate) open: i64,
    pub(crate) completed: i64,
    pub(crate) claimed_at: Micros,
    /// Whether some of its jobs are not where they were first appended.
    pub(crate) moved: bool,
}

/// What becomes of a job that is taken from its worker.
pub(crate) enum HandBack {
    /// Available again, with this many more crashes.
    Available { crashes: u16 },
    /// Dead, because so many workers died of it.
    CrashLoop { workers: u16 },
}

/// A job that is taken from its worker.
pub(crate) struct OpenJob {
    pub(crate) id: JobId,
    pub(crate) crash_count: u16,
}

/// The name of a claim: its random token, and its first position.
pub(crate) fn reference(lo: i64, token: i32) -> ClaimRef {
    ClaimRef(token.cast_unsigned().into(), lo.cast_unsigned())
}

impl Lease {
    /// The claim, if it is this worker's and carries this token.
    pub(crate) fn find(tx: &Tx<'_>, worker: WorkerId, claim: ClaimRef) -> Outcome<Option<Self>> {
        let mut find = tx.conn.prepare_cached(FIND)?;
        let mut rows =
            find.query(params![claim.1.cast_signed(), (claim.0 as u32).cast_signed(), worker.0])?;
        Ok(rows.next()?.map(Self::of).transpose()?)
    }

    /// Every claim of a worker with open jobs.
    pub(crate) fn open_of(tx: &Tx<'_>, worker: WorkerId) -> Outcome<Vec<Self>> {
        let mut find = tx.conn.prepare_cached(OPEN_OF)?;
        Ok(find.query_map([worker.0], Self::of)?.collect::<Result<_, _>>()?)
    }

    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            lo: row.get(0)?,
            hi: row.get(1)?,
            worker: row.get(2)?,
            open: row.get(3)?,
            completed: row.get(4)?,
            claimed_at: row.get(5)?,
            moved: row.get(6)?,
        })
    }

    pub(crate) fn lane(&self) -> i32 {
        position::lane_of(self.lo)
    }

    /// Whether a settlement of a part of this claim names the job.
    pub(crate) fn is_settled(&self, tx: &Tx<'_>, job: i64) -> Outcome<bool> {
        let mut find = tx.conn.prepare_cached(COVERING)?;
        let mut rows = find.query(params![self.lo, job])?;
        Ok(rows.next()?.map(|row| row.get::<_, i64>(0)).transpose()?.is_some_and(|last| last >= job))
    }

    /// Counts `jobs` open ones as completed.
    pub(crate) fn complete(&mut self, tx: &mut Tx<'_>, jobs: i64) {
        self.open -= jobs;
        self.completed += jobs;
        tx.count(self.lane(), Count::Running, -jobs);
        tx.count(self.lane(), Count::Completed, jobs);
    }

    /// Counts one open job as gone from the log.
    pub(crate) fn release(&mut self, tx: &mut Tx<'_>) {
        self.open -= 1;
        tx.count(self.lane(), Count::Running, -1);
    }

    /// Writes the counts.
    pub(crate) fn save(&self, tx: &Tx<'_>) -> Outcome<()> {
        debug_assert!(self.open >= 0, "a claim has fewer than no open jobs");
        let finished_at = (self.open == 0).then_some(tx.now);
        tx.conn.prepare_cached(SAVE)?.execute(params![self.lo, self.open, self.completed, finished_at])?;
        Ok(())
    }

    /// Jobs that are not settled, as many as there is room for: where they are, and their ids.
    fn open_jobs(&self, tx: &Tx<'_>, room: &mut Room) -> Outcome<Vec<(i64, JobId)>> {
        let mut find = tx.conn.prepare_cached(ROWS)?;
        let mut rows = find.query([self.lo, self.hi])?;
        let mut jobs = Vec::new();
        while !room.is_used_up()
            && let Some(row) = rows.next()?
        {
            let id = row.get(1)?;
            if self.completed == 0 || !self.is_settled(tx, id)? {
                room.take(row.get(2)?);
                jobs.push((row.get(0)?, JobId(id)));
            }
        }
        Ok(jobs)
    }

    /// Takes every open job from the worker, or as many as there is room for. Returns how many went back and how many died; those that were to be
    /// cancelled are neither. `told`: what happened to those that went back.
    pub(crate) fn hand_back(
        &mut self,
        tx: &mut Tx<'_>,
        told: EventType,
        room: &mut Room,
        decide: impl Fn(&OpenJob) -> HandBack,
    ) -> Outcome<(u64, u64)> {
        let (mut back, mut dead) = (0, 0);
        let worker = Some(self.worker);
        for (pos, id) in self.open_jobs(tx, room)? {
            let crash_count = tx.conn.prepare_cached(CRASHES)?.query_one([pos], |row| row.get(0))?;
            let job = OpenJob { id, crash_count };
            let decided = decide(&job);
            match decided {
                _ if cancel_request::take(tx, job.id)? => {
                    let crashes = if let HandBack::Available { crashes } = decided { crashes } else { 1 };
                    let claimed = Some((self.claimed_at, self.worker));
                    let reason = Disposition::BY_REQUEST;
                    let end = End { state: Dead::Cancelled, reason, claimed, attempts: 1, crashes };
                    moves::bury(tx, pos, &end)?;
                }
                HandBack::Available { crashes } => {
                    tx.note_in_log(pos, told, worker, 1, None)?;
                    moves::append_again(tx, pos, crashes)?;
                    back += 1;
                }
                HandBack::CrashLoop { workers } => {
                    let claimed = Some((self.claimed_at, self.worker));
                    let reason = &Disposition::crash_loop(workers);
                    let end = End { state: Dead::Discarded, reason, claimed, attempts: 1, crashes: 1 };
                    moves::bury(tx, pos, &end)?;
                    dead += 1;
                }
            }
            self.release(tx);
        }
        self.save(tx)?;
        Ok((back, dead))
    }
}

/// Gives jobs of a claim back, as many as there is room for, because its caller was gone before it could take it. Whether there are more. Unknown claims
/// are ignored.
pub(crate) fn give_back(tx: &mut Tx<'_>, worker: WorkerId, claim: ClaimRef, mut room: Room) -> Outcome<bool> {
    let Some(mut lease) = Lease::find(tx, worker, claim)? else { return Ok(false) };
    let open = lease.open;
    if open > 0 {
        lease.hand_back(tx, EventType::Returned, &mut room, |_| HandBack::Available { crashes: 0 })?;
    }
    Ok(lease.open > 0 && lease.open < open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{enqueue::Batch, traced::Traced};
    use windlass_core::{Args, NewJob};

    /// Others wait meanwhile.
    #[test]
    fn a_claim_that_nobody_took_goes_back_in_parts() {
        let mut store = Traced::new();
        let batch = Batch::pack(&vec![NewJob::new("test", Args::parse("{}").unwrap()); 5]);
        store.run(|tx| batch.append(tx));
        let (claims, _) = store.claim(5);
        let (worker, claim) = (store.worker, claims[0].reference);
        for more in [true, true, false, false] {
            assert_eq!(store.run(|tx| give_back(tx, worker, claim, Room::of_jobs(2))).0, more);
        }
        let (claims, _) = store.claim(9);
        assert_eq!(claims.iter().map(|claim| claim.jobs.len()).sum::<usize>(), 5);
    }
}
