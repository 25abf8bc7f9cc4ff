//! Deploys: that workers of another version of a program begin is marked in the audit log, without anybody's doing.

use crate::{clock::Micros, error::Outcome, tx::Tx};
use rusqlite::{Connection, params};

/// How far back a look goes: far longer than who leads takes to look again.
const LOOK_BACK: Micros = 600_000_000;

const ANY: &str = "SELECT 1 FROM worker WHERE started_at > ?1 AND app_version IS NOT NULL";
// A worker is the first of its version where others of its program registered before, none that lived then had its version, and of those that had gone
// the last one had another: so the first of all marks nothing, nor does a restart. A mark that is as young as a worker is its own, or of one that began beside it. The
// clock may have been set back: who registered before whom is told by their numbers, and a mark that names the worker is its own.
macro_rules! first_of_their_version {
    () => {
        "WITH registered AS (
            SELECT id, started_at, app_version, substr(concat_ws(' ', program, app_version), 1, 100) AS label,
                max(coalesce(ended_at, 9223372036854775807)) OVER (PARTITION BY program ORDER BY id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS any_until,
                max(coalesce(ended_at, 9223372036854775807)) OVER (PARTITION BY program, app_version ORDER BY id
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS same_until
            FROM worker)
        SELECT ?2, 'windlass', 'worker', 'mark', label, 'worker ' || min(id) || ' was the first of it', 'done' FROM registered
        WHERE started_at > ?1 AND app_version IS NOT NULL AND any_until IS NOT NULL
            AND (same_until IS NULL OR same_until <= started_at AND same_until < any_until)
            AND NOT EXISTS (SELECT 1 FROM audit_entry e WHERE e.target = label AND e.actor = 'windlass' AND e.action = 'mark'
                AND (e.at >= started_at OR e.reason = 'worker ' || registered.id || ' was the first of it'))
        GROUP BY label ORDER BY min(id)"
    };
}
const FIND: &str = first_of_their_version!();
const MARK: &str = concat!(
    "INSERT INTO audit_entry (at, actor, via, action, target, reason, outcome) ",
    first_of_their_version!()
);

/// Whether there are versions that began of late and are not marked yet. Passes over all workers that are kept, so that it is asked where nobody waits for
/// the file.
pub(crate) fn is_any(conn: &Connection, now: Micros) -> Outcome<bool> {
    let since = now.saturating_sub(LOOK_BACK);
    Ok(conn.prepare_cached(ANY)?.exists([since])?
        && conn.prepare_cached(FIND)?.exists(params![since, now])?)
}

/// Marks them.
pub(crate) fn mark(tx: &Tx<'_>) -> Outcome<()> {
    tx.conn.prepare_cached(MARK)?.execute(params![tx.now.saturating_sub(LOOK_BACK), tx.now])?;
    Ok(())
}
