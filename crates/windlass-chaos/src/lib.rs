//! Proves that Windlass loses nothing: processes that write histories, faults injected from a seed, and a
//! checker that reads the histories against the invariants of `docs/guarantees.md`.

pub mod actor;
pub mod bug;
pub mod checker;
mod database;
pub mod history;
mod keys;
pub mod node;
pub mod permuter;
pub mod proxy;
pub mod run;
pub mod scenario;
mod starvation;
pub mod suite;
