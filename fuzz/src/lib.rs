//! The bodies of the fuzz targets, one module each. Tests of the crates include the same files and run them
//! on stable; `property` is theirs.

pub mod args;
mod broken;
pub mod checker;
pub mod cron;
pub mod dsn;
pub mod history;
pub mod lines;
pub mod names;
mod queue;
pub mod schedule_file;
