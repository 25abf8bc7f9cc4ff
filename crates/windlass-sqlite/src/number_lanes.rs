//! Which lane the job of each number was appended to, so that a job is found by its id: see docs/design/sqlite-lanes.md.
//!
//! Numbers that follow one another are mostly of one lane, so only where a stretch of them begins is noted: as the position of its first job. The newest stretches
//! stand in the row of `log_state`, which every enqueue writes anyway; when these are many they become a row of `number_lane`.

use crate::{error::Outcome, position};
use rusqlite::{Connection, OptionalExtension, params};

/// The most stretches of one row.
const MOST: usize = 128;

const NEWEST: &str = "SELECT newest_stretches FROM log_state";
const KEEP: &str = "INSERT INTO number_lane (first, stretches) VALUES (?1, ?2)";
const WRITE: &str = "UPDATE log_state SET newest_stretches = ?1";
const STATE: &str = "SELECT lanes_from, lanes_upto, newest_stretches FROM log_state";
const OF_NUMBER: &str = "SELECT stretches FROM number_lane WHERE first <= ?1 ORDER BY first DESC LIMIT 1";
const BETWEEN: &str = "SELECT stretches FROM number_lane
    WHERE first BETWEEN coalesce((SELECT max(first) FROM number_lane WHERE first <= ?1), ?1) AND ?2 ORDER BY first";

/// What the writer remembers: the newest stretches, and whose the last of them is.
#[derive(Default)]
pub(crate) struct NewestLanes {
    /// 0 where that is not known.
    lane: i32,
    stretches: Vec<i64>,
    changed: bool,
}

impl NewestLanes {
    /// Whether these are the newest stretches, as they are stored: another program may have taken the same numbers after an older state was put back.
    pub(crate) fn are(&self, stored: &[u8]) -> bool {
        let known = self.stretches.iter().map(|pos| pos.to_le_bytes());
        self.lane == 0
            || stored.len() == self.stretches.len() * 8
                && known.zip(stored.chunks_exact(8)).all(|(known, stored)| known == *stored)
    }

    /// Another program took numbers since.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// A job was appended here, which has the newest number.
    pub(crate) fn note(&mut self, conn: &Connection, pos: i64) -> Outcome<()> {
        if self.lane == position::lane_of(pos) { Ok(()) } else { self.begin(conn, pos) }
    }

    #[cold]
    fn begin(&mut self, conn: &Connection, pos: i64) -> Outcome<()> {
        if self.lane == 0 {
            let newest: Vec<u8> = conn.prepare_cached(NEWEST)?.query_one([], |row| row.get(0))?;
            self.stretches = read(&newest);
            self.lane = self.stretches.last().map_or(0, |pos| position::lane_of(*pos));
            if self.lane == position::lane_of(pos) {
                return Ok(());
            }
        }
        if self.stretches.len() >= MOST {
            let first = position::sequence_of(self.stretches[0]);
            conn.prepare_cached(KEEP)?.execute(params![first, written(&self.stretches)])?;
            self.stretches.clear();
        }
        self.stretches.push(pos);
        self.lane = position::lane_of(pos);
        self.changed = true;
        Ok(())
    }

    /// Before the transaction ends.
    pub(crate) fn write(&mut self, conn: &Connection) -> Outcome<()> {
        if std::mem::take(&mut self.changed) {
            conn.prepare_cached(WRITE)?.execute([written(&self.stretches)])?;
        }
        Ok(())
    }
}

fn written(stretches: &[i64]) -> Vec<u8> {
    stretches.iter().flat_map(|pos| pos.to_le_bytes()).collect()
}

/// The positions of a row.
pub(crate) fn read(stretches: &[u8]) -> Vec<i64> {
    stretches.chunks_exact(8).map(|pos| pos.try_into().map_or(0, i64::from_le_bytes)).collect()
}

/// Numbers of a lane that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) lane: i32,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl Stretch {
    /// Between these positions its jobs stand, those that are where they were appended.
    pub(crate) fn positions(&self) -> (i64, i64) {
        (position::at(self.lane, self.first), position::at(self.lane, self.last))
    }
}

/// The stretches that begin at these positions, as far as they are of these numbers.
pub(crate) fn stretches(begins: &[i64], (first, last): (i64, i64)) -> impl Iterator<Item = Stretch> {
    let ends = begins.iter().skip(1).map(|pos| position::sequence_of(*pos) - 1).chain([i64::MAX]);
    let all = begins.iter().zip(ends).map(move |(pos, end)| Stretch {
        lane: position::lane_of(*pos),
        first: position::sequence_of(*pos).max(first),
        last: end.min(last),
    });
    all.filter(|stretch| stretch.first <= stretch.last)
}

/// What is noted, as far as it was read.
pub(crate) struct NumberLanes<'c> {
    conn: &'c Connection,
    from: i64,
    upto: i64,
    newest: Vec<i64>,
    /// The row that was read last.
    read: Vec<i64>,
}

impl<'c> NumberLanes<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Outcome<Self> {
        Ok(conn.prepare_cached(STATE)?.query_one([], |row| {
            let newest = read(row.get_ref(2)?.as_blob()?);
            Ok(Self { conn, from: row.get(0)?, upto: row.get(1)?, newest, read: Vec::new() })
        })?)
    }

    /// Whether the lane of this number is noted, if a job of it is where it was appended.
    pub(crate) fn has(&self, number: i64) -> bool {
        (self.from..self.upto).contains(&number)
    }

    /// In which lane the job of this number was appended, if it is noted.
    pub(crate) fn lane(&mut self, number: i64) -> Outcome<Option<i32>> {
        if let Some(lane) = lane_of(&self.newest, number) {
            return Ok(Some(lane));
        }
        // Where the last stretch of a row ends the row does not say.
        let is_read = self.read.last().is_some_and(|last| number < position::sequence_of(*last));
        if !is_read || lane_of(&self.read, number).is_none() {
            let mut find = self.conn.prepare_cached(OF_NUMBER)?;
            let found = find.query_one([number], |row| Ok(read(row.get_ref(0)?.as_blob()?)));
            self.read = found.optional()?.unwrap_or_default();
        }
        Ok(lane_of(&self.read, number))
    }

    /// The stretches of these numbers; `None` where some are not noted.
    pub(crate) fn between(&self, first: i64, last: i64) -> Outcome<Option<Vec<Stretch>>> {
        if !self.has(first) || !self.has(last) {
            return Ok(None);
        }
        let mut find = self.conn.prepare_cached(BETWEEN)?;
        let mut rows = find.query([first, last])?;
        let mut begins = Vec::new();
        while let Some(row) = rows.next()? {
            begins.extend(read(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?));
        }
        begins.extend(&self.newest);
        Ok(Some(stretches(&begins, (first, last)).collect()))
    }
}

/// Of the last stretch that begins no later than this number.
fn lane_of(begins: &[i64], number: i64) -> Option<i32> {
    let after = begins.partition_point(|pos| position::sequence_of(*pos) <= number);
    after.checked_sub(1).map(|nth| position::lane_of(begins[nth]))
}
