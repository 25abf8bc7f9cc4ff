//! Of numbers whose jobs have all left the place where they were appended nobody has to know the lane.

use crate::{
    error::Outcome,
    number_lanes::{read, stretches},
    tx::Tx,
};
use rusqlite::Connection;

/// The most rows that one transaction looks at, with a look into the log for each of their stretches.
const CHUNK: usize = 50;

// The newest row stays: nothing says where it ends. What can be told of as events is not looked at: its jobs are there, mostly.
const ROWS: &str = "SELECT first, stretches, (SELECT min(next.first) FROM number_lane next WHERE next.first > n.first) - 1 AS last FROM number_lane n
    WHERE first > (SELECT lanes_checked FROM log_state) AND first <= (SELECT kept_sequence FROM event_log)
    AND last <= (SELECT kept_sequence FROM event_log) ORDER BY first LIMIT ?1";
const IS_THERE: &str = "SELECT 1 FROM job WHERE pos BETWEEN ?1 AND ?2";
const CHECKED: &str = "UPDATE log_state SET lanes_checked = ?1 WHERE lanes_checked <> ?1";

/// Removes a chunk. Whether there may be more: where jobs are still there a round goes on where the one before ended.
pub(crate) fn forget(tx: &Tx<'_>) -> Outcome<bool> {
    let mut find = tx.conn.prepare_cached(ROWS)?;
    let rows = find.query_map([CHUNK as i64], |row| {
        Ok((row.get::<_, i64>(0)?, read(row.get_ref(1)?.as_blob()?), row.get::<_, i64>(2)?))
    })?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let mut removed = false;
    for (first, begins, last) in &rows {
        if !any_there(tx.conn, begins, (*first, *last))? {
            tx.conn.prepare_cached("DELETE FROM number_lane WHERE first = ?1")?.execute([first])?;
            removed = true;
        }
    }
    let is_full = rows.len() == CHUNK;
    let checked = rows.last().filter(|_| is_full).map_or(0, |(first, ..)| *first);
    tx.conn.prepare_cached(CHECKED)?.execute([checked])?;
    Ok(is_full && removed)
}

fn any_there(conn: &Connection, begins: &[i64], numbers: (i64, i64)) -> Outcome<bool> {
    let mut find = conn.prepare_cached(IS_THERE)?;
    for stretch in stretches(begins, numbers) {
        if find.exists(stretch.positions())? {
            return Ok(true);
        }
    }
    Ok(false)
}
