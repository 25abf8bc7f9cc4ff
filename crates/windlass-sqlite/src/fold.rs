//! Counters per minute, made from `happened` by housekeeping: what it counted and up to where change in one transaction.

use crate::{
    claim_range::{ClaimRange, Ways, jobs_of_range},
    clock::Micros,
    error::Outcome,
    position,
    tx::Tx,
};
use rusqlite::{OptionalExtension, Params, params, types::Value};
use std::collections::{HashMap, hash_map::Entry};
use windlass_core::{Count, HistoryRequest};

/// About how many jobs one transaction counts: a few milliseconds.
const JOBS: u64 = 10_000;
/// The most rows of `happened` that it looks at.
const ROWS: i64 = 2_000;
/// How many rows of counters one transaction removes.
const CHUNK: usize = 5_000;

/// Of the claims past the retention only those are looked at that the same transaction may remove.
const STATE: &str = "SELECT f.n, l.kept_n > f.n OR EXISTS (SELECT 1 FROM (SELECT changed FROM claim WHERE open = 0 AND finished_at <= ?1
    ORDER BY finished_at LIMIT ?2) WHERE changed > f.n) FROM counter_fold f, event_log l";
const HAPPENED: &str =
    "SELECT n, at, what, claim, first, last, lane, kind FROM happened WHERE n > ?1 ORDER BY n LIMIT ?2";
const HAS_PARTS: &str = "SELECT 1 FROM settlement WHERE claim = ?1";
const WHOLE: &str = "SELECT kind FROM job WHERE pos BETWEEN ?1 AND ?2";
const RESTED: &str = "SELECT kind FROM job
    WHERE pos BETWEEN ?1 AND ?2 AND coalesce((SELECT s.last FROM settlement s WHERE s.claim = ?1
        AND s.first <= coalesce(job.id, pos & 35184372088831) ORDER BY s.first DESC LIMIT 1), -1) < coalesce(id, pos & 35184372088831)";
const RANGE: Ways = jobs_of_range!("kind", "kind", "");
const QUEUE: &str = "SELECT queue.name FROM lane JOIN queue ON queue.id = lane.queue WHERE lane.id = ?1";
const ROWS_OF_MINUTE: &str = "SELECT count(*) FROM counter WHERE minute = ?1";
const ADD: &str =
    "UPDATE counter SET n = n + ?5 WHERE minute = ?1 AND queue = ?2 AND kind = ?3 AND outcome = ?4";
const INSERT: &str = "INSERT INTO counter (minute, queue, kind, outcome, n) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT DO UPDATE SET n = n + excluded.n";
const COUNTED: &str = "UPDATE counter_fold SET n = ?1, counted_until = ?2";
const FORGET: &str = "DELETE FROM counter WHERE (minute, queue, kind, outcome) IN
    (SELECT minute, queue, kind, outcome FROM counter WHERE minute < ?1 ORDER BY minute LIMIT ?2)";

/// Minutes since 1970, queue, kind and outcome.
type Of = (i64, String, String, String);

