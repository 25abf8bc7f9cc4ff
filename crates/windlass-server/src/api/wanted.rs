//! Filters by error and by args, and who may look for what: a filter must not tell what is hidden from who asks.

use crate::{
    app::App,
    auth::{Identity, Role},
    problem::Problem,
    record::secrets_of,
};
use serde_json::Value;
use windlass::{Args, JobFilter, JobRecord, JobState};

/// Args to look for, as JSON text.
pub(crate) fn read_args(text: &str) -> Result<Args, Problem> {
    Args::parse(text).map_err(|error| Problem::invalid(format!("the filter by args: {error}")))
}

/// Refuses a filter by values that are hidden from who asks.
pub(crate) fn check(app: &App, identity: &Identity, filter: &JobFilter) -> Result<(), Problem> {
    filter.check()?;
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
    app.redaction.would_tell(filter.kind.as_deref(), &wanted)
}

/// Takes those jobs away whose errors contain the text only where something is hidden from who asks.
pub(crate) async fn keep_told(
    app: &App,
    identity: &Identity,
    filter: &JobFilter,
    jobs: Vec<JobRecord>,
) -> Result<Vec<JobRecord>, Problem> {
    let Some(text) = filter.error.as_deref().filter(|_| identity.role() < Role::Admin) else {
        return Ok(jobs);
    };
    let text = text.to_ascii_lowercase();
    let mut told = Vec::with_capacity(jobs.len());
    for job in jobs {
        if is_told(app, &job, &text).await? {
            told.push(job);
        }
    }
    Ok(told)
}

async fn is_told(app: &App, job: &JobRecord, text: &str) -> Result<bool, Problem> {
    let secrets = secrets_of(job, &app.redaction);
    if secrets.is_empty() {
        return Ok(true);
    }
    let error = match job.state {
        JobState::Discarded => job.reason.clone(),
        _ => app.client.job(job.id).await?.and_then(|mut job| job.errors.pop()).map(|error| error.error),
    };
    let mut shown = Value::String(error.unwrap_or_default());
    secrets.scrub(&mut shown);
    Ok(shown.as_str().unwrap_or_default().to_ascii_lowercase().contains(text))
}
