//! Slots of queues that limit how many jobs run at once. The rules are those of PostgreSQL's `61_slots.sql`, and told there.

use crate::{clock::Micros, error::Outcome, tx::Tx};
use rusqlite::params;
use windlass_core::{QueueNeed, WorkerId};

/// How long a turn lasts at least, where there are more workers than slots.
const TURN: Micros = 1_000_000;

const SHARERS: &str = "SELECT slot.worker, coalesce(slots, 0), want, wanted, since,
    want > 0 AND ended_at IS NULL AND heartbeat_at + lease / 2 >= ?2
    FROM slot LEFT JOIN worker ON worker.id = slot.worker WHERE queue = ?1";
const PUT: &str =
    "INSERT OR REPLACE INTO slot (queue, worker, slots, want, wanted, since) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const ENTER: &str =
    "INSERT OR IGNORE INTO slot (queue, worker, want, wanted, since) VALUES (?1, ?2, 1, 0, ?3)";
const LEAVE: &str = "DELETE FROM slot WHERE queue = ?1 AND worker = ?2";
const HAS: &str = "SELECT 1 FROM slot WHERE queue = ?1 AND worker = ?2 AND slots IS NOT 0";

/// The share of a worker.
#[derive(Clone, Copy, Debug)]
struct Sharer {
    worker: i32,
    slots: i64,
    want: i64,
    wanted: bool,
    /// Since when it has slots, or waits for the first.
    since: Micros,
    /// Whether its wish counts: who has been silent for half a lease holds its slots and nothing else.
    asks: bool,
}

/// Slots divided among all who ask: each gets what it wants up to the level, `spare` of those who want more get one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    level: i64,
    spare: i64,
}

impl Division {
    /// `None`: there is enough for all.
    fn of(slots: i64, mut wants: Vec<i64>) -> Option<Self> {
        wants.sort_unstable();
        let mut rest = slots.max(0);
        for (nth, want) in wants.iter().enumerate() {
            let wanting = (wants.len() - nth) as i64;
            if want * wanting > rest {
                return Some(Self { level: rest / wanting, spare: rest % wanting });
            }
            rest -= want;
        }
        None
    }
}

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

/// What others leave.
struct Room {
    /// Slots that nobody else has.
    free: i64,
    /// Slots that may be divided among those who ask.
    divisible: i64,
    /// So many wait for their first.
    starving: i64,
}

impl Room {
    fn of(limit: i64, others: &[Sharer]) -> Self {
        let sum =
            |of: &dyn Fn(&&Sharer) -> bool| others.iter().filter(of).map(|other| other.slots).sum::<i64>();
        Self {
            free: limit - sum(&|_| true),
            divisible: limit - sum(&|other| !other.asks),
            starving: others.iter().filter(|other| other.asks && other.slots == 0).count() as i64,
        }
    }

    fn division(&self, want: i64, others: &[Sharer]) -> Option<Division> {
        let wants = others.iter().filter(|other| other.asks).map(|other| other.want);
        Division::of(self.divisible, wants.chain((want > 0).then_some(want)).collect())
    }

    /// The level or one more. Where there are more workers than slots they take turns.
    fn most(&self, division: Division, mine: Option<Sharer>, now: Micros, me: i32, others: &[Sharer]) -> i64 {
        let Division { level, spare } = division;
        let had = mine.map_or(0, |mine| mine.slots);
        let since = mine.map_or(now, |mine| mine.since);
        let above = others.iter().filter(|other| other.asks && other.slots > level).count() as i64;
        let is_before =
            |other: &&Sharer| other.asks && other.slots == 0 && (other.since, other.worker) < (since, me);
        let before = others.iter().filter(is_before).count() as i64;
        let turn_is_over =
            level == 0 && had > 0 && self.starving > self.free - had && is_long_since(since, now);
        let one_more = if turn_is_over || above >= spare {
            0
        } else {
            i64::from(level > 0 || had > 0 || above + before < spare)
        };
        level + one_more
    }
}

/// After the clock was set back nobody knows.
fn is_long_since(since: Micros, now: Micros) -> bool {
    !(since..=since.saturating_add(TURN)).contains(&now)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_divided() {
        assert_eq!(Division::of(10, vec![3, 7]), None);
        assert_eq!(Division::of(10, vec![4, 7]), Some(Division { level: 6, spare: 0 }));
        assert_eq!(Division::of(10, vec![10, 1, 20, 10]), Some(Division { level: 3, spare: 0 }));
        assert_eq!(Division::of(5, vec![9, 9]), Some(Division { level: 2, spare: 1 }));
        assert_eq!(Division::of(2, vec![1, 1, 1]), Some(Division { level: 0, spare: 2 }));
        assert_eq!(Division::of(-3, vec![1]), Some(Division { level: 0, spare: 0 }));
        assert_eq!(Division::of(0, vec![]), None);
    }
}
