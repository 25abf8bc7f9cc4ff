//! Operations by the calls that the store ships, on a session's connection.

use super::schema::render;
use crate::permuter::{
    book::{MAX_CRASHES, Record},
    call::{Call, Reply, edit, jobs, unique_jobs},
    limits,
    scenario::Way,
    schedule,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_postgres::{Client, Error, Row, types::Type};
use windlass_core::{ClaimRequest, ErrorKind, JobId, JobLease, QueueDemand, Settings};
use windlass_postgres::{PostgresStore, calls::Calls};

/// How many jobs a promotion takes.
const PROMOTE: u32 = 1_000;
/// How many steps the emptying of all that earlier orders left behind may take, before the ring moves on.
const MOST_STEPS_TO_CLOSE: usize = 20;

/// Where operations are done: a connection, the store whose calls they are, its schema, the order's queue.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) client: &'a Client,
    pub(crate) store: &'a PostgresStore,
    pub(crate) schema: &'a str,
    pub(crate) queue: &'a str,
}

/// Does one operation, inside whatever transaction is open there. `segment` is where a writer that looked it
/// up before writes to, as the Rust client does; without one plain SQL enqueues.
pub(crate) async fn perform(at: At<'_>, call: &Call, segment: Option<usize>) -> Reply {
    answer(at, call, segment).await.unwrap_or_else(|error| failure(&error))
}

async fn answer(at: At<'_>, call: &Call, segment: Option<usize>) -> anyhow::Result<Reply> {
    let At { client, store, schema, queue } = at;
    let calls = Calls::new(store, client);
    Ok(match call {
        Call::Enqueue { count, kind, .. } => Reply::Enqueued(match segment {
            Some(segment) => calls.enqueue(segment, &jobs(queue, *count, kind)?).await?,
            None => {
                let sql = "SELECT {schema}.enqueue($1, '{}', $2) FROM generate_series(1, $3)";
                let count = i32::try_from(*count)?;
                let parameters =
                    [(kind as _, Type::TEXT), (&queue as _, Type::TEXT), (&count as _, Type::INT4)];
                ids(&client.query_typed(&render(sql, schema), &parameters).await?)
            }
        }),
        // Under the one key of the order, which its queue names.
        Call::EnqueueOnce { count, kind, .. } => Reply::Enqueued(match segment {
            Some(segment) => calls.enqueue_once(segment, queue, &jobs(queue, *count, kind)?).await?.ids,
            None => {
                let sql = "SELECT {schema}.enqueue_many_once($1, $2)";
                let jobs: Value = (0..*count).map(|_| json!({"kind": kind, "queue": queue})).collect();
                let parameters = [(&queue as _, Type::TEXT), (&jobs as _, Type::JSONB)];
                ids(&client.query_typed(&render(sql, schema), &parameters).await?)
            }
        }),
        Call::Keyed { keys, .. } => {
            let segment = segment_or_current(at, segment).await?;
            Reply::Enqueued(calls.enqueue(segment, &limits::keyed_jobs(queue, keys)?).await?)
        }
        Call::LimitKeys(rule) => {
            calls.limit_keys(queue, &limits::of_keys(*rule)).await?;
            Reply::Done
        }
        Call::LimitQueue(most) => {
            calls.limit(queue, &limits::of_queue(*most)).await?;
            Reply::Done
        }
        Call::Share(request) => Reply::Shared(calls.share(request).await?[0]),
        Call::Declare => {
            calls.put_schedule(&schedule::declared(queue)?).await?;
            Reply::Done
        }
        Call::Pause => {
            calls.pause_schedules(&[queue.to_owned()], true).await?;
            Reply::Done
        }
        Call::Look(_) => Reply::Seen(Box::new(calls.schedules(&schedule::filter(queue)).await?.remove(0))),
        Call::Fire { step, .. } => {
            Reply::Fired(calls.advance_schedules(std::slice::from_ref(step)).await?.remove(0))
        }
        Call::Claim { worker, limit } => {
            let queues = vec![QueueDemand::new(queue, *limit)];
            Reply::Claimed(calls.claim(&ClaimRequest { worker: *worker, queues }).await?.claims)
        }
        Call::Settle(request) => Reply::Settled(calls.settle(request).await?),
        Call::CompleteIn { worker, claim, job, position } => {
            let lease = JobLease { worker: *worker, claim: *claim, job: *job, position: *position };
            calls.complete(lease).await?;
            Reply::Done
        }
        Call::Heartbeat(worker) => {
            calls.heartbeat(*worker).await?;
            Reply::Done
        }
        Call::Suspect(worker, job) => {
            calls.suspect(*worker, Some(*job)).await?;
            Reply::Done
        }
        Call::Rescue(worker) | Call::Deregister(worker) => {
            let ended = calls.end_worker(*worker, matches!(call, Call::Rescue(_))).await?;
            Reply::Ended(ended.then_some(*worker).into_iter().collect())
        }
        Call::Promote => Reply::Promoted(calls.promote(PROMOTE).await?.count),
        Call::Cancel(id) => Reply::Cancel(calls.cancel(*id).await?),
        Call::Retry(id) => Reply::Retry(calls.retry(*id).await?),
        Call::Unique { keys, way, .. } => {
            let jobs = unique_jobs(queue, keys, *way)?;
            let segment = segment_or_current(at, segment).await?;
            Reply::Unique(match way {
                Way::Together => calls.enqueue_unique_singles(&jobs).await?,
                _ => calls.enqueue_unique(segment, &jobs).await?,
            })
        }
        Call::Edit(id, change) => Reply::Edit(calls.edit(*id, &edit(*change)?).await?),
        Call::Delete(id) => Reply::Delete(calls.delete(*id).await?),
        Call::Report(request) => Reply::Reported(calls.report(request).await?),
        Call::Maintain => {
            keep_nothing(&calls).await?;
            Reply::Housekept(calls.maintain().await?)
        }
        Call::Close => {
            keep_nothing(&calls).await?;
            for _ in 0..MOST_STEPS_TO_CLOSE {
                let report = calls.maintain().await?;
                if report.rotated {
                    return Ok(Reply::Housekept(report));
                }
            }
            anyhow::bail!("the ring did not move on in {MOST_STEPS_TO_CLOSE} steps of housekeeping")
        }
        Call::Expire(worker) => {
            let sql =
                "UPDATE {schema}.worker SET heartbeat_at = heartbeat_at - interval '10 years' WHERE id = $1";
            client.query_typed(&render(sql, schema), &[(&worker.0, Type::INT4)]).await?;
            Reply::Done
        }
    })
}

