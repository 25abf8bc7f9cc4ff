use crate::{
    claim::Reference,
    schedule::{microseconds, schedule},
    store::PostgresStore,
    unique_terms::Terms,
};
use jiff::Timestamp;
use serde::Serialize;
use std::borrow::Cow;
use windlass_core::{Args, Attributes, Error, ErrorKind, JobLease, Limits, NewJob, Result, UniqueBatch};

/// A call of one of Windlass's SQL functions, for any driver of PostgreSQL: bind the parameters in order, run the
/// text inside a transaction of yours, read the one column of its rows, `id`, a `bigint`.
///
/// ```no_run
/// # use windlass_core::{Args, NewJob};
/// # use windlass_postgres::SqlParam;
/// # fn example(store: windlass_postgres::PostgresStore) -> windlass_core::Result<()> {
/// let job = NewJob::new("mail.send", Args::parse(r#"{"user": 7}"#)?);
/// let call = store.enqueue_sql(&job)?;
/// assert!(call.text.starts_with(r#"SELECT "windlass".enqueue($1::text, $2::text::jsonb,"#));
/// assert_eq!(call.params[0], SqlParam::Text("mail.send".into()));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqlCall {
    /// The statement; the same for all jobs that set the same options.
    pub text: String,
    /// The values of `$1`, `$2` and so on.
    pub params: Vec<SqlParam>,
}

/// A parameter of a [`SqlCall`] and its type. None is ever null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlParam {
    /// `text`
    Text(String),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
}

/// One job as [`PostgresStore::enqueue_many_sql`] passes it.
#[derive(Serialize)]
struct Row<'a> {
    kind: &'a str,
    args: &'a Args,
    queue: &'a str,
    priority: i16,
    max_attempts: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<&'a Attributes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_after_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<&'a Terms>,
}

impl PostgresStore {
    /// How to enqueue a job by any driver: its id is what the call returns. The args are stored as `jsonb` prints
    /// them, which may order the fields of an object anew.
    ///
    /// The id of a [unique](windlass_core::Unique) job is that of the job that has its key.
    ///
    /// # Errors
    /// A job that breaks the limits.
    pub fn enqueue_sql(&self, job: &NewJob) -> Result<SqlCall> {
        if job.unique().is_some() {
            return self.enqueue_many_sql(std::slice::from_ref(job));
        }
        self.limits.check(std::slice::from_ref(job))?;
        let text = |text: &str| SqlParam::Text(text.to_owned());
        let mut params = vec![text(job.kind()), text(job.args().as_str()), text(job.queue())];
        params.extend([SqlParam::Int4(job.priority().into()), SqlParam::Int4(job.max_attempts().into())]);
        let mut rest = String::new();
        let mut add = |before: &str, param: SqlParam, after: &str| {
            params.push(param);
            rest.push_str(&format!(", {before}${}{after}", params.len()));
        };
        match schedule(job.when()) {
            (Some(at), _) => add("scheduled_at => ", SqlParam::Text(at.to_string()), "::text::timestamptz"),
            (_, Some(delay_us)) => {
                let now = "scheduled_at => clock_timestamp() + ";
                add(now, SqlParam::Int8(delay_us), "::int8 * interval '1 microsecond'");
            }
            (None, None) => {}
        }
        let attributes = job.attributes().cloned().unwrap_or_default();
        if let Some(key) = attributes.key {
            add("key => ", SqlParam::Text(key), "::text");
        }
        if let Some(meta) = attributes.meta {
            add("meta => ", text(meta.as_str()), "::text::jsonb");
        }
        if let Some(timeout) = attributes.timeout {
            add("timeout => ", SqlParam::Int8(microseconds(timeout)), "::int8 * interval '1 microsecond'");
        }
        if let Some(policy) = attributes.retry_policy {
            add("retry_policy => ", SqlParam::Text(json(&policy)?), "::text::jsonb");
        }
        if let Some(at) = attributes.expires_at {
            add("expires_at => ", SqlParam::Text(at.to_string()), "::text::timestamptz");
        }
        if let Some(after) = attributes.expires_after {
            let now = "expires_at => clock_timestamp() + ";
            add(now, SqlParam::Int8(microseconds(after)), "::int8 * interval '1 microsecond'");
        }
        if !attributes.tags.is_empty() {
            let tags = SqlParam::Text(json(&attributes.tags)?);
            add("tags => ARRAY(SELECT jsonb_array_elements_text(", tags, "::text::jsonb))");
        }
        if let Some(cost) = attributes.cost {
            add("cost => ", SqlParam::Int4(i32::try_from(cost).unwrap_or(i32::MAX)), "::int4");
        }
        if attributes.tracked {
            rest.push_str(", tracked => true");
        }
        let call =
            "SELECT {schema}.enqueue($1::text, $2::text::jsonb, $3::text, $4::int4, $5::int4{rest}) AS id";
        Ok(SqlCall { text: self.db.sql(&call.replace("{rest}", &rest)), params })
    }

