//! What the main functions of `windlass` and `windlass-bench` do.

use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
};
use clap::{Parser, error::ErrorKind};
use std::{io::Write, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// A command line that can be run.
pub trait Program: Parser {
    /// The options of every command.
    fn globals(&self) -> &Globals;

    /// Runs the command.
    fn run(self) -> impl Future<Output = Outcome>;
}

/// Runs the command that this process was started with, and reports how it failed.
pub fn main<P: Program>() -> ExitCode {
    let program = match P::try_parse() {
        Ok(program) => program,
        Err(error) => return refuse(&error),
    };
    let json = program.globals().json;
    match start(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// Help and version go to stdout; everything else is a usage error, as JSON when JSON was asked for.
fn refuse(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // It is no failure when the reader of stdout has gone.
        let _ = write!(std::io::stdout().lock(), "{}", error.render());
        return ExitCode::SUCCESS;
    }
    if std::env::args_os().any(|arg| arg == "--json") {
        let message = error.render().to_string();
        let message = message.trim().trim_start_matches("error: ");
        return Failure::usage("usage", message).report(true);
    }
    let _ = error.print();
    ExitCode::from(2)
}

fn start<P: Program>(program: P) -> Outcome {
    let log = &program.globals().log;
    let filter = EnvFilter::try_new(log).map_err(|error| {
        let message = format!("invalid log filter {log:?}: {error}; try info or windlass=debug");
        Failure::usage("invalid_option", message)
    })?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(program.run())
}
