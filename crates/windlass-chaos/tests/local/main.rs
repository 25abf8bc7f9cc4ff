//! What needs no server. One binary for all: each would link everything anew.
mod checker;
mod checker_events;
mod checker_schedules;
mod permuter_sqlite;
