//! Those who wait for jobs. A hint wakes one of each sort, and who finds jobs wakes the next: so a job wakes about one of a thousand who wait.

use crate::problem::Problem;
use axum::http::StatusCode;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// The most at once.
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct Waiters {
    state: Mutex<State>,
    entered: Notify,
}

#[derive(Default)]
struct State {
    /// By what they would take; in each sort the one that waits longest first.
    sorts: HashMap<Arc<str>, BTreeMap<u64, Arc<Notify>>>,
    last: u64,
    count: usize,
}

impl State {
    fn take(&mut self, sort: &str, number: Option<u64>) -> Option<Arc<Notify>> {
        let waiting = self.sorts.get_mut(sort)?;
        let taken = match number {
            Some(number) => waiting.remove(&number),
            None => waiting.pop_first().map(|(_, bell)| bell),
        }?;
        if waiting.is_empty() {
            self.sorts.remove(sort);
        }
        self.count -= 1;
        Some(taken)
    }
}

/// One who waits, until it is dropped.
pub(super) struct Place {
    waiters: Arc<Waiters>,
    sort: Arc<str>,
    number: u64,
    bell: Arc<Notify>,
}

impl Waiters {
    /// Begins to wait: look once more, and then for [`Place::woken`].
    pub(super) fn enter(self: &Arc<Self>, sort: &Arc<str>) -> Result<Place, Problem> {
        let mut state = self.lock();
        if state.count >= MOST {
            let detail = format!("{MOST} workers wait here; start another server");
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many", detail).retry_after(5));
        }
        (state.last, state.count) = (state.last + 1, state.count + 1);
        let (number, bell) = (state.last, Arc::new(Notify::new()));
        state.sorts.entry(Arc::clone(sort)).or_default().insert(number, Arc::clone(&bell));
        drop(state);
        self.entered.notify_one();
        Ok(Place { waiters: Arc::clone(self), sort: Arc::clone(sort), number, bell })
    }

    /// There may be jobs of this sort.
    pub(super) fn wake(&self, sort: &str) {
        let first = self.lock().take(sort, None);
        first.into_iter().for_each(|bell| bell.notify_one());
    }

    /// There may be jobs.
    pub(super) fn wake_one_of_each(&self) {
        let sorts: Vec<Arc<str>> = self.lock().sorts.keys().cloned().collect();
        sorts.iter().for_each(|sort| self.wake(sort));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().count == 0
    }

    /// Somebody began to wait.
    pub(super) async fn entered(&self) {
        self.entered.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// There may be a job. Who is woken looks, and wakes the next if there was one.
    pub(super) async fn woken(&self) {
        self.bell.notified().await;
    }

    /// Its ring was heard: nobody else has to go in its place.
    pub(super) fn heard(mut self) {
        self.number = 0;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let was_woken = self.number != 0 && self.waiters.lock().take(&self.sort, Some(self.number)).is_none();
        if was_woken {
            self.waiters.wake(&self.sort);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn is_rung(place: &Place) -> bool {
        place.woken().now_or_never().is_some()
    }

    #[test]
    fn a_ring_is_for_one_of_each_sort_and_is_passed_on_by_who_leaves() {
        let (waiters, [mail, images]) = (Arc::<Waiters>::default(), ["mail", "images"].map(Arc::<str>::from));
        let [first, second, third] = [&mail, &mail, &mail].map(|sort| waiters.enter(sort).ok().unwrap());
        let other = waiters.enter(&images).ok().unwrap();
        waiters.wake_one_of_each();
        assert!(is_rung(&other) && !is_rung(&second) && !is_rung(&third));
        drop(first); // its connection broke before it looked
        assert!(is_rung(&second) && !is_rung(&third));
        second.heard();
        assert!(!is_rung(&third));
        other.heard();
        drop(third);
        assert!(waiters.is_empty());
    }

    #[test]
    fn there_are_not_more_than_the_most() {
        let (waiters, sort) = (Arc::<Waiters>::default(), Arc::<str>::from("mail"));
        let mut places: Vec<_> = (0..MOST).map(|_| waiters.enter(&sort).ok().unwrap()).collect();
        assert!(waiters.enter(&sort).is_err());
        places.pop();
        assert!(waiters.enter(&sort).is_ok());
    }
}
