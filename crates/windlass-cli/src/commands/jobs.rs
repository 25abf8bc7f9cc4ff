mod change;
mod list;
mod show;

use crate::{failure::Outcome, globals::Globals, open};
use windlass::JobId;

/// The most ids that one call names.
const MAX_IDS: usize = 10_000;

/// What to do with jobs.
#[derive(clap::Subcommand)]
pub(crate) enum Jobs {
    /// Lists jobs, state by state and queue by queue
    List(list::List),
    /// Shows one job with its args and errors
    Show {
        /// The job's id
        id: i64,
    },
    /// Cancels jobs that no worker holds
    Cancel(Ids),
    /// Makes dead, cancelled or retryable jobs available now
    Retry(Ids),
}

/// Some jobs.
#[derive(clap::Args)]
pub(crate) struct Ids {
    /// The jobs' ids
    #[arg(required = true, num_args = 1..=MAX_IDS)]
    ids: Vec<i64>,
}

impl Jobs {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let client = open::existing(globals.url()).await?;
        let outcome = match self {
            Self::List(list) => list.run(globals, &client).await,
            Self::Show { id } => show::run(globals, &client, JobId(id)).await,
            Self::Cancel(ids) => change::cancel(globals, &client, &ids.jobs()).await,
            Self::Retry(ids) => change::retry(globals, &client, &ids.jobs()).await,
        };
        client.close().await;
        outcome
    }
}

impl Ids {
    fn jobs(&self) -> Vec<JobId> {
        self.ids.iter().copied().map(JobId).collect()
    }
}
