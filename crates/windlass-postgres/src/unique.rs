//! Unique jobs: their keys and rows commit together. The rules are in sql/functions/29_unique.sql and 30_replace.sql.

use crate::{
    batch::{Batch, queues_of},
    connection::commit,
    database::Database,
    error::{Effect, of_driver, store_error},
    lane::{lanes_in, lanes_on},
    new_row::{attempts, due, expires_by_database},
    query::{Param, Query},
    row::Json,
    schedule::schedule,
    segment::segment,
    turns::{by_turns, waits_for},
    unique_terms::Terms,
};
use jiff::Timestamp;
use std::pin::pin;
use tokio_postgres::{Client, types::Type};
use windlass_core::{
    Attributes, Conflict, EnqueuedUnique, Error, ErrorKind, JobId, NewJob, Result, UniqueBatch, UniqueKey,
    When,
};

const PUT: &str =
    "{schema}.put_unique($1::text::uuid, $2, $3, $4, $5, $6, $7, $8, $9::json::text, $10, $11, $12, $13)";
const TAKE: &str = "SELECT ids, fates, taken_at, set_config('windlass.queues', CASE WHEN 0 = ANY (fates) THEN $6 ELSE '' END, true)
    FROM {schema}.take_unique($1::text[]::uuid[], $2, $3, $4, $5)";
const REPLACE: &str =
    "SELECT id, fate FROM {schema}.replace_unique($1::text::uuid, $2, $3, $4, $5::json::text, $6, $7, $8,
    $9 * interval '1 microsecond', $10, $11)";
/// For definitions of before, by which the key is held as it was.
const REPLACE_AS_HELD: &str =
    "SELECT id, fate FROM {schema}.replace_unique($1::text::uuid, $2, $3, $4, $5::json::text, $6, $7, $8,
    $9 * interval '1 microsecond')";
const REPLACE_IS_TOLD: &str = "SELECT to_regprocedure('{schema}.replace_unique(uuid, bigint, integer, text, text, smallint, text, timestamptz,
    interval, boolean, bigint)') IS NOT NULL";

/// What take_unique and replace_unique say of a job.
const STORED: i16 = 0;
const EXTENDED: i16 = 2;
const TO_REPLACE: i16 = 3;
const REPLACED: i16 = 4;

/// Stores the checked jobs of a batch whose keys are free.
pub(crate) async fn enqueue_unique(db: &Database, batch: &UniqueBatch) -> Result<Vec<EnqueuedUnique>> {
    by_turns("enqueue_unique", db.pools.call_timeout(), |turn| unique(db, batch, turn)).await
}

async fn unique(db: &Database, batch: &UniqueBatch, turn: &str) -> Result<Vec<EnqueuedUnique>> {
    let mut connection = db.client_for("enqueue_unique", batch.jobs.len()).await?;
    let segment = segment(db, &connection).await?;
    let lanes = lanes_on(db, &connection, &batch.jobs).await?;
    let watch = connection.watch_commit();
    if let ([job], [Some(key)], Some([lane])) = (&*batch.jobs, &*batch.keys, lanes.as_deref())
        && !expires_by_database(job)
    {
        let sql = format!(
            "SELECT (p.put).id, (p.put).fate FROM (SELECT {PUT} AS put FROM (SELECT set_config('lock_timeout', '{turn}', true) OFFSET 0) AS patience OFFSET 0) AS p"
        );
        let stored = put_by(&db.sql(&sql), &connection, job, *key, *lane).await;
        let stored = stored.map_err(|error| named(error, batch))?;
        watch.end()?;
        return Ok(vec![stored]);
    }
    let guard = connection.guard.clone();
    let transaction = guard.run(Effect::Repeatable, pin!(connection.begin())).await?;
    let stored =
        waits_for(turn, transaction.client(), store_unique(db, transaction.client(), batch, segment, lanes));
    let stored = guard.run(Effect::Repeatable, pin!(stored)).await?;
    guard.run(Effect::Write, pin!(commit(transaction))).await?;
    watch.end()?;
    Ok(stored)
}

/// One job, one round trip.
pub(crate) async fn put(
    db: &Database,
    on: &impl Query,
    job: &NewJob,
    key: UniqueKey,
    lane: i32,
) -> Result<EnqueuedUnique> {
    put_by(&db.sql(&format!("SELECT id, fate FROM {PUT}")), on, job, key, lane).await
}

async fn put_by(
    sql: &str,
    on: &impl Query,
    job: &NewJob,
    key: UniqueKey,
    lane: i32,
) -> Result<EnqueuedUnique> {
    let terms = Terms::of(job, Some(key));
    let (attempts, args, attributes) = (attempts(job), Json(job.args().as_str()), attributes(job));
    let (at, delay) = schedule(job.when());
    let params: [Param<'_>; 13] = [
        (&terms.key, Type::TEXT),
        (&terms.until_finished, Type::BOOL),
        (&terms.window, Type::INT8),
        (&terms.rule, Type::INT2),
        (&terms.max_wait, Type::INT8),
        (&lane, Type::INT4),
        (&job.queue(), Type::TEXT),
        (&job.kind(), Type::TEXT),
        (&args, Type::JSON),
        (&attempts, Type::INT2),
        (&attributes, Type::TEXT),
        (&at, Type::TIMESTAMPTZ),
        (&delay, Type::INT8),
    ];
    let row = on.query_one(sql, &params, Effect::Write).await?;
    Ok(reply(row.get(0), row.get(1)))
}

