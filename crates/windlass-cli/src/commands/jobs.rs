mod change;
mod edit;
mod filter;
mod list;
mod reveal;
mod select;
mod show;

use crate::{failure::Outcome, globals::Globals, open};
pub(crate) use select::{Select, Verb};
use windlass::JobId;

/// What to do with jobs.
#[derive(clap::Subcommand)]
pub(crate) enum Jobs {
    /// Lists jobs, state by state and queue by queue. Without their errors: show has them
    List(list::List),
    /// Shows one job with its args, errors, progress and log
    Show {
        /// The job's id
        id: i64,
        /// Opens what is encrypted, with the keys of --keys-file or WINDLASS_KEYS; noted in the audit log
        #[arg(long)]
        reveal: bool,
    },
    /// Cancels jobs; the worker of one that runs is told to stop it
    Cancel(Select),
    /// Makes dead, cancelled or retryable jobs available now
    Retry(Select),
    /// Changes jobs that wait: when they run, where, how often they are tried, their args. Dead and cancelled ones by id or --state
    Edit(edit::Edit),
    /// Removes jobs that wait, are dead or cancelled, without a trace
    Delete(Select),
}

impl Jobs {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let client = globals.with_keys(open::existing(globals.url()).await?)?;
        let outcome = match self {
            Self::List(list) => list.run(globals, &client).await,
            Self::Show { id, reveal: false } => show::run(globals, &client, JobId(id)).await,
            Self::Show { id, reveal: true } => reveal::run(globals, &client, JobId(id)).await,
            Self::Cancel(select) => select.run(globals, &client, &Verb::Cancel).await,
            Self::Retry(select) => select.run(globals, &client, &Verb::Retry).await,
            Self::Edit(edit) => edit.run(globals, &client).await,
            Self::Delete(select) => select.run(globals, &client, &Verb::Delete).await,
        };
        client.close().await;
        outcome
    }
}
