//! The log of the process, on stderr.

use crate::failure::{Failure, Outcome};
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
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A process that this command line is a part of may have its own.
    let _ = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    Ok(())
}
