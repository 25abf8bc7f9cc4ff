//! Which jobs of a keyed lane a claim hands out: by the turns of their keys, as far as their limits allow.

use crate::{
    error::Outcome,
    key_candidates::{Candidate, candidates, fetch},
    key_changes,
    key_entry::{self, CHUNK},
    key_move,
    key_turns::{Turn, divide},
    keyed::{Change, FIRST, KeyedLane},
    lanes::Lane,
    tx::Tx,
};
use rusqlite::params;
use std::collections::HashMap;

const LEAVE: &str =
    "DELETE FROM keyed_job WHERE (n, key, ord) IN (SELECT ?1, k.key, j.ord FROM json_each(?2) k
    CROSS JOIN keyed_job j ON j.n = ?1 AND j.key = k.key AND j.ord <= k.value)";
// A value is four times the virtual time, one more for a key that may not go on, and two more where its rate is used up.
const NEXT: &str = "INSERT INTO key_turn (n, key, vt, state, due) SELECT ?1, k.key, k.value >> 2, CASE
        WHEN NOT EXISTS (SELECT 1 FROM keyed_job j WHERE j.n = ?1 AND j.key = k.key) THEN 2 ELSE k.value & 1 END,
        CASE WHEN k.value & 2 AND EXISTS (SELECT 1 FROM keyed_job j WHERE j.n = ?1 AND j.key = k.key)
        THEN (SELECT min(e.free_at) FROM key_ended e WHERE e.queue = ?3 AND e.key = k.key) END
    FROM json_each(?2) k WHERE true ON CONFLICT DO UPDATE SET vt = excluded.vt, state = excluded.state, due = excluded.due";
const TIME: &str = "UPDATE keyed_lane SET vt = max(vt, ?2) WHERE n = ?1";
const GO_ON: &str = "DELETE FROM key_blocker WHERE job IN (SELECT value FROM json_each(?1)) RETURNING key";

/// What a round handed out.
#[derive(Default)]
pub(crate) struct Chosen {
    /// Their new positions, the first and the last.
    pub(crate) range: Option<(i64, i64)>,
    pub(crate) count: u32,
    /// How many keys it looked at.
    pub(crate) looked_at: u32,
    /// There are more, but not within the bytes.
    pub(crate) cut: bool,
    /// Another round may find more.
    pub(crate) more: bool,
}

/// The lane, when all its jobs are entered.
pub(crate) fn entered(tx: &mut Tx<'_>, lane: &Lane) -> Outcome<Option<KeyedLane>> {
    if tx.keyed().lane(lane.id).is_none() {
        let conn = tx.conn;
        tx.keyed().enter(conn, lane.queue, Some(lane.id))?;
    }
    let Some(keyed) = tx.keyed().lane(lane.id) else { return Ok(None) };
    Ok(key_entry::enter(tx.conn, &keyed, CHUNK)?.then_some(keyed))
}

/// Moves the next jobs of the lane into its twin, at most `most` and, but for the first, `bytes`.
pub(crate) fn choose(tx: &mut Tx<'_>, lane: &KeyedLane, most: u32, bytes: usize) -> Outcome<Chosen> {
    let has_rates = tx.keyed().has_rates(lane.queue);
    let mut candidates = candidates(tx.conn, lane, has_rates, most)?;
    if candidates.is_empty() {
        return Ok(Chosen::default());
    }
    let turns: Vec<Turn> = candidates.iter().map(|candidate| candidate.turn.clone()).collect();
    let order = divide(&turns, most as usize);
    fetch(tx.conn, lane, &order, &mut candidates)?;
    let (mut places, mut size, mut cut, mut time) = (Vec::with_capacity(order.len()), 0, false, 0);
    let (mut freed, mut keys) = (Vec::new(), Vec::with_capacity(places.capacity()));
    for nth in order {
        let candidate = &mut candidates[nth];
        let Some(job) = candidate.next() else { continue };
        let args = usize::try_from(job.size.unwrap_or(0)).unwrap_or(usize::MAX);
        cut = !places.is_empty() && args > bytes.saturating_sub(size);
        if cut {
            break;
        }
        size = size.saturating_add(args);
        time = time.max(candidate.turn.after(candidate.taken));
        candidate.taken += 1;
        candidate.last = Some(job.ord);
        if job.ord < 0 {
            freed.push(job.ord + FIRST);
        }
        places.push(job.pos);
        keys.push(nth);
    }
    let mut chosen =
        Chosen { cut, count: places.len() as u32, looked_at: candidates.len() as u32, ..Chosen::default() };
    chosen.more = !cut && chosen.count < most;
    write(tx, lane, &candidates, cut, &freed)?;
    if !places.is_empty() {
        tx.conn.prepare_cached(TIME)?.execute([lane.n, time])?;
        let limited = keys.into_iter().map(|nth| &candidates[nth]);
        let limited: Vec<_> = limited.map(|one| one.limited.then_some(&*one.turn.key)).collect();
        chosen.range = Some(key_move::hand_out(tx, lane, &places, &limited)?);
    }
    Ok(chosen)
}

/// Writes what was taken from whom, and whose turn it is next.
fn write(tx: &Tx<'_>, lane: &KeyedLane, candidates: &[Candidate], cut: bool, freed: &[i64]) -> Outcome<()> {
    let (mut left, mut next, mut changes) = (HashMap::new(), HashMap::new(), HashMap::new());
    for one in candidates {
        let key = &*one.turn.key;
        if let Some(last) = one.last {
            left.insert(key, last);
        }
        if one.taken > 0 || one.turn.most == 0 || one.fetched && !cut {
            let state = i64::from(!one.may_go_on()) | i64::from(one.is_used_up()) << 1;
            next.insert(key, one.turn.after(one.taken) << 2 | state);
        }
        if one.taken > 0 && one.limited {
            changes.insert(key.to_owned(), Change { held: one.taken, blockers: 0 });
        }
    }
    if !freed.is_empty() {
        let freed = serde_json::to_string(freed).unwrap_or_default();
        let mut go_on = tx.conn.prepare_cached(GO_ON)?;
        for key in go_on.query_map([freed], |row| row.get::<_, String>(0))? {
            changes.entry(key?).or_default().blockers -= 1;
        }
    }
    if !changes.is_empty() {
        key_changes::write(tx.conn, lane.queue, &changes, None)?;
    }
    let object = |numbers: &HashMap<&str, i64>| serde_json::to_string(numbers).unwrap_or_default();
    if !left.is_empty() {
        tx.conn.prepare_cached(LEAVE)?.execute(params![lane.n, object(&left)])?;
    }
    tx.conn.prepare_cached(NEXT)?.execute(params![lane.n, object(&next), lane.queue])?;
    Ok(())
}
