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

mod batch;
mod bulk;
mod client;
mod connect;
mod data;
mod encryption;
mod events;
mod extract;
mod handler;
mod handler_fn;
mod idle;
mod job;
mod lent;
mod middleware;
#[cfg(feature = "postgres")]
mod privileges;
mod queue_limits;
mod raw_job;
mod registry;
mod ruled;
#[cfg(feature = "toml")]
mod schedule_file;
mod schedules;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "otel")]
mod traces;
#[cfg(not(feature = "otel"))]
#[path = "traces/off.rs"]
mod traces;
#[cfg(feature = "postgres")]
mod transaction;
mod waiting;
mod worker;
mod worker_builder;

pub use batch::{Batch, BatchFn, BatchJob, IntoOutcomes, Outcomes};
pub use bulk::{Selection, Touched};
pub use client::{Client, Enqueued, Mark};
pub use connect::ConnectOptions;
pub use data::{Data, DataSet};
#[cfg(feature = "encryption")]
pub use encryption::Keyring;
pub use encryption::Opener;
pub use events::Events;
pub use extract::{Attempt, Extract};
pub use handler_fn::HandlerFn;
pub use job::{IntoJob, Job};
pub use middleware::{Middleware, Next};
pub use raw_job::RawJob;
#[cfg(feature = "toml")]
pub use schedule_file::ScheduleFile;
pub use schedules::{LastRun, ListedSchedule, Schedules, preview, schedule};
#[cfg(feature = "otel")]
pub use traces::Traces;
#[cfg(feature = "postgres")]
pub use transaction::SqlTransaction;
#[cfg(feature = "postgres")]
pub use windlass_postgres::{Access, SqlCall, SqlParam, check_sql_jobs, sqlstate_error};
#[cfg(feature = "sqlite")]
pub use windlass_sqlite::{Clock as SqliteClock, fork};
pub use worker::Worker;
pub use worker_builder::WorkerBuilder;

/// Makes a type a job.
///
/// ```
/// use std::time::Duration;
/// use windlass::Job;
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// #[job(kind = "mail.send", queue = "mail", priority = 5, max_attempts = 3, timeout = "30s")]
/// struct SendMail { to: String }
///
/// assert_eq!((SendMail::KIND, SendMail::QUEUE), ("mail.send", "mail"));
/// assert_eq!((SendMail::PRIORITY, SendMail::MAX_ATTEMPTS), (5, 3));
/// assert_eq!(SendMail::TIMEOUT, Some(Duration::from_secs(30)));
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// enum CleanUp { All, Older { days: u32 } }
///
/// assert_eq!((CleanUp::KIND, CleanUp::QUEUE, CleanUp::TIMEOUT), ("clean_up", "default", None));
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// #[job(backoff = "linear:10s:5m")]
/// struct Poll;
///
/// fn on_the_hour(attempt: u16, error: &str) -> Duration {
///     Duration::from_secs(if error.contains("rate limit") { 3600 } else { 60 * u64::from(attempt) })
/// }
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// #[job(retry_delay = on_the_hour)]
/// struct Import;
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// #[job(unique(fields("user"), until = "started", on_conflict = "replace", max_wait = "1m"))]
/// struct Index { user: u64, change: String }
///
/// assert_eq!(Poll::retry_policy().unwrap().delay(100, 0.5), Duration::from_secs(300));
/// assert_eq!(Import::retry_delay(3, "timeout"), Some(Duration::from_secs(180)));
/// assert_eq!(Index::unique().unwrap().until(), windlass::UniqueUntil::Started);
/// ```
///
/// What cannot be a job is refused by the compiler:
///
/// ```compile_fail
/// #[derive(serde::Serialize, serde::Deserialize, windlass::Job)]
/// #[job(kind = "send mail")] // a kind has no spaces
/// struct SendMail;
/// ```
/// ```compile_fail
/// #[derive(serde::Serialize, serde::Deserialize, windlass::Job)]
/// #[job(timeout = "soon")]
/// struct SendMail;
/// ```
/// ```compile_fail
/// #[derive(serde::Serialize, serde::Deserialize, windlass::Job)]
/// #[job(backoff = "soon")]
/// struct SendMail;
/// ```
/// ```compile_fail
/// #[derive(serde::Serialize, serde::Deserialize, windlass::Job)]
/// #[job(max_attempts = 0)]
/// struct SendMail;
/// ```
/// ```compile_fail
/// #[derive(serde::Serialize, serde::Deserialize, windlass::Job)]
/// #[job(unique(fields("usr")))] // it has no such field
/// struct SendMail { user: u64 }
/// ```
/// ```compile_fail
/// #[derive(serde::Serialize, serde::Deserialize, windlass::Job)]
/// struct Send<T>(T); // a kind for each T?
/// ```
/// ```compile_fail
/// #[derive(windlass::Job)] // args are JSON: Serialize and Deserialize are missing
/// struct SendMail;
/// ```
#[cfg(feature = "derive")]
pub use windlass_macros::Job;

