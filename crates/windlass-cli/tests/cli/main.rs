//! The `windlass` program as its users meet it, on SQLite.

mod audit;
mod demo;
mod enqueue;
mod events;
mod examples;
mod home;
mod http_examples;
mod jobs;
mod program;
mod queues;
mod refusals;
mod schedules;
mod serve;
mod stdio;
mod stdio_chaos;
mod stdio_examples;
mod work;
mod work_signals;

/// What these tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass");
