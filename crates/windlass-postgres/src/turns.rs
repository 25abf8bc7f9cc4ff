//! Calls that may have to wait for what a transaction of somebody else has, which may stay open.

use crate::error::{Effect, is_lock_failure, of_driver, store_error};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use windlass_core::{Error, ErrorKind, Result};

/// For how long (as `lock_timeout` has it, and in milliseconds) a call waits for what a transaction of somebody else has: the first in its first turn, the second in later ones,
/// those after them where it waits for many. Claims hold lanes for milliseconds.
const WAITS: [(&str, u128); 4] = [("200ms", 200), ("50ms", 50), ("10ms", 10), ("2ms", 2)];
/// As short as a wait may be: no longer than it takes to see that somebody has it.
const AT_ONCE: &str = "'1ms'";
/// For how long who has no patience waits for many at once: where those before these could be had, which somebody else may have for milliseconds, as claims do; and where not.
const ONCE: [&str; 2] = ["'50ms'", "'10ms'"];
/// After so many in a row that were not to be had, who has no patience tries the last of those that are tried together, and leaves them all where that is not to be had either: most likely somebody has their lane.
const IN_A_ROW: usize = 3;
/// Who waits for many comes to each of them about so often.
const ROUNDS: u32 = 4;
/// What has what a call needs, and what to do about it.
const HELD: &str = "a transaction that is still open has what this needs (a job, a queue, a key, a schedule, the settings); commit it or roll it back \
                    (pg_stat_activity and pg_prepared_xacts show them), or ask again";
/// The pauses between its turns.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

/// Runs a call that may have to wait for a transaction of somebody else, which may stay open: by turns, each told for how long it may wait, and without a connection in between. Else a few
/// such calls have all connections, and stop every other call of the process.
pub(crate) async fn by_turns<T, F: Future<Output = Result<T>>>(
    what: &str,
    patience: Duration,
    run: impl Fn(&'static str) -> F,
) -> Result<T> {
    let mut turns = Turns::new(patience);
    loop {
        let began = Instant::now();
        match run(turns.wait(1)).await {
            Err(error) => {
                turns.waited += began.elapsed();
                turns.next(what, false, error).await?;
            }
            done => return done,
        }
    }
}

/// The turns of such a call.
pub(crate) struct Turns {
    patience: Duration,
    /// How long it has waited for others so far: for what it did not get, and between its turns.
    pub(crate) waited: Duration,
    /// Which of the waits is the longest in this turn.
    longest: usize,
    pause: Duration,
    /// Whether the last that were asked for at once could be had.
    pub(crate) had_last: bool,
}

impl Turns {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, waited: Duration::ZERO, longest: 0, pause: PAUSES[0], had_last: true }
    }

    /// The only turn of who has no patience.
    pub(crate) fn once() -> Self {
        Self::new(Duration::ZERO)
    }

    /// For how long, as SQL, it waits where it asks for many at once and somebody may have one of them. Together with those before them no longer than for a round.
    pub(crate) fn wait_together(&self) -> &'static str {
        if self.patience.is_zero() {
            return ONCE[usize::from(!self.had_last)];
        }
        if self.waited * ROUNDS < self.patience { "{schema}.short_wait()" } else { AT_ONCE }
    }

    /// After how many in a row that were not to be had the others may be left.
    pub(crate) fn in_a_row(&self) -> usize {
        if self.patience.is_zero() { IN_A_ROW } else { usize::MAX }
    }

    /// For how long it waits in this turn for each of so many, one after another.
    pub(crate) fn wait(&self, many: usize) -> &'static str {
        let (longest, shortest) = (WAITS[self.longest].0, WAITS[WAITS.len() - 1].0);
        if many < 2 {
            return longest;
        }
        let left = self.patience.saturating_sub(self.waited).as_millis();
        let share = left / (u128::from(ROUNDS) * many as u128);
        WAITS[self.longest..].iter().find(|(_, wait)| *wait <= share).map_or(shortest, |(text, _)| text)
    }

    /// Waits for the next turn after one that failed, or fails with what there is to say; `done_some`: some of it was done.
    pub(crate) async fn next(&mut self, what: &str, done_some: bool, error: Error) -> Result<()> {
        if !is_held(&error) {
            return Err(error);
        }
        if self.waited >= self.patience {
            let (not, and) = if done_some { ("not all done", "") } else { ("not done", ", and nothing was") };
            let within = match self.patience {
                Duration::ZERO => "at once".to_owned(),
                patience => format!("within {patience:?}"),
            };
            let text = format!("{what}: {not} {within}{and}: {HELD}");
            return Err(Error::new(ErrorKind::Unavailable, text).with_source(error).with_holder(HELD));
        }
        sleep(self.pause).await;
        self.waited += self.pause;
        (self.longest, self.pause) = (1, (self.pause * 2).min(PAUSES[1]));
        Ok(())
    }
}

/// Whether a call failed because somebody has what it needs, so that what needs something else is to be tried: it is the server that ended its wait for a lock. Functions of ours refuse
/// with its code what is to be asked again later.
pub(crate) fn is_held(error: &Error) -> bool {
    let db = of_driver(error).and_then(tokio_postgres::Error::as_db_error);
    is_lock_failure(error) && db.is_some_and(|db| db.routine() != Some("exec_stmt_raise"))
}

/// Does this in the transaction that is open on the client, with no wait for a lock that is longer. Both go out together.
pub(crate) async fn waits_for<T>(
    turn: &str,
    client: &Client,
    then: impl Future<Output = Result<T>>,
) -> Result<T> {
    let patience = format!("SET LOCAL lock_timeout = '{turn}'");
    let (set, done) = tokio::join!(biased; client.batch_execute(&patience), then);
    set.map_err(|cause| store_error(cause, Effect::Repeatable))?;
    done
}
