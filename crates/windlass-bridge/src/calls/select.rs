//! What is done to jobs by hand: by their ids, or to all that a filter selects.

use super::{read, say};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::time::Duration;
use windlass::{Args, Client, Error, ErrorKind, JobEdit, JobFilter, JobId, JobState, Result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which<'a> {
    ids: Option<Vec<JobId>>,
    filter: Option<Filter>,
    #[serde(default)]
    everything: bool,
    #[serde(default)]
    dry_run: bool,
    at_most: Option<u64>,
    per_second: Option<f64>,
    #[serde(borrow)]
    edit: Option<Edit<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    state: Option<JobState>,
    queue: Option<String>,
    kind: Option<String>,
    tag: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit<'a> {
    #[serde(default)]
    now: bool,
    delay_ms: Option<u64>,
    scheduled_at: Option<Timestamp>,
    queue: Option<String>,
    priority: Option<i16>,
    max_attempts: Option<u16>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

impl Edit<'_> {
    fn edit(self) -> Result<JobEdit> {
        let mut edit = match (self.now, self.delay_ms, self.scheduled_at) {
            (false, None, None) => JobEdit::new(),
            (true, None, None) => JobEdit::new().with_no_delay(),
            (false, Some(delay), None) => JobEdit::new().with_delay(Duration::from_millis(delay)),
            (false, None, Some(at)) => JobEdit::new().with_scheduled_at(at),
            _ => return refuse("now, delay_ms and scheduled_at exclude each other"),
        };
        if let Some(queue) = self.queue {
            edit = edit.with_queue(queue);
        }
        if let Some(priority) = self.priority {
            edit = edit.with_priority(priority);
        }
        if let Some(max_attempts) = self.max_attempts {
            edit = edit.with_max_attempts(max_attempts);
        }
        Ok(match self.args {
            Some(args) => edit.with_args(Args::parse(args.get())?),
            None => edit,
        })
    }
}

pub(super) async fn call(client: &Client, op: &str, payload: &str) -> Result<String> {
    let mut which: Which<'_> = read(payload)?;
    let edit = match (op, which.edit.take()) {
        ("edit", Some(edit)) => edit.edit()?,
        ("edit", None) => {
            return refuse("say what to edit: an object with a time, queue, priority, max_attempts or args");
        }
        (_, Some(_)) => return refuse("only an edit takes the field edit"),
        (_, None) => JobEdit::new(),
    };
    match (which.ids.take(), which.filter.is_some() || which.everything) {
        (Some(ids), false) => by_id(client, op, &ids, &edit).await,
        (None, true) => selected(client, op, which, edit).await,
        _ => refuse("name either ids, or a filter (or everything)"),
    }
}

async fn by_id(client: &Client, op: &str, ids: &[JobId], edit: &JobEdit) -> Result<String> {
    match op {
        "cancel" => say(&json!({ "replies": client.cancel(ids).await? })),
        "retry" => say(&json!({ "replies": client.retry(ids).await? })),
        "delete" => say(&json!({ "replies": client.delete(ids).await? })),
        _ => say(&json!({ "replies": client.edit(ids, edit).await? })),
    }
}

async fn selected(client: &Client, op: &str, which: Which<'_>, edit: JobEdit) -> Result<String> {
    let Filter { state, queue, kind, tag } = which.filter.unwrap_or_default();
    let filter = JobFilter { state, queue, kind, tag, ..JobFilter::default() };
    let mut selection = client.select(filter).dry_run(which.dry_run);
    if which.everything {
        selection = selection.everything();
    }
    if let Some(most) = which.at_most {
        selection = selection.at_most(most);
    }
    if let Some(rate) = which.per_second {
        if rate.is_nan() || rate <= 0.0 {
            return refuse("per_second must be more than 0");
        }
        selection = selection.per_second(rate);
    }
    say(&match op {
        "cancel" => selection.cancel().await?,
        "retry" => selection.retry().await?,
        "delete" => selection.delete().await?,
        _ => selection.edit(edit).await?,
    })
}

fn refuse<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOption, message))
}
