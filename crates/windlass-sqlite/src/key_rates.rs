//! Rates of keys: what is held no more and still counts. A job of a key with a rate counts while it is held, and for the period after that.

use crate::{clock::Micros, error::Outcome};
use rusqlite::{Connection, Params, params};
use std::collections::HashMap;

/// The most rows that one transaction takes out of the counts.
pub(crate) const CHUNK: i64 = 10_000;
/// The most keys that one transaction lets go on, so that others need not wait long.
const DUE_CHUNK: usize = 5_000;

// The keys of which fewer are held, given as negative numbers. Of a key that is named its own limit says the period, of others that of every key.
macro_rules! ended {
    () => {
        "(SELECT c.key, -c.value AS jobs, CASE WHEN l.key IS NULL THEN d.period ELSE l.period END AS period FROM json_each(?2) c
        LEFT JOIN key_limit l ON l.queue = ?1 AND l.key = c.key LEFT JOIN key_limit d ON d.queue = ?1 AND d.key = '' WHERE c.value < 0)"
    };
}
// A period has 64 parts. What ends in the same part as another counts until the end of that part: so a key has few rows, however many transactions
// its jobs end in, and one whose jobs are rare does not wait longer than it must.
const NOTE: &str = concat!(
    "INSERT INTO key_ended (queue, key, free_at, jobs) SELECT ?1, key, CASE WHEN EXISTS (SELECT 1 FROM key_ended e
        WHERE e.queue = ?1 AND e.key = n.key AND e.free_at BETWEEN part_ends - part AND part_ends) THEN part_ends ELSE free_at END, jobs
    FROM (SELECT key, jobs, ?3 + period AS free_at, period / 64 AS part, ((?3 + period) / (period / 64) + 1) * (period / 64) AS part_ends FROM ",
    ended!(),
    ") n WHERE part > 0 ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs"
);
const COUNT: &str = concat!(
    "INSERT INTO key_ended_count (queue, key, jobs) SELECT ?1, key, jobs FROM ",
    ended!(),
    " WHERE period IS NOT NULL ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs"
);
const TOO_LONG: &str =
    "DELETE FROM key_ended WHERE queue = ?1 AND free_at > ?2 + (SELECT l.period FROM key_limit l
    WHERE l.queue = ?1 AND l.key IN (key_ended.key, '') ORDER BY l.key DESC LIMIT 1) RETURNING key, jobs";
const PAST: &str =
    "DELETE FROM key_ended WHERE (queue, key, free_at) IN (SELECT queue, key, free_at FROM key_ended
    WHERE queue = ?1 AND free_at <= ?2 ORDER BY free_at LIMIT ?3) RETURNING key, jobs";
// Each finds its row by its key. An UPDATE FROM reads the counts of all keys, and for each of them what is past.
const UNCOUNT: &str =
    "INSERT INTO key_ended_count (queue, key, jobs) SELECT ?1, key, -value FROM json_each(?2) WHERE true
    ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs";
const FORGET: &str =
    "DELETE FROM key_ended_count WHERE queue = ?1 AND jobs <= 0 AND key IN (SELECT key FROM json_each(?2))";
const LOOK_AGAIN: &str = "UPDATE key_turn SET state = 0, due = NULL, vt = max(vt, (SELECT l.vt FROM keyed_lane l WHERE l.n = key_turn.n))
    WHERE n IN (SELECT n FROM keyed_lane WHERE queue = ?1 AND NOT ended) AND key IN (SELECT key FROM json_each(?2)) AND +state = 1";
/// The lanes in which a key waits for its rate to allow more, found one after the other, whatever number of others there is.
macro_rules! waiting_lanes {
    () => {
        "WITH RECURSIVE lanes (n) AS (SELECT min(n) FROM key_turn INDEXED BY key_turn_due WHERE due IS NOT NULL
            UNION ALL SELECT (SELECT min(t.n) FROM key_turn t INDEXED BY key_turn_due WHERE t.due IS NOT NULL AND t.n > lanes.n)
            FROM lanes WHERE n IS NOT NULL) "
    };
}
const DUE_LANES: &str = concat!(
    waiting_lanes!(),
    "SELECT n FROM lanes WHERE (SELECT min(t.due) FROM key_turn t WHERE t.n = lanes.n AND t.due IS NOT NULL) <= ?1"
);
// Nothing is due twice, also where a key has no jobs any more.
const DUE: &str = "UPDATE key_turn SET due = NULL, state = CASE state WHEN 1 THEN 0 ELSE state END
    WHERE n = ?1 AND key IN (SELECT key FROM key_turn WHERE n = ?1 AND due <= ?2 ORDER BY due LIMIT ?3)";
