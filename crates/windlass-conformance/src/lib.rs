//! The storage contract of Windlass as one suite of tests that every store runs.
//!
//! Each rule is a public async function with the rule as its documentation, grouped by noun: one file,
//! one noun. A store implements [`Fixture`] and calls [`suite!`], which makes one test of each rule:
//!
//! ```ignore
//! async fn fixture() -> MyFixture { /* fresh, migrated storage */ }
//! windlass_conformance::suite!(fixture);
//! ```
//!
//! The rules are told in the steps of [`steps`], which a store's own tests use as well.
//!
//! # Architecture invariants
//!
//! * Rules know nothing but the seam: no SQL, no files, no clock but the store's.
//! * Nothing sleeps to wait for something: rules poll a condition with a generous deadline.
//! * [`Fixture::open`] stands for another process: rules about races use a handle for each actor.

pub mod attributes;
pub mod audit;
pub mod available;
pub mod bulk;
pub mod cancel;
pub mod claim;
pub mod concurrency;
pub mod conflicts;
pub mod costs;
pub mod deploys;
pub mod drains;
pub mod edit;
pub mod ends;
pub mod enqueue;
pub mod events;
pub mod expiry;
pub mod fence;
mod fixture;
pub mod history;
pub mod inspect;
pub mod keys;
pub mod keys_fair;
pub mod keys_rate;
pub mod keys_serial;
pub mod keys_wakeup;
pub mod leader;
pub mod limits;
pub mod model;
pub mod no_handler;
pub mod oldest;
pub mod once;
pub mod policy;
pub mod programs;
pub mod promote;
pub mod replace_again;
pub mod reports;
pub mod rescue;
pub mod results;
pub mod retain;
pub mod retention;
pub mod retry;
pub mod schedules;
pub mod settle;
pub mod slots;
pub mod starts;
pub mod steps;
#[doc(hidden)]
pub mod suite;
pub mod suspect;
pub mod timings;
pub mod unique;
pub mod unique_expiry;
pub mod wakeup;

pub use fixture::Fixture;
