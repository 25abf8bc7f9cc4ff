//! For windlass-chaos, and only in the module that is built for it (`witness/`): what Python's workers ask of the store is noted in
//! the history of the run, and so is what their handlers do.

use crate::job::Job;
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::sync::OnceLock;
use windlass_bridge::Client;
use windlass_chaos::actor::Watch;

static WATCH: OnceLock<Watch> = OnceLock::new();

fn failed(error: anyhow::Error) -> PyErr {
    PyRuntimeError::new_err(format!("{error:#}"))
}

/// Begins to watch the workers of this process, which is the actor of this order. Once, on the main thread.
#[pyfunction]
pub(crate) fn watch(order: &str) -> PyResult<()> {
    WATCH
        .set(Watch::begin(order).map_err(failed)?)
        .map_err(|_| PyRuntimeError::new_err("the process is watched already"))
}

/// Notes an event of a job that a worker of this process has: its name, and its further fields as JSON.
#[pyfunction]
pub(crate) fn note(py: Python<'_>, job: &Job, event: &str, fields: &str) -> PyResult<()> {
    let watch = WATCH.get().ok_or_else(|| PyRuntimeError::new_err("the process is not watched"))?;
    py.detach(|| watch.note(job.context.lease(), event, fields)).map_err(failed)
}

/// The client as a worker is to use it.
pub(crate) fn of(client: &Client) -> Client {
    match WATCH.get() {
        Some(watch) => client.over(|store| watch.store(store)),
        None => client.clone(),
    }
}
