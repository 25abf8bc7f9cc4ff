//! What needs no server. One binary for all: each would link everything anew.
mod checker;
mod checker_events;
mod checker_keys;
mod checker_schedules;
mod checker_unique;
mod checker_waits;
mod permuter_sqlite;
mod told;
