//! What is done to jobs by hand: by their ids, or to all that a filter selects.

use super::{read, say};
use crate::EditSpec;
use serde::Deserialize;
use serde_json::json;
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
    edit: Option<EditSpec<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    /// These, and nothing else is said.
    ids: Option<Vec<JobId>>,
    state: Option<JobState>,
    queue: Option<String>,
    kind: Option<String>,
    tag: Option<String>,
    error: Option<String>,
    args: Option<Args>,
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
    let says_how = which.dry_run || which.at_most.is_some() || which.per_second.is_some();
    match (which.ids.take(), which.filter.is_some() || which.everything) {
        (Some(_), false) if says_how => refuse(
            "jobs that are named by ids take no dry_run, at_most and per_second; those of a filter do, which may name ids",
        ),
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
    let Filter { ids, state, queue, kind, tag, error, args } = which.filter.unwrap_or_default();
    let filter = JobFilter { state, queue, kind, tag, error, args, ..JobFilter::default() };
    let selection = match ids {
        None => client.select(filter),
        Some(ids) if filter.is_everything() && !which.everything => client.select_ids(ids),
        Some(_) => return refuse("ids name the jobs by themselves: leave out what else the filter says"),
    };
    let mut selection = selection.dry_run(which.dry_run);
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
