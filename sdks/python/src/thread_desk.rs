use crate::{
    desk::ended,
    failure::raised,
    job::{Job, Kinds},
};
use pyo3::{prelude::*, types::PyTuple};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use windlass::Outcome;
use windlass_bridge::{CollectingDesk as Bridge, Exchange, Told, Worker};

/// Where one thread takes one job after the other.
#[pyclass(frozen)]
pub(crate) struct ThreadDesk {
    bridge: Bridge,
    bell: Arc<Bell>,
    kinds: Kinds,
    at_hand: Mutex<AtHand>,
    /// How many outcomes came too late, at all desks of the worker.
    refused: Arc<AtomicU64>,
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
    pub(crate) fn of(
        py: Python<'_>,
        worker: &Worker,
        is_child: bool,
        refused: Arc<AtomicU64>,
    ) -> PyResult<Self> {
        let bell = Arc::new(Bell::default());
        let rung = Arc::clone(&bell);
        let ring = move || rung.ring();
        let bridge = match is_child {
            true => worker.child_desk(ring),
            false => worker.blocking_desk(ring),
        };
        let bridge = worker.collecting(bridge.map_err(|failure| raised(py, &failure))?);
        Ok(Self { bridge, bell, kinds: Kinds::default(), at_hand: Mutex::default(), refused })
    }

    /// Hands in, takes a job where there is one. Whether the worker ended.
    fn turn(&self, py: Python<'_>, done: Option<(u64, Outcome)>) -> (Option<Job>, bool) {
        // Its own thread and the one that watches it may come at once.
        let mut at_hand = locked(&self.at_hand);
        let exchange = self.bridge.next(done);
        self.note(&mut at_hand, &exchange);
        let job = exchange.jobs.into_iter().next();
        if let Some(job) = &job {
            *at_hand = AtHand { ticket: job.ticket.0, ..AtHand::default() };
        }
        drop(at_hand);
        (job.map(|job| Job::new(py, job, &self.kinds)), exchange.closed)
    }

    /// What is known of the job at hand.
    fn look(&self) -> MutexGuard<'_, AtHand> {
        let mut at_hand = locked(&self.at_hand);
        self.note(&mut at_hand, &self.bridge.look());
        at_hand
    }

    /// Notes what is told of the job at hand.
    fn note(&self, at_hand: &mut AtHand, exchange: &Exchange) {
        if exchange.refused > 0 {
            self.refused.fetch_add(exchange.refused.into(), Ordering::Relaxed);
        }
        exchange.told.iter().for_each(|told| at_hand.note(*told));
    }
}

/// What is known of the job that the thread runs.
#[derive(Default)]
struct AtHand {
    ticket: u64,
    /// Why it should stop.
    reason: Option<&'static str>,
    /// It was taken away.
    is_dropped: bool,
}

impl AtHand {
    fn note(&mut self, told: Told) {
        match told {
            Told::Cancel { ticket, reason } if ticket == self.ticket => self.reason = Some(reason),
            Told::Dropped { ticket } if ticket == self.ticket => {
                self.is_dropped = true;
                self.reason.get_or_insert("lost");
            }
            Told::Cancel { .. } | Told::Dropped { .. } => {}
        }
    }
}

#[pymethods]
impl ThreadDesk {
    /// Hands in the job at hand, by now or soon, completed or as a tuple with its outcome, and waits for the next. None: the worker ended.
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
            match self.turn(py, done.take()) {
                (Some(job), _) => return Ok(Some(job)),
                (None, true) => return Ok(None),
                (None, false) => py.detach(|| self.bell.wait()),
            }
        }
    }

    /// Why the job at hand should stop; None: it need not.
    fn reason(&self) -> Option<&'static str> {
        self.look().reason
    }

    /// Whether the job at hand was taken away: what is handed in for it counts no more.
    fn is_dropped(&self) -> bool {
        self.look().is_dropped
    }
}
