use super::{Action, Batch, MOST_JOBS, Shown, State, Which};
use crate::{audit::Audit, problem::Problem};
use windlass::{Args, AuditEntry, Client, Result, Selection, Touched};

/// How many jobs would be touched, and whether these are all.
pub(super) async fn count(client: &Client, action: Action, which: &Which) -> Result<(u64, bool)> {
    match which {
        Which::Ids(ids) => Ok((ids.len() as u64, true)),
        Which::Filter(filter) => {
            // One more than may be touched tells whether there are more.
            let selection = client.select(filter.clone()).dry_run(true).at_most(MOST_JOBS + 1);
            let selected = act(selection, action).await?.selected;
            Ok((selected.min(MOST_JOBS), selected <= MOST_JOBS))
        }
    }
}

/// Does it, until it is done, stopped, or fails; and notes how many jobs it touched.
pub(super) async fn run(client: &Client, audit: &Audit, batch: &Batch) {
    let (action, count) = {
        let shown = batch.shown();
        (shown.action, shown.count)
    };
    let told = |touched: &Touched| {
        let mut shown = batch.shown();
        (shown.done, shown.asked, shown.left) = (touched.done, touched.asked, touched.left);
    };
    let mut selection = match &batch.which {
        Which::Filter(filter) => client.select(filter.clone()),
        Which::Ids(ids) => client.select_ids(ids.clone()),
    };
    selection = selection.at_most(count).progress(told);
    if let Some(rate) = batch.per_second {
        selection = selection.per_second(rate);
    }
    let ended = tokio::select! {
        done = act(selection, action) => Some(done),
        () = batch.stop.cancelled() => None,
    };
    let entry = over(&mut batch.shown(), ended);
    audit.store(entry).await;
}

/// Says how it ended, and gives the entry of the audit log.
fn over(shown: &mut Shown, ended: Option<Result<Touched>>) -> AuditEntry {
    let (state, outcome) = match ended {
        None => (State::Stopped, "stopped"),
        Some(Ok(_)) => (State::Done, "done"),
        Some(Err(error)) => {
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
    };
    let mut entry = AuditEntry::new(actor, what, format!("/bulk/{id}"))
        .with_via("bulk")
        .with_outcome(outcome)
        .with_count(done + asked);
    entry.filter = Args::of(&shown.filter).ok();
    entry
}

async fn act(selection: Selection<'_>, action: Action) -> Result<Touched> {
    match action {
        Action::Cancel => selection.cancel().await,
        Action::Retry => selection.retry().await,
        Action::Delete => selection.delete().await,
    }
}
