//! Claim: hand out the next stretch of a lane by moving its cursor; one small row per claim.
//!
//! A lane's rows are adjacent in the log and only ever appended behind the cursor, so the next rows are one
//! range scan that stops at the limit. Cancelled jobs are no longer there.

use crate::{
    claim_rows,
    clock::{timestamp, until},
    error::Outcome,
    key_claim, key_rates,
    lanes::{self, Lane},
    lease, no_handler, position, slots,
    tx::{Count, Tx},
};
use rusqlite::params;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use windlass_core::{Claim, ClaimRequest, Claimed, QueueDemand, WorkerId};

/// The most jobs of one claim; a larger demand gets several claims in turn, by calling again.
const CLAIM_MAX: u32 = 20_000;
/// A claim ends early when its args exceed this: its buffer lives as long as its last job.
const CLAIM_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most jobs of one claim that take their turns by keys, each of which costs several times what others do, and about the most keys that it looks at.
const TURNS_MAX: u32 = 5_000;

/// One transaction asks no further queue after so many claims, or so long: others wait. A claim takes some 0.1 ms, one of a keyed queue up to many milliseconds.
const CLAIMS_MAX: usize = 200;
const TIME_MAX: Duration = Duration::from_millis(20);

/// How often one claim looks for more turns in a keyed lane.
const ROUNDS: u32 = 16;

const RECORD: &str =
    "INSERT INTO claim (lo, hi, token, worker, moved, open, completed, claimed_at, started, changed)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?8)";

/// What one queue may still hand out, and what was handed out.
struct Round<'a> {
    worker: WorkerId,
    demand: &'a QueueDemand,
    left: u32,
    bytes: usize,
    claimed: &'a mut Claimed,
}

/// Hands out jobs of some queues to a live worker: from this one on, as many as one transaction may ask. The next one, if that was not the last.
pub(crate) fn claim(
    tx: &mut Tx<'_>,
    request: &ClaimRequest,
    from: usize,
) -> Outcome<(Claimed, Option<usize>)> {
    let began = Instant::now();
    tx.fence(request.worker)?;
    tx.flush()?;
    let mut claimed = Claimed::default();
    let queues = || request.queues.iter().enumerate().skip(from);
    let with_work = lanes::with_work(tx, queues().len())?;
    let may_have_work = |demand: &QueueDemand| {
        demand.limit > 0 && with_work.as_ref().is_none_or(|queues| queues.contains(&*demand.queue))
    };
    for (nth, demand) in queues().filter(|(_, demand)| may_have_work(demand)) {
        if nth > from && (claimed.claims.len() >= CLAIMS_MAX || began.elapsed() > TIME_MAX) {
            return Ok((claimed, Some(nth)));
        }
        let round = Round {
            worker: request.worker,
            demand,
            left: demand.limit.min(CLAIM_MAX),
            bytes: usize::try_from(demand.max_bytes).unwrap_or(usize::MAX).min(CLAIM_BYTES_MAX),
            claimed: &mut claimed,
        };
        round.run(tx)?;
    }
    Ok((claimed, None))
}