    /// How to enqueue many jobs in one round trip by any driver: the call returns their ids in order. See
    /// [`Self::enqueue_sql`].
    ///
    /// # Errors
    /// A job that breaks the limits, with its place.
    pub fn enqueue_many_sql(&self, jobs: &[NewJob]) -> Result<SqlCall> {
        self.limits.check(jobs)?;
        let has_newer = |attributes: &Attributes| {
            let Attributes { timeout, retry_policy, expires_at, expires_after, tags, .. } = attributes;
            timeout.is_some()
                || retry_policy.is_some()
                || expires_at.is_some()
                || expires_after.is_some()
                || !tags.is_empty()
        };
        let any = |has: fn(&Attributes) -> bool| jobs.iter().filter_map(NewJob::attributes).any(has);
        let newer = if any(has_newer) { NEWER } else { "" };
        let cost = if any(|attributes| attributes.cost.is_some()) { COST } else { "" };
        let text = if UniqueBatch::is_needed(jobs) { ENQUEUE_MANY_UNIQUE } else { ENQUEUE_MANY };
        let expiring = any(|attributes| attributes.expires_after.is_some());
        let attributes = if expiring { EXPIRING } else { "(j->'attributes')" };
        let text = text.replace("{newer}", &(newer.to_owned() + cost)).replace("{attributes}", attributes);
        let jobs = jobs.iter().map(alone).collect::<Result<Vec<_>>>()?;
        let rows: Vec<_> = jobs.iter().map(|(job, unique)| row(job, unique.as_ref())).collect();
        Ok(SqlCall { text: self.db.sql(&text), params: vec![SqlParam::Text(json(&rows)?)] })
    }

    /// The same under an idempotency key: when the call is repeated it stores nothing and returns the ids of the first. Not for REPEATABLE READ, and not for unique
    /// jobs, which their own keys make repeatable.
    ///
    /// # Errors
    /// A job that breaks the limits, with its place; a key that cannot be, and unique jobs.
    pub fn enqueue_many_once_sql(&self, key: &str, jobs: &[NewJob]) -> Result<SqlCall> {
        Limits::check_idempotency_key(key)?;
        UniqueBatch::refuse_under_idempotency_key(jobs)?;
        self.limits.check(jobs)?;
        let rows: Vec<_> = jobs.iter().map(|job| row(job, None)).collect();
        let params = vec![SqlParam::Text(key.to_owned()), SqlParam::Text(json(&rows)?)];
        Ok(SqlCall { text: self.db.sql(ENQUEUE_MANY_ONCE), params })
    }

    /// How to complete a job by any driver. The call returns one row; it fails with SQLSTATE `WL001` when the job
    /// is no longer this worker's: roll back then.
    pub fn complete_sql(&self, lease: JobLease) -> SqlCall {
        let JobLease { worker, claim, job, position } = lease;
        let Reference { lane, seq, token } = claim.into();
        let params = vec![
            SqlParam::Int4(worker.0),
            SqlParam::Int4(lane),
            SqlParam::Int8(seq),
            SqlParam::Int4(token),
            SqlParam::Int8(job.0),
            SqlParam::Int8(position),
        ];
        SqlCall { text: self.db.sql(COMPLETE), params }
    }
}

const ENQUEUE_MANY: &str = "SELECT {schema}.enqueue(j->>'kind', j->'args', j->>'queue', (j->>'priority')::int4, \
    (j->>'max_attempts')::int4, coalesce((j->>'at')::timestamptz, \
    clock_timestamp() + (j->>'delay_us')::int8 * interval '1 microsecond'), key => j->'attributes'->>'key', \
    meta => j->'attributes'->'meta', tracked => coalesce((j->'attributes'->>'tracked')::bool, false){newer}) AS id \
    FROM jsonb_array_elements($1::text::jsonb) WITH ORDINALITY AS job(j, nth) ORDER BY nth";

/// What the function of an older schema does not know; left out where no job has any of it.
const NEWER: &str = ", timeout => (j->'attributes'->>'timeout_ms')::int8 * interval '1 millisecond', \
    retry_policy => j->'attributes'->'retry_policy', expires_at => coalesce((j->'attributes'->>'expires_at')::timestamptz, \
    clock_timestamp() + (j->>'expires_after_us')::int8 * interval '1 microsecond'), \
    tags => ARRAY(SELECT jsonb_array_elements_text(j->'attributes'->'tags'))";
const COST: &str = ", cost => (j->'attributes'->>'cost')::int4";

