use crate::{failure::exception, signal::Signal};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_bridge::Failure;

/// Calls that are over: their numbers and what became of them.
type Ended = Vec<(u64, Result<String, Failure>)>;

/// The same for Python: number, answer as JSON or None, exception or None.
type Told<'py> = (u64, Option<String>, Option<Bound<'py, PyAny>>);

/// Where the answers of calls come in for one event loop.
#[pyclass(frozen)]
pub(crate) struct Port {
    mailbox: Arc<Mailbox>,
}

/// A port's side that the engine's threads see.
pub(crate) struct Mailbox {
    signal: Signal,
    ended: Mutex<Ended>,
}

impl Mailbox {
    /// Puts in what became of a call.
    pub(crate) fn put(&self, call: u64, answer: Result<String, Failure>) {
        self.put_untold(call, answer);
        self.tell();
    }

    /// The same for one of several, of which the loop is to be [told](Self::tell) together.
    pub(crate) fn put_untold(&self, call: u64, answer: Result<String, Failure>) {
        self.ended().push((call, answer));
    }

    /// Wakes the event loop, which fetches all that was put in.
    pub(crate) fn tell(&self) {
        self.signal.raise();
    }

    fn ended(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port {
    /// Where a call's answer goes.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }
}

#[pymethods]
impl Port {
    #[new]
    fn new() -> PyResult<Self> {
        let mailbox = Mailbox { signal: Signal::new()?, ended: Mutex::default() };
        Ok(Self { mailbox: Arc::new(mailbox) })
    }

    /// Readable when there is an answer.
    fn fileno(&self) -> i32 {
        self.mailbox.signal.fileno()
    }

    /// The calls that are over.
    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Vec<Told<'py>>> {
        self.mailbox.signal.clear();
        let ended = std::mem::take(&mut *self.mailbox.ended());
        let told = ended.into_iter().map(|(call, answer)| match answer {
            Ok(answer) => Ok((call, Some(answer), None)),
            Err(failure) => Ok((call, None, Some(exception(py, &failure)?))),
        });
        told.collect()
    }
}