/// Counts a chunk, if it `may` or one of the next `claims` claims that are past the retention, which began at `before`, is not counted. Up to which row
/// everything is counted, and whether there may be more to count.
pub(crate) fn fold(tx: &Tx<'_>, before: Micros, claims: u32, may: bool) -> Outcome<(i64, bool)> {
    let (counted, must): (i64, bool) = tx
        .conn
        .prepare_cached(STATE)?
        .query_one(params![before, claims], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if !may && !must {
        return Ok((counted, false));
    }
    let mut counting = Counting { tx, jobs: 0, queues: HashMap::new(), counts: HashMap::new() };
    let (mut n, mut at, mut looked_at) = (counted, tx.now, 0);
    let mut find = tx.conn.prepare_cached(HAPPENED)?;
    let mut rows = find.query([counted, ROWS])?;
    let mut more = false;
    while let Some(row) = rows.next()? {
        if counting.jobs >= JOBS {
            more = true;
            break;
        }
        (n, at, looked_at) = (row.get(0)?, row.get(1)?, looked_at + 1);
        let (claim, first, last) = (or_zero(row.get(3)?), or_zero(row.get(4)?), or_zero(row.get(5)?));
        match row.get(2)? {
            Value::Integer(0) => {}
            Value::Integer(1) => counting.rested(at, claim, last)?,
            Value::Integer(_) => counting.range(at, claim, first, last)?,
            Value::Text(outcome) => {
                let kind: Option<String> = row.get(7)?;
                let lane: Option<i32> = row.get(6)?;
                counting.count(at, lane.unwrap_or(0), kind.unwrap_or_default(), &outcome, 1)?;
            }
            _ => {}
        }
    }
    more |= looked_at == ROWS;
    counting.write()?;
    let until = if more { at } else { tx.now };
    tx.conn.prepare_cached(COUNTED)?.execute([n, until])?;
    Ok((n, more))
}

/// Removes a chunk of counters that are past their time. Whether there may be more.
pub(crate) fn forget(tx: &Tx<'_>) -> Outcome<bool> {
    let before = tx.now.div_euclid(60_000_000) - HistoryRequest::LONGEST.as_secs() as i64 / 60;
    Ok(tx.conn.prepare_cached(FORGET)?.execute(params![before, CHUNK as i64])? == CHUNK)
}

fn or_zero(value: Option<i64>) -> i64 {
    value.unwrap_or(0)
}

struct Counting<'a, 'c> {
    tx: &'a Tx<'c>,
    jobs: u64,
    queues: HashMap<i32, String>,
    counts: HashMap<Of, u64>,
}

impl Counting<'_, '_> {
    /// What was left of a claim completed.
    fn rested(&mut self, at: Micros, lo: i64, hi: i64) -> Outcome<()> {
        let has_parts = self.tx.conn.prepare_cached(HAS_PARTS)?.exists([lo])?;
        self.completed(at, lo, if has_parts { RESTED } else { WHOLE }, [lo, hi])
    }

    /// Jobs of a claim completed.
    fn range(&mut self, at: Micros, lo: i64, first: i64, last: i64) -> Outcome<()> {
        let ids = ClaimRange::of(self.tx.conn, lo, (first, last))?;
        self.completed(at, lo, ids.sql(&RANGE), ids.params(lo))
    }

    fn completed(&mut self, at: Micros, lo: i64, sql: &str, params: impl Params) -> Outcome<()> {
        let lane = position::base(position::lane_of(lo));
        let mut find = self.tx.conn.prepare_cached(sql)?;
        let mut rows = find.query(params)?;
        // Jobs of one kind often stand together.
        let (mut kind, mut count) = (String::new(), 0);
        while let Some(row) = rows.next()? {
            let next = row.get_ref(0)?.as_str().unwrap_or_default();
            if next != kind {
                self.count(at, lane, std::mem::replace(&mut kind, next.to_owned()), "completed", count)?;
                count = 0;
            }
            count += 1;
        }
        self.count(at, lane, kind, "completed", count)
    }

    fn count(&mut self, at: Micros, lane: i32, kind: String, outcome: &str, count: u64) -> Outcome<()> {
        if count == 0 || outcome == "enqueued" {
            return Ok(());
        }
        if !self.queues.contains_key(&lane) {
            let mut find = self.tx.conn.prepare_cached(QUEUE)?;
            let queue: Option<String> = find.query_one([lane], |row| row.get(0)).optional()?;
            self.queues.insert(lane, queue.unwrap_or_else(|| Count::ANY.to_owned()));
        }
        let of = (at.div_euclid(60_000_000), self.queues[&lane].clone(), kind, outcome.to_owned());
        *self.counts.entry(of).or_default() += count;
        self.jobs += count;
        Ok(())
    }

    /// Adds what was counted to the counters. What one minute has no room for is not told apart.
    fn write(self) -> Outcome<()> {
        let mut stored: HashMap<i64, i64> = HashMap::new();
        for ((minute, queue, kind, outcome), count) in self.counts {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            if self.tx.conn.prepare_cached(ADD)?.execute(params![minute, queue, kind, outcome, count])? > 0 {
                continue;
            }
            let rows = match stored.entry(minute) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let mut find = self.tx.conn.prepare_cached(ROWS_OF_MINUTE)?;
                    new.insert(find.query_one([minute], |row| row.get(0))?)
                }
            };
            *rows += 1;
            let fits = *rows <= HistoryRequest::MOST_IN_A_MINUTE as i64;
            let (queue, kind) = if fits { (&*queue, &*kind) } else { (Count::ANY, Count::ANY) };
            self.tx.conn.prepare_cached(INSERT)?.execute(params![minute, queue, kind, outcome, count])?;
        }
        Ok(())
    }
}