/// Where a writer writes to that has not looked it up before.
async fn segment_or_current(at: At<'_>, segment: Option<usize>) -> anyhow::Result<usize> {
    match segment {
        Some(segment) => Ok(segment),
        None => {
            let sql = render("SELECT {schema}.current_segment()", at.schema);
            Ok(at.client.query_one(&sql, &[]).await?.get::<_, i16>(0).try_into()?)
        }
    }
}

/// Has every segment count as full, and completed jobs retained for no time.
async fn keep_nothing(calls: &Calls<'_>) -> windlass_core::Result<()> {
    let full = Settings::DEFAULT.with_max_crashes(MAX_CRASHES).with_segment_bytes(1);
    calls.configure(&full.with_retention(Duration::ZERO)).await
}

fn ids(rows: &[Row]) -> Vec<JobId> {
    rows.iter().map(|row| JobId(row.get(0))).collect()
}

fn failure(error: &anyhow::Error) -> Reply {
    let kind = error.downcast_ref::<windlass_core::Error>().map(windlass_core::Error::kind);
    if kind == Some(ErrorKind::UniqueConflict) {
        return Reply::KeyTaken;
    }
    let code = error.chain().find_map(|cause| cause.downcast_ref::<Error>()?.code());
    match code.map(|code| code.code()) {
        Some("WL001") => Reply::LeaseLost,
        Some("40P01") => Reply::Deadlock,
        Some(code @ ("55P03" | "40001")) => Reply::Tolerated(code.to_owned()),
        _ => Reply::Failed(format!("{error:#}")),
    }
}

/// What the store says of these jobs.
pub(crate) async fn records(
    client: &Client,
    store: &PostgresStore,
    ids: &[JobId],
) -> anyhow::Result<Vec<Record>> {
    let (mut records, calls) = (Vec::new(), Calls::new(store, client));
    let checkpoints = calls.checkpoints(ids).await?;
    for (&id, checkpoint) in ids.iter().zip(checkpoints) {
        if let Some(job) = calls.job(id).await? {
            records.push(Record { id, state: job.state, crashes: job.crash_count, checkpoint });
        }
    }
    Ok(records)
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

/// Keys that these jobs still have, though all of them have ended.
pub(crate) async fn stuck_keys(client: &Client, schema: &str, ids: &[JobId]) -> Result<Vec<String>, Error> {
    let sql =
        "SELECT k.id FROM {schema}.unique_key k CROSS JOIN LATERAL {schema}.unique_holders(ARRAY[k.key]) h
               WHERE k.id = ANY ($1) AND h.held";
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    let rows = client.query_typed(&render(sql, schema), &[(&ids, Type::INT8_ARRAY)]).await?;
    let tell = |row: &Row| format!("the key of job {} is stuck: the job has ended", row.get::<_, i64>(0));
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
