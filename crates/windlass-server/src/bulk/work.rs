use super::{Action, Batch, MOST_JOBS, Shown, State, Which};
use crate::{audit::Audit, problem::Problem, side_by_side::side_by_side};
use std::collections::HashSet;
use windlass::{Args, AuditEntry, Client, JobEdit, JobId, JobState, Result, Selection, Touched};

/// The jobs that would be touched, and whether these are all.
pub(super) async fn counted(
    client: &Client,
    action: Action,
    edit: &JobEdit,
    which: Which,
) -> Result<(Vec<JobId>, bool)> {
    let filter = match which {
        Which::Ids(ids) => return Ok((ids, true)),
        Which::Filter(filter) => filter,
    };
    let (mut ids, mut met) = (Vec::new(), HashSet::new());
    // One that moves on while they are counted may be met twice.
    let found = |some: &[JobId]| ids.extend(some.iter().filter(|id| met.insert(**id)));
    // One more than may be touched tells whether there are more.
    let selection = client.select(filter).dry_run(true).at_most(MOST_JOBS + 1).found(found);
    let selected = act(selection, action, edit).await?.selected;
    ids.truncate(MOST_JOBS as usize);
    ids.shrink_to_fit();
    Ok((ids, selected <= MOST_JOBS))
}

/// Does it to the jobs that were counted, until it is done, stopped, or fails; and notes how many jobs it touched.
pub(super) async fn run(client: &Client, audit: &Audit, batch: &Batch, ids: Vec<JobId>) {
    let ended = touch(client, batch, ids).await;
    let entry = over(&mut batch.shown(), ended);
    audit.store(entry).await;
}

/// Whether it came to its end. What is under way at a stop is waited for: it is done, and counts.
async fn touch(client: &Client, batch: &Batch, all: Vec<JobId>) -> Result<bool> {
    let action = batch.shown().action;
    let counted = all.len() as u64;
    let ids = match batch.state {
        Some(state) if action == Action::Delete => tokio::select! {
            ids = still(client, all, state) => ids?,
            () = batch.stop.cancelled() => return Ok(false),
        },
        _ => all,
    };
    let moved_on = counted - ids.len() as u64;
    batch.shown().left = moved_on;
    let told = |touched: &Touched| {
        let mut shown = batch.shown();
        (shown.done, shown.asked, shown.left) = (touched.done, touched.asked, touched.left + moved_on);
    };
    let mut selection = client.select_ids(ids).progress(told).until(batch.stop.cancelled());
    if let Some(rate) = batch.per_second {
        selection = selection.per_second(rate);
    }
    let touched = act(selection, action, &batch.edit).await?;
    Ok(touched.selected + moved_on == counted)
}

/// Those that are still in the state that was asked for. What is deleted is gone for good, and a job that was dead may have been retried
/// since; the other actions do to one that moved on what was announced.
async fn still(client: &Client, ids: Vec<JobId>, state: JobState) -> Result<Vec<JobId>> {
    let look = |id| async move {
        client.job(id).await.map(|job| job.filter(|job| job.state == state).map(|job| job.id))
    };
    Ok(side_by_side(ids, look).await?.into_iter().flatten().collect())
}

/// Says how it ended, and gives the entry of the audit log.
fn over(shown: &mut Shown, ended: Result<bool>) -> AuditEntry {
    let (state, outcome) = match ended {
        Ok(false) => (State::Stopped, "stopped"),
        Ok(true) => (State::Done, "done"),
        Err(error) => {
            tracing::warn!(id = shown.id, %error, "a bulk action failed");
            let code = error.code();
            shown.error = Some(Problem::from(error).detail());
            (State::Failed, code)
        }
    };
    shown.state = state;
    let Shown { id, actor, action, done, asked, left, .. } = &*shown;
    tracing::info!(target: "windlass::audit", id, actor, ?action, ?state, done, asked, left, "a bulk action ended");
    let what = match action {
        Action::Cancel => "jobs.cancel",
        Action::Retry => "jobs.retry",
        Action::Delete => "jobs.delete",
        Action::Edit => "jobs.edit",
    };
    let mut entry = AuditEntry::new(actor, what, format!("/bulk/{id}"))
        .with_via("bulk")
        .with_outcome(outcome)
        .with_count(done + asked);
    entry.filter = Args::of(&shown.noted()).ok();
    entry
}

async fn act(selection: Selection<'_>, action: Action, edit: &JobEdit) -> Result<Touched> {
    match action {
        Action::Cancel => selection.cancel().await,
        Action::Retry => selection.retry().await,
        Action::Delete => selection.delete().await,
        Action::Edit => selection.edit(edit.clone()).await,
    }
}
