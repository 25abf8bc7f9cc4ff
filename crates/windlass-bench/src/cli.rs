use crate::{cases::Case, list::List, processes, run::Run, size};
use clap::{Parser, Subcommand};
use windlass_cli::{failure::Outcome, globals::Globals, program::Program};

/// Measures a store.
///
/// Runs in a temporary SQLite file, or in the store named with --store: there in a queue of its own, which
/// it leaves empty. `windlass-bench list` names the scenarios, `windlass-bench run NAME` runs one, and the
/// other commands measure one thing with the settings that you choose.
#[derive(Parser)]
#[command(name = "windlass-bench", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the scenarios: what each measures, and the published figure that it answers
    List(List),
    /// Runs scenarios, each of their points in a process of its own
    Run(Run),
    #[command(flatten)]
    Case(Case),
    /// A worker process of `drain --processes`
    #[command(hide = true)]
    WorkerProcess,
    /// The process of a burden of `size`
    #[command(hide = true)]
    BurdenProcess,
}

impl Program for Cli {
    fn globals(&self) -> &Globals {
        &self.globals
    }

    async fn run(self) -> Outcome {
        let globals = &self.globals;
        match self.command {
            Command::List(list) => list.run(globals),
            Command::Run(run) => run.run(globals).await,
            Command::Case(case) => Box::pin(case.run(globals)).await,
            Command::WorkerProcess => processes::worker::run().await,
            Command::BurdenProcess => size::carrier::run().await,
        }
    }
}
