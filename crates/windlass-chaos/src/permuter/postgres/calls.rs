//! Operations as SQL on the schema's functions, and their answers read back.

use super::schema::render;
use crate::permuter::{
    book::Record,
    call::{Call, Reply},
};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_postgres::{Client, Error, Row, types::Type};
use windlass_core::{
    CancelReply, Claim, ClaimRef, ClaimedJob, Completion, Disposition, Exception, JobId, JobSet, RetryReply,
    SettleReply, SettleRequest, Settled, WorkerId,
};

/// What only a text column carries.
const KINDLESS: &str = "a kind came that is no text";

/// Does one operation on this connection, inside whatever transaction is open there. `segment` is where a
/// writer that looked it up before writes to, as the Rust client does; without one the SQL function enqueues.
pub(crate) async fn perform(
    client: &Client,
    schema: &str,
    queue: &str,
    call: &Call,
    segment: Option<i16>,
) -> Reply {
    let done = match call {
        Call::Enqueue { count, kind, .. } => enqueue(client, schema, queue, (*count, kind), segment).await,
        Call::EnqueueOnce { count, kind, .. } => once(client, schema, queue, (*count, kind), segment).await,
        Call::Claim { worker, limit } => claim(client, schema, queue, *worker, *limit).await,
        Call::Settle(request) => settle(client, schema, request).await,
        other => single(client, schema, other).await,
    };
    done.unwrap_or_else(|error| failure(&error))
}

async fn enqueue(
    client: &Client,
    schema: &str,
    queue: &str,
    (count, kind): (usize, &str),
    segment: Option<i16>,
) -> Result<Reply, Error> {
    let sql = match segment {
        None => "SELECT {schema}.enqueue($1, '{}', $2) FROM generate_series(1, $3)".to_owned(),
        Some(leaf) => format!(
            "INSERT INTO {{schema}}.job_{leaf} (lane_id, kind, args)
             SELECT {{schema}}.lane_of($2, 0), $1, '{{}}' FROM generate_series(1, $3) RETURNING id"
        ),
    };
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
        [(&kind, Type::TEXT), (&queue, Type::TEXT), (&count, Type::INT4)];
    let rows = client.query_typed(&render(&sql, schema), &parameters).await?;
    Ok(Reply::Enqueued(rows.iter().map(|row| JobId(row.get(0))).collect()))
}

/// Under the one key of the order, which its queue names.
async fn once(
    client: &Client,
    schema: &str,
    queue: &str,
    (count, kind): (usize, &str),
    segment: Option<i16>,
) -> Result<Reply, Error> {
    let Some(leaf) = segment else {
        let job = json!({"kind": kind, "queue": queue});
        let jobs: Value = (0..count).map(|_| job.clone()).collect();
        let sql = render("SELECT {schema}.enqueue_many_once($1, $2)", schema);
        let rows = client.query_typed(&sql, &[(&queue, Type::TEXT), (&jobs, Type::JSONB)]).await?;
        return Ok(Reply::Enqueued(rows.iter().map(|row| JobId(row.get(0))).collect()));
    };
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    let take = render("SELECT ids, repeated FROM {schema}.take_key($1, $2)", schema);
    let rows = client.query_typed(&take, &[(&queue, Type::TEXT), (&count, Type::INT4)]).await?;
    let ids: Vec<i64> = rows[0].get(0);
    if !rows[0].get::<_, bool>(1) {
        let store = format!(
            "INSERT INTO {{schema}}.job_{leaf} (id, lane_id, kind, args)
             SELECT i, {{schema}}.lane_of($1, 0), $2, '{{}}' FROM unnest($3) AS i"
        );
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&queue, Type::TEXT), (&kind, Type::TEXT), (&ids, Type::INT8_ARRAY)];
        client.query_typed(&render(&store, schema), &parameters).await?;
    }
    Ok(Reply::Enqueued(ids.into_iter().map(JobId).collect()))
}

