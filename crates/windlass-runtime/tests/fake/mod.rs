//! A store in memory behind a layer that tells what it was asked, delays, fails and loses replies on request.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs, reason = "each test binary uses its part")]

mod act;
mod contract;
mod fault;
mod handlers;
pub mod history;
mod leases;
mod model;
mod settling;
mod store;
mod wakeup;

pub use fault::{Call, Fault};
pub use handlers::{Handlers, RetryDelay, config};
pub use model::Model;
pub use store::FakeStore;
