//! Counters per minute, read.

use crate::{
    clock::{Micros, micros, timestamp},
    error::Outcome,
};
use rusqlite::{Connection, params};
use windlass_core::{Count, EventType, History, HistoryRequest};

const READ: &str = "SELECT minute * 60 / ?2 * ?2, queue, kind, outcome, sum(n) FROM counter
    WHERE minute > ?1 AND (?3 IS NULL OR queue = ?3) AND (?4 IS NULL OR kind = ?4) AND (?5 IS NULL OR outcome = ?5)
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT ?6";

/// Before anything was counted: until the first of what is to be, or until now where there is nothing.
const UNTIL: &str = "SELECT coalesce(nullif(counted_until, 0), (SELECT min(at, ?1) FROM happened WHERE happened.n > f.n ORDER BY happened.n LIMIT 1), ?1)
    FROM counter_fold f";

/// What the checked request asks for.
pub(crate) fn history(conn: &Connection, request: &HistoryRequest, now: Micros) -> Outcome<History> {
    let before = (now.saturating_sub(micros(request.last))).div_euclid(60_000_000) - 1;
    let step = i64::try_from(request.step.as_secs()).unwrap_or(i64::MAX);
    let outcome = request.outcome.map(EventType::as_str);
    let until = conn.query_one(UNTIL, [now], |row| row.get(0))?;
    let mut find = conn.prepare_cached(READ)?;
    let most = HistoryRequest::MOST as i64 + 1;
    let mut rows = find.query(params![before, step, request.queue, request.kind, outcome, most])?;
    let mut counts = Vec::new();
    while let Some(row) = rows.next()? {
        let at = timestamp(row.get::<_, i64>(0)?.saturating_mul(1_000_000));
        let (outcome, count): (String, i64) = (row.get(3)?, row.get(4)?);
        counts.push(Count::new(at, row.get(1)?, row.get(2)?, outcome.parse()?, count.unsigned_abs()));
    }
    if counts.len() > HistoryRequest::MOST {
        return Err(HistoryRequest::too_much().into());
    }
    Ok(History::new(request.step, timestamp(until), counts))
}