const NEXT: &str =
    "SELECT min((SELECT min(t.due) FROM key_turn t WHERE t.n = k.n AND t.due IS NOT NULL)) FROM keyed_lane k
    WHERE k.queue = ?1 AND NOT k.ended";
/// When the rate of a key allows more, of every queue.
pub(crate) const NEXT_OF_ALL: &str = concat!(
    waiting_lanes!(),
    "SELECT min((SELECT min(t.due) FROM key_turn t WHERE t.n = lanes.n AND t.due IS NOT NULL)) FROM lanes"
);

/// Of these keys of a queue fewer jobs are held: those that have a rate count on.
pub(crate) fn note(conn: &Connection, queue: i64, held: &str, now: Micros) -> Outcome<()> {
    conn.prepare_cached(NOTE)?.execute(params![queue, held, now])?;
    conn.prepare_cached(COUNT)?.execute(params![queue, held])?;
    Ok(())
}

/// What ended a period ago counts no more: at most so many rows. How many there were, and whether a key that could not go on may now.
pub(crate) fn forget_past(conn: &Connection, queue: i64, now: Micros, most: i64) -> Outcome<(i64, bool)> {
    let (past, rows) = take(conn, PAST, params![queue, now, most])?;
    if past.is_empty() {
        return Ok((rows, false));
    }
    let past = serde_json::to_string(&past).unwrap_or_default(); // strings can be written
    conn.prepare_cached(UNCOUNT)?.execute(params![queue, past])?;
    conn.prepare_cached(FORGET)?.execute(params![queue, past])?;
    Ok((rows, conn.prepare_cached(LOOK_AGAIN)?.execute(params![queue, past])? > 0))
}

/// The clock was set back: what ended counts for a period from now at most. Whether a key that could not go on is worth a look.
/// Reads all that counts of the queue: about 65 rows at most of each key of which a job ended within the period.
pub(crate) fn shorten(conn: &Connection, queue: i64, now: Micros) -> Outcome<bool> {
    let (mut longer, _) = take(conn, TOO_LONG, params![queue, now])?;
    longer.values_mut().for_each(|jobs| *jobs = -*jobs);
    let longer = serde_json::to_string(&longer).unwrap_or_default();
    conn.prepare_cached(NOTE)?.execute(params![queue, longer, now])?;
    Ok(conn.prepare_cached(LOOK_AGAIN)?.execute(params![queue, longer])? > 0)
}

/// Takes rows out. How many jobs they had of each key, and how many rows there were.
fn take(conn: &Connection, sql: &str, params: impl Params) -> Outcome<(HashMap<String, i64>, i64)> {
    let (mut taken, mut count): (HashMap<String, i64>, i64) = (HashMap::new(), 0);
    let mut delete = conn.prepare_cached(sql)?;
    let mut rows = delete.query(params)?;
    while let Some(row) = rows.next()? {
        *taken.entry(row.get(0)?).or_default() += row.get::<_, i64>(1)?;
        count += 1;
    }
    Ok((taken, count))
}

/// Keys whose rate allows more by now may go on, so many of them. Whether there are any.
pub(crate) fn end_due(conn: &Connection, now: Micros) -> Outcome<bool> {
    let mut find = conn.prepare_cached(DUE_LANES)?;
    let lanes: Vec<i64> = find.query_map([now], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut left = DUE_CHUNK;
    for lane in lanes {
        left -= conn.prepare_cached(DUE)?.execute(params![lane, now, left as i64])?;
        if left == 0 {
            break;
        }
    }
    Ok(left < DUE_CHUNK)
}

/// When the rate of a key of this queue allows more of the jobs that wait for that.
pub(crate) fn next_due(conn: &Connection, queue: i64) -> Outcome<Option<Micros>> {
    Ok(conn.prepare_cached(NEXT)?.query_one([queue], |row| row.get(0))?)
}
