//! The `windlass` program as its users meet it, on SQLite.

mod bench;
mod demo;
mod enqueue;
mod jobs;
mod queues;
mod refusals;
mod windlass;
mod work;
mod work_signals;
