use super::{Shown, State};
use jiff::Timestamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use windlass::{JobEdit, JobId, JobState};

/// How many are remembered; the oldest that is over goes first, then the oldest preview.
const MOST: usize = 100;
/// How many ids previews hold together, at 8 bytes: the oldest goes first.
const MOST_IDS: usize = 1_000_000;

/// One that is previewed, runs or is over.
pub(super) struct Batch {
    shown: Mutex<Shown>,
    /// The jobs that were counted, until it begins: those that come later are not touched.
    ids: Mutex<Vec<JobId>>,
    /// The state in which all of them were.
    pub(super) state: Option<JobState>,
    pub(super) edit: JobEdit,
    pub(super) per_second: Option<f64>,
    pub(super) stop: CancellationToken,
}

impl Batch {
    pub(super) fn new(
        shown: Shown,
        ids: Vec<JobId>,
        state: Option<JobState>,
        edit: JobEdit,
        per_second: Option<f64>,
        stop: CancellationToken,
    ) -> Self {
        Self { shown: Mutex::new(shown), ids: Mutex::new(ids), state, edit, per_second, stop }
    }

    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The jobs that were counted; from then on it holds none.
    pub(super) fn take_ids(&self) -> Vec<JobId> {
        std::mem::take(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn held(&self) -> usize {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn is(&self, state: State) -> bool {
        self.shown().state == state
    }

    fn is_over(&self) -> bool {
        !self.is(State::Running) && !self.is(State::Previewed)
    }

    fn has_expired(&self) -> bool {
        let shown = self.shown();
        shown.state == State::Previewed && Timestamp::now() >= shown.expires_at
    }
}

/// Those that are remembered, the oldest first.
#[derive(Default)]
pub(super) struct Kept(Vec<Arc<Batch>>);

impl Kept {
    pub(super) fn add(&mut self, batch: Arc<Batch>) {
        self.0.retain(|batch| !batch.has_expired());
        // No more than a few run at once, so there is one of the others.
        if self.0.len() >= MOST && !self.forget(Batch::is_over) {
            self.forget(|batch| batch.is(State::Previewed));
        }
        while self.held() + batch.held() > MOST_IDS && self.forget(|batch| batch.held() > 0) {}
        self.0.push(batch);
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Batch>> {
        self.0.iter().find(|batch| batch.shown().id == id).cloned()
    }

    pub(super) fn running(&self) -> usize {
        self.0.iter().filter(|batch| batch.is(State::Running)).count()
    }

    fn held(&self) -> usize {
        self.0.iter().map(|batch| batch.held()).sum()
    }

    /// Forgets the oldest that is so.
    fn forget(&mut self, is: impl Fn(&Batch) -> bool) -> bool {
        let oldest = self.0.iter().position(|batch| is(batch));
        oldest.map(|oldest| self.0.remove(oldest)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Action, *};
    use std::time::Duration;

    fn preview(id: &str, ids: usize) -> Arc<Batch> {
        let shown = Shown {
            id: id.to_owned(),
            action: Action::Cancel,
            filter: serde_json::Value::Null,
            edit: None,
            count: ids as u64,
            exact: true,
            expires_at: Timestamp::now() + Duration::from_secs(600),
            actor: "anna".to_owned(),
            done: 0,
            asked: 0,
            left: 0,
            state: State::Previewed,
            error: None,
        };
        let ids = vec![JobId(1); ids];
        Arc::new(Batch::new(shown, ids, None, JobEdit::new(), None, CancellationToken::new()))
    }

    #[test]
    fn previews_of_many_jobs_push_the_oldest_out() {
        let mut kept = Kept::default();
        let runs = preview("runs", MOST_IDS / 2);
        kept.add(Arc::clone(&runs));
        runs.shown().state = State::Running;
        runs.take_ids();
        kept.add(preview("small", 1));
        kept.add(preview("first", MOST_IDS / 2 - 1));
        kept.add(preview("second", MOST_IDS / 2));
        assert!(["runs", "small", "first", "second"].iter().all(|id| kept.find(id).is_some()));
        kept.add(preview("third", MOST_IDS / 2));
        let left = ["runs", "small", "first", "second", "third"].map(|id| kept.find(id).is_some());
        assert_eq!((left, kept.held()), ([true, false, false, true, true], MOST_IDS));
    }
}