impl Round<'_> {
    fn run(mut self, tx: &mut Tx<'_>) -> Outcome<()> {
        let mut lanes = lanes::of_queue(tx, &self.demand.queue)?;
        if let Some(lane) = lanes.first().filter(|lane| lane.limited)
            && !slots::has(tx, lane.queue, self.worker)?
        {
            self.claimed.limited.push(Arc::clone(&self.demand.queue));
            return Ok(());
        }
        let rates = lanes.first().map(|lane| lane.queue).filter(|queue| tx.keyed().has_rates(*queue));
        if let Some(queue) = rates {
            key_rates::forget_past(tx.conn, queue, tx.now, key_rates::CHUNK)?;
        }
        let (before, share) = (self.left, (self.left / 16).max(1));
        for nth in lanes::starving(tx, &lanes)? {
            self.serve(tx, &mut lanes[nth], share)?;
            // Its jobs may be of kinds that the worker does not know, or all have to wait for others of their keys.
            if self.left < before {
                break;
            }
        }
        for lane in &mut lanes {
            self.serve(tx, lane, self.left)?;
        }
        if let Some(queue) = rates {
            let due = key_rates::next_due(tx.conn, queue)?;
            let due = due.map(|at| until(at, tx.now));
            self.claimed.next_due = self.claimed.next_due.into_iter().chain(due).min();
        }
        Ok(())
    }

    /// Claims jobs of a lane, at most `most`.
    fn serve(&mut self, tx: &mut Tx<'_>, lane: &mut Lane, most: u32) -> Outcome<()> {
        if lane.keyed {
            return self.hand_out_by_keys(tx, lane, most);
        }
        let end = self.left.saturating_sub(most);
        if self.left > end && lane.no_handler > 0 {
            // All jobs that were moved must be handed out, so they are few, whatever their size.
            let most = (self.left - end).min(no_handler::MOST);
            if let Some(range) =
                no_handler::append_known(tx, self.worker, lane.id, position::direct(lane.id), most)?
            {
                self.claimed.contended |=
                    self.hand_out(tx, lane, range, most, usize::MAX)? == no_handler::MOST;
            }
        }
        if self.left > end && lane.available > 0 {
            self.hand_out(tx, lane, lane.ahead(), self.left - end, self.bytes)?;
        }
        Ok(())
    }

    /// Claims jobs of a keyed lane, at most `most`. One claim for each round: those whose keys have fewer jobs than their share leave the rest to others.
    fn hand_out_by_keys(&mut self, tx: &mut Tx<'_>, lane: &mut Lane, most: u32) -> Outcome<()> {
        if self.left == 0 {
            return Ok(());
        }
        if lane.no_handler > 0 {
            // They take their turns like others.
            no_handler::append_known(tx, self.worker, lane.id, lane.id, most.min(no_handler::MOST))?;
            tx.flush()?;
        }
        let Some(keyed) = key_claim::entered(tx, lane)? else {
            self.claimed.contended = true;
            return Ok(());
        };
        let end = self.left.saturating_sub(most.min(TURNS_MAX));
        let mut looked_at = 0;
        for round in 1..=ROUNDS {
            let chosen = key_claim::choose(tx, &keyed, self.left - end, self.bytes)?;
            looked_at += chosen.looked_at;
            if let Some(range) = chosen.range {
                self.hand_out(tx, lane, range, chosen.count, usize::MAX)?;
            }
            if chosen.cut {
                (self.left, self.claimed.contended) = (0, true);
            }
            if !chosen.more || self.left <= end {
                break;
            }
            // After a change of limits all keys are worth a look, and none may have a job.
            if round == ROUNDS || looked_at >= TURNS_MAX {
                self.claimed.contended = true;
                break;
            }
        }
        if most > TURNS_MAX && self.left <= end {
            // The rest is before what other lanes have.
            (self.left, self.claimed.contended) = (0, true);
        }
        Ok(())
    }

    /// Claims the first jobs of a range of positions. Returns how many.
    fn hand_out(
        &mut self,
        tx: &mut Tx<'_>,
        lane: &mut Lane,
        range: (i64, i64),
        limit: u32,
        bytes: usize,
    ) -> Outcome<u32> {
        let batch = claim_rows::read(tx, range, limit, bytes)?;
        let (Some(first), Some(last)) = (batch.jobs.first(), batch.jobs.last()) else { return Ok(0) };
        let (lo, hi, count) = (first.position, last.position, batch.jobs.len() as u32);
        let token = fastrand::i32(..);
        let moved = batch.jobs.iter().any(|job| job.id.0 != position::sequence_of(job.position));
        let started = tx.note_claim(lo, hi, self.worker.0)?;
        let row = params![lo, hi, token, self.worker.0, moved, count, tx.now, started];
        tx.conn.prepare_cached(RECORD)?.execute(row)?;
        if position::lane_of(lo) == lane.id {
            tx.conn
                .prepare_cached("UPDATE lane SET cursor = ?2 WHERE id = ?1")?
                .execute(params![lane.id, hi])?;
            lane.cursor = hi;
        }
        tx.count(lane.id, Count::Available, -i64::from(count));
        tx.count(lane.id, Count::Running, i64::from(count));
        self.left = if batch.cut { 0 } else { self.left - count };
        self.bytes = self.bytes.saturating_sub(batch.bytes);
        self.claimed.contended |= batch.cut;
        self.claimed.claims.push(Claim {
            reference: lease::reference(lo, token),
            queue: Arc::clone(&self.demand.queue),
            priority: lane.priority,
            claimed_at: Some(timestamp(tx.now)),
            jobs: batch.jobs,
        });
        Ok(count)
    }
}
