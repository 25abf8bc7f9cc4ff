//! The `windlass` program as its users meet it, on SQLite.

mod alerts;
mod audit;
mod demo;
mod deploy;
mod enqueue;
mod events;
mod examples;
mod figures;
mod home;
mod http_examples;
mod jobs;
mod json_members;
mod keys;
mod log;
mod program;
mod promql;
mod queues;
mod refusals;
mod schedules;
mod serve;
mod stdio;
mod stdio_chaos;
mod stdio_examples;
mod stdio_lines;
mod top;
mod top_terminal;
mod traces;
mod work;
mod work_metrics;
mod work_signals;
mod yaml;

/// What these tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass");
