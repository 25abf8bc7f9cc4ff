use crate::{
    desk::ended,
    failure::raised,
    job::{Job, Kinds},
};
use pyo3::{prelude::*, types::PyTuple};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use windlass::{Outcome, lend::Room};
use windlass_bridge::{Desk as Bridge, Told, Worker};

/// Where one thread takes one job after the other.
#[pyclass(frozen)]
pub(crate) struct ThreadDesk {
    bridge: Bridge,
    bell: Arc<Bell>,
    kinds: Kinds,
    /// Why its job should stop.
    reason: Mutex<Option<&'static str>>,
}

#[derive(Default)]
struct Bell {
    is_rung: Mutex<bool>,
    woken: Condvar,
}

impl Bell {
    fn ring(&self) {
        *locked(&self.is_rung) = true;
        self.woken.notify_one();
    }

    fn wait(&self) {
        let mut is_rung = locked(&self.is_rung);
        while !*is_rung {
            is_rung = self.woken.wait(is_rung).unwrap_or_else(PoisonError::into_inner);
        }
        *is_rung = false;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ThreadDesk {
    pub(crate) fn of(py: Python<'_>, worker: &Worker, is_child: bool) -> PyResult<Self> {
        let bell = Arc::new(Bell::default());
        let rung = Arc::clone(&bell);
        let ring = move || rung.ring();
        let bridge = match is_child {
            true => worker.child_desk(ring),
            false => worker.blocking_desk(ring),
        };
        let bridge = bridge.map_err(|failure| raised(py, &failure))?;
        let bridge = bridge.without_contexts();
        Ok(Self { bridge, bell, kinds: Kinds::default(), reason: Mutex::default() })
    }

    /// Hands in, takes a job where there is one, and notes what is told of the one at hand. Whether the worker ended.
    fn exchange(&self, py: Python<'_>, done: Option<(u64, Outcome)>, room: usize) -> (Option<Job>, bool) {
        let exchange = self.bridge.exchange(done, Room::jobs(room));
        let mut reason = locked(&self.reason);
        for told in exchange.told {
            *reason = Some(match told {
                Told::Cancel { reason, .. } => reason,
                Told::Dropped { .. } => "lost",
            });
        }
        let job = exchange.jobs.into_iter().next().map(|job| Job::new(py, job, &self.kinds));
        if job.is_some() {
            *reason = None;
        }
        (job, exchange.closed)
    }
}

#[pymethods]
impl ThreadDesk {
    /// Hands in the job at hand, completed or as a tuple with its outcome, and waits for the next. None: the worker ended.
    #[pyo3(signature = (completed=None, other=None))]
    fn next(
        &self,
        py: Python<'_>,
        completed: Option<&Bound<'_, Job>>,
        other: Option<&Bound<'_, PyTuple>>,
    ) -> PyResult<Option<Job>> {
        let mut done = match (completed, other) {
            (Some(job), _) => Some(job.get().end(Outcome::Complete(None))),
            (None, Some(other)) => Some(ended(other)?),
            (None, None) => None,
        };
        loop {
            match self.exchange(py, done.take(), 1) {
                (Some(job), _) => return Ok(Some(job)),
                (None, true) => return Ok(None),
                (None, false) => py.detach(|| self.bell.wait()),
            }
        }
    }

    /// Why the job at hand should stop; None: it need not.
    fn reason(&self, py: Python<'_>) -> Option<&'static str> {
        self.exchange(py, None, 0);
        *locked(&self.reason)
    }
}
