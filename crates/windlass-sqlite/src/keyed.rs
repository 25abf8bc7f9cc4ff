//! Keyed lanes: lanes of queues with limits of keys. What the writer remembers of them, and of what changed in a transaction.
//!
//! Their jobs stand in the log like others, after the cursor, which does not move. Beside the log `keyed_job` has them by key, and
//! `key_turn` says whose turn it is. A claim moves the jobs that it chose into the lane's direct twin, so that they are a stretch; all that
//! follows is as for any claim. Whoever appends to the lane enters the job by its key before the transaction ends; what a program wrote that does
//! not know keys is entered by the next claim, which hands out nothing before.
//!
//! `held_job` and `key_held` say how many jobs of a limited key are held, and `key_blocker` what else of a serial key is not over. They
//! change in the transaction that changes the jobs. A turn in state 0 is worth a look: the claim decides by the counts.

use crate::{error::Outcome, position};
use rusqlite::{Connection, params};
use std::collections::{HashMap, HashSet};

const LANES: &str = "SELECT lane, n, queue FROM keyed_lane WHERE NOT ended";
const CREATE: &str = "INSERT OR IGNORE INTO keyed_lane (lane, queue, entered, vt, ended)
    SELECT id, queue, cursor, 0, 0 FROM lane WHERE queue = ?1 AND (?2 IS NULL OR id = ?2)";
/// Never the same number twice, also where an older one was put back.
const CHANGED: &str =
    "UPDATE log_state SET key_changes = key_changes + 1 + (random() & 1073741823) RETURNING key_changes";

/// What is subtracted from the id of a job that the others of its key wait for.
pub(crate) const FIRST: i64 = position::SEQUENCE_MAX + 1;

/// A lane of a keyed queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyedLane {
    pub(crate) lane: i32,
    pub(crate) n: i64,
    pub(crate) queue: i64,
}

/// What changed of a key: how many more are held, and wait for their return.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) held: i64,
    pub(crate) blockers: i64,
}

/// The keyed lanes, and what has to be written of them before the transaction ends.
#[derive(Default)]
pub(crate) struct Keyed {
    /// Which change of the lanes is known: 0 before the first.
    version: i64,
    queues: HashSet<i64>,
    /// Those of which some key has a rate.
    rates: HashSet<i64>,
    lanes: HashMap<i32, KeyedLane>,
    /// How many jobs were appended to each lane.
    pub(crate) arrived: HashMap<i32, i64>,
    /// By queue and key.
    pub(crate) changes: HashMap<i64, HashMap<String, Change>>,
}

impl Keyed {
    /// At the begin of a transaction: learns what others changed.
    pub(crate) fn refresh(&mut self, conn: &Connection, version: i64) -> Outcome<()> {
        self.arrived.clear();
        self.changes.clear();
        if self.version == version {
            return Ok(());
        }
        let mut find = conn.prepare_cached(LANES)?;
        let rows = find
            .query_map([], |row| Ok(KeyedLane { lane: row.get(0)?, n: row.get(1)?, queue: row.get(2)? }))?;
        self.lanes = rows.map(|row| row.map(|lane| (lane.lane, lane))).collect::<Result<_, _>>()?;
        let mut find = conn.prepare_cached("SELECT id, rates FROM queue WHERE keyed")?;
        let rows = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let queues: Vec<(i64, bool)> = rows.collect::<Result<_, _>>()?;
        self.queues = queues.iter().map(|(queue, _)| *queue).collect();
        self.rates = queues.iter().filter(|(_, rates)| *rates).map(|(queue, _)| *queue).collect();
        self.version = version;
        Ok(())
    }

    /// The lanes of the queue, or one of them, are keyed from now on, those that are not yet.
    pub(crate) fn enter(&mut self, conn: &Connection, queue: i64, lane: Option<i32>) -> Outcome<()> {
        conn.prepare_cached(CREATE)?.execute(params![queue, lane])?;
        self.changed(conn)
    }

    /// The lanes of the queue are not keyed any more.
    pub(crate) fn end(&mut self, conn: &Connection, queue: i64) -> Outcome<()> {
        conn.prepare_cached("UPDATE keyed_lane SET ended = 1 WHERE queue = ?1")?.execute([queue])?;
        self.changed(conn)
    }

    /// Tells the others that the lanes, or which queues have rates, are not what they were.
    pub(crate) fn changed(&mut self, conn: &Connection) -> Outcome<()> {
        let version = conn.prepare_cached(CHANGED)?.query_one([], |row| row.get(0))?;
        // What is to be written is of this transaction, which goes on.
        let (arrived, changes) = (std::mem::take(&mut self.arrived), std::mem::take(&mut self.changes));
        self.refresh(conn, version)?;
        (self.arrived, self.changes) = (arrived, changes);
        Ok(())
    }

    /// Whether there ever was a keyed lane.
    pub(crate) fn was_ever(&self) -> bool {
        self.version > 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// The lane of a position or its twin, if it is keyed.
    pub(crate) fn lane(&self, lane: i32) -> Option<KeyedLane> {
        if self.lanes.is_empty() { None } else { self.lanes.get(&position::base(lane)).copied() }
    }

    /// The queue's keyed lanes.
    pub(crate) fn of_queue(&self, queue: i64) -> impl Iterator<Item = KeyedLane> + '_ {
        self.lanes.values().filter(move |lane| lane.queue == queue).copied()
    }

    pub(crate) fn has_queue(&self, queue: i64) -> bool {
        self.queues.contains(&queue)
    }

    pub(crate) fn has_rates(&self, queue: i64) -> bool {
        self.rates.contains(&queue)
    }

    /// The queues of which some key has a rate.
    pub(crate) fn with_rates(&self) -> Vec<i64> {
        self.rates.iter().copied().collect()
    }

    pub(crate) fn all(&self) -> Vec<KeyedLane> {
        self.lanes.values().copied().collect()
    }

    /// Jobs were appended to a lane.
    pub(crate) fn arrive(&mut self, lane: i32, jobs: i64) {
        if jobs > 0 && self.lane(lane).is_some() {
            *self.arrived.entry(position::base(lane)).or_default() += jobs;
        }
    }

    /// So many more (or fewer) jobs of the key are held, and block it.
    pub(crate) fn change(&mut self, queue: i64, key: String, held: i64, blockers: i64) {
        let change = self.changes.entry(queue).or_default().entry(key).or_default();
        change.held += held;
        change.blockers += blockers;
    }
}
