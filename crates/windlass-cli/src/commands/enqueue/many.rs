use super::input;
use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    open,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::{io::BufRead, time::Duration};
use windlass::{Args, Client, EnqueuedOnce, JobId, Limits, NewJob, RetryPolicy};

/// How many jobs are enqueued in one transaction. Where a batch ends follows from the input alone: a batch is
/// known again by its first line and its size, so a change of these two splits repeated inputs differently,
/// which a store refuses.
const BATCH: usize = 5_000;
/// How many bytes of lines a batch may hold in memory before it is sent.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

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
    #[serde(default)]
    tags: Vec<String>,
}

/// How far the input was enqueued: every batch is stored whole or not at all.
#[derive(Default)]
struct Progress {
    enqueued: u64,
    /// How many more an earlier run had stored under the same keys.
    repeated: u64,
    first: Option<JobId>,
    last: Option<JobId>,
}

/// Enqueues one job per line, in batches; each at most once when there is a key.
pub(super) async fn run(globals: &Globals, path: &str, key: Option<String>) -> Outcome {
    if let Some(key) = &key {
        check_key(key)?;
    }
    let mut lines = input::open(path)?;
    let client = open::create(globals.url()).await?;
    let mut progress = Progress::default();
    let target = Target { client: &client, key: key.as_deref() };
    let store = async |batch: Vec<NewJob>, first_line: u64| target.store(&batch, first_line).await;
    copy(&mut *lines, &store, &mut progress).await?;
    client.close().await;
    let Progress { enqueued, repeated, first, last } = progress;
    let mut answer = json!({ "enqueued": enqueued, "first_id": first, "last_id": last });
    if key.is_none() {
        return globals.print(&answer, || format!("enqueued {enqueued} jobs"));
    }
    answer["repeated"] = repeated.into();
    globals.print(&answer, || format!("enqueued {enqueued} jobs, {repeated} were stored before"))
}

/// Refuses before the first line a key that would be too long behind some later one.
fn check_key(key: &str) -> Outcome {
    let most = Limits::MAX_IDEMPOTENCY_KEY_BYTES - batch_key("", u64::MAX).len();
    if key.len() > most {
        let message = format!(
            "an idempotency key for --many must be 1 to {most} bytes, got {}: line numbers come behind it",
            key.len()
        );
        return Err(Failure::usage("invalid_option", message));
    }
    Ok(Limits::check_idempotency_key(key)?)
}

/// The key of the batch that begins with this line.
fn batch_key(key: &str, line: u64) -> String {
    format!("{key}/{line}")
}

/// Where batches go.
struct Target<'a> {
    client: &'a Client,
    key: Option<&'a str>,
}

impl Target<'_> {
    async fn store(&self, batch: &[NewJob], first_line: u64) -> windlass::Result<EnqueuedOnce> {
        let store = self.client.store();
        match self.key {
            Some(key) => store.enqueue_once(&batch_key(key, first_line), batch).await,
            None => Ok(EnqueuedOnce { ids: store.enqueue(batch).await?, repeated: false }),
        }
    }
}

/// What stores a batch that begins with this line.
pub(crate) trait Store: AsyncFn(Vec<NewJob>, u64) -> windlass::Result<EnqueuedOnce> {}

impl<F: AsyncFn(Vec<NewJob>, u64) -> windlass::Result<EnqueuedOnce>> Store for F {}

/// Reads `input` as `enqueue --many` does, for the fuzz target of lines: every batch goes to `store` with the
/// number of its first line. How many jobs it took, or the line and the message that it stopped with.
pub(crate) async fn read(input: &mut dyn BufRead, store: &impl Store) -> Result<u64, (Option<u64>, String)> {
    let mut progress = Progress::default();
    match copy(input, store, &mut progress).await {
        Ok(()) => Ok(progress.enqueued),
        Err(failure) => Err(failure.at_line()),
    }
}

async fn copy(input: &mut dyn BufRead, store: &impl Store, progress: &mut Progress) -> Outcome {
    let (mut line, mut number) = (Vec::new(), 0_u64);
    let (mut batch, mut bytes, mut first_line) = (Vec::new(), 0, 1);
    loop {
        number += 1;
        let at_line = |failure: Failure| stopped(failure, &format!("line {number}"), number, progress);
        let ended = input::next_line(input, &mut line).map_err(at_line)?.is_none();
        if !ended && !line.trim_ascii().is_empty() {
            batch.push(parse(&line).map_err(at_line)?);
            bytes += line.len();
        }
        if ended || batch.len() == BATCH || bytes >= BATCH_BYTES {
            let last_line = number - u64::from(ended);
            send(store, &mut batch, first_line..=last_line, progress).await?;
            (bytes, first_line) = (0, number + 1);
        }
        if ended {
            return Ok(());
        }
    }
}

async fn send(
    store: &impl Store,
    batch: &mut Vec<NewJob>,
    lines: std::ops::RangeInclusive<u64>,
    progress: &mut Progress,
) -> Outcome {
    if batch.is_empty() {
        return Ok(());
    }
    let at = format!("lines {} to {}", lines.start(), lines.end());
    let EnqueuedOnce { ids, repeated } = store(std::mem::take(batch), *lines.start())
        .await
        .map_err(|error| stopped(error.into(), &at, *lines.start(), progress))?;
    let count = if repeated { &mut progress.repeated } else { &mut progress.enqueued };
    *count += ids.len() as u64;
    progress.first = progress.first.or(ids.first().copied());
    progress.last = ids.last().copied();
    Ok(())
}

/// Says where the input stopped, and what was enqueued before: all of it is stored, and no more.
fn stopped(failure: Failure, at: &str, line: u64, progress: &Progress) -> Failure {
    let Progress { enqueued, repeated, .. } = *progress;
    let earlier = match repeated {
        0 => String::new(),
        _ => format!(", {repeated} more by an earlier run"),
    };
    failure
        .explain(|message| {
            format!("{at}: {message}; {enqueued} jobs were enqueued before{earlier}, in whole batches")
        })
        .with("line", line)
        .with("enqueued", enqueued)
        .with("repeated", repeated)
}

fn parse(line: &[u8]) -> Outcome<NewJob> {
    let wrong = |error: serde_json::Error| {
        // Every line is one value on one line, so serde's own "line 1" would only mislead.
        let text = error.to_string().replace(" at line 1 column ", " at column ");
        Failure::usage("invalid_input", text)
    };
    let line: Line<'_> = serde_json::from_slice(line).map_err(wrong)?;
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
    if !line.tags.is_empty() {
        job = job.with_tags(line.tags);
    }
    // Checked here as well, so that the error names the line and not the batch.
    Limits::default().check(std::slice::from_ref(&job))?;
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::When;

    #[test]
    fn a_line_says_all_about_its_job() {
        let job =
            parse(br#"{"kind":"a","args":[1],"queue":"q","priority":-3,"max_attempts":2,"delay_ms":5}"#)
                .unwrap();
        assert_eq!((job.kind(), job.args().as_str(), job.queue()), ("a", "[1]", "q"));
        assert_eq!((job.priority(), job.max_attempts()), (-3, 2));
        assert_eq!(job.when(), When::After(Duration::from_millis(5)));
        assert_eq!(parse(br#"{"kind":"a"}"#).unwrap().args().as_str(), "{}");
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
            r#"{"kind":"a","args":"\u0000"}"#,
            "[]",
            "nonsense",
            "\"\u{feff}\"",
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