#[doc(no_inline)]
pub use jiff::Timestamp;
#[doc(no_inline)]
pub use windlass_core::{
    Args, ArgsPattern, AttemptError, Attributes, AuditEntry, AuditFilter, AuditId, AuditPage, AuditRecord,
    Backoff, CancelReply, Conflict, Count, DeleteReply, EditReply, EnqueuedOnce, EnqueuedUnique, Envelope,
    Error, ErrorKind, EventCursor, EventPage, EventType, FailureGroup, HandlerReport, Histogram, History,
    HistoryRequest, IntoOutcome, JobEdit, JobEvent, JobFilter, JobId, JobLease, JobPage, JobRecord, JobState,
    KeyLimit, KeyLimits, KeyLimitsChange, Limits, Load, LogLine, MaintainReport, MigrationReport, Missed,
    NewJob, OnConflict, Outcome, Overlap, PageToken, Program, Progress, Quantiles, QueueFilter, QueueLimits,
    QueueStats, RateLimit, Result, Retention, RetentionRule, RetryPolicy, RetryReply, Schedule,
    ScheduleFilter, SchedulePut, ScheduleRecord, SchedulesPut, Settings, SettingsChange, Store, StoreKind,
    StoreStatus, Timed, Timing, TimingRequest, Timings, TraceContext, Unique, UniqueKey, UniqueScope,
    UniqueUntil, When, WorkerId, WorkerRecord, fingerprint, redact_url, sqlite_file, telling_line,
};
#[doc(no_inline)]
pub use windlass_runtime::{Context, Settling, WorkerConfig, WorkerStats, lend, remote};

/// The examples of docs/guide, under test.
#[cfg(all(doctest, feature = "derive"))]
mod guide {
    #[cfg(feature = "testing")]
    #[doc = include_str!("../../../docs/guide/batches.md")]
    struct Batches;
    #[doc = include_str!("../../../docs/guide/cancelling.md")]
    struct Cancelling;
    #[doc = include_str!("../../../docs/guide/results.md")]
    struct Results;
    #[cfg(feature = "encryption")]
    #[doc = include_str!("../../../docs/guide/encryption.md")]
    struct Encryption;
    #[doc = include_str!("../../../docs/guide/events.md")]
    struct Events;
    #[doc = include_str!("../../../docs/guide/deadlines.md")]
    struct Deadlines;
    #[cfg(feature = "otel")]
    #[doc = include_str!("../../../docs/guide/traces.md")]
    struct Traces;
    #[cfg(feature = "testing")]
    #[doc = include_str!("../../../docs/guide/keys.md")]
    struct Keys;
    #[doc = include_str!("../../../docs/guide/limits.md")]
    struct Limits;
    #[doc = include_str!("../../../docs/guide/first_use.md")]
    struct FirstUse;
    #[doc = include_str!("../../../docs/guide/handlers.md")]
    struct Handlers;
    #[doc = include_str!("../../../docs/guide/timings.md")]
    struct TimingsOfJobs;
    #[doc = include_str!("../../../docs/guide/history.md")]
    struct HistoryOfJobs;
    #[doc = include_str!("../../../docs/guide/privileges.md")]
    struct Privileges;
    #[doc = include_str!("../../../docs/guide/progress.md")]
    struct Progress;
    #[doc = include_str!("../../../docs/guide/retention.md")]
    struct RetentionOfJobs;
    #[doc = include_str!("../../../docs/guide/schedules.md")]
    struct Schedules;
    #[cfg(feature = "testing")]
    #[doc = include_str!("../../../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/guide/unique.md")]
    struct Unique;
}
