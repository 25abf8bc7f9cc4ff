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

/// The most queues that one transaction looks at.
const CHUNK: usize = 200;

const READ: &str = "SELECT queue, outcome, age, count FROM retention_rule";
const REMOVE: &str = "DELETE FROM retention_rule WHERE queue = ?1 AND outcome = ?2";
const WRITE: &str =
    "INSERT OR REPLACE INTO retention_rule (queue, outcome, age, count) VALUES (?1, ?2, ?3, ?4)";
/// The next queues after one, with how many dead jobs they have.
const QUEUES: &str = "SELECT q.id, name, coalesce(sum(cancelled), 0), coalesce(sum(discarded), 0)
    FROM (SELECT id, name FROM queue WHERE id > ?1 ORDER BY id LIMIT ?2) q LEFT JOIN lane ON lane.queue = q.id
    GROUP BY q.id ORDER BY q.id";
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

/// Dead jobs that are past what is kept.
pub(crate) struct Past {
    /// Id, lane and state.
    pub(crate) jobs: Vec<(i64, i32, i64)>,
    /// After which queue the next look goes on; `None`: it was the last one.
    pub(crate) after: Option<i64>,
}

/// The next dead jobs that are past what the rules keep, at most `most`, of queues after this one. What to keep by count is told by the counts of the
/// lanes, so that jobs that stay are not read.
pub(crate) fn past(
    tx: &mut Tx<'_>,
    rules: &[RetentionRule],
    settings: &Settings,
    after: i64,
    most: u32,
) -> Outcome<Past> {
    tx.flush()?;
    let mut find = tx.conn.prepare_cached(QUEUES)?;
    let mut queues = find.query(params![after, CHUNK as i64])?;
    let (mut jobs, mut looked_at, mut after) = (Vec::new(), 0, after);
    while let Some(row) = queues.next()? {
        let (queue, name): (i64, String) = (row.get(0)?, row.get(1)?);
        let states = [
            (Dead::Cancelled, JobState::Cancelled, row.get(2)?),
            (Dead::Discarded, JobState::Discarded, row.get(3)?),
        ];
        for (state, outcome, stored) in states.into_iter().filter(|(.., stored)| *stored > 0) {
            let retention = Retention::of(rules, settings, &name, outcome);
            let room = i64::from(most) - jobs.len() as i64;
            jobs.extend(past_of(tx, (queue, state), retention, stored, room)?);
        }
        if jobs.len() >= most as usize {
            // There may be more of this one.
            return Ok(Past { jobs, after: Some(after) });
        }
        (looked_at, after) = (looked_at + 1, queue);
    }
    Ok(Past { jobs, after: (looked_at == CHUNK).then_some(after) })
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
