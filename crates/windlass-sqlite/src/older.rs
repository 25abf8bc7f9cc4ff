//! Programs of the versions that remember the numbers of lanes and queues whatever is removed: see `sql/0015_idle_lanes.sql`.

use crate::{clock::Micros, error::Outcome, tx::Tx};

const WROTE: &str = "UPDATE log_state SET older_at = ?1, older_wrote = 0 WHERE older_wrote OR older_at > ?1";
const WROTE_AT: &str = "SELECT newer_only, older_at FROM log_state";
const LIVES: &str = "SELECT 1 FROM worker WHERE ended_at IS NULL AND version IS NULL";
const SHUT_OUT: &str =
    "UPDATE log_state SET newer_only = 1, name_changes = name_changes + 1 + (random() & 1073741823)";
const REFUSE: &str = "UPDATE migration SET compatible_with = 15 WHERE compatible_with < 15";

/// What is known of older programs.
pub(crate) struct Older {
    /// Whether none is at work, as far as anyone can tell.
    pub(crate) gone: bool,
    /// What was known before this time may have changed since, without a word.
    pub(crate) wrote_at: Option<Micros>,
}

/// Looks whether older programs wrote, within `quiet` or since the last look, or have workers.
pub(crate) fn look(tx: &Tx<'_>, quiet: Micros) -> Outcome<Older> {
    tx.conn.prepare_cached(WROTE)?.execute([tx.now])?;
    let (shut_out, wrote_at): (bool, Option<Micros>) =
        tx.conn.prepare_cached(WROTE_AT)?.query_one([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let is_quiet = wrote_at.is_none_or(|at| at <= tx.now - quiet);
    let gone = shut_out || is_quiet && !tx.conn.prepare_cached(LIVES)?.exists([])?;
    Ok(Older { gone, wrote_at })
}

/// Lanes or queues were removed: newer programs forget what they remember, older ones are shut out.
pub(crate) fn shut_out(tx: &mut Tx<'_>) -> Outcome<()> {
    tx.conn.prepare_cached(SHUT_OUT)?.execute([])?;
    tx.conn.prepare_cached(REFUSE)?.execute([])?;
    tx.forget_names();
    Ok(())
}
