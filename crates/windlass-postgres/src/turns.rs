//! Calls that may have to wait for what a transaction of somebody else has, which may stay open.

use crate::error::{Effect, is_lock_failure, of_driver, store_error};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use windlass_core::{Error, ErrorKind, Result};

/// For how long (as `lock_timeout` has it) a call waits for what a transaction of somebody else has, at first and then in each turn. Claims hold lanes for milliseconds.
const TURNS: [&str; 2] = ["200ms", "50ms"];
/// The pauses between its turns.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];

/// Runs a call that may have to wait for a transaction of somebody else, which may stay open: by turns, each told for how long it may wait, and without a connection in between. Else a few
/// such calls have all connections, and stop every other call of the process.
pub(crate) async fn by_turns<T, F: Future<Output = Result<T>>>(
    what: &str,
    patience: Duration,
    run: impl Fn(&'static str) -> F,
) -> Result<T> {
    let began = Instant::now();
    let ([mut turn, later], [mut pause, longest]) = (TURNS, PAUSES);
    loop {
        match run(turn).await {
            Err(error) if !is_of_the_server(&error) => return Err(error),
            Err(error) if began.elapsed() >= patience => {
                let text = format!(
                    "{what}: not done within {patience:?}, and nothing was: a transaction that is still open has what this needs (a job, a queue, a key, a schedule, the settings); \
                     commit it or roll it back (pg_stat_activity and pg_prepared_xacts show them), or ask again"
                );
                return Err(Error::new(ErrorKind::Unavailable, text).with_source(error));
            }
            Err(_) => {}
            done => return done,
        }
        sleep(pause).await;
        (turn, pause) = (later, (pause * 2).min(longest));
    }
}

/// Whether it is the server that ended a wait for a lock; functions of ours refuse with its code what is to be asked again later.
fn is_of_the_server(error: &Error) -> bool {
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
