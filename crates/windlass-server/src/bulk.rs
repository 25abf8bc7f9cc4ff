//! What is done to many jobs: first previewed, then confirmed, then done in the background.

mod work;

use crate::{audit::Audit, problem::Problem};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use windlass::{Client, JobFilter, JobId};

/// The most jobs that one touches.
pub(crate) const MOST_JOBS: u64 = 100_000;
/// How long a preview can be confirmed.
const LIFE: Duration = Duration::from_secs(600);
/// How many are remembered; the oldest that is over goes first, then the oldest preview.
const KEPT: usize = 100;
/// How many run at once.
const AT_ONCE: usize = 4;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    Cancel,
    Retry,
    Delete,
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
    /// How many jobs it touches; the first so many, where more match.
    pub(crate) count: u64,
    pub(crate) exact: bool,
    pub(crate) expires_at: Timestamp,
    pub(crate) actor: String,
    pub(crate) done: u64,
    pub(crate) asked: u64,
    pub(crate) left: u64,
    pub(crate) state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// One of them.
struct Batch {
    shown: Mutex<Shown>,
    which: Which,
    per_second: Option<f64>,
    stop: CancellationToken,
}

impl Batch {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A preview to be kept.
pub(crate) struct Preview {
    pub(crate) action: Action,
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
    batches: Mutex<Vec<Arc<Batch>>>,
}

impl Bulk {
    pub(crate) fn new(client: Client, audit: Arc<Audit>, stop: CancellationToken) -> Self {
        Self { client, audit, stop, batches: Mutex::default() }
    }

    /// Counts what would be touched, and changes nothing.
    pub(crate) async fn preview(&self, preview: Preview) -> Result<Shown, Problem> {
        let Preview { action, which, filter, per_second, actor } = preview;
        let (count, exact) = work::count(&self.client, action, &which).await?;
        let id = format!("b_{:016x}", fastrand::u64(..));
        let shown = Shown {
            id,
            action,
            filter,
            count,
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
        let batch = Batch { shown: Mutex::new(shown.clone()), which, per_second, stop };
        self.keep(Arc::new(batch));
        Ok(shown)
    }

    fn keep(&self, batch: Arc<Batch>) {
        let mut batches = self.lock();
        batches.retain(|batch| {
            let shown = batch.shown();
            shown.state != State::Previewed || Timestamp::now() < shown.expires_at
        });
        if batches.len() >= KEPT {
            let is_over = |state| !matches!(state, State::Running | State::Previewed);
            let over = batches.iter().position(|batch| is_over(batch.shown().state));
            let preview = || batches.iter().position(|batch| batch.shown().state == State::Previewed);
            // No more than a few run at once, so there is one.
            if let Some(least) = over.or_else(preview) {
                batches.remove(least);
            }
        }
        batches.push(batch);
    }

    /// Does what was previewed, in the background.
    pub(crate) fn confirm(&self, id: &str, count: u64) -> Result<Shown, Problem> {
        let batches = self.lock();
        let batch = find(&batches, id)?;
        let running = batches.iter().filter(|batch| batch.shown().state == State::Running).count();
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
        let answer = shown.clone();
        drop(shown);
        let (client, audit) = (self.client.clone(), Arc::clone(&self.audit));
        tokio::spawn(async move {
            let of_task = Arc::clone(&batch);
            let task = tokio::spawn(async move { work::run(&client, &audit, &of_task).await });
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
        }
        Ok(shown.clone())
    }

    fn find(&self, id: &str) -> Result<Arc<Batch>, Problem> {
        find(&self.lock(), id)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Batch>>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(batches: &[Arc<Batch>], id: &str) -> Result<Arc<Batch>, Problem> {
    let found = batches.iter().find(|batch| batch.shown().id == id).cloned();
    found.ok_or_else(|| {
        let id: String = id.chars().take(40).collect();
        let detail = format!("there is no bulk action {id:?}, or it was long ago, or in another process");
        Problem::not_found(detail)
    })
}
