//! What is done to many jobs: first previewed, then confirmed, then done in the background.

mod kept;
mod work;

use crate::{audit::Audit, problem::Problem};
use axum::http::StatusCode;
use jiff::Timestamp;
use kept::{Batch, Kept};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use windlass::{Client, JobEdit, JobFilter, JobId};

/// The most jobs that one touches.
pub(crate) const MOST_JOBS: u64 = 100_000;
/// How long a preview can be confirmed.
const LIFE: Duration = Duration::from_secs(600);
/// How many run at once.
const AT_ONCE: usize = 4;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    Cancel,
    Retry,
    Delete,
    Edit,
}

/// What is changed of jobs that are edited, and how it was said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) edit: JobEdit,
    pub(crate) said: Option<Value>,
}

/// To which jobs.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    Filter(JobFilter),
    Ids(Vec<JobId>),
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Previewed,
    Running,
    Done,
    Stopped,
    Failed,
}

/// As it is shown.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) action: Action,
    /// The filter, or how many ids were named.
    pub(crate) filter: Value,
    /// What is changed, where they are edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) edit: Option<Value>,
    /// How many jobs it touches; the first so many, where more match.
    pub(crate) count: u64,
    pub(crate) exact: bool,
    pub(crate) expires_at: Timestamp,
    /// Who previewed it; from then on who confirmed it.
    pub(crate) actor: String,
    pub(crate) done: u64,
    pub(crate) asked: u64,
    pub(crate) left: u64,
    pub(crate) state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Shown {
    /// What the audit log has of it: which jobs, and what is changed of them.
    pub(crate) fn noted(&self) -> Value {
        let mut noted = self.filter.clone();
        if let Some(edit) = &self.edit {
            noted["edit"] = edit.clone();
        }
        noted
    }
}

/// A preview to be kept.
pub(crate) struct Preview {
    pub(crate) action: Action,
    pub(crate) change: Change,
    pub(crate) which: Which,
    pub(crate) filter: Value,
    pub(crate) per_second: Option<f64>,
    pub(crate) actor: String,
}

/// Those of this process. They end with it; what they did is done.
pub(crate) struct Bulk {
    client: Client,
    audit: Arc<Audit>,
    stop: CancellationToken,
    kept: Mutex<Kept>,
}

impl Bulk {
    pub(crate) fn new(client: Client, audit: Arc<Audit>, stop: CancellationToken) -> Self {
        Self { client, audit, stop, kept: Mutex::default() }
    }

    /// Counts what would be touched, remembers which jobs these are, and changes nothing.
    pub(crate) async fn preview(&self, preview: Preview) -> Result<Shown, Problem> {
        let Preview { action, change, which, filter, per_second, actor } = preview;
        let state = match &which {
            Which::Filter(filter) => filter.state,
            Which::Ids(_) => None,
        };
        let (ids, exact) = work::counted(&self.client, action, &change.edit, which).await?;
        let id = format!("b_{:016x}", fastrand::u64(..));
        let shown = Shown {
            id,
            action,
            filter,
            edit: change.said,
            count: ids.len() as u64,
            exact,
            expires_at: Timestamp::now() + LIFE,
            actor,
            done: 0,
            asked: 0,
            left: 0,
            state: State::Previewed,
            error: None,
        };
        let stop = self.stop.child_token();
        let batch = Batch::new(shown.clone(), ids, state, change.edit, per_second, stop);
        self.lock().add(Arc::new(batch));
        Ok(shown)
    }

    /// Does what was previewed, in the background, as whoever confirms it.
    pub(crate) fn confirm(&self, id: &str, count: u64, actor: &str) -> Result<Shown, Problem> {
        let kept = self.lock();
        let (batch, running) = (kept.find(id).ok_or_else(|| unknown(id))?, kept.running());
        let mut shown = batch.shown();
        let conflict = |detail| Err(Problem::new(StatusCode::CONFLICT, "conflict", detail));
        if shown.state != State::Previewed {
            return conflict(format!("{id} was confirmed or stopped before"));
        }
        if Timestamp::now() >= shown.expires_at {
            return conflict(format!("the preview {id} has expired; make another"));
        }
        if shown.count != count {
            return conflict(format!("{id} touches {} jobs, not {count}; confirm that number", shown.count));
        }
        if running >= AT_ONCE {
            let detail = format!("{AT_ONCE} bulk actions run; wait for one to end");
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", detail).retry_after(5));
        }
        shown.state = State::Running;
        actor.clone_into(&mut shown.actor);
        let (answer, ids) = (shown.clone(), batch.take_ids());
        drop(shown);
        let (client, audit) = (self.client.clone(), Arc::clone(&self.audit));
        tokio::spawn(async move {
            let of_task = Arc::clone(&batch);
            let task = tokio::spawn(async move { work::run(&client, &audit, &of_task, ids).await });
            if task.await.is_err() {
                let mut shown = batch.shown();
                shown.state = State::Failed;
                shown.error =
                    Some("it ended by a defect in Windlass, please report it; the log has more".to_owned());
            }
        });
        Ok(answer)
    }

    pub(crate) fn get(&self, id: &str) -> Result<Shown, Problem> {
        Ok(self.find(id)?.shown().clone())
    }

    /// Stops one, or forgets its preview. What was done stays done.
    pub(crate) fn stop(&self, id: &str) -> Result<Shown, Problem> {
        let batch = self.find(id)?;
        batch.stop.cancel();
        let mut shown = batch.shown();
        if shown.state == State::Previewed {
            shown.state = State::Stopped;
            batch.take_ids();
        }
        Ok(shown.clone())
    }

    fn find(&self, id: &str) -> Result<Arc<Batch>, Problem> {
        self.lock().find(id).ok_or_else(|| unknown(id))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(id: &str) -> Problem {
    let id: String = id.chars().take(40).collect();
    Problem::not_found(format!("there is no bulk action {id:?}, or it was long ago, or in another process"))
}
