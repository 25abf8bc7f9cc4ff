//! Writes what changed of keys: how many of their jobs are held, and whose turn may come therefore.

use crate::{clock::Micros, error::Outcome, key_rates, keyed::Change};
use rusqlite::{Connection, params};
use std::collections::HashMap;

const COUNT: &str =
    "INSERT INTO key_held (queue, key, held, blockers) SELECT ?1, key, value, 0 FROM json_each(?2) WHERE true
    ON CONFLICT DO UPDATE SET held = held + excluded.held";
const COUNT_BLOCKERS: &str =
    "INSERT INTO key_held (queue, key, held, blockers) SELECT ?1, key, 0, value FROM json_each(?2) WHERE true
    ON CONFLICT DO UPDATE SET blockers = blockers + excluded.blockers";
const FORGET: &str = "DELETE FROM key_held WHERE queue = ?1 AND held <= 0 AND blockers <= 0 AND key IN (SELECT key FROM json_each(?2))";
// By the keys, not by how many cannot go on. Of a key that waits for a job of its own only the lane where this job is.
const LOOK_AGAIN: &str = "UPDATE key_turn SET state = 0, due = NULL, vt = max(vt, (SELECT l.vt FROM keyed_lane l WHERE l.n = key_turn.n))
    WHERE n IN (SELECT n FROM keyed_lane WHERE queue = ?1 AND NOT ended) AND key IN (SELECT key FROM json_each(?2)) AND +state = 1
    AND (NOT EXISTS (SELECT 1 FROM key_held h WHERE h.queue = ?1 AND h.key = key_turn.key AND h.blockers > 0)
        OR EXISTS (SELECT 1 FROM keyed_job j WHERE j.n = key_turn.n AND j.key = key_turn.key AND j.ord < 0))";

/// Writes the changes of a queue's keys; `ended_at`: where some of them has a rate, when what is held no more ended. Whether a key that could not go on may now.
pub(crate) fn write(
    conn: &Connection,
    queue: i64,
    changes: &HashMap<String, Change>,
    ended_at: Option<Micros>,
) -> Outcome<bool> {
    let object = |of: &dyn Fn(&Change) -> i64, wanted: &dyn Fn(i64) -> bool| {
        let numbers = changes.iter().map(|(key, change)| (key, of(change)));
        let numbers: HashMap<&String, i64> = numbers.filter(|(_, number)| wanted(*number)).collect();
        (!numbers.is_empty()).then(|| serde_json::to_string(&numbers).unwrap_or_default())
    };
    if let Some(held) = object(&|change| change.held, &|held| held != 0) {
        conn.prepare_cached(COUNT)?.execute(params![queue, held])?;
        if let Some(at) = ended_at {
            key_rates::note(conn, queue, &held, at)?;
        }
    }
    if let Some(blockers) = object(&|change| change.blockers, &|blockers| blockers != 0) {
        conn.prepare_cached(COUNT_BLOCKERS)?.execute(params![queue, blockers])?;
    }
    let Some(fewer) = object(&|change| change.held.min(change.blockers), &|least| least < 0) else {
        return Ok(false);
    };
    conn.prepare_cached(FORGET)?.execute(params![queue, fewer])?;
    Ok(conn.prepare_cached(LOOK_AGAIN)?.execute(params![queue, fewer])? > 0)
}
