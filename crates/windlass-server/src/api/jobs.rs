use super::{Answer, Shared, page_size, wanted};
use crate::{
    app::App,
    audit::Note,
    auth::Identity,
    extract::{Body, Id, Query},
    few::at_most,
    problem::Problem,
    record::{IN_LISTS, OF_ONE, job_json, secrets_of},
    redact::{Secrets, Verbatim},
    replays::{key_of, reused},
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{json, value::RawValue};
use windlass::{
    CancelReply, Conflict, DeleteReply, EditReply, EnqueuedUnique, Envelope, Error, ErrorKind, JobFilter,
    JobId, JobRecord, JobState, NewJob, PageToken, RetryReply, TraceContext,
};
use windlass_bridge::{EditSpec, JobSpec};

/// The most jobs of one call.
const MOST_JOBS: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    state: Option<JobState>,
    queue: Option<String>,
    kind: Option<String>,
    tag: Option<String>,
    error: Option<String>,
    args: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    items: Vec<Verbatim>,
    next: Option<PageToken>,
    complete: bool,
}

pub(crate) async fn list(
    State(app): Shared,
    Extension(identity): Extension<Identity>,
    Query(list): Query<List>,
) -> Result<Json<Listed>, Problem> {
    let List { state, queue, kind, tag, error, args, after, limit } = list;
    let limit = page_size(limit)?;
    let (args, after) = (args.as_deref().map(wanted::read_args).transpose()?, after.map(PageToken));
    let filter = JobFilter { state, queue, kind, tag, error, args, after, limit };
    let wrong = |field: &str, what| Problem::invalid(format!("the parameter {field}: {what}"));
    wanted::check(&app, &identity, &filter, wrong)?;
    let app = &app;
    let show = |mut job| async move {
        let secrets = told_elsewhere(app, &mut job).await?;
        Ok::<_, Problem>(job_json(job, &app.redaction(), IN_LISTS, secrets)?)
    };
    let (items, next) = wanted::page(app, &identity, filter, show).await?;
    let complete = items.len() >= limit as usize || next.is_none();
    Ok(Json(Listed { items, next, complete }))
}

/// What a list does not have of a job and its reason may quote: hidden values of its checkpoint.
async fn told_elsewhere(app: &App, job: &mut JobRecord) -> Result<Secrets, Problem> {
    if job.reason.is_none() {
        return Ok(Secrets::default());
    }
    let whole = app.client.job(job.id).await?;
    if whole.is_none() {
        job.reason = None; // removed meanwhile: nobody knows what it may quote
    }
    Ok(whole.map(|job| secrets_of(&job, &app.redaction())).unwrap_or_default())
}

pub(crate) async fn show(State(app): Shared, Id(id): Id) -> Result<Json<Verbatim>, Problem> {
    Ok(Json(one(&app, id).await?))
}

/// A job with its errors and what its handlers said.
pub(crate) async fn one(app: &App, id: JobId) -> Result<Verbatim, Problem> {
    Ok(job_json(known(app, id).await?, &app.redaction(), OF_ONE, Secrets::default())?)
}

async fn known(app: &App, id: JobId) -> Result<JobRecord, Problem> {
    app.client.job(id).await?.ok_or_else(|| gone(id))
}

