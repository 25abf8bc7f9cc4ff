//! A durable background-job queue: typed jobs, handlers, clients and workers over SQLite or PostgreSQL.
//!
//! ```
//! use windlass::{Client, Context, Job, Worker};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct SendMail {
//!     to: String,
//! }
//!
//! impl Job for SendMail {
//!     const KIND: &'static str = "mail.send";
//! }
//!
//! async fn send_mail(mail: SendMail, ctx: Context) -> Result<(), anyhow::Error> {
//!     println!("attempt {} to {}", ctx.attempt(), mail.to);
//!     Ok(())
//! }
//!
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main]
//! # async fn main() -> anyhow::Result<()> {
//! # let dir = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}/jobs.db", dir.path().display());
//! let client = Client::connect(&url).await?; // "sqlite:jobs.db" or "postgres://me@host/app"
//! client.migrate().await?;
//! client.enqueue(SendMail { to: "you@example.com".into() }).await?;
//!
//! let worker = Worker::builder(&client).queue("default", 100).handle(send_mail).start().await?;
//! worker.shutdown().await; // a service says worker.run_until_signal().await
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))] fn main() {}
//! ```
//!
//! A handler's job runs at least once and, while its worker is alive, on that worker only. A handler
//! returns nothing, a `Result`, or an [`Outcome`]; an error or a panic is tried again with
//! [backoff](RetryPolicy) until `MAX_ATTEMPTS`.

mod client;
mod connect;
mod handler;
mod job;
mod raw_job;
mod registry;
#[cfg(feature = "postgres")]
mod transaction;
mod worker;
mod worker_builder;

pub use client::Client;
pub use connect::ConnectOptions;
pub use job::{IntoJob, Job};
pub use raw_job::RawJob;
pub use worker::Worker;
pub use worker_builder::WorkerBuilder;

#[doc(no_inline)]
pub use jiff::Timestamp;
#[doc(no_inline)]
pub use windlass_core::{
    Args, AttemptError, Attributes, CancelReply, EnqueuedOnce, Error, ErrorKind, IntoOutcome, JobFilter,
    JobId, JobLease, JobPage, JobRecord, JobState, Limits, MaintainReport, MigrationReport, NewJob, Outcome,
    PageToken, QueueStats, Result, RetryPolicy, RetryReply, Settings, Store, StoreKind, StoreStatus, When,
    WorkerId, WorkerRecord, redact_url,
};
#[doc(no_inline)]
pub use windlass_runtime::{Context, Settling, WorkerConfig, WorkerStats};
