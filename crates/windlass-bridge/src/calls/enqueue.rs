use super::{read, say};
use crate::{Failure, JobSpec};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use windlass::{
    Args, Client, Conflict, EnqueuedOnce, EnqueuedUnique, Error, ErrorKind, NewJob, Result, SqlCall, SqlParam,
};

/// Jobs that each say all about themselves, or jobs that are alike but for their args.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Enqueue<'a> {
    #[serde(borrow, default)]
    jobs: Vec<JobSpec<'a>>,
    #[serde(borrow)]
    job: Option<JobSpec<'a>>,
    #[serde(borrow)]
    args: Option<Vec<&'a RawValue>>,
    idempotency_key: Option<String>,
}

impl Enqueue<'_> {
    fn jobs(self) -> Result<Vec<NewJob>> {
        match (self.job, self.args) {
            (None, None) => {
                let count = self.jobs.len();
                self.jobs.into_iter().enumerate().map(|(at, job)| of_job(job.job(), at, count)).collect()
            }
            (Some(job), None) if self.jobs.is_empty() => Ok(vec![job.job()?]),
            (Some(job), Some(args)) if self.jobs.is_empty() => {
                let (job, count) = (job.job()?, args.len());
                let with = |args: &RawValue| Ok(job.clone().with_args(Args::parse(args.get())?));
                args.into_iter().enumerate().map(|(at, args)| of_job(with(args), at, count)).collect()
            }
            _ => Err(Error::new(
                ErrorKind::InvalidOption,
                "name either jobs, or one job and perhaps the args of several",
            )),
        }
    }
}

/// Says which job of several is wrong.
fn of_job<T>(job: Result<T>, at: usize, count: usize) -> Result<T> {
    job.map_err(|error| error.of_job(at, count))
}

/// Whether `enqueue_sql` would refuse jobs, as it takes them: for statements of the caller's own, which the server would refuse amid a transaction.
/// No store is asked.
///
/// # Errors
/// As of that operation of a client without keys.
pub fn check_jobs(payload: &str) -> Result<(), Failure> {
    let enqueue: Enqueue<'_> = read(payload)?;
    windlass::check_sql_jobs(&enqueue.jobs()?)?;
    Ok(())
}

pub(super) async fn call(client: &Client, op: &str, payload: &str) -> Result<String> {
    let mut enqueue: Enqueue<'_> = read(payload)?;
    let key = enqueue.idempotency_key.take();
    let jobs = enqueue.jobs()?;
    match (op, key) {
        ("enqueue_unique", None) => {
            let stored = client.enqueue_many_unique(jobs).await?;
            let one = |EnqueuedUnique { id, conflict }| json!({ "id": id, "conflict": conflict.map(Conflict::as_str) });
            say(&json!({ "jobs": stored.into_iter().map(one).collect::<Vec<_>>() }))
        }
        ("enqueue_sql", None) => say(&jobs
            .into_iter()
            .map(|job| client.enqueue_sql(job).map(sql_json))
            .collect::<Result<Vec<_>>>()?),
        // One statement for all: they share the key.
        ("enqueue_sql", Some(_)) if jobs.is_empty() => say(&json!([])),
        ("enqueue_sql", Some(key)) => say(&json!([sql_json(client.enqueue_many_once_sql(&key, jobs)?)])),
        ("enqueue", None) => say(&json!({ "ids": client.enqueue_many(jobs).await?, "repeated": false })),
        ("enqueue", Some(key)) => {
            let EnqueuedOnce { ids, repeated } = client.enqueue_many_once(&key, jobs).await?;
            say(&json!({ "ids": ids, "repeated": repeated }))
        }
        (_, Some(_)) => {
            Err(Error::new(ErrorKind::InvalidOption, format!("{op} takes no idempotency_key; use enqueue")))
        }
        (_, None) => Err(Error::new(ErrorKind::Internal, format!("{op:?} is no operation"))),
    }
}

/// A statement for the user's own driver, with the types of its parameters.
pub(crate) fn sql_json(call: SqlCall) -> Value {
    let param = |param: SqlParam| match param {
        SqlParam::Text(value) => json!({ "type": "text", "value": value }),
        SqlParam::Int4(value) => json!({ "type": "int4", "value": value }),
        // As text: not every language reads 64 bits as a number.
        SqlParam::Int8(value) => json!({ "type": "int8", "value": value.to_string() }),
    };
    json!({ "text": call.text, "params": call.params.into_iter().map(param).collect::<Vec<_>>() })
}
