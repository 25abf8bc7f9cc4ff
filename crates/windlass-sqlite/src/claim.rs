//! Claim: hand out the next stretch of a lane by moving its cursor; one small row per claim.
//!
//! A lane's rows are adjacent in the log and only ever appended behind the cursor, so the next rows are one
//! range scan that stops at the limit. Cancelled jobs are no longer there.

use crate::{
    clock::timestamp,
    error::Outcome,
    lease, parked, position,
    tx::{Count, Tx},
};
use bytes::Bytes;
use rusqlite::{Row, params, types::ValueRef};
use std::{collections::HashMap, sync::Arc};
use windlass_core::{Attributes, Claim, ClaimRequest, ClaimedJob, JobId, QueueDemand, WorkerId};

/// The most jobs of one claim; a larger demand gets several claims in turn, by calling again.
const CLAIM_MAX: u32 = 20_000;
/// A claim ends early when its args exceed this: its buffer lives as long as its last job.
const CLAIM_BYTES_MAX: usize = 64 * 1024 * 1024;

const LANES: &str =
    "SELECT lane.id, priority, cursor, available, parked FROM lane JOIN queue ON queue.id = lane.queue
    WHERE queue.name = ?1 AND NOT paused AND (available > 0 OR parked > 0) ORDER BY priority";
const NEXT: &str =
    "SELECT pos, id, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes FROM job
    WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos LIMIT ?3";
const RECORD: &str = "INSERT INTO claim (lo, hi, token, worker, moved, open, completed, claimed_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7)";

struct Lane {
    id: i32,
    priority: i16,
    cursor: i64,
    available: i64,
    parked: i64,
}

/// Hands out jobs to a live worker.
pub(crate) fn claim(tx: &mut Tx<'_>, request: &ClaimRequest) -> Outcome<Vec<Claim>> {
    tx.fence(request.worker)?;
    tx.flush()?;
    let mut claims = Vec::new();
    for demand in request.queues.iter().filter(|demand| demand.limit > 0) {
        claim_queue(tx, request.worker, demand, &mut claims)?;
    }
    Ok(claims)
}

fn claim_queue(
    tx: &mut Tx<'_>,
    worker: WorkerId,
    demand: &QueueDemand,
    claims: &mut Vec<Claim>,
) -> Outcome<()> {
    let mut left = demand.limit.min(CLAIM_MAX);
    for lane in lanes(tx, &demand.queue)? {
        if lane.parked > 0 {
            let direct = parked::unpark(tx, worker, lane.id, left)?;
            left -= hand_out(tx, worker, demand, &lane, direct, left, claims)?;
        }
        if left > 0 && lane.available > 0 {
            let ahead = Some((lane.cursor + 1, position::at(lane.id, position::SEQUENCE_MAX)));
            left -= hand_out(tx, worker, demand, &lane, ahead, left, claims)?;
        }
        if left == 0 {
            break;
        }
    }
    Ok(())
}

fn lanes(tx: &Tx<'_>, queue: &str) -> Outcome<Vec<Lane>> {
    let mut find = tx.conn.prepare_cached(LANES)?;
    let rows = find.query_map([queue], |row| {
        Ok(Lane {
            id: row.get(0)?,
            priority: row.get(1)?,
            cursor: row.get(2)?,
            available: row.get(3)?,
            parked: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Claims the first jobs of a range of positions. Returns how many.
fn hand_out(
    tx: &mut Tx<'_>,
    worker: WorkerId,
    demand: &QueueDemand,
    lane: &Lane,
    range: Option<(i64, i64)>,
    limit: u32,
    claims: &mut Vec<Claim>,
) -> Outcome<u32> {
    let Some(range) = range else { return Ok(0) };
    let (jobs, lo, hi) = read(tx, range, limit)?;
    if jobs.is_empty() {
        return Ok(0);
    }
    let count = jobs.len() as u32;
    let token = fastrand::i32(..);
    let moved = jobs.iter().any(|job| job.id.0 != position::sequence_of(job.position));
    let row = params![lo, hi, token, worker.0, moved, count, tx.now];
    tx.conn.prepare_cached(RECORD)?.execute(row)?;
    if position::lane_of(lo) == lane.id {
        tx.conn.prepare_cached("UPDATE lane SET cursor = ?2 WHERE id = ?1")?.execute(params![lane.id, hi])?;
    }
    tx.count(lane.id, Count::Available, -i64::from(count));
    tx.count(lane.id, Count::Running, i64::from(count));
    let reference = lease::reference(lo, token);
    claims.push(Claim { reference, queue: Arc::clone(&demand.queue), priority: lane.priority, jobs });
    Ok(count)
}

/// Reads jobs into one shared buffer. Returns them with the first and the last position.
fn read(tx: &Tx<'_>, (from, to): (i64, i64), limit: u32) -> Outcome<(Vec<ClaimedJob>, i64, i64)> {
    let mut next = tx.conn.prepare_cached(NEXT)?;
    let mut rows = next.query(params![from, to, limit])?;
    let mut jobs = Vec::with_capacity(limit.min(CLAIM_MAX) as usize);
    let (mut buffer, mut ends, mut kinds) = (Vec::new(), Vec::new(), Kinds::default());
    while buffer.len() < CLAIM_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        buffer.extend_from_slice(row.get_ref(3)?.as_bytes().map_err(rusqlite::Error::from)?);
        ends.push(buffer.len());
        jobs.push(job(row, &mut kinds)?);
    }
    let (buffer, mut start) = (Bytes::from(buffer), 0);
    for (job, end) in jobs.iter_mut().zip(ends) {
        job.args = buffer.slice(start..end);
        start = end;
    }
    let lo = jobs.first().map_or(0, |job| job.position);
    let hi = jobs.last().map_or(0, |job| job.position);
    Ok((jobs, lo, hi))
}

fn job(row: &Row<'_>, kinds: &mut Kinds) -> Outcome<ClaimedJob> {
    let position: i64 = row.get(0)?;
    let kind = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
    Ok(ClaimedJob {
        id: JobId(row.get::<_, Option<i64>>(1)?.unwrap_or(position::sequence_of(position))),
        position,
        kind: kinds.share(kind),
        args: Bytes::new(),
        attempt: row.get::<_, u16>(4)?.saturating_add(1),
        max_attempts: row.get(5)?,
        crash_count: row.get(6)?,
        enqueued_at: timestamp(row.get(7)?),
        attributes: match row.get_ref(8)? {
            ValueRef::Null => None,
            text => Attributes::from_store(text.as_str().map_err(rusqlite::Error::from)?)?,
        },
    })
}

/// The kinds of a batch, each allocated once. The last one is asked first.
#[derive(Default)]
struct Kinds {
    last: Option<Arc<str>>,
    all: HashMap<Box<str>, Arc<str>>,
}

impl Kinds {
    fn share(&mut self, kind: &str) -> Arc<str> {
        if let Some(last) = &self.last
            && **last == *kind
        {
            return Arc::clone(last);
        }
        let shared = match self.all.get(kind) {
            Some(shared) => Arc::clone(shared),
            None => Arc::clone(self.all.entry(kind.into()).or_insert_with(|| kind.into())),
        };
        self.last = Some(Arc::clone(&shared));
        shared
    }
}
