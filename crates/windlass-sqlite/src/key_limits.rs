//! Limits of keys: setting and reading them.

use crate::{error::Outcome, key_entry, keyed::Keyed, position, tx::Tx};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;
use windlass_core::{KeyLimit, KeyLimits, KeyLimitsChange, RateLimit};

const FIND: &str = "SELECT id, keyed FROM queue WHERE name = ?1";
const READ: &str = "SELECT key, concurrency, serial, weight, rate, period FROM key_limit WHERE queue = ?1";
const SET: &str = "INSERT INTO key_limit (queue, key, concurrency, serial, weight, rate, period) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT DO UPDATE SET concurrency = ?3, serial = ?4, weight = ?5, rate = ?6, period = ?7
    WHERE (concurrency, serial, weight, rate, period) IS NOT (?3, ?4, ?5, ?6, ?7)";
const UNSET: &str = "DELETE FROM key_limit WHERE queue = ?1 AND key = ?2";
const BEGIN: &str = "UPDATE queue SET keyed = 1, paused = paused + 2 WHERE id = ?1";
const END: &str = "UPDATE queue SET keyed = 0, rates = 0, paused = paused NOT IN (0, 2, 11) WHERE id = ?1";
/// Whether some key has a rate, if that changed. To programs that know no rates it is paused then.
const RATES: &str = "UPDATE queue SET rates = NOT rates,
    paused = CASE WHEN rates THEN 2 ELSE 11 END + CASE WHEN paused NOT IN (0, 2, 11) THEN CASE WHEN rates THEN 1 ELSE 4 END ELSE 0 END
    WHERE id = ?1 AND rates <> EXISTS (SELECT 1 FROM key_limit WHERE queue = ?1 AND rate IS NOT NULL)";
/// Whether a key is serial, and whether how many are held of it is limited: of its own limits, or of those of every key.
const OF_KEY: &str = "coalesce((SELECT {} FROM key_limit l WHERE l.queue = ?1 AND l.key = {}), (SELECT {} FROM key_limit l WHERE l.queue = ?1 AND l.key = ''))";
const HELD: &str = "INSERT OR IGNORE INTO held_job (pos, job, queue, key)
    SELECT j.pos, coalesce(j.id, j.pos & 35184372088831), ?1, j.attributes ->> '$.key'
    FROM claim c INDEXED BY claim_open CROSS JOIN job j ON j.pos BETWEEN c.lo AND c.hi
    WHERE c.open > 0 AND c.lo BETWEEN ?2 AND ?3 AND j.attributes ->> '$.key' IS NOT NULL AND {limited}
    AND coalesce((SELECT s.last FROM settlement s WHERE s.claim = c.lo AND s.first <= coalesce(j.id, j.pos & 35184372088831)
        ORDER BY s.first DESC LIMIT 1), -1) < coalesce(j.id, j.pos & 35184372088831)";
const COUNT: &str = "INSERT INTO key_held (queue, key, held, blockers) SELECT ?1, key, sum(held), sum(blockers) FROM
    (SELECT key, 1 AS held, 0 AS blockers FROM held_job WHERE queue = ?1 UNION ALL SELECT key, 0, 1 FROM key_blocker WHERE queue = ?1) GROUP BY key";
const LOOK_AGAIN: &str =
    "UPDATE key_turn SET state = 0, due = NULL, vt = max(vt, (SELECT l.vt FROM keyed_lane l WHERE l.n = key_turn.n))
    WHERE n IN (SELECT n FROM keyed_lane WHERE queue = ?1 AND NOT ended) AND state = 1";
const LANES: &str = "SELECT id FROM lane WHERE queue = ?1";

/// Changes the limits of a queue's keys; name and values were checked. Its number, if jobs of it may have to be entered by their keys.
pub(crate) fn change(tx: &mut Tx<'_>, name: &str, change: &KeyLimitsChange) -> Outcome<Option<i64>> {
    tx.flush()?;
    let keyed = find(tx.conn, name)?.filter(|(_, keyed)| *keyed);
    if keyed.is_none() && change.only_takes_away() {
        return Ok(None);
    }
    let queue = tx.queue(name)?;
    if *change == KeyLimitsChange::Off {
        end(tx, queue)?;
        return Ok(None);
    }
    let mut changed = 0;
    if keyed.is_none() {
        changed += tx.conn.prepare_cached(BEGIN)?.execute([queue])?;
        changed += set(tx.conn, queue, "", KeyLimit::default())?;
        let conn = tx.conn;
        tx.keyed().enter(conn, queue, None)?;
    }
    match change {
        KeyLimitsChange::Default(limit) => changed += set(tx.conn, queue, "", *limit)?,
        KeyLimitsChange::Named(named) => {
            for (key, limit) in named {
                changed += match limit {
                    Some(limit) => set(tx.conn, queue, key, *limit)?,
                    None => tx.conn.prepare_cached(UNSET)?.execute(params![queue, key])?,
                };
            }
        }
        KeyLimitsChange::Off => {}
    }
    if changed > 0 {
        if tx.conn.prepare_cached(RATES)?.execute([queue])? > 0 {
            let conn = tx.conn;
            tx.keyed().changed(conn)?;
        }
        count_anew(tx, queue)?;
        tx.wake()?;
    }
    Ok(Some(queue))
}

