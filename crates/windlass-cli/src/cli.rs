use crate::{commands, failure::Outcome, text::json_text};
use clap::{Parser, Subcommand};
use serde::Serialize;
use std::io::{self, Write};

/// A durable background-job queue on SQLite or PostgreSQL.
///
/// Exit codes: 0 done, 1 the operation failed, 2 usage or input was wrong, 3 the store cannot be reached
/// or is not migrated.
#[derive(Parser)]
#[command(name = "windlass", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command.
#[derive(clap::Args)]
pub(crate) struct Globals {
    /// Where the jobs are: sqlite:FILE or postgres://user@host/database. Default: sqlite:windlass.db
    #[arg(long, global = true, env = "WINDLASS_STORE", value_name = "URL", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// Prints one JSON document instead of text; errors too, on stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Which log lines to print on stderr: a level, or a filter such as windlass=debug
    #[arg(long, global = true, env = "WINDLASS_LOG", value_name = "FILTER", default_value = "warn")]
    pub(crate) log: String,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Enqueues and works a million jobs, and reports speed and latency
    Demo(commands::demo::Demo),
    /// Creates or upgrades the schema of the store
    Migrate,
    /// Enqueues one job, or many from a file
    Enqueue(commands::enqueue::Enqueue),
    /// Works jobs by running a program for each
    Work(commands::work::Work),
    /// Lists, shows, cancels or retries jobs
    #[command(subcommand)]
    Jobs(commands::jobs::Jobs),
    /// Lists, pauses or resumes queues
    Queues(commands::queues::Queues),
    /// Shows the store, its workers and its queues
    Status,
    /// Measures a store
    ///
    /// Runs in a temporary SQLite file, or in the store named with --store: there in a queue of its own, which
    /// it leaves empty. `windlass bench list` tells the scenarios, `windlass bench run NAME` runs one, and the
    /// other commands measure one thing with the settings that you choose.
    #[command(subcommand)]
    Bench(commands::bench::Bench),
}

impl Globals {
    /// The store's URL: the user's, or a file in the current folder.
    pub(crate) fn url(&self) -> &str {
        self.store.as_deref().unwrap_or("sqlite:windlass.db")
    }

    /// Prints a command's answer: JSON when asked for, else the text.
    pub(crate) fn print<T: Serialize>(&self, answer: &T, text: impl FnOnce() -> String) -> Outcome {
        let mut output = if self.json { json_text(answer) } else { text() };
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(output.as_bytes())?;
        Ok(stdout.flush()?)
    }
}
