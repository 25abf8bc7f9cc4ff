use super::{Answer, Shared, wanted};
use crate::{
    app::App,
    audit::Note,
    auth::Identity,
    bulk::{self, Action, Change, Preview, Which},
    extract::{Body, Name, parse_id, read_object},
    problem::{Problem, wrong_at},
    redact::hidden,
};
use axum::{Extension, Json, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use windlass::{Args, JobFilter, JobState, Limits};
use windlass_bridge::EditSpec;

/// The most ids of one call.
const MOST_IDS: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create<'a> {
    action: Action,
    #[serde(borrow)]
    edit: Option<&'a RawValue>,
    filter: Option<Filter>,
    ids: Option<Vec<String>>,
    per_second: Option<f64>,
    reason: Option<String>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<JobState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Confirm {
    count: u64,
}

type Noted = Result<(StatusCode, Extension<Note>, Json<Value>), Problem>;

/// Counts what would be touched; nothing changes.
pub(crate) async fn preview(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    body: Body,
) -> Noted {
    let Create { action, edit, filter, ids, per_second, reason } = body.read()?;
    if per_second.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(Problem::invalid("per_second must be more than 0")
            .at("/per_second".into(), "must be more than 0".into()));
    }
    let change = change(action, edit)?;
    let (which, filter) = which(&app, &identity, filter, ids)?;
    let actor = identity.actor().to_owned();
    let shown = app.bulk.preview(Preview { action, change, which, filter, per_second, actor }).await?;
    let count = (shown.state == bulk::State::Previewed).then_some(shown.count);
    let note = Note { filter: Some(shown.noted()), reason, count };
    Ok((StatusCode::CREATED, Extension(note), Json(json!(shown))))
}

/// What an edit changes. Args are changed job by job: one text for many would end up in the preview, and in the audit log.
fn change(action: Action, edit: Option<&RawValue>) -> Result<Change, Problem> {
    let wrong = |what: String| wrong_at("/edit", what);
    let edit = match (action, edit) {
        (Action::Edit, Some(edit)) => edit.get(),
        (Action::Edit, None) => return Err(wrong("is missing; the action edit needs it".to_owned())),
        (_, Some(_)) => return Err(wrong("is for the action edit alone".to_owned())),
        (_, None) => return Ok(Change::default()),
    };
    let spec: EditSpec<'_> = read_object(edit.as_bytes(), "/edit")?;
    let said: Value = serde_json::from_str(edit).map_err(|error| wrong(error.to_string()))?;
    // Null is a value of args, too.
    if said.get("args").is_some() {
        return Err(wrong(
            "cannot change args of many jobs; PATCH /jobs/{id} changes those of one".to_owned(),
        ));
    }
    let edit = spec.edit()?;
    edit.check(&Limits { max_args_bytes: usize::MAX })?;
    Ok(Change { edit, said: Some(said) })
}

fn which(
    app: &App,
    identity: &Identity,
    filter: Option<Filter>,
    ids: Option<Vec<String>>,
) -> Result<(Which, Value), Problem> {
    match (filter, ids) {
        (Some(filter), None) => {
            // First of all: half a character is JSON, and no value that could be said of the filter.
            let args = filter.args.as_ref().map(|args| wanted::read_args(args.get())).transpose()?;
            let mut said = json!(filter);
            let Filter { state, queue, kind, tag, error, .. } = filter;
            let filter = JobFilter { state, queue, kind, tag, error, args, ..JobFilter::default() };
            if filter.is_everything() {
                let detail =
                    "the filter selects every job; name a state, a queue, a kind, a tag, an error or args";
                return Err(Problem::invalid(detail).at("/filter".into(), "is empty".into()));
            }
            let wrong = |field: &str, what| wrong_at(&format!("/filter/{field}"), what);
            wanted::check(app, identity, &filter, wrong)?;
            if wanted::names_hidden(app, &filter) {
                // Others see what was asked for.
                said["args"] = json!(hidden(filter.args.as_ref().map_or(0, Args::len)));
            }
            Ok((Which::Filter(filter), said))
        }
        (None, Some(ids)) if (1..=MOST_IDS).contains(&ids.len()) => {
            let mut ids: Vec<_> = ids.iter().map(|id| parse_id(id)).collect::<Result<_, _>>()?;
            ids.sort_unstable();
            ids.dedup();
            let said = json!({ "ids": ids.len() });
            Ok((Which::Ids(ids), said))
        }
        (None, Some(ids)) => Err(Problem::invalid(format!("name 1 to {MOST_IDS} ids, got {}", ids.len()))),
        _ => Err(Problem::invalid("name either a filter or ids")),
    }
}

pub(crate) async fn show(State(app): Shared, Name(id): Name) -> Answer {
    Ok(Json(json!(app.bulk.get(&id)?)))
}

/// Begins what was previewed.
pub(crate) async fn confirm(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Name(id): Name,
    body: Body,
) -> Noted {
    let Confirm { count } = body.read()?;
    let shown = app.bulk.confirm(&id, count, identity.actor())?;
    let note = Note { filter: Some(shown.noted()), count: Some(count), reason: None };
    Ok((StatusCode::ACCEPTED, Extension(note), Json(json!(shown))))
}

pub(crate) async fn stop(State(app): Shared, Name(id): Name) -> Answer {
    Ok(Json(json!(app.bulk.stop(&id)?)))
}
