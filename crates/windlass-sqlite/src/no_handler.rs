//! Jobs without a handler: kept out of the log because a worker did not know their kind. A claim by a worker that
//! knows it hands them out directly.

use crate::{
    error::{Fault, Outcome},
    moves::{self, Waiting},
    tx::Tx,
};
use rusqlite::{OptionalExtension, params};
use windlass_core::{ErrorKind, WorkerId};

const OF_KIND: &str =
    "SELECT id FROM waiting WHERE state = 2 AND lane = ?1 AND kind = ?2 ORDER BY id LIMIT ?3";
const NEXT_KIND: &str = "SELECT kind FROM waiting INDEXED BY waiting_no_handler
    WHERE state = 2 AND lane = ?1 AND kind >= ?2 ORDER BY kind LIMIT 1";
const OF_ANY_KIND: &str = "SELECT id FROM waiting WHERE state = 2 AND lane = ?1 LIMIT ?2";

/// The most jobs that one claim moves: with the largest args this is as much as a claim should hold.
pub(crate) const MOST: u32 = 32;

/// Moves at most `limit` jobs without a handler, of kinds that the worker knows, to the end of `to`: the lane itself or its direct twin.
/// Returns the first and the last of their new positions; nobody else has any between.
pub(crate) fn append_known(
    tx: &mut Tx<'_>,
    worker: WorkerId,
    lane: i32,
    to: i32,
    limit: u32,
) -> Outcome<Option<(i64, i64)>> {
    let ids = find(tx, worker, lane, limit)?;
    let (mut first, mut last) = (None, 0);
    for id in ids {
        last = moves::append_waiting(tx, id, to, Waiting::NoHandler)?;
        first = first.or(Some(last));
    }
    Ok(first.map(|first| (first, last)))
}

fn find(tx: &Tx<'_>, worker: WorkerId, lane: i32, limit: u32) -> Outcome<Vec<i64>> {
    let kinds = kinds(tx, worker)?;
    if kinds.is_empty() {
        let mut find = tx.conn.prepare_cached(OF_ANY_KIND)?;
        return Ok(find.query_map(params![lane, limit], |row| row.get(0))?.collect::<Result<_, _>>()?);
    }
    let (mut next, mut find) = (tx.conn.prepare_cached(NEXT_KIND)?, tx.conn.prepare_cached(OF_KIND)?);
    let (mut ids, mut kinds) = (Vec::new(), kinds.as_slice());
    // From one kind that is there to the next that the worker knows: it may know a thousand, and every claim asks.
    while let Some(kind) = kinds.first()
        && ids.len() < limit as usize
    {
        let there: Option<String> = next.query_one(params![lane, kind], |row| row.get(0)).optional()?;
        let Some(there) = there else { break };
        if *kind == there {
            let left = limit - ids.len() as u32;
            for id in find.query_map(params![lane, kind, left], |row| row.get(0))? {
                ids.push(id?);
            }
            kinds = &kinds[1..];
        } else {
            kinds = &kinds[kinds.partition_point(|kind| *kind < there)..];
        }
    }
    Ok(ids)
}

fn kinds(tx: &Tx<'_>, worker: WorkerId) -> Outcome<Vec<String>> {
    let mut find = tx.conn.prepare_cached("SELECT kinds FROM worker WHERE id = ?1")?;
    let json: String = find.query_one([worker.0], |row| row.get(0))?;
    let mut kinds: Vec<String> = serde_json::from_str(&json).map_err(|cause| {
        Fault::refused(ErrorKind::Internal, format!("the kinds of worker {worker} are damaged: {cause}"))
    })?;
    // A kind that is named twice is one: its jobs would be found twice.
    kinds.sort_unstable();
    kinds.dedup();
    Ok(kinds)
}
