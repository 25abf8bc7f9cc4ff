use crate::{call::Call, failure::raised, job::Job, port::Port};
use pyo3::prelude::*;
use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};
use windlass_bridge::{Call as Started, Client as Bridge, Engine, Failure};

/// How often a thread that waits looks for signals such as Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// A connection to a store. Python's classes stand on it.
#[pyclass(frozen)]
pub(crate) struct Client {
    pub(crate) bridge: Bridge,
}

#[pymethods]
impl Client {
    /// Opens the store of a URL, with keys for encrypted jobs.
    #[new]
    #[pyo3(signature = (url, keys=None, is_test=false))]
    fn new(py: Python<'_>, url: String, keys: Option<String>, is_test: bool) -> PyResult<Self> {
        let open = move || {
            let engine = Engine::of_process()?;
            match keys.as_deref() {
                keys if is_test => Bridge::open_for_test(&engine, &url, keys),
                Some(keys) => Bridge::open_with_keys(&engine, &url, keys),
                None => Bridge::open(&engine, &url),
            }
        };
        // On a thread of its own: it may block, and whoever is interrupted waits for no server that does not answer.
        let (sender, receiver) = channel();
        let send = move || _ = sender.send(open());
        thread::Builder::new().name("windlass-open".into()).spawn(send)?;
        Ok(Self { bridge: received(py, receiver, || ())? })
    }

    /// Does an operation, and waits for it without the interpreter; Ctrl-C ends the wait.
    fn run(&self, py: Python<'_>, op: &str, payload: String) -> PyResult<String> {
        wait(py, |answer| {
            self.bridge.start(op, payload, move |done| {
                // Whoever waited may be gone.
                let _ = answer.send(done);
            })
        })
    }

    /// Begins operations, each a number, its name and what it takes; their answers come to the port, by the numbers.
    fn start(&self, py: Python<'_>, port: &Port, calls: Vec<(u64, String, String)>) -> PyResult<Vec<Call>> {
        let mailbox = port.mailbox();
        let told = Arc::clone(&mailbox);
        let calls = calls.into_iter().map(|(number, op, payload)| {
            let mailbox = Arc::clone(&mailbox);
            (op, payload, move |answer| mailbox.put_untold(number, answer))
        });
        let started = self.bridge.start_all(calls, move || told.tell());
        let started = started.map_err(|failure| raised(py, &failure))?;
        Ok(started.into_iter().map(Call).collect())
    }

    /// Lets so many seconds pass, in the store of a test.
    fn travel(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let by = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        self.bridge.travel(by).map_err(|failure| raised(py, &failure))
    }

    /// The statement that completes a job in its handler's transaction, as JSON.
    fn complete_sql(&self, py: Python<'_>, job: &Job) -> PyResult<String> {
        self.bridge.complete_sql(&job.context).map_err(|failure| raised(py, &failure))
    }

    /// Begins to keep a checkpoint of a job, or to ask for the last one where no value is given.
    #[pyo3(signature = (port, call, job, value=None))]
    fn start_checkpoint(
        &self,
        py: Python<'_>,
        port: &Port,
        call: u64,
        job: &Job,
        value: Option<&str>,
    ) -> PyResult<Call> {
        let mailbox = port.mailbox();
        let started = self.checkpoint(job, value, move |answer| mailbox.put(call, answer));
        started.map(Call).map_err(|failure| raised(py, &failure))
    }

    /// The same, and waits for it.
    #[pyo3(signature = (job, value=None))]
    fn run_checkpoint(&self, py: Python<'_>, job: &Job, value: Option<&str>) -> PyResult<String> {
        wait(py, |answer| {
            self.checkpoint(job, value, move |done| {
                let _ = answer.send(done);
            })
        })
    }

    /// Closes its connections.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.bridge.close());
    }
}

impl Client {
    fn checkpoint(
        &self,
        job: &Job,
        value: Option<&str>,
        done: impl FnOnce(Result<String, Failure>) + Send + 'static,
    ) -> Result<Started, Failure> {
        match value {
            Some(value) => self.bridge.start_checkpoint(job.context.clone(), value, done),
            None => self.bridge.start_last_checkpoint(job.context.clone(), done),
        }
    }
}

/// Starts something and waits for its answer; who does not wait for its end ends it.
fn wait<T: Send>(
    py: Python<'_>,
    start: impl FnOnce(Sender<Result<T, Failure>>) -> Result<Started, Failure>,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let call = start(sender).map_err(|failure| raised(py, &failure))?;
    received(py, receiver, || call.abort())
}

/// Waits for an answer without the interpreter; a signal such as Ctrl-C ends what is to bring it.
fn received<T: Send>(
    py: Python<'_>,
    mut receiver: Receiver<Result<T, Failure>>,
    end: impl Fn(),
) -> PyResult<T> {
    loop {
        let received;
        (received, receiver) = py.detach(move || (receiver.recv_timeout(LOOK), receiver));
        match received {
            Ok(answer) => return answer.map_err(|failure| raised(py, &failure)),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| end())?,
            Err(RecvTimeoutError::Disconnected) => {
                let message = "a call ended without an answer; please report it".to_owned();
                let failure = Failure { code: "internal", message, retryable: false, ambiguous: true };
                return Err(raised(py, &failure));
            }
        }
    }
}
