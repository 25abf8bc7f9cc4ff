mod keys;
mod limits;
mod listed;

use super::jobs::{Select, Verb};
pub(crate) use listed::{Listed, text};

use crate::{failure::Outcome, globals::Globals, open, text::escape};
use keys::{LimitKeys, UnlimitKeys};
use limits::Limit;
use serde_json::json;
use windlass::{Client, Error, ErrorKind, QueueLimits};

/// The options of `queues`.
#[derive(clap::Args)]
pub(crate) struct Queues {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Lists every queue with its counts (what `queues` alone does)
    List,
    /// Stops claiming from a queue; running jobs go on
    Pause {
        /// The queue's name
        queue: String,
    },
    /// Allows claiming from a queue again
    Resume {
        /// The queue's name
        queue: String,
    },
    /// Limits how many jobs of a queue run, over all workers; what is not named is not limited
    Limit(Limit),
    /// Takes the limits of a queue away
    Unlimit {
        /// The queue's name
        queue: String,
    },
    /// Limits the jobs of each key of a queue, over all workers, and divides the queue between its keys
    LimitKeys(LimitKeys),
    /// Takes the limits of a queue's keys away
    UnlimitKeys(UnlimitKeys),
    /// Shows the limits of a queue's keys
    Keys {
        /// The queue's name
        queue: String,
    },
    /// Deletes every job of a queue that does not run and has not completed
    Purge {
        /// The queue's name
        queue: String,
        /// Change nothing, only count
        #[arg(long)]
        dry_run: bool,
    },
}

impl Queues {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let client = open::existing(globals.url()).await?;
        match self.action.unwrap_or(Action::List) {
            Action::List => {
                let queues = Listed::of(&client, client.queues().await?).await?;
                globals.print(&queues, || text(&queues))?;
            }
            Action::Pause { queue } => {
                globals.did(&client, "queues.pause", &queue, client.pause(&queue).await).await?;
                say(globals, &queue, true)?;
            }
            Action::Resume { queue } => {
                globals.did(&client, "queues.resume", &queue, client.resume(&queue).await).await?;
                say(globals, &queue, false)?;
            }
            Action::Limit(limit) => limit.run(globals, &client).await?,
            Action::Unlimit { queue } => {
                limits::set(globals, &client, &queue, QueueLimits::default()).await?;
            }
            Action::LimitKeys(limit) => limit.run(globals, &client).await?,
            Action::UnlimitKeys(unlimit) => unlimit.run(globals, &client).await?,
            Action::Keys { queue } => {
                let limits = client.key_limits(&queue).await?;
                if limits.is_none() {
                    known(&client, &queue).await?;
                }
                keys::show(globals, &queue, limits.as_ref())?;
            }
            Action::Purge { queue, dry_run } => {
                known(&client, &queue).await?;
                Select::of_queue(queue, dry_run).run(globals, &client, &Verb::Delete).await?;
            }
        }
        client.close().await;
        Ok(())
    }
}

/// So that a name that is misspelt does not look like a queue without jobs.
async fn known(client: &Client, queue: &str) -> Outcome {
    if client.queues().await?.iter().any(|known| known.name == queue) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotFound, format!("queue {queue:?} does not exist")).into())
}

fn say(globals: &Globals, queue: &str, paused: bool) -> Outcome {
    let done = if paused { "paused" } else { "resumed" };
    globals.print(&json!({ "queue": queue, "paused": paused }), || format!("{done} queue {}", escape(queue)))
}
