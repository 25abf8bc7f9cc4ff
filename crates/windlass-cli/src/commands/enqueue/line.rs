//! One line of `enqueue --many`.

use super::unique::Rule;
use crate::failure::{Failure, Outcome};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::time::Duration;
use windlass::{Args, Limits, NewJob, RetryPolicy, Unique, UniqueKey};

/// One line of the input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    kind: String,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<u16>,
    scheduled_at: Option<Timestamp>,
    delay_ms: Option<u64>,
    expires_at: Option<Timestamp>,
    expires_in_ms: Option<u64>,
    timeout_ms: Option<u64>,
    retry_policy: Option<RetryPolicy>,
    key: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    cost: Option<u32>,
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

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Until {
    Started,
    Finished,
}

impl Line<'_> {
    /// Whether and how the job is unique.
    fn unique(&mut self) -> Outcome<Option<Unique>> {
        let refuse = |message: &str| Err(Failure::usage("invalid_input", message));
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
        let rule = self.on_conflict.unwrap_or_default();
        if self.max_wait_ms.is_some() && rule != Rule::Replace {
            return refuse("max_wait_ms goes with on_conflict \"replace\"");
        }
        Ok(Some(unique.on_conflict(rule.with_max_wait(self.max_wait_ms.map(Duration::from_millis)))))
    }
}

