//! Windlass in the memory of one process: nothing is durable, everything else is as in the other stores.
//!
//! It passes the conformance suite, so a test that uses it in place of PostgreSQL or SQLite sees the same jobs in the
//! same order; it is fast, needs no file and no server, and its [`Clock`] can be moved. The rules are written as
//! plainly as they can be: this is what the others are compared with.
//!
//! ```
//! use std::time::Duration;
//! use windlass_core::{Args, JobState, JobStore, NewJob};
//! use windlass_memory::MemoryStore;
//!
//! # #[tokio::main]
//! # async fn main() -> windlass_core::Result<()> {
//! let store = MemoryStore::new();
//! let job = NewJob::new("mail.send", Args::parse("{}")?).with_delay(Duration::from_secs(3600));
//! let id = store.enqueue(&[job]).await?[0];
//! assert_eq!(store.job(id).await?.unwrap().state, JobState::Scheduled);
//! store.clock().advance(Duration::from_secs(3600)); // time travel
//! store.promote(10).await?;
//! assert_eq!(store.job(id).await?.unwrap().state, JobState::Available);
//! # Ok(()) }
//! ```

mod audit;
mod claim;
mod clock;
mod contract;
mod control;
mod counters;
mod deploys;
mod due_keys;
mod edit;
mod enqueue;
mod event_log;
mod events;
mod holder;
mod inspect;
mod job;
mod key_rates;
mod keys;
mod lane;
mod list;
mod maintain;
mod moves;
mod queue;
mod report;
mod retention;
mod schedule;
mod settle;
mod starts;
mod state;
mod store;
mod timings;
mod turns;
mod unique;
mod wakeup;
mod workers;

pub use clock::Clock;
pub use moves::Move;
pub use store::MemoryStore;
