//! Moving jobs of a keyed lane to where they are handed out: its direct twin. A few statements, however many jobs.

use crate::{error::Outcome, keyed::KeyedLane, position, tx::Tx};
use rusqlite::params;

const TELL: &str = "INSERT OR IGNORE INTO enqueued_range (first, last, at, lane, kind)
    SELECT job.pos & 35184372088831, job.pos & 35184372088831, job.enqueued_at, job.pos >> 45, job.kind
    FROM json_each(?1) p CROSS JOIN job ON job.pos = p.value WHERE job.id IS NULL";
const MOVE: &str = "UPDATE job SET pos = ?2 + p.key, id = coalesce(job.id, job.pos & 35184372088831)
    FROM json_each(?1) p WHERE job.pos = p.value";
const HOLD: &str = "INSERT INTO held_job (pos, job, queue, key) SELECT job.pos, job.id, ?2, k.value
    FROM json_each(?3) k CROSS JOIN job ON job.pos = ?1 + k.key WHERE k.type = 'text'";

/// Moves the jobs at `places`, in this order, and notes those as held that have a limited key in `limited`. Their new positions, the first
/// and the last.
pub(crate) fn hand_out(
    tx: &mut Tx<'_>,
    lane: &KeyedLane,
    places: &[i64],
    limited: &[Option<&str>],
) -> Outcome<(i64, i64)> {
    let count = places.len() as i64;
    let first = position::at(position::direct(lane.lane), tx.hand_sequences(count)?);
    let places = serde_json::to_string(places).unwrap_or_default(); // numbers can be written
    tx.conn.prepare_cached(TELL)?.execute([&places])?;
    tx.conn.prepare_cached(MOVE)?.execute(params![places, first])?;
    if limited.iter().any(Option::is_some) {
        let limited = serde_json::to_string(limited).unwrap_or_default(); // strings can be written
        tx.conn.prepare_cached(HOLD)?.execute(params![first, lane.queue, limited])?;
    }
    Ok((first, first + count - 1))
}
