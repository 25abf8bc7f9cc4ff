//! Housekeeping: one round, in many short transactions.

use crate::{
    connection::Connection, database::Database, deadline::Patience, error::Effect, history, query::Query,
};
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use tokio::time::sleep;
use tokio_postgres::types::Type;
use windlass_core::{ErrorKind, MaintainReport, Result};

/// How long a round empties segments; the next one goes on. Shorter than the term of who leads.
const LONGEST_ROUND: Duration = Duration::from_secs(20);
/// The rest after such a step, as a multiple of the step, while the segment that is written is not full. Some 30,000 jobs move
/// in a second then, 10^7 in six minutes. Without rests a queue that drained beside it was 30 % slower.
const REST_OF_EMPTYING: u32 = 2;
/// How many rows are removed in one transaction.
const CHUNK: i32 = 5_000;
/// The most such transactions of one kind in a round. A round comes every ten seconds, so what grows by less than
/// 100,000 rows a second is removed as fast as it grows.
const MOST_CHUNKS: usize = 200;
/// How long a round removes what is past retention, all kinds of it together; each gets one transaction at least. The next round begins behind the kind that this one did not come to the end of,
/// so that one that grows faster than it can be removed leaves the others their time.
const LONGEST_REMOVAL: Duration = Duration::from_secs(10);
/// The functions that remove, in the order of the first round.
const KINDS: [&str; 16] = [
    "forget_dead",
    "forget_errors",
    "forget_keys",
    "forget_workers",
    "forget_lanes",
    FOLD,
    "forget_requests",
    "forget_unique",
    "forget_reports",
    "forget_counters",
    "forget_shares",
    "forget_key_turns",
    "forget_audit",
    "keep_timings",
    "forget_came_back",
    "forget_no_handler",
];
/// Counts what was done; it has a time of its own.
const FOLD: &str = "fold";

/// Keeps house once.
pub(crate) async fn maintain(db: &Database) -> Result<MaintainReport> {
    let mut connection = db.upkeep("maintain").await?;
    connection.begin_long(Patience::Long).await?;
    let mut report = empty_segments(db, &mut connection).await?;
    connection.begin_long(Patience::Long).await?;
    report.removed_dead = remove(db, &mut connection).await?;
    if db.marks_deploys {
        mark_deploys(db, &connection).await?;
    }
    Ok(report)
}

/// Removes what is past retention. Returns how many dead jobs that were.
async fn remove(db: &Database, connection: &mut Connection) -> Result<u64> {
    let mut until = Instant::now() + LONGEST_REMOVAL;
    let first = db.caches.removes_next.swap(0, Ordering::Relaxed);
    let (mut dead, mut stopped) = (0, false);
    for at in (0..KINDS.len()).map(|n| (first + n) % KINDS.len()) {
        let (what, began) = (KINDS[at], Instant::now());
        let removed = match what {
            FOLD => history::fold(db, connection).await.map(|()| 0),
            _ => forget(db, connection, what, until).await,
        };
        let removed = match removed {
            // Not migrated to version 3, 4, 6, 10, 12, 14, 16, 20, 23 or 25 yet: nobody can ask, no job is unique, nothing is reported, counted, limited, audited, measured or noted.
            Err(error) if error.kind() == ErrorKind::SchemaMissing => 0,
            Err(error) => {
                db.caches.removes_next.store(at + 1, Ordering::Relaxed);
                return Err(error);
            }
            Ok(removed) => removed,
        };
        match what {
            FOLD => until += began.elapsed(),
            "forget_dead" => dead = removed,
            _ => {}
        }
        if !stopped && Instant::now() > until {
            stopped = true;
            db.caches.removes_next.store(at + 1, Ordering::Relaxed);
        }
    }
    Ok(dead)
}

/// Workers of another version are marked.
async fn mark_deploys(db: &Database, connection: &Connection) -> Result<()> {
    let sql = db.sql("SELECT {schema}.mark_deploys()");
    match connection.query_one(&sql, &[], Effect::Repeatable).await {
        Err(error) if error.kind() == ErrorKind::SchemaMissing => Ok(()), // defined by an earlier program of this version of the tables
        marked => marked.map(drop),
    }
}

/// Moves the ring on and empties what is past retention.
async fn empty_segments(db: &Database, connection: &mut Connection) -> Result<MaintainReport> {
    let mut report = MaintainReport::default();
    let began = Instant::now();
    while began.elapsed() < LONGEST_ROUND {
        connection.extend(Patience::Long);
        let step_began = Instant::now();
        match step_on(db, connection, &mut report).await? {
            Step::Last => break,
            Step::More { urgent: true } => {}
            Step::More { urgent: false } => sleep(step_began.elapsed() * REST_OF_EMPTYING).await,
        }
    }
    Ok(report)
}

/// What a step of emptying segments says of the next.
pub(crate) enum Step {
    Last,
    /// `urgent`: the segment that is written has its size, and waits for an empty one.
    More {
        urgent: bool,
    },
}

/// Does one step.
pub(crate) async fn step_on(db: &Database, on: &impl Query, report: &mut MaintainReport) -> Result<Step> {
    let step = db.sql(
        "SELECT rotated, truncated, rehomed, again,
                {schema}.segment_bytes({schema}.current_segment()) >= (SELECT segment_bytes FROM {schema}.setting)
         FROM {schema}.maintain()",
    );
    let row = on.query_one(&step, &[], Effect::Repeatable).await?;
    report.rotated |= row.get::<_, bool>(0);
    report.truncated += row.get::<_, i32>(1).unsigned_abs();
    report.rehomed += row.get::<_, i64>(2).unsigned_abs();
    Ok(if row.get(3) { Step::More { urgent: row.get(4) } } else { Step::Last })
}

/// Calls a function that removes a chunk until nothing is left for it, or the time is over. Returns how many rows it named.
async fn forget(db: &Database, connection: &mut Connection, what: &str, until: Instant) -> Result<u64> {
    let sql = db.sql(&format!("SELECT {{schema}}.{what}($1)"));
    let mut count = 0;
    for _ in 0..MOST_CHUNKS {
        connection.extend(Patience::Long);
        let chunk: i64 =
            connection.query_one(&sql, &[(&CHUNK, Type::INT4)], Effect::Repeatable).await?.get(0);
        count += chunk.unsigned_abs();
        if chunk < i64::from(CHUNK) || Instant::now() > until {
            break;
        }
    }
    Ok(count)
}
