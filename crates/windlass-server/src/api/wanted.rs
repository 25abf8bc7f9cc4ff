//! Filters by error and by args, and who may look for what: a filter must not tell what is hidden from who asks.

use crate::{
    app::App,
    auth::{Identity, Role},
    problem::Problem,
    record::secrets_of,
    side_by_side::side_by_side,
};
use serde_json::Value;
use windlass::{Args, JobFilter, JobPage, JobRecord, JobState};

/// How many jobs one call looks at for their errors, and in how many pages of the store, at most.
const MOST_LOOKED: usize = 500;
const MOST_PAGES: usize = 50;

/// Args to look for, as JSON text.
pub(crate) fn read_args(text: &str) -> Result<Args, Problem> {
    Args::parse(text).map_err(|error| Problem::invalid(format!("the filter by args: {error}")))
}

/// Refuses a filter by values that are hidden from who asks.
pub(crate) fn check(app: &App, identity: &Identity, filter: &JobFilter) -> Result<(), Problem> {
    filter.check()?;
    let texts = [&filter.queue, &filter.kind, &filter.tag, &filter.error];
    if texts.into_iter().flatten().any(|text| text.contains('\0')) {
        return Err(Problem::invalid("a filter has a NUL character, which no job has"));
    }
    if identity.role() >= Role::Admin || !names_hidden(app, filter) {
        return Ok(());
    }
    let detail = match filter.kind {
        Some(_) => {
            "the filter by args names values that are hidden from you; only an admin may look for them"
        }
        None => {
            "the filter by args names values that are hidden from you in jobs of some kind; name a kind of which they are shown, or ask an admin"
        }
    };
    Err(Problem::forbidden("permission_denied", detail))
}

/// Whether the args that a filter names are hidden in some of the jobs that it looks at.
pub(crate) fn names_hidden(app: &App, filter: &JobFilter) -> bool {
    let Some(args) = &filter.args else { return false };
    let Ok(wanted) = serde_json::from_str::<Value>(args.as_str()) else { return true };
    app.redaction().would_tell(filter.kind.as_deref(), &wanted)
}

/// A page of jobs. Who may not see hidden values finds jobs by their errors as these are shown: those are looked at one by one, as
/// a page that ended where the store found a hidden text would tell of it.
pub(crate) async fn page(app: &App, identity: &Identity, mut filter: JobFilter) -> Result<JobPage, Problem> {
    let is_hidden = identity.role() < Role::Admin;
    let Some(text) = filter.error.take_if(|_| is_hidden).map(|text| text.to_ascii_lowercase()) else {
        return Ok(app.client.jobs(&filter).await?);
    };
    let (mut told, mut looked, limit) = (Vec::new(), 0, filter.limit);
    loop {
        filter.limit = limit - told.len() as u32;
        let page = app.client.jobs(&filter).await?;
        looked += page.jobs.len().max(MOST_LOOKED / MOST_PAGES);
        let text = text.as_str();
        let found = side_by_side(page.jobs, |job| async move {
            is_told(app, &job, text).await.map(|is_told| is_told.then_some(job))
        });
        told.extend(found.await?.into_iter().flatten());
        filter.after = page.next;
        if filter.after.is_none() || told.len() >= limit as usize || looked >= MOST_LOOKED {
            return Ok(JobPage { jobs: told, next: filter.after });
        }
    }
}

/// Whether the error of a job, as it is shown, contains a text: what made it fail for good, or else the last that is kept.
async fn is_told(app: &App, job: &JobRecord, text: &str) -> Result<bool, Problem> {
    let Some(mut job) = app.client.job(job.id).await? else { return Ok(false) };
    let error = match job.state {
        JobState::Discarded => job.reason.take(),
        _ => job.errors.pop().map(|error| error.error),
    };
    let mut shown = Value::String(error.unwrap_or_default());
    secrets_of(&job, &app.redaction()).scrub(&mut shown);
    Ok(shown.as_str().unwrap_or_default().to_ascii_lowercase().contains(text))
}