/// The job of a line.
pub(super) fn parse(line: &[u8]) -> Outcome<NewJob> {
    let wrong = |error: serde_json::Error| {
        // Every line is one value on one line, so serde's own "line 1" would only mislead.
        let text = error.to_string().replace(" at line 1 column ", " at column ");
        Failure::usage("invalid_input", text)
    };
    let mut line: Line<'_> = serde_json::from_slice(line).map_err(wrong)?;
    let unique = line.unique()?;
    let args = Args::parse(line.args.map_or("{}", RawValue::get))?;
    let mut job = NewJob::new(line.kind, args);
    if let Some(queue) = line.queue {
        job = job.with_queue(queue);
    }
    job = job
        .with_priority(line.priority.unwrap_or(0))
        .with_max_attempts(line.max_attempts.unwrap_or(NewJob::DEFAULT_MAX_ATTEMPTS));
    job = match (line.scheduled_at, line.delay_ms) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage("invalid_input", "scheduled_at and delay_ms exclude each other"));
        }
        (Some(at), None) => job.with_scheduled_at(at),
        (None, Some(delay)) => job.with_delay(Duration::from_millis(delay)),
        (None, None) => job,
    };
    job = match (line.expires_at, line.expires_in_ms) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage("invalid_input", "expires_at and expires_in_ms exclude each other"));
        }
        (Some(at), None) => job.with_expires_at(at),
        (None, Some(after)) => job.with_expiry(Duration::from_millis(after)),
        (None, None) => job,
    };
    if let Some(timeout) = line.timeout_ms {
        job = job.with_timeout(Duration::from_millis(timeout));
    }
    if let Some(policy) = line.retry_policy {
        job = job.with_retry_policy(policy);
    }
    if let Some(key) = line.key {
        job = job.with_key(key);
    }
    if let Some(cost) = line.cost {
        job = job.with_cost(cost);
    }
    if !line.tags.is_empty() {
        job = job.with_tags(line.tags);
    }
    if let Some(unique) = unique {
        if line.expires_in_ms.is_some() {
            let message = "a unique job takes a time to expire at (expires_at), not one from now on";
            return Err(Failure::usage("invalid_input", message));
        }
        job = job.with_unique(unique);
    }
    // Checked here as well, so that the error names the line and not the batch.
    Limits::default().check(std::slice::from_ref(&job))?;
    UniqueKey::of(&job)?;
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::{OnConflict, When};

    #[test]
    fn a_line_says_all_about_its_job() {
        let job =
            parse(br#"{"kind":"a","args":[1],"queue":"q","priority":-3,"max_attempts":2,"delay_ms":5}"#)
                .unwrap();
        assert_eq!((job.kind(), job.args().as_str(), job.queue()), ("a", "[1]", "q"));
        assert_eq!((job.priority(), job.max_attempts()), (-3, 2));
        assert_eq!(job.when(), When::After(Duration::from_millis(5)));
        assert_eq!(parse(br#"{"kind":"a"}"#).unwrap().args().as_str(), "{}");
        let keyed = parse(br#"{"kind":"a","key":"acme"}"#).unwrap();
        assert_eq!(keyed.attributes().and_then(|attributes| attributes.key.as_deref()), Some("acme"));
    }

    #[test]
    fn a_line_says_how_its_job_is_unique() {
        let second = Duration::from_secs(1);
        for (text, unique) in [
            (r#""unique_key":"a""#, Unique::by_key("a")),
            (
                r#""unique_args":true,"unique_in":"queue","unique_until":"started""#,
                Unique::by_args().in_queue().until_started(),
            ),
            (
                r#""unique_fields":["x"],"unique_for_ms":1000,"on_conflict":"extend","unique_in":"kind""#,
                Unique::by_fields(["x"]).for_window(second).on_conflict(OnConflict::Extend),
            ),
            (
                r#""unique_key":"a","unique_until":"finished","on_conflict":"replace","max_wait_ms":1000"#,
                Unique::by_key("a").on_conflict(OnConflict::Replace { max_wait: Some(second) }),
            ),
        ] {
            let line = format!(r#"{{"kind":"a","args":{{"x":1}},{text}}}"#);
            assert_eq!(parse(line.as_bytes()).unwrap().unique(), Some(&unique), "{line}");
        }
        assert_eq!(parse(br#"{"kind":"a","unique_args":false}"#).unwrap().unique(), None);
    }

    #[test]
    fn a_bad_line_is_refused() {
        for line in [
            r#"{"args":1}"#,
            r#"{"kind":"a","colour":1}"#,
            r#"{"kind":"a b"}"#,
            r#"{"kind":"a","priority":40000}"#,
            r#"{"kind":"a","delay_ms":1,"scheduled_at":"2031-01-01T00:00:00Z"}"#,
            r#"{"kind":"a","expires_in_ms":1,"expires_at":"2031-01-01T00:00:00Z"}"#,
            r#"{"kind":"a","timeout_ms":0}"#,
            r#"{"kind":"a","timeout_ms":-1}"#,
            r#"{"kind":"a","expires_in_ms":5,"delay_ms":5}"#,
            r#"{"kind":"a","retry_policy":{"jitter":2}}"#,
            r#"{"kind":"a","tags":[""]}"#,
            r#"{"kind":"a","key":""}"#,
            r#"{"kind":"a","cost":0}"#,
            r#"{"kind":"a","cost":1000001}"#,
            r#"{"kind":"a","args":"\u0000"}"#,
            r#"{"kind":"a","unique_key":""}"#,
            r#"{"kind":"a","unique_key":"a","unique_args":true}"#,
            r#"{"kind":"a","unique_fields":["b"]}"#,
            r#"{"kind":"a","unique_fields":"b","args":{"b":1}}"#,
            r#"{"kind":"a","unique_args":true,"args":9007199254740993}"#,
            r#"{"kind":"a","unique_in":"queue"}"#,
            r#"{"kind":"a","on_conflict":"replace"}"#,
            r#"{"kind":"a","unique_key":"a","on_conflict":"drop"}"#,
            r#"{"kind":"a","unique_key":"a","on_conflict":"extend"}"#,
            r#"{"kind":"a","unique_key":"a","max_wait_ms":5}"#,
            r#"{"kind":"a","unique_key":"a","unique_until":"done"}"#,
            r#"{"kind":"a","unique_key":"a","unique_until":"started","unique_for_ms":5}"#,
            r#"{"kind":"a","unique_key":"a","unique_for_ms":0}"#,
            r#"{"kind":"a","unique_key":"a","expires_in_ms":5000}"#,
            "[]",
            "nonsense",
            "\"\u{feff}\"",
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