/// Keys in ascending order, so that calls do not deadlock each other; ids in the order of the jobs.
const ENQUEUE_MANY_UNIQUE: &str = "SELECT id FROM (SELECT nth, CASE WHEN j->'unique' IS NULL \
    THEN {schema}.enqueue(j->>'kind', j->'args', j->>'queue', (j->>'priority')::int4, \
    (j->>'max_attempts')::int4, coalesce((j->>'at')::timestamptz, \
    clock_timestamp() + (j->>'delay_us')::int8 * interval '1 microsecond'), key => j->'attributes'->>'key', \
    meta => j->'attributes'->'meta', tracked => coalesce((j->'attributes'->>'tracked')::bool, false){newer}) \
    ELSE (SELECT p.id FROM {schema}.put_unique((u->>'key')::uuid, (u->>'until_finished')::bool, (u->>'window')::int8, \
    (u->>'rule')::int2, (u->>'max_wait')::int8, {schema}.lane_of(j->>'queue', (j->>'priority')::int4), j->>'queue', \
    j->>'kind', (j->'args')::text, (j->>'max_attempts')::int2, coalesce({attributes}::text, ''), \
    (j->>'at')::timestamptz, (j->>'delay_us')::int8) AS p) END AS id \
    FROM (SELECT j, j->'unique' AS u, nth FROM jsonb_array_elements($1::text::jsonb) WITH ORDINALITY AS job(j, nth) \
    ORDER BY j->'unique'->>'key' COLLATE \"C\" NULLS FIRST, nth OFFSET 0) AS jobs) AS stored ORDER BY nth";

/// The function wants all that a job has in one object, and times by its own clock.
const ENQUEUE_MANY_ONCE: &str = "SELECT id FROM {schema}.enqueue_many_once($1::text, \
    (SELECT jsonb_agg(jsonb_build_object('args', j->'args') || CASE WHEN j->'attributes'->'meta' IS NULL THEN '{}' \
    ELSE jsonb_build_object('meta', j->'attributes'->'meta') END || jsonb_strip_nulls(jsonb_build_object('kind', j->'kind', \
    'queue', j->'queue', 'priority', j->'priority', 'max_attempts', j->'max_attempts', 'scheduled_at', coalesce((j->>'at')::timestamptz, \
    clock_timestamp() + (j->>'delay_us')::int8 * interval '1 microsecond'), 'key', j->'attributes'->'key', \
    'tracked', j->'attributes'->'tracked', 'timeout', (j->'attributes'->>'timeout_ms')::int8 * interval '1 millisecond', \
    'retry_policy', j->'attributes'->'retry_policy', 'expires_at', coalesce((j->'attributes'->>'expires_at')::timestamptz, \
    clock_timestamp() + (j->>'expires_after_us')::int8 * interval '1 microsecond'), 'tags', j->'attributes'->'tags', \
    'cost', j->'attributes'->'cost')) ORDER BY nth) FROM jsonb_array_elements($2::text::jsonb) WITH ORDINALITY AS job(j, nth))) AS id";

/// Of a unique job, where some say how long they may wait.
const EXPIRING: &str = "(CASE WHEN j->>'expires_after_us' IS NULL THEN j->'attributes' ELSE j->'attributes' || \
    jsonb_build_object('expires_at', to_char(least((j->'attributes'->>'expires_at')::timestamptz, \
    clock_timestamp() + (j->>'expires_after_us')::int8 * interval '1 microsecond') AT TIME ZONE 'UTC', \
    'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')) END)";

const COMPLETE: &str = "SELECT 0::int8 AS id FROM {schema}.complete_in($1::int4, $2::int4, $3::int8, $4::int4, $5::int8, \
    $6::int8::text::xid8)";

/// Whether [`PostgresStore::enqueue_many_sql`] of a store with the default limits takes jobs. Nothing is connected for it.
///
/// # Errors
/// As of that, with the place of the job.
pub fn check_sql_jobs(jobs: &[NewJob]) -> Result<()> {
    Limits::default().check(jobs)?;
    let check =
        |(at, job): (usize, &NewJob)| alone(job).map(drop).map_err(|error| error.of_job(at, jobs.len()));
    jobs.iter().enumerate().try_for_each(check)
}

/// A job as it is stored, and its terms if it is unique. By itself: the statement lets each meet those before it.
fn alone(job: &NewJob) -> Result<(Cow<'_, NewJob>, Option<Terms>)> {
    if job.unique().is_none() {
        return Ok((Cow::Borrowed(job), None));
    }
    let UniqueBatch { mut jobs, keys, .. } = UniqueBatch::of(std::slice::from_ref(job))?;
    let job = jobs.remove(0);
    let terms = Terms::of(&job, keys[0]);
    Ok((Cow::Owned(job), Some(terms)))
}

fn row<'a>(job: &'a NewJob, unique: Option<&'a Terms>) -> Row<'a> {
    let (at, delay_us) = schedule(job.when());
    let (kind, args, queue, attributes) = (job.kind(), job.args(), job.queue(), job.attributes());
    let (priority, max_attempts) = (job.priority(), job.max_attempts());
    let expires_after_us = attributes.and_then(|attributes| attributes.expires_after).map(microseconds);
    Row { kind, args, queue, priority, max_attempts, at, delay_us, attributes, expires_after_us, unique }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|cause| {
        Error::new(ErrorKind::Internal, format!("jobs do not serialise: {cause}")).with_source(cause)
    })
}
