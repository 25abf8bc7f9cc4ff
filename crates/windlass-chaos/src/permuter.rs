//! All orders of the statements of two or three sessions.
//!
//! A [`Scenario`] says what happened before, and what a few sessions do at the same jobs. Each order of their
//! steps is tried on its own: on PostgreSQL every session is a connection that is stepped through its
//! transactions (to begin and do the operation; to commit or roll back), so what one has not committed meets
//! the statements of the others. In scenarios whose names begin with `inside_` the functions stop at gates
//! between their statements as well. A session that waits for another is passed over and takes its steps as
//! soon as it is free. They run the store's own calls, with its parameters and its reading of the answers. On SQLite, where a transaction excludes all others, whole operations are permuted.
//!
//! After each order everything is brought to its end: workers die and are rescued, due jobs are promoted, a
//! fresh worker claims and completes what is left. A book that is kept beside it says where each job
//! must be; it finds jobs lost, run twice or held twice, settlements of a fenced worker, wrong attempts and
//! crash counts, answers that were true at no moment, and jobs with more than one end.
//!
//! Orders have numbers: `WINDLASS_PERMUTE='claim_vs_claim:17'` repeats one. See [`Plan`].
//!
//! Not here: rates, which count in a time that no order decides. A new operation is an [`Act`] with a `Call`, and what it
//! means goes into the book.

mod book;
mod call;
mod limits;
pub mod order;
pub mod postgres;
mod report;
mod round;
mod scenario;
pub mod scenarios;
mod schedule;
pub mod sqlite;

pub use report::{Outcome, Plan};
pub use scenario::{Act, End, Fate, KeyRule, Op, Patch, Scenario};
