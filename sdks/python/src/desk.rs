use crate::{
    failure::raised,
    job::{Job, Kinds},
    signal::Signal,
};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyList, PyTuple},
};
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use windlass::{Args, Outcome, lend::Room};
use windlass_bridge::{Desk as Bridge, Told, Worker};

/// How many bytes of args one exchange brings at most: an event loop has other things to do as well.
const MOST_BYTES: usize = 256 << 10;

/// Where an event loop takes its jobs and hands in what became of them.
#[pyclass(frozen)]
pub(crate) struct Desk {
    /// Taken when it goes.
    bridge: Option<Bridge>,
    /// Who made it: its fork has none of the jobs.
    process: u32,
    signal: Arc<Signal>,
    kinds: Kinds,
    /// How many outcomes came too late, at all desks of the worker.
    refused: Arc<AtomicU64>,
}

impl Desk {
    pub(crate) fn of(py: Python<'_>, worker: &Worker, refused: Arc<AtomicU64>) -> PyResult<Self> {
        let signal = Arc::new(Signal::new()?);
        let bell = Arc::clone(&signal);
        let bridge = worker.desk(move || bell.raise()).map_err(|failure| raised(py, &failure))?;
        let (bridge, process) = (Some(bridge.without_contexts()), std::process::id());
        Ok(Self { bridge, process, signal, kinds: Kinds::default(), refused })
    }
}

/// It goes with a worker that nobody closed and whose event loop is gone: the jobs that were begun are anybody's.
impl Drop for Desk {
    fn drop(&mut self) {
        let Some(bridge) = self.bridge.take() else { return };
        match self.process == std::process::id() {
            true => bridge.give_back(),
            false => mem::forget(bridge), // a thread that the fork does not have may hold its lock
        }
    }
}

/// What an exchange brings: jobs, what is told of jobs (ticket and reason to stop, or None for one that is gone), whether there are
/// more, and whether the worker ended.
type Exchanged<'py> = (Bound<'py, PyList>, Vec<(u64, Option<&'static str>)>, bool, bool);

#[pymethods]
impl Desk {
    /// Readable when there is a job, or something to be told.
    fn fileno(&self) -> i32 {
        self.signal.fileno()
    }

    /// Hands in jobs that completed, and others with their outcomes; takes so many new ones at most.
    fn exchange<'py>(
        &self,
        py: Python<'py>,
        completed: &Bound<'py, PyList>,
        others: &Bound<'py, PyList>,
        most: usize,
    ) -> PyResult<Exchanged<'py>> {
        self.signal.clear();
        let mut done = Vec::with_capacity(completed.len() + others.len());
        for job in completed {
            done.push(job.cast::<Job>()?.get().end(Outcome::Complete(None)));
        }
        for other in others {
            done.push(ended(&other.cast_into::<PyTuple>()?)?);
        }
        let room = Room { jobs: most, bytes: MOST_BYTES };
        let exchange = self.bridge.as_ref().map(|bridge| bridge.exchange(done, room)).unwrap_or_default();
        self.refused.fetch_add(exchange.refused.into(), Ordering::Relaxed);
        let told = exchange.told.into_iter().map(|told| match told {
            Told::Cancel { ticket, reason } => (ticket, Some(reason)),
            Told::Dropped { ticket } => (ticket, None),
        });
        let jobs = PyList::empty(py);
        for job in exchange.jobs {
            jobs.append(Bound::new(py, Job::new(py, job, &self.kinds))?)?;
        }
        Ok((jobs, told.collect(), exchange.more, exchange.closed))
    }
}

/// Reads a job and its outcome: (job, word, seconds or None, text or None). An outcome that cannot be read fails its own attempt: what came
/// with it is not to be lost.
pub(crate) fn ended(other: &Bound<'_, PyTuple>) -> PyResult<(u64, Outcome)> {
    let job = other.get_item(0)?.cast_into::<Job>()?;
    let outcome = outcome(other).unwrap_or_else(|error| Outcome::Retry {
        after: None,
        error: format!("what became of the job cannot be read: {error}"),
    });
    Ok(job.get().end(outcome))
}

fn outcome(other: &Bound<'_, PyTuple>) -> PyResult<Outcome> {
    let (_, word, seconds, text): (Bound<'_, PyAny>, String, Option<f64>, Option<Bound<'_, PyAny>>) =
        other.extract()?;
    let text = || match text {
        // Errors may have halves of surrogate pairs, as names of files have.
        Some(text) => Ok::<_, PyErr>(text.str()?.to_string_lossy().into_owned()),
        None => Ok(String::new()),
    };
    let after = seconds.map(Duration::try_from_secs_f64).transpose();
    let after = after.map_err(|error| PyValueError::new_err(format!("no length of time: {error}")))?;
    Ok(match &*word {
        "complete" => match Args::parse(&text()?) {
            Ok(result) => Outcome::Complete(Some(result)),
            // What its handler did is done: another attempt would not give another result.
            Err(error) => Outcome::Discard(format!("what the handler returned cannot be stored: {error}")),
        },
        "retry" => Outcome::Retry { after, error: text()? },
        "snooze" => Outcome::Snooze(after.unwrap_or_default()),
        "cancel" => Outcome::Cancel(text()?),
        "discard" => Outcome::Discard(text()?),
        _ => return Err(PyValueError::new_err(format!("{word:?} is no outcome"))),
    })
}
