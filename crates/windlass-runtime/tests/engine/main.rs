//! The engine on a store in memory that tells what it was asked and fails on request, and once on SQLite.
//! One binary for all: each would link everything anew.

#[path = "../fake/mod.rs"]
mod fake;

mod ahead;
mod batches;
mod batches_ended;
mod batches_limited;
mod cancels;
mod contract;
mod costs;
mod demand;
mod drains;
mod epochs;
mod expiry;
mod key_rates;
mod lent;
mod lent_absence;
mod lent_batches;
mod lent_stops;
mod lent_untaken;
mod limits;
mod many_workers;
mod outages;
mod outcomes;
mod panics;
mod pauses;
mod programs;
mod remote;
mod reports;
mod scheduled;
mod schedules;
mod settlement;
mod shutdown;
mod sqlite;
mod suspects;
mod timeouts;
mod timings;
