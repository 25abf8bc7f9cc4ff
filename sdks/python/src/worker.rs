use crate::{call::Call, client::Client, desk::Desk, failure::raised, port::Port, thread_desk::ThreadDesk};
use pyo3::prelude::*;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use windlass::WorkerStats;
use windlass_bridge::{Worker as Bridge, WorkerSpec};

/// A worker whose jobs Python runs.
#[pyclass(frozen, weakref)]
pub(crate) struct Worker {
    bridge: Bridge,
    /// How many outcomes came too late.
    refused: Arc<AtomicU64>,
    /// Who made it: its fork has nothing to stop.
    process: u32,
}

/// Whoever forgets to close it must not leave a worker that claims jobs and runs none.
impl Drop for Worker {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.bridge.stop();
        }
    }
}

#[pymethods]
impl Worker {
    /// Registers with the store and begins to claim jobs.
    #[new]
    fn new(py: Python<'_>, client: &Client, spec: &str) -> PyResult<Self> {
        let client = &client.bridge;
        #[cfg(feature = "witness")]
        let client = &crate::witness::of(client);
        let started = py.detach(|| Bridge::start(client, &WorkerSpec::parse(spec)?));
        let bridge = started.map_err(|failure| raised(py, &failure))?;
        Ok(Self { bridge, refused: Arc::default(), process: std::process::id() })
    }

    /// For an event loop.
    fn desk(&self, py: Python<'_>) -> PyResult<Desk> {
        Desk::of(py, &self.bridge, Arc::clone(&self.refused))
    }

    /// For a thread, which takes jobs of the blocking kinds.
    fn thread_desk(&self, py: Python<'_>) -> PyResult<ThreadDesk> {
        ThreadDesk::of(py, &self.bridge, false, Arc::clone(&self.refused))
    }

    /// For a thread that has a child process run what it takes: jobs of the kinds of those.
    fn child_desk(&self, py: Python<'_>) -> PyResult<ThreadDesk> {
        ThreadDesk::of(py, &self.bridge, true, Arc::clone(&self.refused))
    }

    /// Begins to end: running jobs may go on for the grace period.
    fn stop(&self) {
        self.bridge.stop();
    }

    /// Hands running jobs back now.
    fn abort(&self) {
        self.bridge.abort_now();
    }

    /// Waits for its end, so many seconds at most; whether it ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let most = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        py.detach(|| self.bridge.wait(most)).map_err(|failure| raised(py, &failure))
    }

    /// Has the port told when it ended, or when nothing is left to do for it.
    fn start_wait(&self, py: Python<'_>, port: &Port, call: u64, until_idle: bool) -> PyResult<Call> {
        let mailbox = port.mailbox();
        let tell = move |done: Result<(), _>| mailbox.put(call, done.map(|()| "null".to_owned()));
        let started = match until_idle {
            true => self.bridge.start_until_idle(tell),
            false => self.bridge.start_wait(tell),
        };
        started.map(Call).map_err(|failure| raised(py, &failure))
    }

    /// How many jobs it settled, and other counts.
    fn stats(&self) -> Vec<(&'static str, u64)> {
        let stats = self.bridge.stats();
        let WorkerStats {
            claimed,
            completed,
            retried,
            snoozed,
            cancelled,
            discarded,
            no_handler,
            returned,
            settled,
            ..
        } = stats;
        vec![
            ("claimed", claimed),
            ("completed", completed),
            ("retried", retried),
            ("snoozed", snoozed),
            ("cancelled", cancelled),
            ("discarded", discarded),
            ("no_handler", no_handler),
            ("returned", returned),
            ("settled", settled),
            ("running", stats.running as u64),
            ("ready", stats.ready as u64),
            ("unsettled", stats.unsettled as u64),
            ("refused", self.refused.load(Ordering::Relaxed)),
        ]
    }
}
