//! A job as data: a line of `windlass enqueue --many`, and what bindings send.

use crate::retry_policy::written;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::time::Duration;
use windlass::{Args, Error, ErrorKind, NewJob, OnConflict, Result, RetryPolicy, Unique};

/// A job to enqueue. Unknown fields are refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec<'a> {
    kind: String,
    #[serde(borrow, default, deserialize_with = "said")]
    args: Option<&'a RawValue>,
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<u16>,
    scheduled_at: Option<Timestamp>,
    delay_ms: Option<u64>,
    expires_at: Option<Timestamp>,
    expires_in_ms: Option<u64>,
    timeout_ms: Option<u64>,
    #[serde(default, deserialize_with = "written")]
    retry_policy: Option<RetryPolicy>,
    key: Option<String>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
    #[serde(default)]
    tags: Vec<String>,
    cost: Option<u32>,
    #[serde(default)]
    encrypted: bool,
    unique_key: Option<String>,
    #[serde(default)]
    unique_args: bool,
    unique_fields: Option<Vec<String>>,
    unique_in: Option<Scope>,
    unique_until: Option<Until>,
    unique_for_ms: Option<u64>,
    on_conflict: Option<Rule>,
    max_wait_ms: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    Kind,
    Queue,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Until {
    Started,
    Finished,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rule {
    #[default]
    Keep,
    Replace,
    Extend,
    Error,
}

impl JobSpec<'_> {
    /// The job.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] for fields that exclude each other, [`ErrorKind::InvalidArgs`] for args that are none. The limits are
    /// checked when the job is enqueued.
    pub fn job(mut self) -> Result<NewJob> {
        let args = Args::parse(self.args.map_or("{}", RawValue::get))?;
        let unique = self.unique()?;
        let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
        let mut job = NewJob::new(self.kind, args)
            .with_priority(self.priority.unwrap_or(0))
            .with_max_attempts(self.max_attempts.unwrap_or(NewJob::DEFAULT_MAX_ATTEMPTS));
        if let Some(queue) = self.queue {
            job = job.with_queue(queue);
        }
        job = match (self.scheduled_at, millis(self.delay_ms)) {
            (Some(_), Some(_)) => return refuse("scheduled_at and delay_ms exclude each other"),
            (Some(at), None) => job.with_scheduled_at(at),
            (None, Some(delay)) => job.with_delay(delay),
            (None, None) => job,
        };
        job = match (self.expires_at, millis(self.expires_in_ms)) {
            (Some(_), Some(_)) => return refuse("expires_at and expires_in_ms exclude each other"),
            (Some(at), None) => job.with_expires_at(at),
            (None, Some(after)) => job.with_expiry(after),
            (None, None) => job,
        };
        if let Some(timeout) = millis(self.timeout_ms) {
            job = job.with_timeout(timeout);
        }
        if let Some(policy) = self.retry_policy {
            job = job.with_retry_policy(policy);
        }
        if let Some(key) = self.key {
            job = job.with_key(key);
        }
        if let Some(meta) = self.meta {
            job = job.with_meta(Args::parse(meta.get())?);
        }
        if let Some(cost) = self.cost {
            job = job.with_cost(cost);
        }
        if !self.tags.is_empty() {
            job = job.with_tags(self.tags);
        }
        if self.encrypted {
            job = job.with_encryption();
        }
        Ok(if let Some(unique) = unique { job.with_unique(unique) } else { job })
    }

    /// Whether and how the job is unique.
    fn unique(&mut self) -> Result<Option<Unique>> {
        let unique = match (self.unique_key.take(), self.unique_fields.take(), self.unique_args) {
            (Some(key), None, false) => Unique::by_key(key),
            (None, Some(fields), false) => Unique::by_fields(fields),
            (None, None, true) => Unique::by_args(),
            (None, None, false) => {
                let Self { unique_in, unique_until, unique_for_ms, on_conflict, max_wait_ms, .. } = self;
                let rest = unique_in.is_some() || unique_until.is_some() || unique_for_ms.is_some();
                if rest || on_conflict.is_some() || max_wait_ms.is_some() {
                    return refuse(
                        "unique_in, unique_until, unique_for_ms, on_conflict and max_wait_ms need a key: give unique_key, unique_args or unique_fields",
                    );
                }
                return Ok(None);
            }
            _ => return refuse("unique_key, unique_args and unique_fields exclude each other"),
        };
        let unique = if let Some(Scope::Queue) = self.unique_in { unique.in_queue() } else { unique };
        let unique = match (self.unique_until, self.unique_for_ms) {
            (Some(_), Some(_)) => return refuse("unique_until and unique_for_ms exclude each other"),
            (None, Some(window)) => unique.for_window(Duration::from_millis(window)),
            (Some(Until::Started), None) => unique.until_started(),
            (Some(Until::Finished) | None, None) => unique,
        };
        let max_wait = self.max_wait_ms.map(Duration::from_millis);
        let rule = self.on_conflict.unwrap_or_default();
        if max_wait.is_some() && rule != Rule::Replace {
            return refuse("max_wait_ms goes with on_conflict \"replace\"");
        }
        Ok(Some(unique.on_conflict(match rule {
            Rule::Keep => OnConflict::Keep,
            Rule::Replace => OnConflict::Replace { max_wait },
            Rule::Extend => OnConflict::Extend,
            Rule::Error => OnConflict::Error,
        })))
    }
}

/// What is said, `null` as well: args may be that.
pub(crate) fn said<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

fn refuse<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOption, message))
}
