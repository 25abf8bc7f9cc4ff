//! Starts of queues that limit how many begin in a time. The rules are those of PostgreSQL's `62_starts.sql`, and told there.

use crate::{
    clock::{Micros, micros},
    error::Outcome,
    places::{self, Places},
    tx::Tx,
};
use rusqlite::{OptionalExtension, params};
use std::time::Duration;
use windlass_core::{RateLimit, Starts, WorkerId};

/// The most rows that one transaction of housekeeping removes.
const CHUNK: u32 = 1_000;

/// When to ask again who waits only for one before it.
const BEHIND: Duration = Duration::from_millis(20);

const LAST: &str =
    "SELECT at, clock, started FROM started WHERE queue = ?1 AND at > ?2 ORDER BY at DESC LIMIT 1";
const FIRST: &str = "SELECT before FROM started WHERE queue = ?1 AND at > ?2 ORDER BY at LIMIT 1";
const LEAVES: &str =
    "SELECT at FROM started WHERE queue = ?1 AND at > ?2 AND started > ?3 ORDER BY at LIMIT 1";
/// The same where many may have to leave: then it is worth to look again when a thousand have.
const MANY_LEAVE: &str = "SELECT coalesce(min(at) FILTER (WHERE started > ?3), max(at))
    FROM (SELECT at, started FROM started WHERE queue = ?1 AND at > ?2 ORDER BY at LIMIT 1000)";
const ADD: &str =
    "INSERT INTO started (queue, at, clock, expires_at, before, started) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
/// By the store's clock what is there now leaves the longest window then, however far that clock was ahead.
const SET_BACK: &str = "UPDATE started SET expires_at = ?2 WHERE queue = ?1 AND expires_at > ?2";
/// What lies in a window is one count, and stays until that window has passed, however far the clock was ahead.
const KEEP: &str = "UPDATE started AS t SET before = c.until - c.count, started = c.until, expires_at = min(t.clock, ?2) + ?3
    FROM (SELECT at, started - before AS count, sum(started - before) OVER (ORDER BY at) AS until
        FROM started WHERE queue = ?1 AND at > ?2 - ?3) AS c
    WHERE t.queue = ?1 AND t.at = c.at";
const FORGET: &str = "DELETE FROM started WHERE (queue, at) IN
    (SELECT queue, at FROM started WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)";

/// At most `count` permissions in every window of `length`, which reaches back so much further as a permission may be kept.
struct Window {
    count: i64,
    length: Micros,
}

fn windows(rate: &RateLimit) -> impl Iterator<Item = Window> {
    let grace = rate.grace();
    rate.windows()
        .map(move |window| Window { count: window.count.into(), length: micros(window.length + grace) + 1 })
}

fn longest(rate: &RateLimit) -> Micros {
    windows(rate).map(|window| window.length).max().unwrap_or(0)
}

/// Permissions for as many of the jobs as may start, in their order; if not for all, when the next may.
pub(crate) fn give(
    tx: &mut Tx<'_>,
    queue: i64,
    worker: WorkerId,
    rate: &RateLimit,
    wanted: &Starts,
) -> Outcome<(u32, Option<Duration>)> {
    let Some(first_cost) = wanted.first(rate) else {
        places::leave(tx, queue, worker)?;
        return Ok((0, None));
    };
    let windows: Vec<_> = windows(rate).collect();
    let longest = longest(rate);
    let mut now = tx.now;
    let mut total = 0;
    let add = |at: Micros, before: i64, started: i64| -> Outcome<()> {
        let row = params![queue, at, tx.now, tx.now + longest, before, started];
        tx.conn.prepare_cached(ADD)?.execute(row)?;
        Ok(())
    };
    let last = tx.conn.prepare_cached(LAST)?.query_one(params![queue, tx.now - longest], |row| {
        Ok((row.get::<_, Micros>(0)?, row.get::<_, Micros>(1)?, row.get::<_, i64>(2)?))
    });
    if let Some((at, clock, started)) = last.optional()? {
        total = started;
        now = at + (tx.now - clock).max(1);
        if tx.now < clock {
            // The clock was set back: the queue's goes on from here.
            add(now, total, total)?;
            tx.conn.prepare_cached(SET_BACK)?.execute(params![queue, tx.now + longest])?;
            now += 1;
        }
    }
    let Places { since, ahead } = places::find(tx, queue, worker)?;
    let mut free = i64::MAX;
    for window in &windows {
        let taken = ahead + total - first(tx, queue, now, window, total)?;
        // One that is empty has room for one job of any cost.
        let room = if taken == 0 { window.count.max(first_cost.into()) } else { window.count - taken };
        free = free.min(room);
    }
    let (given, next_cost) = wanted.fitting(rate, u32::try_from(free.max(0)).unwrap_or(u32::MAX));
    if given > 0 {
        add(now, total, total + i64::from(given))?;
        total += i64::from(given);
    }
    let Some(cost) = next_cost else {
        places::leave(tx, queue, worker)?;
        return Ok((given, None));
    };
    let mut next = next(tx, queue, now, &windows, total, ahead + i64::from(cost))?;
    if ahead > 0 {
        next = next.max(micros(BEHIND));
    }
    match cost > 1 || given == 0 && ahead > 0 {
        true => places::take(tx, queue, worker, since.filter(|_| given == 0), cost, next)?,
        false => places::leave(tx, queue, worker)?,
    }
    Ok((given, Some(Duration::from_micros(next.unsigned_abs()))))
}

/// How many were given out before the window.
fn first(tx: &Tx<'_>, queue: i64, now: Micros, window: &Window, total: i64) -> Outcome<i64> {
    let from = params![queue, now - window.length];
    let before = tx.conn.prepare_cached(FIRST)?.query_one(from, |row| row.get(0)).optional()?;
    Ok(before.unwrap_or(total))
}

/// In how long each window has room for so many; for more than its count: when it is empty.
fn next(tx: &Tx<'_>, queue: i64, now: Micros, windows: &[Window], total: i64, room: i64) -> Outcome<Micros> {
    let mut latest = 0;
    for window in windows {
        let most = (window.count - room).max(0);
        if total - first(tx, queue, now, window, total)? <= most {
            continue;
        }
        // Once this row has left the window, no more than that is in it.
        let from = params![queue, now - window.length, total - most - 1];
        let leave = if room == 1 { LEAVES } else { MANY_LEAVE };
        let leaves: Option<Option<Micros>> =
            tx.conn.prepare_cached(leave)?.query_one(from, |row| row.get(0)).optional()?;
        latest = latest.max(leaves.flatten().map_or(0, |at| at + window.length - now));
    }
    Ok(latest)
}

/// Where the longest window grew, what lies in it counts there, as far as it is still known.
pub(crate) fn keep(tx: &Tx<'_>, queue: i64, was: &RateLimit, rate: &RateLimit) -> Outcome<()> {
    let longest = longest(rate);
    if longest > self::longest(was) {
        tx.conn.prepare_cached(KEEP)?.execute(params![queue, tx.now, longest])?;
    }
    Ok(())
}

/// The rate of the queue is not limited any more.
pub(crate) fn forget_queue(tx: &Tx<'_>, queue: i64) -> Outcome<()> {
    tx.conn.prepare_cached("DELETE FROM started WHERE queue = ?1")?.execute([queue])?;
    Ok(())
}

/// Removes what no window reaches back to. Whether there may be more.
pub(crate) fn forget(tx: &Tx<'_>) -> Outcome<bool> {
    Ok(tx.conn.prepare_cached(FORGET)?.execute(params![tx.now, CHUNK])? == CHUNK as usize)
}
