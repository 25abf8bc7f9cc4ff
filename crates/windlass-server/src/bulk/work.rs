use super::{Action, Batch, MOST_JOBS, State, Which};
use crate::problem::Problem;
use windlass::{Client, Result, Selection, Touched};

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

/// Does it, until it is done, stopped, or fails.
pub(super) async fn run(client: &Client, batch: &Batch) {
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
    let mut shown = batch.shown();
    shown.state = match ended {
        None => State::Stopped,
        Some(Ok(_)) => State::Done,
        Some(Err(error)) => {
            tracing::warn!(id = shown.id, %error, "a bulk action failed");
            shown.error = Some(Problem::from(error).detail());
            State::Failed
        }
    };
    let (id, actor, state) = (&shown.id, &shown.actor, shown.state);
    let (done, asked, left) = (shown.done, shown.asked, shown.left);
    tracing::info!(target: "windlass::audit", id, actor, ?action, ?state, done, asked, left, "a bulk action ended");
}

async fn act(selection: Selection<'_>, action: Action) -> Result<Touched> {
    match action {
        Action::Cancel => selection.cancel().await,
        Action::Retry => selection.retry().await,
        Action::Delete => selection.delete().await,
    }
}
