//! Slots of queues that limit how many jobs run at once. The rules are those of PostgreSQL's `61_slots.sql`, and told there.

use crate::{
    division::{Division, Room, Sharer, is_long_since},
    error::Outcome,
    tx::Tx,
};
use rusqlite::params;
use windlass_core::{QueueNeed, WorkerId};

const SHARERS: &str = "SELECT slot.worker, coalesce(slots, 0), want, wanted, since,
    want > 0 AND ended_at IS NULL AND heartbeat_at + lease / 2 >= ?2
    FROM slot LEFT JOIN worker ON worker.id = slot.worker WHERE queue = ?1";
const PUT: &str =
    "INSERT INTO slot (queue, worker, slots, want, wanted, since) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT DO UPDATE SET slots = ?3, want = ?4, wanted = ?5, since = ?6";
const ENTER: &str =
    "INSERT OR IGNORE INTO slot (queue, worker, want, wanted, since) VALUES (?1, ?2, 1, 0, ?3)";
const LEAVE: &str = "DELETE FROM slot WHERE queue = ?1 AND worker = ?2";
const HAS: &str = "SELECT 1 FROM slot WHERE queue = ?1 AND worker = ?2 AND slots IS NOT 0";

/// Whether a worker has a share of a queue with limits.
pub(crate) fn has(tx: &Tx<'_>, queue: i64, worker: WorkerId) -> Outcome<bool> {
    Ok(tx.conn.prepare_cached(HAS)?.exists(params![queue, worker.0])?)
}

/// Of a queue that limits the rate only: the worker takes part, or does not.
pub(crate) fn enter(tx: &Tx<'_>, queue: i64, worker: WorkerId, takes_part: bool) -> Outcome<()> {
    match takes_part {
        true => tx.conn.prepare_cached(ENTER)?.execute(params![queue, worker.0, tx.now])?,
        false => tx.conn.prepare_cached(LEAVE)?.execute(params![queue, worker.0])?,
    };
    Ok(())
}

/// How many jobs of a queue the worker may run at once, and whether others want some of those slots.
pub(crate) fn share(
    tx: &mut Tx<'_>,
    queue: i64,
    worker: WorkerId,
    limit: u32,
    need: &QueueNeed,
) -> Outcome<(u32, bool)> {
    let (mine, others): (Vec<_>, Vec<_>) =
        sharers(tx, queue)?.into_iter().partition(|sharer| sharer.worker == worker.0);
    let mine = mine.first().copied();
    let (want, running) = (i64::from(need.slots), i64::from(need.running));
    // What it ran before it had ever asked, it ran before there was a limit.
    let keep = mine.map_or(running, |mine| running.min(mine.slots));
    let room = Room::of(i64::from(limit), &others);
    let division = room.division(want, &others);
    let most = match division {
        None => want.max(keep),
        Some(division) => room.most(division, mine, tx.now, worker.0, &others),
    };
    let most = most.min(room.free.max(0));
    let slots = want.min(most).max(keep);
    let wanted = slots > most;
    let since = mine.filter(|mine| (mine.slots == 0) == (slots == 0)).map_or(tx.now, |mine| mine.since);
    let now = Sharer { worker: worker.0, slots, want, wanted, since, asks: want > 0 };
    put(tx, queue, mine.as_ref(), &now)?;
    if let Some(mine) = mine
        && (slots < mine.slots || want < mine.want)
        && room.free > slots
        && others.iter().any(|other| other.asks && other.want > other.slots)
    {
        tx.request()?;
    }
    if let Some(division) = division
        && slots < want
        && slots <= division.level
    {
        ask_for_slots(tx, queue, division, &others)?;
    }
    Ok((u32::try_from(slots).unwrap_or(u32::MAX), wanted))
}

/// Tells workers that have more than their share that somebody waits, once each until it asks again.
fn ask_for_slots(tx: &mut Tx<'_>, queue: i64, division: Division, others: &[Sharer]) -> Outcome<()> {
    let Division { level, spare } = division;
    let mut holders: Vec<_> = others.iter().filter(|other| other.slots > level).collect();
    holders.sort_unstable_by_key(|other| (other.slots, std::cmp::Reverse(other.since)));
    let mut told = false;
    for (nth, holder) in (1..).zip(holders) {
        let has_too_much =
            holder.slots > level + 1 || nth > spare || level == 0 && is_long_since(holder.since, tx.now);
        if has_too_much && !holder.wanted {
            put(tx, queue, Some(holder), &Sharer { wanted: true, ..*holder })?;
            told = true;
        }
    }
    if told { tx.request() } else { Ok(()) }
}

fn sharers(tx: &Tx<'_>, queue: i64) -> Outcome<Vec<Sharer>> {
    let mut find = tx.conn.prepare_cached(SHARERS)?;
    let rows = find.query_map(params![queue, tx.now], |row| {
        Ok(Sharer {
            worker: row.get(0)?,
            slots: row.get(1)?,
            want: row.get(2)?,
            wanted: row.get(3)?,
            since: row.get(4)?,
            asks: row.get::<_, Option<bool>>(5)?.unwrap_or(false),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Writes nothing where nothing changes.
fn put(tx: &Tx<'_>, queue: i64, before: Option<&Sharer>, now: &Sharer) -> Outcome<()> {
    let same = before.is_some_and(|before| {
        (before.slots, before.want, before.wanted) == (now.slots, now.want, now.wanted)
    });
    if same {
        return Ok(());
    }
    if now.slots == 0 && now.want == 0 {
        return enter(tx, queue, WorkerId(now.worker), false);
    }
    let row = params![queue, now.worker, now.slots, now.want, now.wanted, now.since];
    tx.conn.prepare_cached(PUT)?.execute(row)?;
    Ok(())
}

/// How many run is not limited any more, but something else is.
pub(crate) fn unlimited(tx: &Tx<'_>, queue: i64) -> Outcome<()> {
    tx.conn.prepare_cached("UPDATE slot SET slots = NULL WHERE queue = ?1")?.execute([queue])?;
    Ok(())
}

/// Nobody has a share of the queue.
pub(crate) fn forget_queue(tx: &Tx<'_>, queue: i64) -> Outcome<()> {
    tx.conn.prepare_cached("DELETE FROM slot WHERE queue = ?1")?.execute([queue])?;
    Ok(())
}

/// The worker ended: its shares go.
pub(crate) fn forget_worker(tx: &mut Tx<'_>, worker: WorkerId) -> Outcome<()> {
    let gone = tx.conn.prepare_cached("DELETE FROM slot WHERE worker = ?1")?.execute([worker.0])?;
    if gone > 0 { tx.request() } else { Ok(()) }
}
