//! The `windlass-bench` command, as a library of one function: measurements of a store, each through the same
//! client and worker that programs use.

mod cases;
mod child_process;
mod clean_up;
mod cli;
mod delays;
mod finding;
mod jobs;
mod list;
mod load;
mod measure;
mod meter;
mod mix;
mod options;
mod ping;
mod processes;
mod race;
mod reduction;
mod report;
mod run;
mod scenario;
mod scenarios;
mod size;
mod store;
mod timer;
mod worked;
mod worker_settings;
mod workers;

use std::process::ExitCode;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    windlass_cli::program::main::<cli::Cli>(std::env::args_os()).into()
}
