//! Tests of code that enqueues jobs, and of their handlers. With the feature `testing`:
//!
//! * [`client`]: a client whose store is in memory, with a [`clock`] to move;
//! * [`assert_enqueued!`](crate::assert_enqueued), [`assert_not_enqueued!`](crate::assert_not_enqueued) and
//!   [`enqueued`]: what your code enqueued;
//! * [`drain`]: works everything that is due, in the test's own task, and [reports](DrainReport);
//! * [`perform`] and [`perform_batch`]: run one handler by itself.
//!
//! ```
//! use windlass::{Client, Job, Outcome, Worker, WorkerBuilder, testing};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct Welcome { to: String }
//!
//! impl Job for Welcome { const KIND: &'static str = "welcome"; }
//!
//! async fn sign_up(client: &Client, email: &str) -> windlass::Result<()> {
//!     client.enqueue(Welcome { to: email.into() }).await.map(|_| ())
//! }
//!
//! async fn welcome(job: Welcome) -> Result<(), String> { Ok(()) }
//!
//! fn worker(client: &Client) -> WorkerBuilder { Worker::builder(client).handle(welcome) }
//!
//! # #[tokio::main]
//! # async fn main() -> windlass::Result<()> {
//! let client = testing::client();
//! sign_up(&client, "ada@example.com").await?;
//! testing::assert_enqueued!(client, Welcome { to } if to == "ada@example.com");
//! testing::drain(worker(&client)).await?.assert_completed();
//! let outcome = testing::perform(Welcome { to: "bob@example.com".into() }, welcome).await?;
//! assert_eq!(outcome, Outcome::Complete(None));
//! # Ok(()) }
//! ```
//!
//! All but [`clock`] and [`Drain::advancing`] work on any store: a test database of PostgreSQL, a file of SQLite.

mod assert;
mod drain;
mod enqueued;
mod job_line;
mod memory;
mod perform;
mod perform_batch;
mod report;
mod under_way;

#[doc(inline)]
pub use crate::{assert_enqueued, assert_not_enqueued};
#[doc(hidden)] // what the macros expand to
pub use assert::{excess, found};
pub use drain::{Drain, drain};
pub use enqueued::{EnqueuedJob, enqueued};
pub use memory::{client, client_of, clock};
pub use perform::{Perform, perform, perform_raw};
pub use perform_batch::{PerformBatch, perform_batch};
pub use report::DrainReport;
#[doc(no_inline)]
pub use windlass_memory::{Clock, MemoryStore, Move};
