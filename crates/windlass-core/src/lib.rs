//! Plain types of Windlass and the seam between the engine and its stores.
//!
//! Nothing here does I/O. The engine (`windlass-runtime`) and every store (`windlass-postgres`,
//! `windlass-sqlite`) depend on this crate and never on each other:
//!
//! * what users write: [`NewJob`], [`Schedule`], [`Args`], [`Outcome`], [`RetryPolicy`], [`Limits`];
//! * what users read: [`JobRecord`], [`JobState`], [`QueueStats`], [`WorkerRecord`];
//! * the seam: [`JobStore`], [`ScheduleStore`], [`AuditStore`], [`TimingStore`], [`Wakeup`], [`Leader`], and one params struct per operation;
//! * one error type: [`Error`] with predicates and stable [codes](ErrorKind::code).
//!
//! # Architecture invariants
//!
//! * Args are opaque JSON bytes here; only handlers parse them.
//! * The seam is batch-first: slices in, vectors out.
//! * Every lease and schedule decision uses the store's clock, so no time is passed across the seam
//!   except durations and a user's wished `scheduled_at`.

mod args;
mod args_pattern;
mod attributes;
mod audit;
mod audit_record;
mod audit_store;
mod claim;
mod completed;
mod edit;
mod envelope;
mod error;
mod event;
mod failure;
mod fingerprint;
mod histogram;
mod history;
mod id;
mod inspect;
mod job_filter;
mod key_limits;
mod left_out;
mod limits;
mod millis;
mod new_job;
mod outcome;
mod page;
mod program;
mod queue_filter;
mod queue_limits;
mod report;
mod retention;
mod retry_policy;
mod schedule;
mod schedule_record;
mod schedule_store;
mod settings;
mod settings_change;
mod settle;
mod share;
mod starts;
mod state;
mod store;
mod store_url;
mod timing;
mod timing_request;
mod timing_store;
mod trace_context;
mod unique;
mod unique_batch;
mod unique_key;
mod unique_preimage;
mod worker;
mod wrap_store;

pub use args::Args;
pub use args_pattern::ArgsPattern;
#[doc(hidden)] // what `wrap_store!` expands to
pub use async_trait::async_trait;
pub use attributes::{Attributes, UniqueMark};
pub use audit::AuditEntry;
pub use audit_record::{AuditId, AuditRecord};
pub use audit_store::{AuditFilter, AuditPage, AuditStore};
pub use claim::{Claim, ClaimRef, ClaimRequest, Claimed, ClaimedJob, JobLease, QueueDemand};
pub use completed::{CompletedJobs, PlacedException, ResultRow};
pub use edit::{DeleteReply, EditReply, JobEdit};
pub use envelope::Envelope;
pub use error::{Error, ErrorKind, Result};
pub use event::{EventCursor, EventPage, EventRequest, EventType, JobEvent};
pub use failure::{Failure, FailureGroup};
pub use fingerprint::{fingerprint, telling_line};
pub use histogram::{Histogram, Quantiles};
pub use history::{Count, History, HistoryRequest};
pub use id::{JobId, WorkerId};
pub use inspect::{
    AttemptError, CancelReply, JobPage, JobRecord, PageToken, QueueStats, RetryReply, StoreStatus,
    WorkerRecord,
};
pub use job_filter::{JobFilter, Wanted};
pub use key_limits::{KeyLimit, KeyLimits, KeyLimitsChange};
pub use limits::Limits;
pub use new_job::{NewJob, When};
pub use outcome::{IntoOutcome, Outcome};
pub use program::{Load, Program};
pub use queue_filter::QueueFilter;
pub use queue_limits::{QueueLimits, RateLimit, RateWindow};
pub use report::{HandlerReport, JobReport, LogEntry, LogLine, Progress, ReportRequest, Reported};
pub use retention::{Retention, RetentionRule};
pub use retry_policy::{Backoff, RetryPolicy};
pub use schedule::{Missed, Overlap, Schedule};
pub use schedule_record::{
    DueSchedules, ScheduleFilter, SchedulePut, ScheduleRecord, ScheduleStep, SchedulesPut,
};
pub use schedule_store::{OnSchedules, ScheduleStore};
pub use settings::Settings;
pub use settings_change::SettingsChange;
pub use settle::{Completion, Disposition, Exception, JobSet, SettleReply, SettleRequest, Settled};
pub use share::{QueueNeed, Share, ShareRequest};
pub use starts::Starts;
pub use state::JobState;
pub use store::{
    Capabilities, Coming, Ended, Ends, EnqueuedOnce, EnqueuedUnique, Heartbeat, JobStore, Leader,
    MaintainReport, MigrationReport, OnRequest, Promoted, RescueReport, Store, Wake, Wakeup,
};
pub use store_url::{StoreKind, redact_url, sqlite_file};
pub use timing::Timing;
pub use timing_request::{Timed, TimingRequest, Timings};
pub use timing_store::TimingStore;
pub use trace_context::TraceContext;
pub use unique::{Conflict, OnConflict, Unique, UniqueScope, UniqueUntil};
pub use unique_batch::UniqueBatch;
pub use unique_key::UniqueKey;
pub use worker::{Registration, WorkerSpec};
