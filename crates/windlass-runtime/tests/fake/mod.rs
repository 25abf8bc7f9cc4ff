//! A store in memory that does what the contract says, tells what it was asked, and fails on request.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs, reason = "each test binary uses its part")]

mod faults;
mod handlers;
pub mod history;
mod leases;
mod model;
mod settling;
mod store;

pub use faults::{Call, Fault};
pub use handlers::{Handlers, config};
pub use model::{Job, Model, State};
pub use store::FakeStore;
