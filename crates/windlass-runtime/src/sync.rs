//! What threads share and how tasks start: the real things, or those of shuttle, which tries every order.

#[cfg(not(all(test, feature = "shuttle")))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(all(test, feature = "shuttle")))]
pub(crate) use tokio::spawn;

#[cfg(all(test, feature = "shuttle"))]
pub(crate) use shuttle::{
    future::spawn,
    sync::{Mutex, MutexGuard, atomic},
};

/// Where tasks run that threads outside the async runtime start.
#[derive(Debug)]
pub(crate) struct Runtime(#[cfg(not(all(test, feature = "shuttle")))] tokio::runtime::Handle);

#[cfg(not(all(test, feature = "shuttle")))]
impl Runtime {
    /// That of the caller.
    pub(crate) fn current() -> Self {
        Self(tokio::runtime::Handle::current())
    }

    /// Until this is dropped [`spawn`] works in this thread.
    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.0.enter()
    }
}

#[cfg(all(test, feature = "shuttle"))]
impl Runtime {
    pub(crate) fn current() -> Self {
        Self()
    }

    pub(crate) fn enter(&self) {}
}
