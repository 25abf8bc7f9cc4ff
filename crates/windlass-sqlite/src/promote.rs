//! Promotion: jobs whose time has come move into the log, the longest due first.

use crate::{
    clock::{Micros, until},
    error::Outcome,
    key_rates,
    moves::{self, Waiting},
    tx::Tx,
};
use rusqlite::{Connection, params};
use std::time::Duration;
use windlass_core::Promoted;

/// The most jobs of one transaction, so that others need not wait long.
pub(crate) const PROMOTE_MAX: u32 = 5_000;
/// The most bytes of args that it copies, but for those of one job.
const PROMOTE_BYTES: i64 = 8 * 1024 * 1024;

const DUE: &str =
    "SELECT id, lane, state, octet_length(args) FROM waiting WHERE state < 2 AND available_at <= ?1
    ORDER BY available_at, id LIMIT ?2";
const NEXT: &str = "SELECT min(available_at) FROM waiting WHERE state < 2";

/// Moves at most `limit` due jobs, fewer where they are large, tells those who wait where the rate of a key allows more, and says how long until the
/// next of both is due.
pub(crate) fn promote(tx: &mut Tx<'_>, limit: u32) -> Outcome<Promoted> {
    let (mut due, mut bytes) = (Vec::new(), 0);
    let mut find = tx.conn.prepare_cached(DUE)?;
    let mut rows = find.query(params![tx.now, limit.min(PROMOTE_MAX)])?;
    while let Some(row) = rows.next()? {
        bytes += row.get::<_, i64>(3)?;
        if bytes > PROMOTE_BYTES && !due.is_empty() {
            break;
        }
        due.push((row.get::<_, i64>(0)?, row.get::<_, i32>(1)?, row.get::<_, i64>(2)?));
    }
    drop(rows);
    for &(id, lane, state) in &due {
        moves::append_waiting(tx, id, lane, Waiting::of(state))?;
    }
    // Who is told looks at the counts of the keys, and takes out of them what is past.
    if key_rates::end_due(tx.conn, tx.now)? {
        tx.wake()?;
    }
    Ok(Promoted { count: due.len() as u64, next_due: next_due(tx.conn, tx.now)? })
}

/// How long until the next job is due, or a key's rate allows more; zero when that is so.
pub(crate) fn next_due(conn: &Connection, now: Micros) -> Outcome<Option<Duration>> {
    let next =
        |sql| -> Outcome<Option<i64>> { Ok(conn.prepare_cached(sql)?.query_one([], |row| row.get(0))?) };
    let next = next(NEXT)?.into_iter().chain(next(key_rates::NEXT_OF_ALL)?).min();
    Ok(next.map(|at| until(at, now)))
}

#[cfg(test)]
mod tests {
    use crate::{SqliteOptions, SqliteStore};
    use std::sync::mpsc;
    use windlass_core::JobStore;

    /// Somebody searches millions of jobs meanwhile.
    #[tokio::test]
    async fn what_is_due_is_found_while_a_long_question_is_answered() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let store = SqliteStore::open(file.to_str().unwrap(), SqliteOptions::default()).unwrap();
        let (answer, answered) = mpsc::channel();
        let long = store.read(move |_| Ok(answered.recv().unwrap()));
        let look = async {
            let due = store.promote(1).await;
            answer.send(due.map(|promoted| promoted.count)).unwrap();
        };
        assert_eq!(tokio::join!(long, look).0.unwrap().unwrap(), 0);
    }
}
