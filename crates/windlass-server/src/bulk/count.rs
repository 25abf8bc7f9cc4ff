//! Counting the jobs of a bulk action.

use super::{Action, MOST_JOBS, Which, counted::Counted, kept::Batch, work::act};
use std::{collections::HashSet, time::Duration};
use tokio::time::timeout;
use windlass::{Client, Error, ErrorKind, JobId, Result};

/// The jobs that would be touched, and whether these are all; unless it takes longer.
pub(super) async fn within(
    longest: Duration,
    client: &Client,
    batch: &Batch,
    which: Which,
) -> Result<(Counted, bool)> {
    timeout(longest, counted(client, batch, which)).await.unwrap_or_else(|_| {
        let message = format!(
            "the jobs could not be counted within {} s; name a state, a queue or a kind beside the rest, or use the command line",
            longest.as_secs()
        );
        Err(Error::new(ErrorKind::InvalidOption, message))
    })
}

async fn counted(client: &Client, batch: &Batch, which: Which) -> Result<(Counted, bool)> {
    let action = batch.shown().action;
    let filter = match which {
        Which::Ids(ids) if action == Action::Delete => {
            return Ok((Counted::as_they_are(client, ids).await?, true));
        }
        Which::Ids(ids) => return Ok((Counted::of(ids), true)),
        Which::Filter(filter) => filter,
    };
    let state = filter.state;
    let (mut ids, mut met) = (Vec::new(), HashSet::new());
    // One that moves on while they are counted may be met twice.
    let found = |some: &[JobId]| {
        ids.extend(some.iter().filter(|id| met.insert(**id)));
        batch.shown().count = MOST_JOBS.min(ids.len() as u64);
    };
    // One more than may be touched tells whether there are more.
    let selection = client.select(filter).dry_run(true).at_most(MOST_JOBS + 1).found(found);
    let selected = act(selection.until(batch.stop.cancelled()), action, &batch.edit).await?.selected;
    ids.truncate(MOST_JOBS as usize);
    ids.shrink_to_fit();
    let counted = match state {
        Some(state) if action == Action::Delete => Counted::in_state(ids, state),
        _ => Counted::of(ids),
    };
    Ok((counted, selected <= MOST_JOBS))
}
