use super::{AT_ONCE, LIFE, Shown, State, counted::Counted};
use crate::problem::Problem;
use jiff::Timestamp;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass::JobEdit;

/// How many are remembered; the oldest that is over goes first, then the oldest preview.
const MOST: usize = 100;
/// How many ids previews hold together, at 8 bytes: the oldest goes first.
const MOST_IDS: usize = 1_000_000;
/// A count that nobody has asked for in so long makes room for another: the page was closed, or what came by curl ended. A page that is not seen asks once a minute.
const FORGOTTEN: Duration = Duration::from_secs(90);

/// One that is previewed, runs or is over.
pub(super) struct Batch {
    shown: Mutex<Shown>,
    /// Until it begins.
    counted: Mutex<Counted>,
    /// When somebody wanted to know how far it is.
    asked: Mutex<Instant>,
    pub(super) edit: JobEdit,
    pub(super) per_second: Option<f64>,
    pub(super) stop: CancellationToken,
}

impl Batch {
    pub(super) fn new(shown: Shown, edit: JobEdit, per_second: Option<f64>, stop: CancellationToken) -> Self {
        let asked = Mutex::new(Instant::now());
        Self { shown: Mutex::new(shown), counted: Mutex::default(), asked, edit, per_second, stop }
    }

    pub(super) fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far it is, for somebody who wants to know.
    pub(super) fn ask(&self) -> Shown {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.shown().clone()
    }

    /// The jobs that were counted; from then on it holds none.
    pub(super) fn take(&self) -> Counted {
        std::mem::take(&mut self.counted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// It goes no further. What was done stays done.
    pub(super) fn end(&self) -> Shown {
        self.stop.cancel();
        let mut shown = self.shown();
        if matches!(shown.state, State::Counting | State::Previewed) {
            shown.state = State::Stopped;
            drop(self.take());
        }
        shown.clone()
    }

    fn held(&self) -> usize {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).ids.len()
    }

    fn is(&self, state: State) -> bool {
        self.shown().state == state
    }

    fn is_over(&self) -> bool {
        matches!(self.shown().state, State::Done | State::Stopped | State::Failed)
    }

    fn is_forgotten(&self) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= FORGOTTEN
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
        // No more than a few run or are counted at once, so there is one of the others.
        if self.0.len() >= MOST && !self.forget(Batch::is_over) {
            self.forget(|batch| batch.is(State::Previewed));
        }
        self.0.push(batch);
    }

    pub(super) fn leave_out(&mut self, batch: &Arc<Batch>) {
        self.0.retain(|kept| !Arc::ptr_eq(kept, batch));
    }

    /// Whether the jobs of another can be counted, if need be in the place of one that nobody waits for.
    pub(super) fn make_room(&self) -> bool {
        if self.count(State::Counting) < AT_ONCE {
            return true;
        }
        let Some(batch) = self.0.iter().find(|batch| batch.is(State::Counting) && batch.is_forgotten())
        else {
            return false;
        };
        batch.end();
        true
    }

    /// It is known which jobs one is for, or why not; unless it was stopped meanwhile.
    pub(super) fn counted(
        &mut self,
        batch: &Batch,
        counted: windlass::Result<(Counted, bool)>,
    ) -> Result<(), Problem> {
        // What was stopped keeps none, and pushes none out.
        if let Ok((counted, _)) = &counted
            && !batch.stop.is_cancelled()
        {
            while self.held() + counted.ids.len() > MOST_IDS && self.forget(|batch| batch.held() > 0) {}
        }
        let mut shown = batch.shown();
        if batch.stop.is_cancelled() {
            shown.state = State::Stopped;
            return Ok(());
        }
        match counted {
            Ok((counted, exact)) => {
                (shown.state, shown.exact, shown.count) = (State::Previewed, exact, counted.ids.len() as u64);
                shown.expires_at = Timestamp::now() + LIFE;
                *batch.counted.lock().unwrap_or_else(PoisonError::into_inner) = counted;
                Ok(())
            }
            Err(error) => {
                let problem = Problem::from(error);
                (shown.state, shown.error) = (State::Failed, Some(problem.clone().detail()));
                Err(problem)
            }
        }
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Batch>> {
        self.0.iter().find(|batch| batch.shown().id == id).cloned()
    }

    pub(super) fn of(&self, is_actor: impl Fn(&str) -> bool) -> impl Iterator<Item = &Arc<Batch>> {
        self.0.iter().filter(move |batch| is_actor(&batch.shown().actor))
    }

    pub(super) fn count(&self, state: State) -> usize {
        self.0.iter().filter(|batch| batch.is(state)).count()
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
    use windlass::JobId;

    fn counting(kept: &mut Kept, id: &str) -> Arc<Batch> {
        let shown = Shown {
            id: id.to_owned(),
            action: Action::Cancel,
            filter: serde_json::Value::Null,
            edit: None,
            count: 0,
            exact: false,
            expires_at: Timestamp::now() + Duration::from_secs(600),
            actor: "anna".to_owned(),
            done: 0,
            asked: 0,
            left: 0,
            state: State::Counting,
            error: None,
        };
        let batch = Arc::new(Batch::new(shown, JobEdit::new(), None, CancellationToken::new()));
        kept.add(Arc::clone(&batch));
        batch
    }

    /// One that was counted.
    fn preview(kept: &mut Kept, id: &str, ids: usize) -> Arc<Batch> {
        let batch = counting(kept, id);
        kept.counted(&batch, Ok((Counted::of(vec![JobId(1); ids]), true))).unwrap();
        batch
    }

    #[test]
    fn previews_of_many_jobs_push_the_oldest_out() {
        let mut kept = Kept::default();
        let runs = preview(&mut kept, "runs", MOST_IDS / 2);
        runs.shown().state = State::Running;
        runs.take();
        preview(&mut kept, "small", 1);
        preview(&mut kept, "first", MOST_IDS / 2 - 1);
        preview(&mut kept, "second", MOST_IDS / 2);
        assert!(["runs", "small", "first", "second"].iter().all(|id| kept.find(id).is_some()));
        preview(&mut kept, "third", MOST_IDS / 2);
        let left = ["runs", "small", "first", "second", "third"].map(|id| kept.find(id).is_some());
        assert_eq!((left, kept.held()), ([true, false, false, true, true], MOST_IDS));
    }

    #[test]
    fn one_that_is_stopped_pushes_none_out() {
        let mut kept = Kept::default();
        preview(&mut kept, "first", MOST_IDS);
        let batch = counting(&mut kept, "second");
        batch.end();
        let ids = vec![JobId(1); MOST_IDS];
        kept.counted(&batch, Ok((Counted::of(ids), true))).unwrap();
        assert!(kept.find("first").is_some() && batch.held() == 0);
        let late = Err(windlass::Error::new(windlass::ErrorKind::Unavailable, "the store is away"));
        kept.counted(&batch, late).unwrap();
        let shown = batch.shown();
        assert_eq!((shown.state, shown.error.as_deref()), (State::Stopped, None));
    }
}
