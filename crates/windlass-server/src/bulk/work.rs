use super::{Action, Batch, Shown, State, counted::Counted};
use crate::{audit::Audit, problem::Problem};
use windlass::{Args, AuditEntry, Client, JobEdit, Result, Selection, Touched};

/// Does it to the jobs that were counted, until it is done, stopped, or fails; and notes how many jobs it touched.
pub(super) async fn run(client: &Client, audit: &Audit, batch: &Batch, counted: Counted) {
    let ended = touch(client, batch, counted).await;
    let entry = over(&mut batch.shown(), ended);
    audit.store(entry).await;
}

/// Whether it came to its end. What is under way at a stop is waited for: it is done, and counts. What is deleted is gone for good, and a job that was dead may
/// have been retried since: where its state is known it is looked at again right before. The other actions do to one that moved on what was announced.
async fn touch(client: &Client, batch: &Batch, Counted { ids, was }: Counted) -> Result<bool> {
    let (action, counted) = (batch.shown().action, ids.len() as u64);
    let told = |touched: &Touched| {
        let mut shown = batch.shown();
        (shown.done, shown.asked, shown.left) = (touched.done, touched.asked, touched.left);
    };
    let mut selection = client.select_ids(ids).progress(told).until(batch.stop.cancelled());
    if let Some(rate) = batch.per_second {
        selection = selection.per_second(rate);
    }
    if let Some(was) = &was {
        selection = selection.still(|some| Box::pin(was.still(client, some)));
    }
    Ok(act(selection, action, &batch.edit).await?.selected == counted)
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
