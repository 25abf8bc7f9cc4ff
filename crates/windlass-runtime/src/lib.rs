//! The worker engine of Windlass: claims jobs, runs handlers, settles what became of the jobs.
//!
//! It knows a store only as [`windlass_core::Store`] and a handler only as [`Handler`]. Nouns, one module
//! each:
//!
//! * a *queue runner* is one queue of the worker: its ready jobs, executors and open claims, behind one short lock;
//! * the *claimer* keeps the queue runners supplied with jobs, in batches that adapt to how fast jobs finish;
//! * an *open claim* has jobs that are not settled yet, and knows which of them finished;
//! * the *settler* tells the store what became of them;
//! * an *epoch* is one registration with the store, the fencing token of all that was claimed under it;
//! * the *reporter* tells it what handlers say of their jobs meanwhile, which collects in the *outbox* of their epoch;
//! * a *remote worker* runs elsewhere and asks turn by turn; it shares the rules, and none of the machinery above;
//! * *heartbeat* and *maintenance* keep the epoch and the store alive.
//!
//! # Architecture invariants
//!
//! * The engine never names a database, and a store never runs a handler.
//! * No task and no channel per job: an executor hands in a result and takes the next job in one critical
//!   section. No lock is held across an await.
//! * A job counts as done only when the store accepted its settlement. A result of a lost epoch is
//!   dropped, never settled under another.
//! * The store's clock decides on leases; the engine's monotonic clock only paces calls.
//! * Randomness comes from [`WorkerConfig::random`] alone, so every `select!` is biased: a run under the
//!   simulator is a function of its seed.

#[cfg(all(
    not(debug_assertions),
    any(
        feature = "bug_cheap_starts",
        feature = "bug_deregister_before_flush",
        feature = "bug_drop_batch_on_error",
        feature = "bug_forget_ambiguous_claim",
        feature = "bug_ignore_lease_lost",
        feature = "bug_lost_bell",
        feature = "bug_lost_eviction",
        feature = "bug_lost_hand_in",
        feature = "bug_lost_stop",
        feature = "bug_lost_wakeup",
        feature = "bug_no_second_look",
        feature = "bug_rest_with_unfinished",
        feature = "bug_run_lost_suspect",
        feature = "bug_slot_leak_on_panic",
    )
))]
compile_error!("a bug_* feature is a defect on purpose: it builds for the simulator alone, never optimized");

/// The tests' fake store names this crate as an outsider does.
#[cfg(all(test, feature = "shuttle"))]
extern crate self as windlass_runtime;

mod ahead;
mod allowance;
mod attempt;
mod backoff;
mod batch;
mod batch_run;
mod batch_stop;
mod batching;
mod cancellation;
mod caught;
mod claimer;
mod conclusion;
mod config;
mod context;
mod core;
mod dispatch;
mod disposition;
mod ending;
mod engine;
mod epoch;
mod estimate;
mod executor;
mod expiry;
mod gathering;
mod heartbeat;
mod hint_budget;
mod idle;
#[cfg(all(test, feature = "shuttle"))]
mod interleavings;
mod job_reporter;
mod job_switch;
mod last_handler;
pub mod lend;
mod load;
#[cfg(test)]
mod made_up;
mod maintenance;
mod measuring;
mod meter;
mod open_claim;
mod open_claims;
mod outage;
mod outbox;
mod overfull;
mod overtaking;
mod per_job;
mod permissions;
mod popped;
mod queue_runner;
mod queue_state;
mod ready;
mod ready_claim;
mod refused;
pub mod remote;
mod reporter;
mod round;
mod schedule_steps;
mod schedules;
mod settler;
mod sharer;
mod shares;
mod shutdown;
mod signals;
mod stats;
#[cfg(feature = "testing")]
mod stepped;
mod suspect;
mod sync;
mod time_limit;
mod turn;
mod unattended;
mod unknown_kinds;

pub use batching::Batching;
pub use caught::caught;
pub use config::{QueueConfig, Settling, WorkerConfig};
pub use context::{CheckpointSeal, Context};
pub use dispatch::{BatchFuture, BatchHandler, Dispatch, Handler, HandlerFuture};
pub use engine::{EngineHandle, WorkerEngine};
pub use stats::WorkerStats;
#[cfg(feature = "testing")]
pub use stepped::{SteppedWorker, Worked};
