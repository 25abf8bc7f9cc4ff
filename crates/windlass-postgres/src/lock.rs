use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what a panic cannot have left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
