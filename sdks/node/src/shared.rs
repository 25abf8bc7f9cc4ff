use crate::promise::failure;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU32, Ordering},
};
use windlass::ErrorKind;
use windlass_bridge::{Client, Failure, Worker};

/// The workers of this process: threads of Node share nothing but this.
static WORKERS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());
static LAST: AtomicU32 = AtomicU32::new(0);

/// A worker, as all its threads have it.
pub(crate) struct Shared {
    pub(crate) number: u32,
    pub(crate) client: Client,
    pub(crate) worker: Worker,
    /// How many outcomes came too late.
    pub(crate) refused: AtomicU32,
}

impl Shared {
    /// Gives a worker a number, by which other threads find it.
    pub(crate) fn register(client: Client, worker: Worker) -> Arc<Self> {
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let shared = Arc::new(Self { number, client, worker, refused: AtomicU32::new(0) });
        let mut workers = lock();
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(&shared));
        shared
    }

    /// The worker of a number.
    pub(crate) fn find(number: u32) -> Result<Arc<Self>, Failure> {
        let found = lock().iter().filter_map(Weak::upgrade).find(|shared| shared.number == number);
        found.ok_or_else(|| {
            failure(
                ErrorKind::NotFound,
                "the worker of this thread is gone: it was closed, or its thread ended",
            )
        })
    }
}

fn lock() -> MutexGuard<'static, Vec<Weak<Shared>>> {
    WORKERS.lock().unwrap_or_else(PoisonError::into_inner)
}
