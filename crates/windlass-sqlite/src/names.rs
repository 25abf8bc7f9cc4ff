//! The numbers of queues and lanes, which the writer remembers between transactions until some were removed, or others created: an older state of the file may be put
//! back, where other queues get the same numbers.

use crate::{
    error::{Fault, Outcome},
    position,
};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{HashMap, HashSet};
use windlass_core::ErrorKind;

/// The most names that the writer remembers; beyond it the memory starts anew.
const MAX: usize = 10_000;

const QUEUE: &str = "SELECT id FROM queue WHERE name = ?1";
const LANE: &str = "SELECT id FROM lane WHERE queue = ?1 AND priority = ?2";
const INSERT: &str = "INSERT INTO lane (id, queue, priority, cursor) VALUES (?1, ?2, ?3, ?4)";
const LAST: &str = "SELECT coalesce(max(id), 0) FROM lane";
/// Never the same number twice, also where an older one was put back.
const CHANGED: &str =
    "UPDATE log_state SET name_changes = name_changes + 1 + (random() & 1073741823) RETURNING name_changes";
const SCHEDULE_CHANGES: &str = "SELECT changes FROM schedule_counter";
const SCHEDULED: &str = "SELECT DISTINCT iif(json_valid(definition), coalesce(definition ->> 'queue', 'default'), '') FROM schedule";
const FREE: &str = "DELETE FROM free_lane WHERE id = (SELECT min(id) FROM free_lane) RETURNING id";

/// What is known of the names.
#[derive(Default)]
pub(crate) struct Names {
    /// After which change.
    version: i64,
    queues: HashMap<String, i64>,
    lanes: HashMap<(i64, i16), i32>,
    /// The queues of schedules, after which change of these.
    scheduled: Option<(i64, HashSet<String>)>,
}

impl Names {
    /// At the begin of a transaction: forgets everything when another program changed some of it.
    pub(crate) fn refresh(&mut self, version: i64) {
        if self.version != version {
            self.forget();
            self.version = version;
        }
    }

    /// Some were removed in this transaction.
    pub(crate) fn forget(&mut self) {
        self.queues.clear();
        self.lanes.clear();
        self.scheduled = None;
    }

    /// The queues that schedules name.
    pub(crate) fn scheduled(&mut self, conn: &Connection) -> Outcome<&HashSet<String>> {
        let changes: i64 = conn.prepare_cached(SCHEDULE_CHANGES)?.query_one([], |row| row.get(0))?;
        let known = self.scheduled.take().filter(|(after, _)| *after == changes);
        let (_, queues) = self.scheduled.insert(match known {
            Some(known) => known,
            None => {
                let mut find = conn.prepare_cached(SCHEDULED)?;
                (changes, find.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
            }
        });
        Ok(queues)
    }

    /// The queue's number; created on first use.
    pub(crate) fn queue(&mut self, conn: &Connection, name: &str) -> Outcome<i64> {
        if let Some(&queue) = self.queues.get(name) {
            return Ok(queue);
        }
        let found = conn.prepare_cached(QUEUE)?.query_one([name], |row| row.get(0)).optional()?;
        let queue = match found {
            Some(queue) => queue,
            None => {
                conn.prepare_cached("INSERT INTO queue (name) VALUES (?1)")?.execute([name])?;
                let queue = conn.last_insert_rowid();
                self.changed(conn)?;
                queue
            }
        };
        if self.queues.len() >= MAX {
            self.queues.clear();
        }
        self.queues.insert(name.to_owned(), queue);
        Ok(queue)
    }

    /// The number of a queue at a priority, and whether it was created for this.
    pub(crate) fn lane(&mut self, conn: &Connection, queue: i64, priority: i16) -> Outcome<(i32, bool)> {
        if let Some(&lane) = self.lanes.get(&(queue, priority)) {
            return Ok((lane, false));
        }
        let found =
            conn.prepare_cached(LANE)?.query_one(params![queue, priority], |row| row.get(0)).optional()?;
        let (lane, created) = match found {
            Some(lane) => (lane, false),
            None => {
                self.changed(conn)?;
                (create(conn, queue, priority)?, true)
            }
        };
        if self.lanes.len() >= MAX {
            self.lanes.clear();
        }
        self.lanes.insert((queue, priority), lane);
        Ok((lane, created))
    }

    /// Tells the others. What is known here is still so.
    fn changed(&mut self, conn: &Connection) -> Outcome<()> {
        self.version = conn.prepare_cached(CHANGED)?.query_one([], |row| row.get(0))?;
        Ok(())
    }
}

/// A new lane, under the number of a removed one if there is any. Its part of the log is empty, and whatever is appended to it has a
/// larger number than all that ever was there.
fn create(conn: &Connection, queue: i64, priority: i16) -> Outcome<i32> {
    let free = conn.prepare_cached(FREE)?.query_map([], |row| row.get(0))?.next().transpose()?;
    let lane = free.map_or_else(|| next(conn), Ok)?;
    conn.prepare_cached(INSERT)?.execute(params![lane, queue, priority, position::at(lane, 0)])?;
    Ok(lane)
}

/// How many lanes there are at most: each has the next number for its twin.
pub(crate) fn most_lanes(conn: &Connection) -> Outcome<i32> {
    Ok(last(conn)? / 2)
}

fn last(conn: &Connection) -> Outcome<i32> {
    Ok(conn.prepare_cached(LAST)?.query_one([], |row| row.get(0))?)
}

/// The number after all others.
fn next(conn: &Connection) -> Outcome<i32> {
    let last = last(conn)?;
    if last + 2 > position::LANE_MAX {
        let message = format!(
            "the database has {} queues and priorities that are in use, the most it can have",
            last / 2
        );
        return Err(Fault::refused(ErrorKind::InvalidOption, message));
    }
    Ok(last + 2)
}
