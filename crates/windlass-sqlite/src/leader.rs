//! Leadership: one row that holds a lease on the store's clock.

use crate::{clock::micros, error::Outcome, tx::Tx};
use rusqlite::params;
use std::time::Duration;
use windlass_core::WorkerId;

// Taken in the future means that the clock was set back since: the term is void, or it could last for years.
const TAKE: &str = "INSERT INTO leader (one, worker, taken_at, term) VALUES (1, ?1, ?2, ?3)
    ON CONFLICT (one) DO UPDATE SET worker = ?1, taken_at = ?2, term = ?3
    WHERE worker = ?1 OR taken_at > ?2 OR taken_at + term <= ?2";

/// Takes or renews leadership. A worker that is no longer live does not lead.
pub(crate) fn lead(tx: &mut Tx<'_>, worker: WorkerId, term: Duration) -> Outcome<bool> {
    tx.fence(worker)?;
    let taken = tx.conn.prepare_cached(TAKE)?.execute(params![worker.0, tx.now, micros(term)])?;
    Ok(taken > 0)
}

/// Gives leadership up; nothing to do for a worker that does not lead.
pub(crate) fn resign(tx: &mut Tx<'_>, worker: WorkerId) -> Outcome<()> {
    tx.conn.prepare_cached("DELETE FROM leader WHERE worker = ?1")?.execute([worker.0])?;
    Ok(())
}
