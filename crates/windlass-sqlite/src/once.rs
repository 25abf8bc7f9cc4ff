//! Idempotency keys: the key is written in the transaction that appends its jobs.

use crate::{
    clock::Micros,
    enqueue::Batch,
    error::{Fault, Outcome},
    tx::Tx,
};
use rusqlite::{OptionalExtension, params};
use windlass_core::{EnqueuedOnce, ErrorKind, JobId};

const FIND: &str = "SELECT first, count FROM enqueue_key WHERE key = ?1";
const NOTE: &str = "INSERT INTO enqueue_key (key, at, first, count) VALUES (?1, ?2, ?3, ?4)";
const FORGET: &str = "DELETE FROM enqueue_key WHERE key IN
    (SELECT key FROM enqueue_key WHERE at <= ?1 ORDER BY at LIMIT ?2)";

/// Appends the batch unless its key is known.
pub(crate) fn enqueue(tx: &mut Tx<'_>, key: &str, batch: &Batch) -> Outcome<EnqueuedOnce> {
    let known: Option<(i64, i64)> =
        tx.conn.prepare_cached(FIND)?.query_one([key], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((first, count)) = known {
        check_count(key, count, batch.len())?;
        // Who stored them may have been cut off before they were on the disk.
        tx.touch()?;
        return Ok(EnqueuedOnce { ids: (first..first + count).map(JobId).collect(), repeated: true });
    }
    let ids = batch.append(tx)?;
    debug_assert!(ids.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1));
    let first = ids.first().map_or(0, |id| id.0);
    tx.conn.prepare_cached(NOTE)?.execute(params![key, tx.now, first, ids.len() as i64])?;
    Ok(EnqueuedOnce { ids, repeated: false })
}

fn check_count(key: &str, before: i64, now: usize) -> Outcome<()> {
    if before == now as i64 {
        return Ok(());
    }
    let message = format!(
        "idempotency key {key:?} was used for {before} jobs, now for {now}; use a key of its own for each batch"
    );
    Err(Fault::refused(ErrorKind::InvalidOption, message))
}

/// Removes at most `most` keys that are past their retention. Returns how many.
pub(crate) fn forget(tx: &Tx<'_>, before: Micros, most: u32) -> Outcome<usize> {
    Ok(tx.conn.prepare_cached(FORGET)?.execute(params![before, most])?)
}
