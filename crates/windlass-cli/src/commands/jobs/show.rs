use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    text::{escape, escape_lines},
};
use jiff::Timestamp;
use std::fmt::Write;
use windlass::{Args, Client, Envelope, HandlerReport, JobId, JobRecord, Progress, RetryPolicy};

/// How many characters of a checkpoint are shown.
const MOST_SHOWN: usize = 200;

pub(crate) async fn run(globals: &Globals, client: &Client, id: JobId) -> Outcome {
    print(globals, &known(client, id).await?)
}

/// The job as it is stored.
pub(super) async fn known(client: &Client, id: JobId) -> Outcome<JobRecord> {
    let found = client.job(id).await?;
    found.ok_or_else(|| {
        Failure::failed("not_found", format!("job {id} does not exist, or its history was removed"))
    })
}

pub(super) fn print(globals: &Globals, job: &JobRecord) -> Outcome {
    globals.print(job, || text(job))
}

fn backoff(policy: &RetryPolicy) -> String {
    let RetryPolicy { backoff, base, max, jitter, .. } = policy;
    let name = format!("{backoff:?}").to_lowercase();
    format!("{name} from {base:?}, at most {max:?}, ± {:.0} %", jitter * 100.0)
}

fn text(job: &JobRecord) -> String {
    let when = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let fields = [
        ("id", Some(job.id.to_string())),
        ("state", Some(job.state.to_string())),
        ("kind", Some(escape(&job.kind))),
        ("queue", Some(escape(&job.queue))),
        ("priority", Some(job.priority.to_string())),
        ("attempt", Some(format!("{} of {}", job.attempt, job.max_attempts))),
        ("crashes", (job.crash_count > 0).then(|| job.crash_count.to_string())),
        ("enqueued", Some(job.enqueued_at.to_string())),
        ("scheduled", when(job.scheduled_at)),
        ("claimed", when(job.claimed_at)),
        ("worker", job.claimed_by.map(|worker| worker.to_string())),
        ("finished", when(job.finished_at)),
        ("key", job.key.as_deref().map(escape)),
        ("meta", job.meta.as_ref().map(|meta| escape(meta.as_str()))),
        ("tags", (!job.tags.is_empty()).then(|| escape(&job.tags.join(", ")))),
        ("timeout", job.timeout.map(|timeout| format!("{timeout:?}"))),
        ("cost", job.cost.map(|cost| cost.to_string())),
        ("backoff", job.retry_policy.as_ref().map(backoff)),
        ("expires", when(job.expires_at)),
        ("result", job.result.as_ref().map(shown)),
        ("reason", job.reason.as_deref().map(escape)),
        ("args", Some(shown(&job.args))),
    ];
    let mut text = String::new();
    for (name, value) in fields {
        if let Some(value) = value {
            let _ = writeln!(text, "{name:<10}{value}");
        }
    }
    if let Some(report) = &job.report {
        text.push_str(&said(report));
    }
    for error in &job.errors {
        let began = !error.error.starts_with(Envelope::UNDECRYPTABLE);
        let what = if began { "failed" } else { "could not begin" };
        let _ = writeln!(text, "\nattempt {} {what} at {}:", error.attempt, error.at);
        text.push_str(&escape_lines(&error.error, "  "));
    }
    text
}

/// What the job's handlers said of it.
fn said(report: &HandlerReport) -> String {
    let mut text = String::new();
    if let Some(Progress { percent, note }) = &report.progress {
        let note = note.as_deref().map(|note| format!(", {}", escape(note))).unwrap_or_default();
        let _ = writeln!(text, "{:<10}{percent} %{note}", "progress");
    }
    if let Some(checkpoint) = &report.checkpoint {
        let _ = writeln!(text, "{:<10} {}", "checkpoint", cut(&shown(checkpoint)));
    }
    let _ = writeln!(text, "{:<10}{} by attempt {}", "reported", report.reported_at, report.attempt);
    if report.log_dropped > 0 {
        let _ = writeln!(text, "\nolder lines of the log that were dropped: {}", report.log_dropped);
    }
    for (nth, line) in report.log.iter().enumerate() {
        let gap = if nth == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{gap}{} attempt {}: {}", line.at, line.attempt, escape(&line.text));
    }
    text
}

/// A text that may be long; `--json` has all of it.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes; --json shows all)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// Args or a result; of encrypted ones, only that and with which key.
fn shown(json: &Args) -> String {
    Envelope::describe(json).unwrap_or_else(|| escape(json.as_str()))
}
