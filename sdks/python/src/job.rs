use crate::{failure::raised, parse::parse};
use bytes::Bytes;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyList, PyString},
};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use windlass::{Context, Outcome, Progress, lend::LentJob};

/// How many kinds are known at most: a worker of any kind may be lent jobs of any number of them.
const MOST_KINDS: usize = 1_000;

/// The kinds of a desk's jobs as Python's texts: one for all jobs of a kind.
#[derive(Default)]
pub(crate) struct Kinds(Mutex<HashMap<String, Py<PyString>>>);

impl Kinds {
    fn text(&self, py: Python<'_>, kind: &str) -> Py<PyString> {
        if let Some(text) = self.known().get(kind) {
            return text.clone_ref(py);
        }
        let text = PyString::new(py, kind).unbind();
        let mut known = self.known();
        if known.len() >= MOST_KINDS {
            known.clear();
        }
        known.insert(kind.to_owned(), text.clone_ref(py));
        text
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Py<PyString>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One attempt of a job that Python runs.
#[pyclass(frozen)]
pub(crate) struct Job {
    pub(crate) ticket: u64,
    batch: u64,
    pub(crate) context: Context,
    kind: Py<PyString>,
    /// Until it is handed in: the bytes are a part of all that was claimed with it.
    args: Mutex<Option<Bytes>>,
    parsed: PyOnceLock<Py<PyAny>>,
}

impl Job {
    pub(crate) fn new(py: Python<'_>, job: LentJob, kinds: &Kinds) -> Self {
        let LentJob { ticket, batch, args, context } = job;
        let kind = kinds.text(py, context.kind());
        let args = Mutex::new(Some(args));
        Self { ticket: ticket.0, batch: batch.0, context, kind, args, parsed: PyOnceLock::new() }
    }

    /// Hands it in: its args are not needed any more.
    pub(crate) fn end(&self, outcome: Outcome) -> (u64, Outcome) {
        self.args.lock().unwrap_or_else(PoisonError::into_inner).take();
        (self.ticket, outcome)
    }

    fn read<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let parsed = self.parsed.get_or_try_init(py, || parse(&self.text(py)?).map(Bound::unbind))?;
        Ok(parsed.bind(py))
    }

    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let args = self.args.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let args = args.ok_or_else(|| PyValueError::new_err("the job is over, its args are gone"))?;
        let text =
            std::str::from_utf8(&args).map_err(|_| PyValueError::new_err("the job's args are no text"))?;
        Ok(PyString::new(py, text))
    }
}

#[pymethods]
impl Job {
    #[getter]
    fn ticket(&self) -> u64 {
        self.ticket
    }

    /// The same for all jobs of a batch.
    #[getter]
    fn batch(&self) -> u64 {
        self.batch
    }

    #[getter]
    fn id(&self) -> i64 {
        self.context.id().0
    }

    #[getter]
    fn kind(&self) -> &Py<PyString> {
        &self.kind
    }

    #[getter]
    fn queue(&self) -> &str {
        self.context.queue()
    }

    #[getter]
    fn priority(&self) -> i16 {
        self.context.priority()
    }

    #[getter]
    fn attempt(&self) -> u16 {
        self.context.attempt()
    }

    #[getter]
    fn max_attempts(&self) -> u16 {
        self.context.max_attempts()
    }

    #[getter]
    fn crash_count(&self) -> u16 {
        self.context.crash_count()
    }

    /// Milliseconds since 1970.
    #[getter]
    fn enqueued_at_ms(&self) -> i64 {
        self.context.enqueued_at().as_millisecond()
    }

    /// The same of when it would not have been started any more.
    #[getter]
    fn expires_at_ms(&self) -> Option<i64> {
        self.context.expires_at().map(|at| at.as_millisecond())
    }

    #[getter]
    fn key(&self) -> Option<&str> {
        self.context.key()
    }

    #[getter]
    fn tags(&self) -> Vec<String> {
        self.context.tags().to_vec()
    }

    #[getter]
    fn meta<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.context.meta().map(|meta| parse(&PyString::new(py, meta.as_str()))).transpose()
    }

    #[getter]
    fn is_cancelled(&self) -> bool {
        self.context.is_cancelled()
    }

    /// The args, read on first use.
    #[getter]
    fn args<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.read(py).cloned()
    }

    /// The args as they are stored.
    #[getter]
    fn args_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        self.text(py)
    }

    #[pyo3(signature = (percent, note=None))]
    fn progress(&self, py: Python<'_>, percent: f64, note: Option<&Bound<'_, PyString>>) -> PyResult<()> {
        let note = note.map(|note| note.to_string_lossy().into_owned());
        let said = self.context.progress(Progress { percent, note });
        said.map_err(|error| raised(py, &error.into()))
    }

    /// Names of files may have halves of surrogate pairs: a line is not worth an attempt.
    fn log(&self, line: &Bound<'_, PyString>) {
        self.context.log(line.to_string_lossy());
    }
}

/// The args of several jobs.
#[pyfunction]
pub(crate) fn args_of<'py>(py: Python<'py>, jobs: Vec<Bound<'py, Job>>) -> PyResult<Bound<'py, PyList>> {
    let all = jobs.iter().map(|job| job.get().read(py)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, all)
}
