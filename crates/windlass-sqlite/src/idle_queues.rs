//! Queues that nothing is left of but their name: no lane, no setting, nobody who names them.

use crate::{clock::Micros, error::Outcome, older, tx::Tx};
use rusqlite::{Connection, params};
use std::collections::HashSet;

const QUEUES: &str =
    "SELECT id, name, idle_since, paused = 0 AND concurrency IS NULL AND rate IS NULL AND NOT keyed
        AND NOT EXISTS (SELECT 1 FROM lane WHERE lane.queue = queue.id)
        AND NOT EXISTS (SELECT 1 FROM retention_rule r WHERE r.queue = queue.name)
        AND NOT EXISTS (SELECT 1 FROM key_limit k WHERE k.queue = queue.id)
        AND NOT EXISTS (SELECT 1 FROM key_held k WHERE k.queue = queue.id)
        AND NOT EXISTS (SELECT 1 FROM key_blocker k WHERE k.queue = queue.id)
        AND NOT EXISTS (SELECT 1 FROM key_ended k WHERE k.queue = queue.id)
        AND NOT EXISTS (SELECT 1 FROM key_ended_count k WHERE k.queue = queue.id)
        AND NOT EXISTS (SELECT 1 FROM slot WHERE slot.queue = queue.id)
        AND NOT EXISTS (SELECT 1 FROM started WHERE started.queue = queue.id)
    FROM queue WHERE id > ?1 ORDER BY id LIMIT ?2";
const SERVED: &str =
    "SELECT DISTINCT own.value FROM worker, json_each(worker.queues) AS own WHERE ended_at IS NULL";
const IDLE: &str = "UPDATE queue SET idle_since = ?2 WHERE id = ?1";

struct Queue {
    id: i64,
    name: String,
    idle_since: Option<Micros>,
    unused: bool,
}

/// Looks at so many queues after this one, and removes those that were unused since `before`, if any may be. The last of them, if there may
/// be more.
pub(crate) fn look(tx: &mut Tx<'_>, after: i64, most: usize, before: Option<Micros>) -> Outcome<Option<i64>> {
    let mut queues = queues(tx.conn, after, most)?;
    keep_named(tx, &mut queues)?;
    let mut removed = false;
    for queue in &queues {
        match (queue.unused, queue.idle_since) {
            (false, None) => {}
            (false, Some(_)) => note(tx.conn, queue, None)?,
            (true, None) => note(tx.conn, queue, Some(tx.now))?,
            (true, Some(since)) if before.is_some_and(|before| since <= before) => {
                tx.conn.prepare_cached("DELETE FROM queue WHERE id = ?1")?.execute([queue.id])?;
                removed = true;
            }
            (true, Some(_)) => {}
        }
    }
    if removed {
        older::shut_out(tx)?;
    }
    Ok((queues.len() == most).then(|| queues.last().map_or(0, |queue| queue.id)))
}

fn note(conn: &Connection, queue: &Queue, since: Option<Micros>) -> Outcome<()> {
    conn.prepare_cached(IDLE)?.execute(params![queue.id, since])?;
    Ok(())
}

fn queues(conn: &Connection, after: i64, most: usize) -> Outcome<Vec<Queue>> {
    let mut find = conn.prepare_cached(QUEUES)?;
    let rows = find.query_map(params![after, most as i64], |row| {
        Ok(Queue { id: row.get(0)?, name: row.get(1)?, idle_since: row.get(2)?, unused: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Those that a schedule or a live worker names are in use.
fn keep_named(tx: &mut Tx<'_>, queues: &mut [Queue]) -> Outcome<()> {
    if !queues.iter().any(|queue| queue.unused) {
        return Ok(());
    }
    let mut find = tx.conn.prepare_cached(SERVED)?;
    let served: HashSet<String> = find.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let scheduled = tx.scheduled_queues()?;
    let is_named = |queue: &Queue| served.contains(&queue.name) || scheduled.contains(&queue.name);
    queues.iter_mut().for_each(|queue| queue.unused &= !is_named(queue));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{schedules, traced::Traced};
    use windlass_core::{Args, NewJob, Schedule};

    /// Each chunk of queues is asked for.
    #[test]
    fn schedules_are_read_once_after_a_change() {
        let cost = |count: usize| {
            let mut store = Traced::new();
            store.run(|tx| tx.queue("unused"));
            let declare = |store: &mut Traced, queue: &str, count: usize| {
                let schedule = |n| {
                    let job = NewJob::new("test", Args::parse("{}").unwrap()).with_queue(queue.to_owned());
                    Schedule::new(format!("s{n}"), "@daily", job)
                };
                let all: Vec<_> = (0..count).map(schedule).collect();
                store.run(|tx| schedules::put(tx, &all, None));
            };
            declare(&mut store, "other", count);
            store.run(|tx| look(tx, 0, 10, None));
            let steps = store.run(|tx| look(tx, 0, 10, None)).1.steps;
            declare(&mut store, "unused", 1);
            store.run(|tx| look(tx, 0, 10, None));
            let idle = "SELECT idle_since FROM queue WHERE name = 'unused'";
            let idle: Option<i64> = store.conn.query_one(idle, [], |row| row.get(0)).unwrap();
            assert_eq!(idle, None, "a schedule names it now");
            steps
        };
        assert_eq!(cost(1), cost(500));
    }
}
