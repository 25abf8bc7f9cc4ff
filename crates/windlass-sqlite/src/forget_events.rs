//! Events past the retention: what was removed with its jobs cannot be told, and what is as old is removed as well.

use crate::{clock::Micros, error::Outcome, tx::Tx};
use rusqlite::params;

/// The most rows of one table that one transaction removes.
const CHUNK: usize = 5_000;

const FORGET: &str = "UPDATE event_log SET kept_n = max(kept_n, ?1), kept_sequence = max(kept_sequence, ?2)
    WHERE kept_n < ?1 OR kept_sequence < ?2";
/// The last of the oldest rows that are past their time, before the first that is not.
const OLD: &str = "SELECT coalesce(max(n), 0) FROM (SELECT n, max(at) OVER (ORDER BY n) AS latest
    FROM (SELECT n, at FROM happened ORDER BY n LIMIT ?2)) WHERE latest <= ?1";
const OLD_ENQUEUED: &str =
    "SELECT coalesce(max(last), 0) FROM (SELECT last, max(at) OVER (ORDER BY last) AS latest
    FROM (SELECT last, at FROM enqueued_range ORDER BY first LIMIT ?2)) WHERE latest <= ?1";
const REMOVE: [&str; 3] = [
    "DELETE FROM happened WHERE n IN (SELECT n FROM happened WHERE n <= (SELECT kept_n FROM event_log)
        AND n <= (SELECT n FROM counter_fold) AND n < (SELECT max(n) FROM happened) ORDER BY n LIMIT ?1)",
    "DELETE FROM enqueued_range WHERE first IN (SELECT first FROM enqueued_range
        WHERE first <= (SELECT kept_sequence FROM event_log) AND last <= (SELECT kept_sequence FROM event_log) ORDER BY first LIMIT ?1)",
    "DELETE FROM started_elsewhere WHERE (n, pos) IN (SELECT n, pos FROM started_elsewhere
        WHERE n <= (SELECT kept_n FROM event_log) ORDER BY n LIMIT ?1)",
];

/// Nothing up to this row and this job number can be told from now on.
pub(crate) fn forget(tx: &Tx<'_>, n: i64, sequence: i64) -> Outcome<()> {
    tx.conn.prepare_cached(FORGET)?.execute([n, sequence])?;
    Ok(())
}

/// Removes a chunk of what happened before this time, or can be told no more. Whether there may be more.
pub(crate) fn remove(tx: &Tx<'_>, before: Micros) -> Outcome<bool> {
    let old = |sql| -> Outcome<i64> {
        Ok(tx.conn.prepare_cached(sql)?.query_one(params![before, CHUNK as i64], |row| row.get(0))?)
    };
    forget(tx, old(OLD)?, old(OLD_ENQUEUED)?)?;
    let mut more = false;
    for sql in REMOVE {
        more |= tx.conn.prepare_cached(sql)?.execute([CHUNK as i64])? == CHUNK;
    }
    Ok(more)
}
