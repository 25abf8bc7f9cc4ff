//! Filters by error and by args, and who may look for what: a filter must not tell what is hidden from who asks.

use crate::{
    app::App,
    auth::{Identity, Role},
    problem::Problem,
    record::secrets_of,
    redact::Verbatim,
    side_by_side::side_by_side,
};
use windlass::{Args, JobFilter, JobPage, JobRecord, JobState, Limits, PageToken};

/// How many jobs one call looks at for their errors, and in how many pages of the store, at most.
const MOST_LOOKED: usize = 500;
const MOST_PAGES: usize = 50;

/// Args to look for, as JSON text.
pub(crate) fn read_args(text: &str) -> Result<Args, Problem> {
    Args::parse(text).map_err(|error| Problem::invalid(format!("the filter by args: {error}")))
}

/// Refuses a filter by values that are hidden from who asks, and by what no job has. `wrong` says what is wrong with a field.
pub(crate) fn check(
    app: &App,
    identity: &Identity,
    filter: &JobFilter,
    wrong: impl Fn(&str, String) -> Problem,
) -> Result<(), Problem> {
    for (field, name, check) in [
        ("queue", &filter.queue, Limits::check_queue_name as fn(&str) -> windlass::Result<()>),
        ("kind", &filter.kind, Limits::check_kind_name),
        ("tag", &filter.tag, Limits::check_tag),
    ] {
        if let Some(Err(error)) = name.as_deref().map(check) {
            return Err(wrong(field, error.to_string()));
        }
    }
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
    let Some(wanted) = Verbatim::read(args.as_str()) else { return true };
    app.redaction().would_tell(filter.kind.as_deref(), wanted)
}

/// How many jobs are read at once: of the largest, some megabytes each.
const FIRST_READ: u32 = 10;
const MOST_READ: u32 = 50;
/// How many bytes of jobs one call reads, and a few jobs; its page ends there.
const MOST_BYTES: usize = 32 << 20;

/// A page of jobs, each of which is shown as soon as it is read, as large ones do not all fit in memory. Who may not see hidden values finds
/// jobs by their errors as these are shown: those are looked at one by one, as a page that ended where the store found a hidden text would
/// tell of it.
pub(crate) async fn page<T, F: Future<Output = Result<T, Problem>>>(
    app: &App,
    identity: &Identity,
    mut filter: JobFilter,
    show: impl Fn(JobRecord) -> F,
) -> Result<(Vec<T>, Option<PageToken>), Problem> {
    let is_hidden = identity.role() < Role::Admin;
    let text = filter.error.take_if(|_| is_hidden).map(|text| text.to_ascii_lowercase());
    let (text, show, limit) = (text.as_deref(), &show, filter.limit as usize);
    let (mut told, mut looked, mut bytes, mut read) = (Vec::new(), 0, 0, FIRST_READ);
    loop {
        filter.limit = read.min((limit - told.len()) as u32);
        let JobPage { jobs, next } = app.client.jobs(&filter).await?;
        let (count, asked) = (jobs.len(), filter.limit as usize);
        let their_bytes: usize = jobs.iter().map(size).sum();
        bytes += their_bytes;
        let found = side_by_side(jobs, |job| async move {
            match text {
                Some(text) if !is_told(app, &job, text).await? => Ok(None),
                _ => show(job).await.map(Some),
            }
        });
        told.extend(found.await?.into_iter().flatten());
        filter.after = next;
        let is_over = match text {
            Some(_) => {
                looked += count.max(MOST_LOOKED / MOST_PAGES);
                looked >= MOST_LOOKED
            }
            // A page of the store that is short looked at enough.
            None => count < asked,
        };
        if filter.after.is_none() || told.len() >= limit || is_over || bytes >= MOST_BYTES {
            return Ok((told, filter.after));
        }
        // Those that follow are likely as large.
        let fit = MOST_BYTES / 4 * count.max(1) / their_bytes.max(1);
        read = u32::try_from(fit).unwrap_or(MOST_READ).clamp(1, MOST_READ);
    }
}

/// About how many bytes a job has.
fn size(job: &JobRecord) -> usize {
    job.args.len() + job.meta.as_ref().map_or(0, Args::len) + job.result.as_ref().map_or(0, Args::len)
}

/// Whether the error of a job, as it is shown, contains a text: what made it fail for good, or else the last that is kept.
async fn is_told(app: &App, job: &JobRecord, text: &str) -> Result<bool, Problem> {
    let Some(mut job) = app.client.job(job.id).await? else { return Ok(false) };
    let error = match job.state {
        JobState::Discarded => job.reason.take(),
        _ => job.errors.pop().map(|error| error.error),
    };
    let shown = secrets_of(&job, &app.redaction()).scrubbed(&error.unwrap_or_default());
    Ok(shown.to_ascii_lowercase().contains(text))
}
