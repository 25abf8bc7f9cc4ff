//! Moving jobs of a keyed lane to where they are handed out: its direct twin. A few statements, however many jobs.

use crate::{error::Outcome, keyed::KeyedLane, position, tx::Tx};
use rusqlite::params;

const TELL: &str = "INSERT OR IGNORE INTO enqueued_elsewhere (sequence, at, lane, kind)
    SELECT pos & 35184372088831, enqueued_at, pos >> 45, kind FROM job
    WHERE pos IN (SELECT value FROM json_each(?1)) AND id IS NULL";
const COPY: &str = "INSERT INTO job (pos, id, kind, args, attempt, max_attempts, crash_count, enqueued_at, attributes)
    SELECT ?2 + p.key, coalesce(j.id, j.pos & 35184372088831), j.kind, j.args, j.attempt, j.max_attempts, j.crash_count, j.enqueued_at, j.attributes
    FROM json_each(?1) p CROSS JOIN job j ON j.pos = p.value";
const REMOVE: &str = "DELETE FROM job WHERE pos IN (SELECT value FROM json_each(?1))";
const HOLD: &str =
    "INSERT INTO held_job (pos, job, queue, key) SELECT pos, id, ?3, attributes ->> '$.key' FROM job
    WHERE pos BETWEEN ?1 AND ?2 AND attributes ->> '$.key' IN (SELECT value FROM json_each(?4))";

/// Moves the jobs at `places`, in this order, and notes those of limited keys as held. Their new positions, the first and the last.
pub(crate) fn hand_out(
    tx: &mut Tx<'_>,
    lane: &KeyedLane,
    places: &[i64],
    limited: &[&str],
) -> Outcome<(i64, i64)> {
    let count = places.len() as i64;
    let first = position::at(position::direct(lane.lane), tx.hand_sequences(count)?);
    let last = first + count - 1;
    let places = serde_json::to_string(places).unwrap_or_default(); // numbers can be written
    tx.conn.prepare_cached(TELL)?.execute([&places])?;
    tx.conn.prepare_cached(COPY)?.execute(params![places, first])?;
    tx.conn.prepare_cached(REMOVE)?.execute([&places])?;
    if !limited.is_empty() {
        let limited = serde_json::to_string(limited).unwrap_or_default(); // strings can be written
        tx.conn.prepare_cached(HOLD)?.execute(params![first, last, lane.queue, limited])?;
    }
    Ok((first, last))
}
