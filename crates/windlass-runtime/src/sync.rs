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
