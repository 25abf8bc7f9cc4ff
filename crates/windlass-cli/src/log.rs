//! The log of the process, on stderr.

use crate::failure::{Failure, Outcome};
use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs that collect it: one JSON object a line.
    Json,
}

/// Begins to log what the filter lets through.
pub(crate) fn begin(filter: &str, format: LogFormat) -> Outcome {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        let message = format!("invalid log filter {filter:?}: {error}; try info or windlass=debug");
        Failure::usage("invalid_option", message)
    })?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(has_colours())
        // A line that cannot be written, as on a full disk, is lost: to say so there as well would be a panic, in the middle of the engine's work.
        .log_internal_errors(false);
    // A process that this command line is a part of may have its own.
    let _ = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    Ok(())
}

/// Whether a person reads it, and did not ask for none: see https://no-color.org.
fn has_colours() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|said| said.is_empty())
}
