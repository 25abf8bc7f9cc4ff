//! What other languages stand on: their bindings, and the stdio protocol of `windlass work --stdio`.
//!
//! Plain data in and out; nothing that is lent has a lifetime, and no caller needs an async runtime.
//!
//! * a [`Desk`] is where one event loop, thread or child process takes jobs and hands in what became of them;
//! * a [`CollectingDesk`] is one of a thread that runs one job after the other: it hands short ones in together;
//! * [`job_line`] and [`Said`] are the two halves of the stdio protocol, as text (docs/protocols/stdio.md);
//! * [`Engine`] is the tokio runtime of a process that has none, and knows when it was forked;
//! * [`fork`] is what a process calls around its forks;
//! * [`Client`] and [`Worker`] are those of `windlass`, for callers that block or are called back;
//! * [`JobSpec`], [`EditSpec`], [`ScheduleSpec`], [`event_json`] and [`schedule_json`] are what is enqueued, changed, declared and listed, as the JSON that bindings, the CLI and the HTTP API share.
//!
//! # Architecture invariants
//!
//! * Nothing here calls into foreign code but a bell and a callback, both outside every lock.
//! * No rule of the queue lives here: what happens to a job is the engine's.

mod call;
mod calls;
mod client;
mod closing;
mod collecting;
mod desk;
mod edit_spec;
mod engine;
mod failure;
pub mod fork;
mod job_spec;
mod line;
mod moved_clock;
mod place;
mod retry_policy;
mod said;
mod schedule_spec;
mod worker;
mod worker_spec;

pub use call::Call;
pub use calls::{ScheduleJson, SchedulesJson, check_jobs, event_json, schedule_json, schedules_json};
pub use client::Client;
pub use collecting::CollectingDesk;
pub use desk::{Desk, Exchange, Told};
pub use edit_spec::EditSpec;
pub use engine::Engine;
pub use failure::Failure;
pub use job_spec::JobSpec;
pub use line::{cancel_line, checkpoint_line, drop_line, job_line};
pub use place::in_words;
pub use said::{About, Answer, Malformed, Said, Say, delay_of};
pub use schedule_spec::ScheduleSpec;
pub use worker::Worker;
pub use worker_spec::{AnyKind, BatchSpec, KindRules, WorkerSpec};
