//! Which jobs of a keyed lane a claim hands out: by the turns of their keys, as far as their limits allow.

use crate::{
    error::Outcome,
    key_changes,
    key_entry::{self, CHUNK},
    key_move,
    key_turns::{Turn, divide},
    keyed::{Change, FIRST, KeyedLane},
    lanes::Lane,
    tx::Tx,
};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How many turns a claim looks at beyond those that it wants, because some may not have any job to hand out.
const BEYOND: u32 = 64;

const DEFAULT: &str = "SELECT concurrency, serial, weight FROM key_limit WHERE queue = ?1 AND key = ''";
const TURNS: &str = "SELECT t.key, t.vt, l.key IS NOT NULL, l.concurrency, l.serial, l.weight, coalesce(h.held, 0), coalesce(h.blockers, 0)
    FROM key_turn t LEFT JOIN key_limit l ON l.queue = ?2 AND l.key = t.key
    LEFT JOIN key_held h ON h.queue = ?2 AND h.key = t.key
    WHERE t.n = ?1 AND t.state = 0 ORDER BY t.vt, t.key LIMIT ?3";
// The first jobs of each key, as many as it may have. A job that is not where it was entered left by a program that does not know keys.
const JOBS: &str = "SELECT k.key, j.ord, j.pos, octet_length(job.args) FROM json_each(?2) k
    CROSS JOIN keyed_job j ON j.n = ?1 AND j.key = k.value AND j.ord <= coalesce((SELECT x.ord FROM keyed_job x
        WHERE x.n = ?1 AND x.key = k.value ORDER BY x.ord LIMIT 1 OFFSET ?3), 9223372036854775807)
    LEFT JOIN job ON job.pos = j.pos";
const LEAVE: &str =
    "DELETE FROM keyed_job WHERE (n, key, ord) IN (SELECT ?1, k.key, j.ord FROM json_each(?2) k
    CROSS JOIN keyed_job j ON j.n = ?1 AND j.key = k.key AND j.ord <= k.value)";
// A value is twice the virtual time, and one more for a key that may not go on.
const NEXT: &str = "INSERT INTO key_turn (n, key, vt, state) SELECT ?1, k.key, k.value >> 1, CASE
        WHEN NOT EXISTS (SELECT 1 FROM keyed_job j WHERE j.n = ?1 AND j.key = k.key) THEN 2 ELSE k.value & 1 END
    FROM json_each(?2) k WHERE true ON CONFLICT DO UPDATE SET vt = excluded.vt, state = excluded.state";
const TIME: &str = "UPDATE keyed_lane SET vt = max(vt, ?2) WHERE n = ?1";
const GO_ON: &str = "DELETE FROM key_blocker WHERE job IN (SELECT value FROM json_each(?1)) RETURNING key";

/// What a round handed out.
#[derive(Default)]
pub(crate) struct Chosen {
    /// Their new positions, the first and the last.
    pub(crate) range: Option<(i64, i64)>,
    pub(crate) count: u32,
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

/// A key with its limits.
struct Candidate {
    turn: Turn,
    /// How many may be held at once, if that is limited.
    limited: bool,
    /// Jobs wait for one that was handed out.
    waits: bool,
    taken: i64,
    /// Up to where its jobs are handed out or not there.
    last: Option<i64>,
    jobs: VecDeque<Job>,
    fetched: bool,
}

struct Job {
    ord: i64,
    pos: i64,
    /// The size of its args; `None` when it is not there.
    size: Option<i64>,
}

/// Moves the next jobs of the lane into its twin, at most `most` and, but for the first, `bytes`.
pub(crate) fn choose(tx: &mut Tx<'_>, lane: &KeyedLane, most: u32, bytes: usize) -> Outcome<Chosen> {
    let mut candidates = candidates(tx.conn, lane, most)?;
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
    let mut chosen = Chosen { cut, count: places.len() as u32, ..Chosen::default() };
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

impl Candidate {
    /// Its next job that is there and may be handed out.
    fn next(&mut self) -> Option<Job> {
        while let Some(job) = self.jobs.pop_front() {
            if job.size.is_none() {
                self.last = Some(job.ord);
            } else if self.waits && job.ord >= 0 {
                self.jobs.clear();
            } else {
                return Some(job);
            }
        }
        None
    }

    fn may_go_on(&self) -> bool {
        self.taken < self.turn.most && !self.waits
    }
}

/// The turns that come next, with what their limits leave.
fn candidates(conn: &Connection, lane: &KeyedLane, most: u32) -> Outcome<Vec<Candidate>> {
    let default: Option<(Option<i64>, bool, i64)> = conn
        .prepare_cached(DEFAULT)?
        .query_one([lane.queue], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let default = default.unwrap_or((None, false, 1));
    let mut find = conn.prepare_cached(TURNS)?;
    let mut rows = find.query(params![lane.n, lane.queue, most.saturating_add(BEYOND)])?;
    let (mut candidates, mut open) = (Vec::new(), 0);
    while let Some(row) = rows.next()?
        && open < most
    {
        let key: String = row.get(0)?;
        let (concurrency, serial, weight) = match row.get(2)? {
            _ if key.is_empty() => (None, false, 1),
            true => (row.get(3)?, row.get(4)?, row.get(5)?),
            false => default,
        };
        let at_once = if serial { Some(1) } else { concurrency };
        let held: i64 = row.get(6)?;
        let left = at_once.map_or(i64::MAX, |at_once| (at_once - held).max(0));
        open += u32::from(left > 0);
        candidates.push(Candidate {
            turn: Turn { key, vt: row.get(1)?, weight, most: left },
            limited: at_once.is_some(),
            waits: serial && row.get::<_, i64>(7)? > 0,
            taken: 0,
            last: None,
            jobs: VecDeque::new(),
            fetched: false,
        });
    }
    Ok(candidates)
}

/// Reads the jobs that the keys get if they have as many: those of all keys that get the same number at once.
fn fetch(conn: &Connection, lane: &KeyedLane, order: &[usize], candidates: &mut [Candidate]) -> Outcome<()> {
    let mut wanted = vec![0; candidates.len()];
    order.iter().for_each(|nth| wanted[*nth] += 1);
    let mut alike: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (nth, wanted) in wanted.into_iter().enumerate().filter(|(_, wanted)| *wanted > 0) {
        alike.entry(wanted).or_default().push(nth);
        candidates[nth].fetched = true;
    }
    let mut find = conn.prepare_cached(JOBS)?;
    for (wanted, alike) in alike {
        let keys: Vec<&str> = alike.iter().map(|nth| &*candidates[*nth].turn.key).collect();
        let keys = serde_json::to_string(&keys).unwrap_or_default(); // strings can be written
        let mut rows = find.query(params![lane.n, keys, wanted - 1])?;
        while let Some(row) = rows.next()? {
            let nth = alike[row.get::<_, u32>(0)? as usize];
            let job = Job { ord: row.get(1)?, pos: row.get(2)?, size: row.get(3)? };
            candidates[nth].jobs.push_back(job);
        }
    }
    Ok(())
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
            next.insert(key, one.turn.after(one.taken) << 1 | i64::from(!one.may_go_on()));
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
        key_changes::write(tx.conn, lane.queue, &changes)?;
    }
    let object = |numbers: &HashMap<&str, i64>| serde_json::to_string(numbers).unwrap_or_default();
    if !left.is_empty() {
        tx.conn.prepare_cached(LEAVE)?.execute(params![lane.n, object(&left)])?;
    }
    tx.conn.prepare_cached(NEXT)?.execute(params![lane.n, object(&next)])?;
    Ok(())
}
