//! For windlass-chaos, and only in the addon that is built for it (`witness/`): what Node's workers ask of the store is noted in the
//! history of the run, and so is what their handlers do.

use crate::{promise::error, watched::WATCH, worker::NativeWorker};
use napi::{Error, Result, Status};
use napi_derive::napi;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};
use windlass::JobLease;
use windlass_chaos::actor::Watch;

/// The leases of the jobs that began here: a handler may end after its job was taken away, and says so then.
static LEASES: Mutex<Option<HashMap<Begun, JobLease>>> = Mutex::new(None);

/// Worker, job and ticket: event loop and threads each count theirs.
type Begun = (u32, i64, u64);

fn failed(error: impl std::fmt::Display) -> Error {
    Error::new(Status::GenericFailure, format!("{error:#}"))
}

fn watching() -> Result<&'static Watch> {
    WATCH.get().ok_or_else(|| failed("the process is not watched"))
}

/// Begins to watch the workers of this process, which is the actor of this order. Once, on the main thread.
#[napi(catch_unwind)]
pub fn watch(order: String) -> Result<()> {
    let watch = Watch::begin(&order).map_err(failed)?;
    WATCH.set(watch).map_err(|_| failed("the process is watched already"))
}

/// Notes an event of a job that this worker has, or had: its name, and its further fields as JSON. The first one comes while it has it.
#[napi(catch_unwind)]
pub fn note(worker: &NativeWorker, id: f64, ticket: f64, event: String, fields: String) -> Result<()> {
    let key = (worker.number(), id as i64, ticket as u64);
    let known =
        LEASES.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().get(&key).copied();
    let lease = match known {
        Some(lease) => lease,
        None => {
            let lease = worker.context(ticket).map_err(|failure| error(&failure))?.lease();
            LEASES.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(key, lease);
            lease
        }
    };
    watching()?.note(lease, &event, &fields).map_err(failed)
}
