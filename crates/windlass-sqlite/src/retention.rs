//! What is kept of queues and outcomes, and finding what is past that.

use crate::{
    clock::{Micros, micros},
    error::Outcome,
    moves::Dead,
    tx::Tx,
};
use rusqlite::{Connection, params};
use std::time::Duration;
use windlass_core::{JobState, Retention, RetentionRule, Settings};

const READ: &str = "SELECT queue, outcome, age, count FROM retention_rule";
const REMOVE: &str = "DELETE FROM retention_rule WHERE queue = ?1 AND outcome = ?2";
const WRITE: &str =
    "INSERT OR REPLACE INTO retention_rule (queue, outcome, age, count) VALUES (?1, ?2, ?3, ?4)";
/// Queues that have dead jobs, with how many. Of lanes there are few.
const QUEUES: &str =
    "SELECT queue.id, name, sum(cancelled), sum(discarded) FROM lane JOIN queue ON queue.id = lane.queue
    GROUP BY queue.id HAVING sum(cancelled) + sum(discarded) > 0 ORDER BY queue.id";
const LANES: &str = "SELECT id FROM lane WHERE queue = ?1";
const OLDEST: &str = "SELECT finished_at, id FROM dead WHERE lane = ?1 AND state = ?2 AND finished_at <= ?3
    ORDER BY finished_at, id LIMIT ?4";

pub(crate) fn read(conn: &Connection) -> Outcome<Vec<RetentionRule>> {
    let mut find = conn.prepare_cached(READ)?;
    let mut rows = find.query([])?;
    let mut rules = Vec::new();
    while let Some(row) = rows.next()? {
        let outcome: JobState = row.get::<_, String>(1)?.parse()?;
        let mut rule = RetentionRule::of_every_queue(outcome);
        rule.queue = RetentionRule::queue_of(&row.get::<_, String>(0)?);
        rule.age = row.get::<_, Option<Micros>>(2)?.map(|age| Duration::from_micros(age.unsigned_abs()));
        rule.count = row.get::<_, Option<i64>>(3)?.map(i64::unsigned_abs);
        rules.push(rule);
    }
    RetentionRule::sort(&mut rules);
    Ok(rules)
}

/// Keeps checked rules.
pub(crate) fn write(tx: &mut Tx<'_>, rules: &[RetentionRule]) -> Outcome<()> {
    for rule in rules {
        let (queue, outcome) = (rule.queue_name(), rule.outcome.as_str());
        if rule.is_empty() {
            tx.conn.prepare_cached(REMOVE)?.execute([queue, outcome])?;
        } else {
            let count = rule.count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
            tx.conn.prepare_cached(WRITE)?.execute(params![queue, outcome, rule.age.map(micros), count])?;
        }
    }
    let kept: u32 = tx.conn.query_one("SELECT count(*) FROM retention_rule", [], |row| row.get(0))?;
    if kept as usize > RetentionRule::MAX_RULES {
        return Err(RetentionRule::too_many(kept as usize).into());
    }
    Ok(())
}

/// The next dead jobs that are past what the rules keep, at most `most`: id, lane and state. What to keep by count is told by the counts of the
/// lanes, so that jobs that stay are not read.
pub(crate) fn past(
    tx: &mut Tx<'_>,
    rules: &[RetentionRule],
    settings: &Settings,
    most: u32,
) -> Outcome<Vec<(i64, i32, i64)>> {
    tx.flush()?;
    let mut queues = tx.conn.prepare_cached(QUEUES)?;
    let mut queues = queues.query([])?;
    let mut past = Vec::new();
    while let Some(row) = queues.next()? {
        let (queue, name): (i64, String) = (row.get(0)?, row.get(1)?);
        let states = [
            (Dead::Cancelled, JobState::Cancelled, row.get(2)?),
            (Dead::Discarded, JobState::Discarded, row.get(3)?),
        ];
        for (state, outcome, stored) in states {
            let retention = Retention::of(rules, settings, &name, outcome);
            let room = i64::from(most) - past.len() as i64;
            past.extend(past_of(tx, (queue, state), retention, stored, room)?);
        }
    }
    Ok(past)
}

fn past_of(
    tx: &Tx<'_>,
    (queue, state): (i64, Dead),
    retention: Retention,
    stored: i64,
    most: i64,
) -> Outcome<Vec<(i64, i32, i64)>> {
    let before = tx.now.saturating_sub(micros(retention.age));
    let keep = retention.count.map_or(i64::MAX, |count| i64::try_from(count).unwrap_or(i64::MAX));
    let excess = stored.saturating_sub(keep).clamp(0, most);
    // The oldest are both what is too many and what is too old: the longer of the two lists has the other.
    let too_many = oldest(tx, queue, state, Micros::MAX, excess)?;
    let too_old = oldest(tx, queue, state, before, most)?;
    let longer = if too_many.len() > too_old.len() { too_many } else { too_old };
    Ok(longer.into_iter().map(|(_, id, lane)| (id, lane, state as i64)).collect())
}

/// The jobs of a queue that ended so first, and not after `until`: when, id and lane. Reads at most `most` of each lane.
fn oldest(
    tx: &Tx<'_>,
    queue: i64,
    state: Dead,
    until: Micros,
    most: i64,
) -> Outcome<Vec<(Micros, i64, i32)>> {
    if most == 0 {
        return Ok(Vec::new());
    }
    let mut lanes = tx.conn.prepare_cached(LANES)?;
    let lanes: Vec<i32> = lanes.query_map([queue], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut oldest = Vec::new();
    let mut find = tx.conn.prepare_cached(OLDEST)?;
    for lane in lanes {
        let rows = find.query_map(params![lane, state as i64, until, most], |row| {
            Ok((row.get(0)?, row.get(1)?, lane))
        })?;
        for row in rows {
            oldest.push(row?);
        }
    }
    oldest.sort_unstable();
    oldest.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    Ok(oldest)
}
