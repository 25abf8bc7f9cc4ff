use super::{Action, Batch, MOST_JOBS, State, Which};
use crate::problem::Problem;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use windlass::{CancelReply, Client, DeleteReply, JobFilter, JobId, Result, RetryReply, Selection, Touched};

/// How many jobs one call to the store names.
const CHUNK: usize = 500;

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
    let working = async {
        match &batch.which {
            Which::Filter(filter) => by_filter(client, batch, action, filter, count).await,
            Which::Ids(ids) => by_ids(client, batch, action, ids).await,
        }
    };
    let ended = tokio::select! {
        done = working => Some(done),
        () = batch.stop.cancelled() => None,
    };
    let mut shown = batch.shown();
    shown.state = match ended {
        None => State::Stopped,
        Some(Ok(())) => State::Done,
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

async fn by_filter(
    client: &Client,
    batch: &Batch,
    action: Action,
    filter: &JobFilter,
    count: u64,
) -> Result<()> {
    let told = |touched: &Touched| tell(batch, touched.done, touched.asked, touched.left);
    let mut selection = client.select(filter.clone()).at_most(count).progress(told);
    if let Some(rate) = batch.per_second {
        selection = selection.per_second(rate);
    }
    act(selection, action).await.map(drop)
}

async fn act(selection: Selection<'_>, action: Action) -> Result<Touched> {
    match action {
        Action::Cancel => selection.cancel().await,
        Action::Retry => selection.retry().await,
        Action::Delete => selection.delete().await,
    }
}

async fn by_ids(client: &Client, batch: &Batch, action: Action, ids: &[JobId]) -> Result<()> {
    let (mut done, mut asked, mut left) = (0, 0, 0);
    for chunk in ids.chunks(CHUNK) {
        let began = Instant::now();
        let of = |is_done: usize| is_done as u64;
        let (now_done, now_asked) = match action {
            Action::Cancel => {
                let replies = client.cancel(chunk).await?;
                let with = |what| of(replies.iter().filter(|reply| **reply == what).count());
                (with(CancelReply::Cancelled), with(CancelReply::Running))
            }
            Action::Retry => {
                let replies = client.retry(chunk).await?;
                (of(replies.iter().filter(|reply| **reply == RetryReply::Retried).count()), 0)
            }
            Action::Delete => {
                let replies = client.delete(chunk).await?;
                (of(replies.iter().filter(|reply| **reply == DeleteReply::Deleted).count()), 0)
            }
        };
        (done, asked) = (done + now_done, asked + now_asked);
        left += chunk.len() as u64 - now_done - now_asked;
        tell(batch, done, asked, left);
        let pause = batch.per_second.map(|rate| chunk.len() as f64 / rate);
        if let Some(pause) = pause.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            sleep_until(began + pause).await;
        }
    }
    Ok(())
}

fn tell(batch: &Batch, done: u64, asked: u64, left: u64) {
    let mut shown = batch.shown();
    (shown.done, shown.asked, shown.left) = (done, asked, left);
}