async fn claim(
    client: &Client,
    schema: &str,
    queue: &str,
    worker: WorkerId,
    limit: u32,
) -> Result<Reply, Error> {
    let sql = "SELECT head, xid::text::bigint, id, coalesce(attempt, 0::smallint), coalesce(max_attempts, 20::smallint),
                      coalesce(crash_count, 0::smallint), kind
               FROM {schema}.claim($1, ARRAY[$2], ARRAY[$3])";
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let rows = client
        .query_typed(
            &render(sql, schema),
            &[(&worker.0, Type::INT4), (&queue, Type::TEXT), (&limit, Type::INT4)],
        )
        .await?;
    let mut claims: Vec<Claim> = Vec::new();
    for row in &rows {
        if let Some(head) = row.get::<_, Option<Vec<i64>>>(0) {
            let narrow = |nth: usize| head.get(nth).and_then(|&n| i32::try_from(n).ok()).unwrap_or_default();
            let reference = reference(narrow(0), head[1], narrow(2));
            claims.push(Claim { reference, queue: Arc::from(queue), priority: 0, jobs: Vec::new() });
        } else if let Some(claim) = claims.last_mut() {
            claim.jobs.push(claimed(row));
        }
    }
    claims.retain(|claim| !claim.jobs.is_empty());
    Ok(Reply::Claimed(claims))
}

/// The name of a claim as the store packs it: lane and token, then the claim's number.
fn reference(lane: i32, seq: i64, token: i32) -> ClaimRef {
    ClaimRef(u64::from(lane.cast_unsigned()) << 32 | u64::from(token.cast_unsigned()), seq.cast_unsigned())
}

fn parts(ClaimRef(high, low): ClaimRef) -> (i32, i64, i32) {
    (((high >> 32) as u32).cast_signed(), low.cast_signed(), (high as u32).cast_signed())
}

fn claimed(row: &Row) -> ClaimedJob {
    let small = |column: usize| u16::try_from(row.get::<_, i16>(column)).unwrap_or(u16::MAX);
    ClaimedJob {
        position: row.get(1),
        id: JobId(row.get(2)),
        attempt: small(3).saturating_add(1),
        max_attempts: small(4),
        crash_count: small(5),
        kind: row.try_get::<_, &str>(6).unwrap_or(KINDLESS).into(),
        args: Bytes::new(),
        enqueued_at: Timestamp::UNIX_EPOCH,
        attributes: None,
    }
}

async fn settle(client: &Client, schema: &str, request: &SettleRequest) -> Result<Reply, Error> {
    let (mut lanes, mut seqs, mut tokens, mut counts) = (vec![], vec![], vec![], vec![]);
    let (mut entries, mut lows, mut highs) = (vec![], vec![], vec![]);
    for (entry, Completion { claim, jobs, count }) in (1_i32..).zip(&request.completions) {
        let (lane, seq, token) = parts(*claim);
        lanes.push(lane);
        seqs.push(seq);
        tokens.push(token);
        counts.push(matches!(jobs, JobSet::Ranges(_)).then(|| i32::try_from(*count).unwrap_or(i32::MAX)));
        if let JobSet::Ranges(ranges) = jobs {
            for &(low, high) in ranges {
                entries.push(entry);
                lows.push(low);
                highs.push(high);
            }
        }
    }
    let outcomes: Value = request.exceptions.iter().map(outcome).collect();
    let outcomes = (!request.exceptions.is_empty()).then_some(outcomes);
    let row = client
        .query_typed(
            &render("SELECT {schema}.settle($1, $2, $3, $4, $5, $6, $7, $8, $9)", schema),
            &[
                (&request.worker.0, Type::INT4),
                (&lanes, Type::INT4_ARRAY),
                (&seqs, Type::INT8_ARRAY),
                (&tokens, Type::INT4_ARRAY),
                (&counts, Type::INT4_ARRAY),
                (&entries, Type::INT4_ARRAY),
                (&lows, Type::INT8_ARRAY),
                (&highs, Type::INT8_ARRAY),
                (&outcomes, Type::JSON),
            ],
        )
        .await?;
    let codes: Vec<i16> = row[0].get(0);
    let fate = |code: &i16| match code {
        0 => Settled::Accepted,
        1 => Settled::Already,
        _ => Settled::Refused,
    };
    let (completions, exceptions) = codes.split_at(request.completions.len().min(codes.len()));
    Ok(Reply::Settled(SettleReply {
        completions: completions.iter().map(fate).collect(),
        exceptions: exceptions.iter().map(fate).collect(),
    }))
}