fn find(conn: &Connection, name: &str) -> Outcome<Option<(i64, bool)>> {
    Ok(conn.prepare_cached(FIND)?.query_one([name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

fn set(conn: &Connection, queue: i64, key: &str, limit: KeyLimit) -> Outcome<usize> {
    let period = limit.rate.map(|rate| i64::try_from(rate.period.as_micros()).unwrap_or(i64::MAX));
    let count = limit.rate.map(|rate| rate.count);
    let row = params![queue, key, limit.concurrency, limit.serial, limit.weight, count, period];
    Ok(conn.prepare_cached(SET)?.execute(row)?)
}

fn end(tx: &mut Tx<'_>, queue: i64) -> Outcome<()> {
    tx.conn.prepare_cached(END)?.execute([queue])?;
    tx.conn.prepare_cached("DELETE FROM key_limit WHERE queue = ?1")?.execute([queue])?;
    forget_held(tx.conn, queue)?;
    for table in ["key_blocker", "key_ended", "key_ended_count"] {
        tx.conn.prepare_cached(&format!("DELETE FROM {table} WHERE queue = ?1"))?.execute([queue])?;
    }
    let conn = tx.conn;
    tx.keyed().end(conn, queue)?;
    tx.wake()
}

fn forget_held(conn: &Connection, queue: i64) -> Outcome<()> {
    conn.prepare_cached("DELETE FROM held_job WHERE queue = ?1")?.execute([queue])?;
    conn.prepare_cached("DELETE FROM key_held WHERE queue = ?1")?.execute([queue])?;
    Ok(())
}

/// What is held counts from now on by the limits of now.
fn count_anew(tx: &mut Tx<'_>, queue: i64) -> Outcome<()> {
    let of_key =
        |what: &str, key: &str| OF_KEY.replacen("{}", what, 1).replacen("{}", key, 1).replacen("{}", what, 1);
    forget_held(tx.conn, queue)?;
    let no_longer =
        format!("DELETE FROM key_blocker WHERE queue = ?1 AND NOT {}", of_key("serial", "key_blocker.key"));
    tx.conn.execute(&no_longer, [queue])?;
    // The keys are found where each has one row.
    let has_rate = of_key("rate IS NOT NULL", "key_ended_count.key");
    let without = format!("SELECT key FROM key_ended_count WHERE queue = ?1 AND NOT {has_rate}");
    for table in ["key_ended", "key_ended_count"] {
        tx.conn.execute(&format!("DELETE FROM {table} WHERE queue = ?1 AND key IN ({without})"), [queue])?;
    }
    let limited = of_key("serial OR concurrency IS NOT NULL OR rate IS NOT NULL", "j.attributes ->> '$.key'");
    let mut hold = tx.conn.prepare(&HELD.replace("{limited}", &limited))?;
    let mut lanes = tx.conn.prepare_cached(LANES)?;
    for lane in lanes.query_map([queue], |row| row.get::<_, i32>(0))? {
        let lane = lane?;
        let end = position::at(position::direct(lane), position::SEQUENCE_MAX);
        hold.execute(params![queue, position::at(lane, 0), end])?;
    }
    tx.conn.prepare_cached(COUNT)?.execute([queue])?;
    tx.conn.prepare_cached(LOOK_AGAIN)?.execute([queue])?;
    Ok(())
}

/// Enters a chunk of the queue's jobs by their keys. Whether there may be more.
pub(crate) fn enter(tx: &mut Tx<'_>, queue: i64) -> Outcome<bool> {
    let lanes: Vec<_> = Keyed::of_queue(tx.keyed(), queue).collect();
    for lane in lanes {
        if !key_entry::enter(tx.conn, &lane, key_entry::CHUNK)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The limits of a queue's keys.
pub(crate) fn read(conn: &Connection, name: &str) -> Outcome<Option<KeyLimits>> {
    let Some((queue, true)) = find(conn, name)? else { return Ok(None) };
    let mut limits = KeyLimits::default();
    let mut find = conn.prepare_cached(READ)?;
    let mut rows = find.query([queue])?;
    while let Some(row) = rows.next()? {
        let key: String = row.get(0)?;
        match key.is_empty() {
            true => limits.default = limit(row)?,
            false => drop(limits.named.insert(key, limit(row)?)),
        }
    }
    Ok(Some(limits))
}

fn limit(row: &Row<'_>) -> rusqlite::Result<KeyLimit> {
    let mut limit = KeyLimit::default().with_weight(row.get(3)?);
    (limit.concurrency, limit.serial) = (row.get(1)?, row.get(2)?);
    limit.rate = row
        .get::<_, Option<u32>>(4)?
        .zip(row.get::<_, Option<i64>>(5)?)
        .map(|(count, micros)| RateLimit::new(count, Duration::from_micros(micros.unsigned_abs())));
    Ok(limit)
}
