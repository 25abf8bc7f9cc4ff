//! Whose next job costs more permissions to start than are free. The rules are those of PostgreSQL's `62_starts.sql`, and told there.

use crate::{
    clock::{Micros, micros},
    error::Outcome,
    tx::Tx,
};
use rusqlite::params;
use std::time::Duration;
use windlass_core::WorkerId;

/// How long after it was told to ask again a worker keeps its place.
const PATIENCE: Duration = Duration::from_secs(1);

const ALL: &str = "SELECT worker, waits_since, waits_for FROM slot
    WHERE queue = ?1 AND waits_since <= ?2 AND waits_until > ?2";
const TAKE: &str =
    "UPDATE slot SET waits_since = ?3, waits_until = ?4, waits_for = ?5 WHERE queue = ?1 AND worker = ?2";
const LEAVE: &str = "UPDATE slot SET waits_since = NULL, waits_until = NULL, waits_for = NULL
    WHERE queue = ?1 AND worker = ?2 AND waits_since IS NOT NULL";

/// What a worker finds of those who wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    /// Since when it has a place itself.
    pub(crate) since: Option<Micros>,
    /// What those need that were before it.
    pub(crate) ahead: i64,
}

/// Who waits.
pub(crate) fn find(tx: &Tx<'_>, queue: i64, worker: WorkerId) -> Outcome<Places> {
    let mut find = tx.conn.prepare_cached(ALL)?;
    let rows = find.query_map(params![queue, tx.now], |row| {
        Ok((row.get::<_, Micros>(1)?, row.get::<_, i32>(0)?, row.get::<_, i64>(2)?))
    })?;
    let all = rows.collect::<Result<Vec<_>, _>>()?;
    let mine = all.iter().find(|(_, who, _)| *who == worker.0).map(|(since, who, _)| (*since, *who));
    let before = all
        .iter()
        .filter(|(since, who, _)| *who != worker.0 && mine.is_none_or(|mine| (*since, *who) < mine));
    Ok(Places { since: mine.map(|(since, _)| since), ahead: before.map(|(.., cost)| cost).sum() })
}

/// The worker waits for so many permissions, and asks again then.
pub(crate) fn take(
    tx: &Tx<'_>,
    queue: i64,
    worker: WorkerId,
    since: Option<Micros>,
    cost: u32,
    next: Micros,
) -> Outcome<()> {
    let place = params![queue, worker.0, since.unwrap_or(tx.now), tx.now + next + micros(PATIENCE), cost];
    tx.conn.prepare_cached(TAKE)?.execute(place)?;
    Ok(())
}

/// The worker does not wait.
pub(crate) fn leave(tx: &Tx<'_>, queue: i64, worker: WorkerId) -> Outcome<()> {
    tx.conn.prepare_cached(LEAVE)?.execute(params![queue, worker.0])?;
    Ok(())
}
