//! What foreign code is told, as lines of the stdio protocol.

use crate::Told;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use windlass::{Args, lend::LentJob};

#[derive(Serialize)]
struct JobLine<'a> {
    r#type: &'static str,
    ticket: u64,
    id: i64,
    kind: &'a str,
    args: &'a RawValue,
    queue: &'a str,
    priority: i16,
    attempt: u16,
    max_attempts: u16,
    enqueued_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "is_zero")]
    crash_count: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tags: &'a [String],
}

#[derive(Serialize)]
struct ToldLine<'a> {
    r#type: &'static str,
    ticket: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The line of a job.
///
/// # Errors
/// Why the job cannot be told: the store handed out args that are no JSON.
pub fn job_line(job: &LentJob) -> Result<Vec<u8>, String> {
    let LentJob { ticket, args, context, .. } = job;
    let args = std::str::from_utf8(args).map_err(|error| format!("the job's args are not UTF-8: {error}"))?;
    let args = on_one_line(args);
    let meta = context.meta().map(|meta| on_one_line(meta.as_str()));
    let raw =
        |text| serde_json::from_str(text).map_err(|error| format!("the job's args are no JSON: {error}"));
    let line = JobLine {
        r#type: "job",
        ticket: ticket.0,
        id: context.id().0,
        kind: context.kind(),
        args: raw(&args)?,
        queue: context.queue(),
        priority: context.priority(),
        attempt: context.attempt(),
        max_attempts: context.max_attempts(),
        enqueued_at: context.enqueued_at(),
        expires_at: context.expires_at(),
        crash_count: context.crash_count(),
        key: context.key(),
        meta: meta.as_deref().map(raw).transpose()?,
        tags: context.tags(),
    };
    Ok(text(&line))
}

fn is_zero(count: &u16) -> bool {
    *count == 0
}

/// JSON text as one line: a line break in it is white space between its tokens, since strings escape theirs.
fn on_one_line(json: &str) -> Cow<'_, str> {
    match json.contains(['\n', '\r']) {
        true => json.replace(['\n', '\r'], " ").into(),
        false => json.into(),
    }
}

/// The line that a job should stop.
pub fn cancel_line(ticket: u64, reason: &str) -> Vec<u8> {
    text(&ToldLine { reason: Some(reason), ..told("cancel", ticket) })
}

/// The line that a job is taken away.
pub fn drop_line(ticket: u64) -> Vec<u8> {
    text(&told("drop", ticket))
}

/// The answer to a checkpoint, or to the question for the last one.
pub fn checkpoint_line(ticket: u64, kept: Result<Option<&Args>, &str>) -> Vec<u8> {
    let line = match kept {
        Ok(value) => {
            let value = value.map(|value| on_one_line(value.as_str()));
            let value = value.as_deref().and_then(|value| serde_json::from_str(value).ok());
            return text(&ToldLine {
                value: Some(value.unwrap_or(RawValue::NULL)),
                ..told("checkpoint", ticket)
            });
        }
        Err(error) => ToldLine { error: Some(error), ..told("checkpoint", ticket) },
    };
    text(&line)
}

impl Told {
    /// The line that says it.
    pub fn line(&self) -> Vec<u8> {
        match *self {
            Self::Cancel { ticket, reason } => cancel_line(ticket, reason),
            Self::Dropped { ticket } => drop_line(ticket),
        }
    }
}

fn told(r#type: &'static str, ticket: u64) -> ToldLine<'static> {
    ToldLine { r#type, ticket, reason: None, value: None, error: None }
}

fn text(line: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_string(line).expect("these types serialise");
    // Readers of lines in some languages, as that of newer Node, end one here, too. JSON has them in strings alone.
    for (end, escaped) in [('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")] {
        if text.contains(end) {
            text = text.replace(end, escaped);
        }
    }
    text.push('\n');
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn what_is_told_is_one_line_each() {
        assert_eq!(
            line(&cancel_line(7, "timeout")),
            "{\"type\":\"cancel\",\"ticket\":7,\"reason\":\"timeout\"}\n"
        );
        assert_eq!(line(&drop_line(7)), "{\"type\":\"drop\",\"ticket\":7}\n");
        let args = Args::parse("{\"a\":1}").unwrap();
        let kept = checkpoint_line(7, Ok(Some(&args)));
        assert_eq!(line(&kept), "{\"type\":\"checkpoint\",\"ticket\":7,\"value\":{\"a\":1}}\n");
        assert_eq!(
            line(&checkpoint_line(7, Ok(None))),
            "{\"type\":\"checkpoint\",\"ticket\":7,\"value\":null}\n"
        );
        // As one has it that was kept over HTTP.
        let written = Args::parse("{\n\"a\":\n1}").unwrap();
        assert_eq!(
            line(&checkpoint_line(7, Ok(Some(&written)))),
            "{\"type\":\"checkpoint\",\"ticket\":7,\"value\":{ \"a\": 1}}\n"
        );
        let separated = Args::parse("[\"a\u{2028}b\u{2029}\"]").unwrap();
        assert_eq!(
            line(&checkpoint_line(7, Ok(Some(&separated)))),
            "{\"type\":\"checkpoint\",\"ticket\":7,\"value\":[\"a\\u2028b\\u2029\"]}\n"
        );
        let lost = checkpoint_line(7, Err("lost\nit"));
        assert_eq!(line(&lost), "{\"type\":\"checkpoint\",\"ticket\":7,\"error\":\"lost\\nit\"}\n");
    }

    #[test]
    fn args_with_line_breaks_fit_on_one() {
        assert_eq!(on_one_line("{\n\"a\":\r\n\"b\\n\"}"), "{ \"a\":  \"b\\n\"}");
        assert!(matches!(on_one_line("{\"a\":1}"), Cow::Borrowed(_)));
    }
}
