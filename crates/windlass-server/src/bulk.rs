//! What is done to many jobs: first previewed, then confirmed, then done in the background.

mod count;
mod counted;
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
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use windlass::{Client, Error, ErrorKind, JobEdit, JobFilter, JobId};

/// The most jobs that one touches.
pub(crate) const MOST_JOBS: u64 = 100_000;
/// How long a preview can be confirmed, and how long its count may take.
const LIFE: Duration = Duration::from_secs(600);
/// How many run at once, and how many are counted.
const AT_ONCE: usize = 4;
/// So many are looked at at once: a page of the dashboard.
const FEW: usize = 200;
/// How long a preview waits for its count; what takes longer goes on behind it.
const PATIENCE: Duration = Duration::from_secs(10);

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
    Counting,
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
    /// How many jobs it touches; the first so many, where more match. While they are counted those that were found so far.
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
    kept: Arc<Mutex<Kept>>,
}

impl Bulk {
    pub(crate) fn new(client: Client, audit: Arc<Audit>, stop: CancellationToken) -> Self {
        Self { client, audit, stop, kept: Arc::default() }
    }

    /// Counts what would be touched, remembers which jobs these are, and changes nothing. A count that takes long goes on behind the answer.
    pub(crate) async fn preview(&self, preview: Preview) -> Result<Shown, Problem> {
        let Preview { action, change, which, filter, per_second, actor } = preview;
        let shown = Shown {
            id: format!("b_{:016x}", fastrand::u64(..)),
            action,
            filter,
            edit: change.said,
            count: 0,
            exact: false,
            expires_at: Timestamp::now() + LIFE,
            actor,
            done: 0,
            asked: 0,
            left: 0,
            state: State::Counting,
            error: None,
        };
        let batch = Arc::new(Batch::new(shown, change.edit, per_second, self.stop.child_token()));
        {
            let mut kept = self.lock();
            if is_long(action, &which) && !kept.make_room() {
                return Err(too_many("are counted"));
            }
            kept.add(Arc::clone(&batch));
        }
        let (client, kept, of_task) = (self.client.clone(), Arc::clone(&self.kept), Arc::clone(&batch));
        let task = tokio::spawn(async move {
            let counted = Arc::clone(&of_task);
            let counted = tokio::spawn(async move { count::within(LIFE, &client, &counted, which).await });
            let counted = counted.await.unwrap_or_else(|_| Err(defect()));
            lock(&kept).counted(&of_task, counted)
        });
        if let Ok(Ok(Err(problem))) = timeout(PATIENCE, task).await {
            self.lock().leave_out(&batch); // nobody was told of it
            return Err(problem);
        }
        let shown = batch.shown().clone();
        Ok(shown)
    }

    /// Does what was previewed, in the background, as whoever confirms it.
    pub(crate) fn confirm(&self, id: &str, count: u64, actor: &str) -> Result<Shown, Problem> {
        let kept = self.lock();
        let (batch, running) = (kept.find(id).ok_or_else(|| unknown(id))?, kept.count(State::Running));
        let mut shown = batch.shown();
        let conflict = |detail| Err(Problem::new(StatusCode::CONFLICT, "conflict", detail));
        if shown.state == State::Counting {
            return conflict(format!("the jobs of {id} are still counted; ask for it until it is previewed"));
        }
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
            return Err(too_many("run"));
        }
        shown.state = State::Running;
        actor.clone_into(&mut shown.actor);
        let (answer, counted) = (shown.clone(), batch.take());
        drop(shown);
        let (client, audit) = (self.client.clone(), Arc::clone(&self.audit));
        tokio::spawn(async move {
            let of_task = Arc::clone(&batch);
            let task = tokio::spawn(async move { work::run(&client, &audit, &of_task, counted).await });
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
        Ok(self.find(id)?.ask())
    }

    /// Stops one, or forgets its preview. What was done stays done.
    pub(crate) fn stop(&self, id: &str) -> Result<Shown, Problem> {
        Ok(self.find(id)?.end())
    }

    /// The same of all that were asked for by somebody who may not any more.
    pub(crate) fn end_those(&self, is_over: impl Fn(&str) -> bool) {
        self.lock().of(is_over).for_each(|batch| drop(batch.end()));
    }

    fn find(&self, id: &str) -> Result<Arc<Batch>, Problem> {
        self.lock().find(id).ok_or_else(|| unknown(id))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

/// Whether it takes long to find out to which jobs it is done: those that are named are done it to, but to delete them each is looked at.
fn is_long(action: Action, which: &Which) -> bool {
    match which {
        Which::Filter(_) => true,
        Which::Ids(ids) => action == Action::Delete && ids.len() > FEW,
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn defect() -> Error {
    Error::new(
        ErrorKind::Internal,
        "a bulk action ended by a defect in Windlass, please report it; the log has more",
    )
}

fn too_many(what: &str) -> Problem {
    let detail = format!("{AT_ONCE} bulk actions {what}; wait for one to end");
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", detail).retry_after(5)
}

fn unknown(id: &str) -> Problem {
    let id: String = id.chars().take(40).collect();
    Problem::not_found(format!("there is no bulk action {id:?}, or it was long ago, or in another process"))
}