fn gone(id: JobId) -> Problem {
    Problem::not_found(format!("there is no job {id}, or its history was removed"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reveal {
    reveal: Option<String>,
    reason: Option<String>,
}

/// The args as they are, for who may see them.
pub(crate) async fn args(
    State(app): Shared,
    Id(id): Id,
    Query(asked): Query<Reveal>,
) -> Result<Response, Problem> {
    if asked.reveal.as_deref() != Some("1") {
        return Err(Problem::invalid("hidden values are shown with ?reveal=1 only, which is audited"));
    }
    let job = known(&app, id).await?;
    let note = Note { reason: asked.reason, ..Note::default() };
    let opened = opened(&app, &job).await?;
    let args = opened.as_ref().map_or(job.args.as_str(), |args| args.get());
    let body = format!("{{\"args\":{args}}}");
    Ok(([(header::CONTENT_TYPE, "application/json")], Extension(note), body).into_response())
}

/// Encrypted args, where the server has their key; where it has not, they are shown as they are stored.
async fn opened(app: &App, job: &JobRecord) -> Result<Option<Box<RawValue>>, Problem> {
    if !Envelope::is_one(job.args.as_str().as_bytes()) {
        return Ok(None);
    }
    match app.client.args(job.id).await {
        Err(error) if error.kind() == ErrorKind::Undecryptable => Ok(None),
        opened => Ok(opened?),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Enqueue<'a> {
    #[serde(borrow, deserialize_with = "jobs")]
    jobs: Vec<JobSpec<'a>>,
}

fn jobs<'de: 'a, 'a, D: Deserializer<'de>>(list: D) -> Result<Vec<JobSpec<'a>>, D::Error> {
    at_most(list, MOST_JOBS, format_args!("one call enqueues 1 to {MOST_JOBS} jobs, got more"))
}

/// Enqueues jobs, all or none; with an `Idempotency-Key` at most once.
pub(crate) async fn enqueue(State(app): Shared, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    let Enqueue { jobs } = body.read()?;
    let count = jobs.len();
    if count == 0 {
        return Err(Problem::invalid(format!("one call enqueues 1 to {MOST_JOBS} jobs, got 0")));
    }
    let job = |(at, job): (usize, JobSpec<'_>)| job.job().map_err(|error| error.of_job(at, count));
    let mut jobs: Vec<NewJob> = jobs.into_iter().enumerate().map(job).collect::<Result<_, _>>()?;
    if let Some(trace) = trace_of(&headers) {
        trace.carry(&mut jobs);
    }
    let any_unique = jobs.iter().any(|job| job.unique().is_some());
    let under_way = key_of(&headers)?.map(|key| (key, app.enqueued.begin(key, body.bytes())));
    // Nothing is read of it any more; its jobs take as much, until they are stored.
    let _room = body.into_room();
    let (ids, repeated) = match under_way {
        None if any_unique => return Ok(stored(&app.client.enqueue_many_unique(jobs).await?)),
        None => (app.client.enqueue_many(jobs).await?, false),
        Some((key, under_way)) => {
            let once = app.client.enqueue_many_once(key, jobs).await?;
            match once.repeated {
                true if under_way.is_of_another().await => return Err(reused()),
                true => {}
                false => under_way.note(),
            }
            (once.ids, once.repeated)
        }
    };
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    // A repeated call stored nothing.
    let count = if repeated { 0 } else { ids.len() as u64 };
    let note = Extension(Note { count: Some(count), ..Note::default() });
    let replayed = repeated
        .then(|| [(HeaderName::from_static("idempotent-replayed"), HeaderValue::from_static("true"))]);
    let answer = (StatusCode::CREATED, note, Json(json!({ "ids": ids })));
    Ok(match replayed {
        Some(header) => (header, answer).into_response(),
        None => answer.into_response(),
    })
}

/// The answer where jobs are unique: of each the job that has its key, and what became of the conflict, if there was one. Audited are those
/// that were stored.
fn stored(jobs: &[EnqueuedUnique]) -> Response {
    let ids: Vec<String> = jobs.iter().map(|job| job.id.to_string()).collect();
    let conflicts: Vec<_> = jobs.iter().map(|job| job.conflict.map(Conflict::as_str)).collect();
    let is_stored = |job: &&EnqueuedUnique| matches!(job.conflict, None | Some(Conflict::Replaced));
    let count = jobs.iter().filter(is_stored).count() as u64;
    let note = Extension(Note { count: Some(count), ..Note::default() });
    (StatusCode::CREATED, note, Json(json!({ "ids": ids, "conflicts": conflicts }))).into_response()
}

/// The trace of which a request is a part. A header that is no trace context is as none: the standard has it ignored.
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    TraceContext::new(text("traceparent")?, text("tracestate").unwrap_or_default()).ok()
}

pub(crate) async fn retry(State(app): Shared, Id(id): Id) -> Answer {
    reply(id, &app.client.retry(&[id]).await?, RetryReply::NotFound)
}

pub(crate) async fn cancel(State(app): Shared, Id(id): Id) -> Answer {
    reply(id, &app.client.cancel(&[id]).await?, CancelReply::NotFound)
}

pub(crate) async fn delete(State(app): Shared, Id(id): Id) -> Answer {
    reply(id, &app.client.delete(&[id]).await?, DeleteReply::NotFound)
}

pub(crate) async fn edit(State(app): Shared, Id(id): Id, body: Body) -> Result<impl IntoResponse, Problem> {
    let edit = body.read::<EditSpec<'_>>()?.edit()?;
    let answer = reply(id, &app.client.edit(&[id], &edit).await?, EditReply::NotFound)?;
    Ok((Extension(Note { filter: Some(json!({ "edit": edit.noted() })), ..Note::default() }), answer))
}

fn reply<T: Copy + Serialize + PartialEq>(id: JobId, replies: &[T], unknown: T) -> Answer {
    match replies.first() {
        Some(&reply) if reply == unknown => Err(gone(id)),
        Some(reply) => Ok(Json(json!({ "reply": reply }))),
        None => {
            Err(Error::new(ErrorKind::Internal, "the store said nothing of a job; please report it").into())
        }
    }
}
