//! The `windlass` command, as a library of one function: what `main` runs.

mod cli;
mod commands;
mod failure;
mod measure;
mod open;
mod progress;
mod span;
mod table;
mod text;
mod trial;

use clap::{Parser, error::ErrorKind};
use cli::{Cli, Command};
use failure::{Failure, Outcome};
use std::{io::Write, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let json = cli.globals.json;
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// Help and version go to stdout; everything else is a usage error, as JSON when JSON was asked for.
fn refuse(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A reader that went away is no failure.
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

fn start(cli: Cli) -> Outcome {
    let filter = EnvFilter::try_new(&cli.globals.log).map_err(|error| {
        Failure::usage(
            "invalid_option",
            format!("invalid log filter {:?}: {error}; try info or windlass=debug", cli.globals.log),
        )
    })?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(cli))
}

async fn run(cli: Cli) -> Outcome {
    let globals = &cli.globals;
    match cli.command {
        Command::Demo(demo) => demo.run(globals).await,
        Command::Migrate => commands::migrate::run(globals).await,
        Command::Enqueue(enqueue) => enqueue.run(globals).await,
        Command::Work(work) => work.run(globals).await,
        Command::Jobs(jobs) => jobs.run(globals).await,
        Command::Queues(queues) => queues.run(globals).await,
        Command::Status => commands::status::run(globals).await,
        Command::Bench(bench) => bench.run(globals).await,
    }
}

/// Reads an input of `enqueue --many`; see there.
#[doc(hidden)]
pub async fn read_many<F>(input: &mut dyn std::io::BufRead, store: &F) -> Result<u64, (Option<u64>, String)>
where
    F: AsyncFn(Vec<windlass::NewJob>, u64) -> windlass::Result<windlass::EnqueuedOnce>,
{
    commands::enqueue::read_many(input, store).await
}
