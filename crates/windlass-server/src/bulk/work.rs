use super::{Action, Batch, Shown, State, counted::Counted};
use crate::{audit::Audit, problem::Problem};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use windlass::{Args, AuditEntry, Client, JobEdit, Result, Selection, Touched};

/// How many jobs are looked at, and then deleted, at once.
const CHUNK: usize = 500;
/// The longest rest between two of them.
const YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Does it to the jobs that were counted, until it is done, stopped, or fails; and notes how many jobs it touched.
pub(super) async fn run(client: &Client, audit: &Audit, batch: &Batch, counted: Counted) {
    let ended = match counted.names_states() {
        true => delete(client, batch, &counted).await,
        false => touch(client, batch, counted).await,
    };
    let entry = over(&mut batch.shown(), ended);
    audit.store(entry).await;
}

/// Whether it came to its end. What is under way at a stop is waited for: it is done, and counts.
async fn touch(client: &Client, batch: &Batch, Counted { ids, .. }: Counted) -> Result<bool> {
    let (action, counted) = (batch.shown().action, ids.len() as u64);
    let told = |touched: &Touched| {
        let mut shown = batch.shown();
        (shown.done, shown.asked, shown.left) = (touched.done, touched.asked, touched.left);
    };
    let mut selection = client.select_ids(ids).progress(told).until(batch.stop.cancelled());
    if let Some(rate) = batch.per_second {
        selection = selection.per_second(rate);
    }
    Ok(act(selection, action, &batch.edit).await?.selected == counted)
}

/// The same for jobs whose states are known. What is deleted is gone for good, and a job that was dead may have been retried since: right before, it
/// is looked at again. The other actions do to one that moved on what was announced.
async fn delete(client: &Client, batch: &Batch, counted: &Counted) -> Result<bool> {
    let pace = batch.per_second.unwrap_or(f64::INFINITY);
    let mut left = counted.ids.chunks((pace as usize).clamp(1, CHUNK)).peekable();
    while let Some(some) = left.next() {
        let began = Instant::now();
        let ids = tokio::select! {
            ids = counted.still(client, some) => ids?,
            () = batch.stop.cancelled() => return Ok(false),
        };
        let deleted = client.select_ids(ids).delete().await?.done;
        {
            let mut shown = batch.shown();
            (shown.done, shown.left) = (shown.done + deleted, shown.left + some.len() as u64 - deleted);
        }
        if left.peek().is_some() {
            let rest =
                Duration::try_from_secs_f64(some.len() as f64 / pace).map_or(YEARS, |rest| rest.min(YEARS));
            tokio::select! {
                biased;
                () = batch.stop.cancelled() => return Ok(false),
                () = sleep_until(began + rest) => {}
            }
        }
    }
    Ok(true)
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

pub(super) async fn act(selection: Selection<'_>, action: Action, edit: &JobEdit) -> Result<Touched> {
    match action {
        Action::Cancel => selection.cancel().await,
        Action::Retry => selection.retry().await,
        Action::Delete => selection.delete().await,
        Action::Edit => selection.edit(edit.clone()).await,
    }
}
