mod keys;
mod limits;
mod listed;

use super::jobs::{Select, Verb};
pub(crate) use listed::{Listed, counted, text, waited};

use crate::{failure::Outcome, globals::Globals, open, text::escape};
use keys::{Keys, LimitKeys, UnlimitKeys};
use limits::Limit;
use serde_json::json;
use windlass::{Client, Error, ErrorKind, QueueFilter, QueueLimits};

/// The options of `queues`.
#[derive(clap::Args)]
pub(crate) struct Queues {
    #[command(subcommand)]
    action: Option<Action>,
}

/// Which queues are listed.
#[derive(clap::Args, Default)]
struct List {
    /// Only those with this in their name
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only those behind this name: the last one of the page before
    #[arg(long, value_name = "NAME")]
    after: Option<String>,
    /// The most that are listed; those that are not are not counted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl List {
    async fn run(self, globals: &Globals, client: &Client) -> Outcome {
        // One more, which says whether there are more.
        let most = self.limit.map_or(usize::MAX, |limit| limit as usize);
        let limit = self.limit.map(|limit| limit.saturating_add(1));
        let filter = QueueFilter { name: None, search: self.search, after: self.after, limit };
        let mut queues = client.queues_by(&filter).await?;
        let is_more = queues.len() > most;
        queues.truncate(most);
        let last = queues.last().filter(|_| is_more).map(|last| escape(&last.name));
        let queues = Listed::of(client, queues).await?;
        let more = last.map(|last| format!("\nthere are more; continue with --after {last}\n"));
        globals.print(&queues, || text(&queues) + &more.unwrap_or_default())
    }
}

#[derive(clap::Subcommand)]
enum Action {
    /// Lists queues with their counts, by name (`queues` alone lists all)
    List(List),
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
    /// Shows the limits of a queue's keys: what holds for each, and the keys with limits of their own, by name
    Keys(Keys),
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
        match self.action.unwrap_or_else(|| Action::List(List::default())) {
            Action::List(list) => list.run(globals, &client).await?,
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
            Action::Keys(keys) => keys.run(globals, &client).await?,
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
    if client.queue(queue).await?.is_some() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotFound, format!("queue {queue:?} does not exist")).into())
}

fn say(globals: &Globals, queue: &str, paused: bool) -> Outcome {
    let done = if paused { "paused" } else { "resumed" };
    globals.print(&json!({ "queue": queue, "paused": paused }), || format!("{done} queue {}", escape(queue)))
}
