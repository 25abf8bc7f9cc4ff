//! Which jobs a bulk action is for.

use crate::side_by_side::side_by_side;
use std::collections::HashMap;
use windlass::{Client, JobId, JobState, Result};

/// Jobs that were counted: those that come later are not touched.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) ids: Vec<JobId>,
    /// Where it matters.
    pub(super) was: Option<Was>,
}

/// In which state jobs were when they were counted.
pub(super) enum Was {
    All(JobState),
    Each(HashMap<JobId, JobState>),
}

impl Counted {
    /// These, in whatever state.
    pub(super) fn of(ids: Vec<JobId>) -> Self {
        Self { ids, was: None }
    }

    /// All of them in this state.
    pub(super) fn in_state(ids: Vec<JobId>, state: JobState) -> Self {
        Self { ids, was: Some(Was::All(state)) }
    }

    /// Each in the state in which it is now.
    pub(super) async fn as_they_are(client: &Client, ids: Vec<JobId>) -> Result<Self> {
        let was = Some(Was::Each(states(client, &ids).await?));
        Ok(Self { ids, was })
    }
}

impl Was {
    /// Of some of them those that are still in the state in which they were.
    pub(super) async fn still(&self, client: &Client, mut some: Vec<JobId>) -> Result<Vec<JobId>> {
        let is = states(client, &some).await?;
        some.retain(|id| is.get(id).is_some_and(|state| self.holds(*id, *state)));
        Ok(some)
    }

    fn holds(&self, id: JobId, state: JobState) -> bool {
        match self {
            Self::All(all) => *all == state,
            Self::Each(each) => each.get(&id) == Some(&state),
        }
    }
}

/// In which state each job is that is known.
async fn states(client: &Client, ids: &[JobId]) -> Result<HashMap<JobId, JobState>> {
    let look = |id: JobId| async move { client.job(id).await.map(|job| job.map(|job| (job.id, job.state))) };
    Ok(side_by_side(ids.iter().copied(), look).await?.into_iter().flatten().collect())
}