/// Within the transaction that is open on the client.
pub(crate) async fn store_unique(
    db: &Database,
    transaction: &Client,
    batch: &UniqueBatch,
    segment: usize,
    lanes: Option<Vec<i32>>,
) -> Result<Vec<EnqueuedUnique>> {
    let lanes = match lanes {
        Some(lanes) => lanes,
        None => lanes_in(db, transaction, &batch.jobs).await?,
    };
    let terms: Vec<Terms> =
        batch.jobs.iter().zip(&batch.keys).map(|(job, key)| Terms::of(job, *key)).collect();
    let Taken { ids, fates, now } = take(db, transaction, batch, &terms, &lanes).await?;
    let (mut free, mut free_ids, mut free_lanes) = (Vec::new(), Vec::new(), Vec::new());
    let mut stored = Vec::with_capacity(ids.len());
    for (place, (&id, &fate)) in ids.iter().zip(&fates).enumerate() {
        let job = &batch.jobs[place];
        if fate == STORED {
            free.push(job.clone());
            free_ids.push(JobId(id));
            free_lanes.push(lanes[place]);
        }
        stored.push(match fate {
            TO_REPLACE => replace(db, transaction, job, &terms[place], id, lanes[place], now).await?,
            _ => reply(id, fate),
        });
    }
    let rows = Batch { segment, lanes: free_lanes, jobs: &free, prepared: None };
    rows.store_under(db, transaction, &free_ids, now).await?;
    Ok(stored)
}

struct Taken {
    ids: Vec<i64>,
    fates: Vec<i16>,
    now: Timestamp,
}

async fn take(
    db: &Database,
    transaction: &Client,
    batch: &UniqueBatch,
    terms: &[Terms],
    lanes: &[i32],
) -> Result<Taken> {
    let keys: Vec<Option<&str>> = terms.iter().map(|terms| terms.key.as_deref()).collect();
    let finished: Vec<bool> = terms.iter().map(|terms| terms.until_finished).collect();
    let windows: Vec<Option<i64>> = terms.iter().map(|terms| terms.window).collect();
    let rules: Vec<i16> = terms.iter().map(|terms| terms.rule).collect();
    // Where it goes into the log at once.
    let in_log = |(job, lane): (&NewJob, &i32)| (job.when() == When::Now).then_some(*lane);
    let log_lanes: Vec<Option<i32>> = batch.jobs.iter().zip(lanes).map(in_log).collect();
    let queues = queues_of(&batch.jobs);
    let params: [Param<'_>; 6] = [
        (&keys, Type::TEXT_ARRAY),
        (&finished, Type::BOOL_ARRAY),
        (&windows, Type::INT8_ARRAY),
        (&rules, Type::INT2_ARRAY),
        (&log_lanes, Type::INT4_ARRAY),
        (&queues, Type::TEXT),
    ];
    let row = transaction.query_typed_one(&db.sql(TAKE), &params).await;
    let row = row.map_err(|cause| named(store_error(cause, Effect::Repeatable), batch))?;
    Ok(Taken { ids: row.get(0), fates: row.get(1), now: row.get(2) })
}

async fn replace(
    db: &Database,
    transaction: &Client,
    job: &NewJob,
    terms: &Terms,
    holder: i64,
    lane: i32,
    now: Timestamp,
) -> Result<EnqueuedUnique> {
    let (attempts, args) = (attempts(job), Json(job.args().as_str()));
    let attributes =
        job.attributes().map_or_else(String::new, |attributes| attributes.received(now).to_json());
    let due = due(job, now)?;
    let params: [Param<'_>; 11] = [
        (&terms.key, Type::TEXT),
        (&holder, Type::INT8),
        (&lane, Type::INT4),
        (&job.kind(), Type::TEXT),
        (&args, Type::JSON),
        (&attempts, Type::INT2),
        (&attributes, Type::TEXT),
        (&due, Type::TIMESTAMPTZ),
        (&terms.max_wait, Type::INT8),
        (&terms.until_finished, Type::BOOL),
        (&terms.window, Type::INT8),
    ];
    let (sql, params) = match is_told(db, transaction).await? {
        true => (REPLACE, &params[..]),
        false => (REPLACE_AS_HELD, &params[..9]),
    };
    let row = Query::query_one(transaction, &db.sql(sql), params, Effect::Repeatable).await?;
    Ok(reply(row.get(0), row.get(1)))
}

/// Whether replace_unique is told for how long the job has its key; definitions of older programs are not. Asked once, since a call that fails would end the transaction, which may be a user's.
async fn is_told(db: &Database, transaction: &Client) -> Result<bool> {
    if let Some(is_told) = db.caches.replace_is_told.known() {
        return Ok(is_told);
    }
    let row = Query::query_one(transaction, &db.sql(REPLACE_IS_TOLD), &[], Effect::Repeatable).await?;
    db.caches.replace_is_told.note(row.get(0));
    Ok(row.get(0))
}

pub(crate) fn attributes(job: &NewJob) -> String {
    job.attributes().map_or_else(String::new, Attributes::to_json)
}

pub(crate) fn reply(id: i64, fate: i16) -> EnqueuedUnique {
    let conflict = match fate {
        STORED => None,
        EXTENDED => Some(Conflict::Extended),
        REPLACED => Some(Conflict::Replaced),
        _ => Some(Conflict::Kept),
    };
    EnqueuedUnique { id: JobId(id), conflict }
}

/// A refused conflict with the job's place in the call, which take_unique says in the error's detail.
fn named(error: Error, batch: &UniqueBatch) -> Error {
    if error.kind() != ErrorKind::UniqueConflict {
        return error;
    }
    let detail = of_driver(&error).and_then(|cause| cause.as_db_error()).and_then(|db| db.detail());
    let numbers = detail.and_then(|detail| detail.split_once(' '));
    match numbers.map(|(place, holder)| (place.parse(), holder.parse())) {
        Some((Ok(place), Ok(holder))) => batch.conflict(place, JobId(holder)),
        _ => error,
    }
}
