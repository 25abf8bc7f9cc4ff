//! The keys whose turn it is, with what their limits leave and their next jobs.

use crate::{error::Outcome, key_turns::Turn, keyed::KeyedLane};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, VecDeque};

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

/// A key with its limits.
pub(crate) struct Candidate {
    pub(crate) turn: Turn,
    /// How many may be held at once, if that is limited.
    pub(crate) limited: bool,
    /// Jobs wait for one that was handed out.
    waits: bool,
    /// So many it has of this claim.
    pub(crate) taken: i64,
    /// Up to where its jobs are handed out or not there.
    pub(crate) last: Option<i64>,
    jobs: VecDeque<Job>,
    /// Whether its jobs were read.
    pub(crate) fetched: bool,
}

pub(crate) struct Job {
    pub(crate) ord: i64,
    pub(crate) pos: i64,
    /// The size of its args; `None` when it is not there.
    pub(crate) size: Option<i64>,
}

impl Candidate {
    /// Its next job that is there and may be handed out.
    pub(crate) fn next(&mut self) -> Option<Job> {
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

    pub(crate) fn may_go_on(&self) -> bool {
        self.taken < self.turn.most && !self.waits
    }
}

/// The turns that come next, with what their limits leave.
pub(crate) fn candidates(conn: &Connection, lane: &KeyedLane, most: u32) -> Outcome<Vec<Candidate>> {
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
pub(crate) fn fetch(
    conn: &Connection,
    lane: &KeyedLane,
    order: &[usize],
    candidates: &mut [Candidate],
) -> Outcome<()> {
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
