//! Entering the jobs of a keyed lane by their keys.

use crate::{error::Outcome, keyed::KeyedLane, position};
use rusqlite::{Connection, params};
use std::collections::{HashMap, HashSet};

/// The most jobs that a claim enters beyond those that its own transaction appended: a few tens of milliseconds.
pub(crate) const CHUNK: i64 = 10_000;

const STATE: &str = "SELECT entered, coalesce((SELECT max(pos) FROM job WHERE pos BETWEEN ?2 AND ?3), 0) FROM keyed_lane WHERE n = ?1";
// Where a job stands in the order is said in keyed_job's definition; only a job that was moved can have been handed out.
const ENTER: &str = "INSERT OR REPLACE INTO keyed_job (n, key, ord, pos)
    SELECT ?1, coalesce(attributes ->> '$.key', ''), CASE WHEN id IS NULL THEN pos & 35184372088831
        WHEN EXISTS (SELECT 1 FROM key_blocker WHERE job = id AND queue = ?5) THEN id - 35184372088832
        WHEN attributes ->> '$.key' IS NULL THEN pos & 35184372088831 ELSE id END, pos
    FROM job WHERE pos BETWEEN ?2 AND ?3 ORDER BY pos LIMIT ?4 RETURNING key, ord, pos";
const ENTERED: &str = "UPDATE keyed_lane SET entered = ?2 WHERE n = ?1";
const TURNS: &str = "INSERT INTO key_turn (n, key, vt, state)
    SELECT l.n, k.key, l.vt, 0 FROM keyed_lane l CROSS JOIN json_each(?2) k WHERE l.n = ?1
    ON CONFLICT DO UPDATE SET vt = max(vt, excluded.vt), state = 0, due = NULL WHERE state = 2";
const RETURNED: &str =
    "UPDATE key_turn SET vt = max(vt, (SELECT vt FROM keyed_lane WHERE n = ?1)), state = 0, due = NULL
    WHERE n = ?1 AND +state > 0 AND key IN (SELECT key FROM json_each(?2))";

/// Enters at most `most` jobs, in the order of the log. Whether all are entered.
pub(crate) fn enter(conn: &Connection, lane: &KeyedLane, most: i64) -> Outcome<bool> {
    let (first, end) = (position::at(lane.lane, 0), position::at(lane.lane, position::SEQUENCE_MAX));
    let (entered, last): (i64, i64) =
        conn.prepare_cached(STATE)?.query_one([lane.n, first, end], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if last <= entered {
        return Ok(true);
    }
    let (mut keys, mut returned, mut reached) = (HashSet::new(), HashSet::new(), entered);
    {
        let mut enter = conn.prepare_cached(ENTER)?;
        let mut rows = enter.query(params![lane.n, entered + 1, end, most, lane.queue])?;
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            if !keys.contains(key) {
                keys.insert(key.to_owned());
            }
            if row.get::<_, i64>(1)? < 0 {
                returned.insert(key.to_owned());
            }
            reached = reached.max(row.get(2)?);
        }
    }
    conn.prepare_cached(ENTERED)?.execute([lane.n, reached])?;
    conn.prepare_cached(TURNS)?.execute(params![lane.n, object(keys)])?;
    if !returned.is_empty() {
        conn.prepare_cached(RETURNED)?.execute(params![lane.n, object(returned)])?;
    }
    Ok(reached >= last)
}

fn object(keys: HashSet<String>) -> String {
    let keys: HashMap<String, u8> = keys.into_iter().map(|key| (key, 0)).collect();
    serde_json::to_string(&keys).unwrap_or_default() // strings can be written
}