fn outcome(exception: &Exception) -> Value {
    let Exception { claim, job, position, disposition } = exception;
    let (name, failed) = match disposition {
        Disposition::Retry { .. } => ("retry", true),
        Disposition::Snooze { .. } => ("snooze", false),
        Disposition::Cancel { .. } => ("cancel", false),
        Disposition::Discard { failed, .. } => ("discard", *failed),
        Disposition::NoHandler => ("no_handler", false),
        Disposition::Complete { .. } => ("complete", false),
        _ => ("return", false),
    };
    let (lane, seq, token) = parts(*claim);
    json!({"lane": lane, "seq": seq, "token": token, "job": job.0, "xid": position.to_string(),
           "disposition": name, "delay_ms": 0, "text": "no", "failed": failed})
}

/// Operations that are one statement with one answer.
async fn single(client: &Client, schema: &str, call: &Call) -> Result<Reply, Error> {
    let one = async |sql: &str, parameters: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)]| {
        let mut rows = client.query_typed(&render(sql, schema), parameters).await?;
        Ok::<Row, Error>(rows.swap_remove(0))
    };
    let ended = |worker: WorkerId, row: &Row| {
        Reply::Ended(row.get::<_, Option<i64>>(0).map(|_| worker).into_iter().collect())
    };
    Ok(match call {
        Call::CompleteIn { worker, claim, job, position } => {
            let (lane, seq, token) = parts(*claim);
            let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 6] = [
                (&worker.0, Type::INT4),
                (&lane, Type::INT4),
                (&seq, Type::INT8),
                (&token, Type::INT4),
                (&job.0, Type::INT8),
                (position, Type::INT8),
            ];
            one(
                "SELECT 1 FROM {schema}.complete_in($1, $2, $3, $4, $5, $6::bigint::text::xid8)",
                &parameters,
            )
            .await?;
            Reply::Done
        }
        Call::Heartbeat(worker) => {
            one("SELECT 1 FROM {schema}.heartbeat($1, NULL, NULL, NULL)", &[(&worker.0, Type::INT4)]).await?;
            Reply::Done
        }
        Call::Suspect(worker, job) => {
            one("SELECT 1 FROM {schema}.suspect($1, $2)", &[(&worker.0, Type::INT4), (&job.0, Type::INT8)])
                .await?;
            Reply::Done
        }
        Call::Rescue(worker) => {
            let sql = "SELECT rescued FROM {schema}.end_worker($1, true)";
            ended(*worker, &one(sql, &[(&worker.0, Type::INT4)]).await?)
        }
        Call::Deregister(worker) => {
            let sql = "SELECT rescued FROM {schema}.end_worker($1, false)";
            ended(*worker, &one(sql, &[(&worker.0, Type::INT4)]).await?)
        }
        Call::Promote => {
            let row = one("SELECT promoted FROM {schema}.promote(1000)", &[]).await?;
            Reply::Promoted(row.get::<_, i64>(0).unsigned_abs())
        }
        Call::Cancel(id) => word(&one("SELECT {schema}.cancel($1)", &[(&id.0, Type::INT8)]).await?, |word| {
            Some(Reply::Cancel(match word {
                "cancelled" => CancelReply::Cancelled,
                "running" => CancelReply::Running,
                "finished" => CancelReply::Finished,
                "not_found" => CancelReply::NotFound,
                _ => return None,
            }))
        }),
        Call::Retry(id) => word(&one("SELECT {schema}.retry($1)", &[(&id.0, Type::INT8)]).await?, |word| {
            Some(Reply::Retry(match word {
                "retried" => RetryReply::Retried,
                "pending" => RetryReply::Pending,
                "completed" => RetryReply::Completed,
                "not_found" => RetryReply::NotFound,
                _ => return None,
            }))
        }),
        Call::Maintain => {
            one("SELECT 1 FROM {schema}.configure('0', '1 day', 1)", &[]).await?;
            one("SELECT rotated FROM {schema}.maintain()", &[]).await?;
            Reply::Done
        }
        Call::Expire(worker) => {
            let sql = "UPDATE {schema}.worker SET heartbeat_at = heartbeat_at - interval '10 years'
                       WHERE id = $1 RETURNING id";
            one(sql, &[(&worker.0, Type::INT4)]).await?;
            Reply::Done
        }
        Call::Enqueue { .. } | Call::EnqueueOnce { .. } | Call::Claim { .. } | Call::Settle(_) => {
            Reply::Failed("not a single statement".into())
        }
    })
}

