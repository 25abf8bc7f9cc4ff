//! The embedded SQLite store of Windlass: one file, one machine, any number of processes.
//!
//! # Layout
//!
//! Jobs are appended to one log, `job`, clustered by lane (a queue at a priority) and then by a sequence.
//! SQLite has one writer at a time, so sequence order is commit order, and a lane's progress is one number:
//! the position up to which it was handed out. A claim is one small row that names a stretch of a lane; a
//! whole claim that completed changes that row and nothing else. Everything else that can happen to a job
//! takes its row out of the log: into `waiting` (scheduled, retryable, without a handler), into `dead` (cancelled,
//! discarded), or to the log's end (handed back, rescued) under the same id.
//!
//! The PostgreSQL store keeps a ring of segments that are truncated, because there deleting leaves dead
//! tuples, and what becomes of a job must be written beside the log. SQLite deletes in place, so this store
//! has no segments: a finished claim past its retention is a contiguous range of the log and is removed by
//! one range delete. There is nothing to rotate or to re-home, no unfinished job pins anything, and "is the
//! row still there" answers most questions about it.
//!
//! # Invariants
//!
//! * Every write goes through one thread per store, in `BEGIN IMMEDIATE` transactions; the commit of a
//!   group is one fsync. No transaction is open while user code runs.
//! * Jobs after a lane's cursor are available. Up to it each is covered by exactly one claim; it completed
//!   if that claim has no open jobs or a settlement names it, and is running otherwise.
//! * A claim's `open` counts its jobs that are not settled; it changes in the transaction that settles them.
//! * Whatever a worker writes is refused once its `worker` row has ended.
//! * No connection is open while the process [forks].
//! * The numbers of lanes and queues are good for one transaction: `names` forgets them when some were removed.
//! * Of each number that a job was appended under the lane is known: `number_lanes` notes where another one begins.
//! * Counts per lane change in the transaction that moves the jobs, so no list needs counting.
//!
//! [forks]: fork

mod audit;
mod audit_store;
mod cancel_request;
mod claim;
mod claim_range;
mod claim_reply;
mod claim_rows;
mod clock;
mod command;
mod completion;
mod connect;
mod control;
#[cfg(test)]
mod cost;
mod deploys;
mod division;
mod edit;
mod ends;
mod enqueue;
mod error;
mod events;
#[cfg(test)]
mod failures;
mod fold;
mod forget_events;
mod forget_numbers;
pub mod fork;
mod give_back;
mod happened;
mod history;
mod identity;
mod idle_lanes;
mod idle_queues;
mod key_candidates;
mod key_changes;
mod key_claim;
#[cfg(test)]
mod key_cost;
mod key_entry;
mod key_holds;
mod key_limits;
mod key_move;
mod key_rates;
mod key_turns;
mod key_upkeep;
mod keyed;
mod lanes;
mod leader;
mod lease;
mod limits;
mod list;
mod locate;
mod maintain;
mod migrate;
mod moved;
mod moves;
mod names;
mod no_handler;
mod number_lanes;
mod older;
mod once;
mod options;
mod places;
mod position;
mod promote;
mod reader;
mod record;
mod replace;
mod report;
mod retention;
mod room;
mod rotation;
mod schedule_store;
mod schedules;
mod settings;
mod settle;
mod settlement;
mod slots;
mod starts;
mod stats;
mod store;
mod threads;
mod timing_store;
mod timings;
#[cfg(test)]
mod traced;
mod turns;
mod tx;
mod unique;
#[cfg(test)]
mod upkeep_cost;
mod wakeup;
mod wal;
mod workers;
mod writer;

pub use clock::Clock;
pub use options::{SqliteOptions, Synchronous};
pub use store::SqliteStore;
