//! What the main functions of `windlass` and `windlass-bench` do.

use crate::{
    failure::{Failure, Outcome},
    globals::Globals,
    log,
};
use clap::{Arg, Command, Parser, error::ErrorKind};
use std::{
    env,
    ffi::{OsStr, OsString},
    io::Write,
};
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};

/// Where the store's URL may be.
const STORE: &str = "WINDLASS_STORE";

/// A command line that can be run.
pub trait Program: Parser {
    /// The options of every command.
    fn globals(&self) -> &Globals;

    /// Runs the command.
    fn run(self) -> impl Future<Output = Outcome>;
}

/// Runs a command line, the program's name first, reports how it failed, and gives the exit code.
pub fn main<P: Program>(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<_> = args.into_iter().collect();
    let mut command = without_empty(P::command());
    let parsed = command.try_get_matches_from_mut(&args).and_then(|matches| P::from_arg_matches(&matches));
    let program = match parsed {
        Ok(program) => program,
        Err(error) => return refuse(&error.format(&mut command), &args),
    };
    let json = program.globals().json;
    match start(program) {
        Ok(()) => 0,
        Err(failure) => failure.report(json),
    }
}

/// An empty variable is as none: so docker compose and systemd hand on what nobody set. But not that of the store, or jobs would go into a file of
/// this folder.
fn without_empty(command: Command) -> Command {
    let is_empty = |name: &OsStr| name != STORE && env::var_os(name).is_some_and(|said| said.is_empty());
    let unset = |arg: Arg| if arg.get_env().is_some_and(is_empty) { arg.env(None::<&str>) } else { arg };
    command.mut_args(unset).mut_subcommands(without_empty)
}

/// Help and version go to stdout; everything else is a usage error, as JSON when JSON was asked for.
fn refuse(error: &clap::Error, args: &[OsString]) -> u8 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // It is no failure when the reader of stdout has gone.
        let _ = write!(std::io::stdout().lock(), "{}", error.render());
        return 0;
    }
    if args.iter().any(|arg| arg == "--json") {
        let message = error.render().to_string();
        let message = message.trim().trim_start_matches("error: ");
        return Failure::usage("usage", message).report(true);
    }
    let _ = error.print();
    2
}

fn start<P: Program>(program: P) -> Outcome {
    let globals = program.globals();
    log::begin(&globals.log, globals.log_format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // What reaches `ulimit -f` is told as other faults of a disk are. By itself it ends the process, with all that it works at.
        #[cfg(unix)]
        let _handled = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        program.run().await
    })
}