fn word(row: &Row, read: impl Fn(&str) -> Option<Reply>) -> Reply {
    let word: &str = row.get(0);
    read(word).unwrap_or_else(|| Reply::Failed(format!("unknown answer {word:?}")))
}

fn failure(error: &Error) -> Reply {
    match error.code().map(|code| code.code()) {
        Some("WL001") => Reply::LeaseLost,
        Some("40P01") => Reply::Deadlock,
        Some(code @ ("55P03" | "40001")) => Reply::Tolerated(code.to_owned()),
        _ => Reply::Failed(error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

/// What the store says of these jobs.
pub(crate) async fn records(client: &Client, schema: &str, ids: &[JobId]) -> Result<Vec<Record>, Error> {
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let sql = "SELECT r.id, r.state, r.crash_count FROM unnest($1) AS i, LATERAL {schema}.job_record(i) r";
    let rows = client.query_typed(&render(sql, schema), &[(&ids, Type::INT8_ARRAY)]).await?;
    let record = |row: &Row| {
        let crashes = u16::try_from(row.get::<_, i16>(2)).unwrap_or(u16::MAX);
        let state = row.get::<_, &str>(1).parse().ok()?;
        Some(Record { id: JobId(row.get(0)), state, crashes })
    };
    Ok(rows.iter().filter_map(record).collect())
}

/// What is wrong in the tables of this queue: log rows that two claims handed out, jobs that two settlements
/// name, jobs with more than one end.
pub(crate) async fn inspect(client: &Client, schema: &str, queue: &str) -> Result<Vec<String>, Error> {
    let rows = client.query_typed(&render(INSPECT, schema), &[(&queue, Type::TEXT)]).await?;
    let tell = |row: &Row| {
        let (id, claims, named, whole): (i64, i64, i64, i64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let ends: i64 = row.get(4);
        format!(
            "job {id}: one log row in {claims} claims, named by {named} settlements, its claim's rest \
             settled {whole} times, {ends} terminal records"
        )
    };
    Ok(rows.iter().map(tell).collect())
}

const INSPECT: &str = "
WITH handed AS (
    SELECT c.lane_id, c.seq, j.xid, j.id,
           (SELECT count(*) FROM {schema}.settlement s WHERE s.lane_id = c.lane_id AND s.seq = c.seq
            AND j.id BETWEEN s.low_id AND s.high_id) AS named,
           (SELECT count(*) FROM {schema}.settlement s WHERE s.lane_id = c.lane_id AND s.seq = c.seq
            AND s.high_id IS NULL) AS whole,
           (SELECT count(*) FROM {schema}.settlement_of(c.lane_id, c.seq, j.id) AS t WHERE t.completed) AS completed
    FROM {schema}.lane l JOIN {schema}.claim c ON c.lane_id = l.id AND c.job_count > 0
    CROSS JOIN LATERAL {schema}.claim_jobs(c.lane_id, c.seq) j
    WHERE l.queue = $1
), by_row AS (
    SELECT lane_id, xid, id, count(*) AS claims, max(named) AS named, max(whole) AS whole,
           sum(completed) AS completed
    FROM handed GROUP BY lane_id, xid, id
), by_job AS (
    SELECT id, max(claims) AS claims, max(named) AS named, max(whole) AS whole,
           (sum(completed) + (SELECT count(*) FROM {schema}.dead d WHERE d.id = by_row.id))::bigint AS ends
    FROM by_row GROUP BY id)
SELECT id, claims, named, whole, ends FROM by_job
WHERE claims > 1 OR named > 1 OR whole > 1 OR ends > 1";
