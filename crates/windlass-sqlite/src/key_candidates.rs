//! The keys whose turn it is, with what their limits leave and their next jobs.

use crate::{error::Outcome, key_turns::Turn, keyed::KeyedLane};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::{BTreeMap, VecDeque};

/// How many turns a claim looks at beyond those that it wants, because some may not have any job to hand out.
const BEYOND: u32 = 64;

const DEFAULT: &str = "SELECT concurrency, serial, weight, rate FROM key_limit WHERE queue = ?1 AND key = ''";
macro_rules! turns {
    ($ended:literal, $join:literal) => {
        concat!(
            "SELECT t.key, t.vt, l.key IS NOT NULL, l.concurrency, l.serial, l.weight, l.rate, coalesce(h.held, 0), coalesce(h.blockers, 0), ",
            $ended,
            " FROM key_turn t LEFT JOIN key_limit l ON l.queue = ?2 AND l.key = t.key
            LEFT JOIN key_held h ON h.queue = ?2 AND h.key = t.key ",
            $join,
            " WHERE t.n = ?1 AND t.state = 0 ORDER BY t.vt, t.key LIMIT ?3"
        )
    };
}
const TURNS: &str = turns!("0", "");
const TURNS_WITH_RATES: &str =
    turns!("coalesce(e.jobs, 0)", "LEFT JOIN key_ended_count e ON e.queue = ?2 AND e.key = t.key");
// The first jobs of each key, as many as it may have. A job that is not where it was entered left by a program that does not know keys.
const JOBS: &str = "SELECT k.key, j.ord, j.pos, octet_length(job.args) FROM json_each(?2) k
    CROSS JOIN keyed_job j ON j.n = ?1 AND j.key = k.value AND j.ord <= coalesce((SELECT x.ord FROM keyed_job x
        WHERE x.n = ?1 AND x.key = k.value ORDER BY x.ord LIMIT 1 OFFSET ?3), 9223372036854775807)
    LEFT JOIN job ON job.pos = j.pos";

/// A key with its limits.
pub(crate) struct Candidate {
    pub(crate) turn: Turn,
    /// How many may be held at once, or handed out in a time, is limited.
    pub(crate) limited: bool,
    /// How many its rate allows now.
    rate_left: i64,
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

    /// It may not have more until something that ended counts no more.
    pub(crate) fn is_used_up(&self) -> bool {
        self.taken >= self.rate_left
    }

    pub(crate) fn may_go_on(&self) -> bool {
        self.taken < self.turn.most && !self.waits
    }
}

/// The turns that come next, with what their limits leave.
pub(crate) fn candidates(
    conn: &Connection,
    lane: &KeyedLane,
    has_rates: bool,
    most: u32,
) -> Outcome<Vec<Candidate>> {
    type Limit = (Option<i64>, bool, i64, Option<i64>);
    let limit = |row: &Row<'_>, first: usize| -> rusqlite::Result<Limit> {
        Ok((row.get(first)?, row.get(first + 1)?, row.get(first + 2)?, row.get(first + 3)?))
    };
    let default = conn.prepare_cached(DEFAULT)?.query_one([lane.queue], |row| limit(row, 0)).optional()?;
    let default = default.unwrap_or((None, false, 1, None));
    let mut find = conn.prepare_cached(if has_rates { TURNS_WITH_RATES } else { TURNS })?;
    let mut rows = find.query(params![lane.n, lane.queue, most.saturating_add(BEYOND)])?;
    let (mut candidates, mut open) = (Vec::new(), 0);
    while let Some(row) = rows.next()?
        && open < most
    {
        let key: String = row.get(0)?;
        let (concurrency, serial, weight, rate) = match row.get(2)? {
            _ if key.is_empty() => (None, false, 1, None),
            true => limit(row, 3)?,
            false => default,
        };
        let at_once = if serial { Some(1) } else { concurrency };
        let (held, ended): (i64, i64) = (row.get(7)?, row.get(9)?);
        let rate_left = rate.map_or(i64::MAX, |rate| (rate - held - ended).max(0));
        let left = at_once.map_or(i64::MAX, |at_once| (at_once - held).max(0)).min(rate_left);
        open += u32::from(left > 0);
        candidates.push(Candidate {
            turn: Turn { key, vt: row.get(1)?, weight, most: left },
            limited: at_once.is_some() || rate.is_some(),
            rate_left,
            waits: serial && row.get::<_, i64>(8)? > 0,
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
