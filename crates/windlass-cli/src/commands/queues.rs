mod limits;

use super::jobs::{Select, Verb};
use crate::{failure::Outcome, globals::Globals, open, table::table, text::escape};
use indicatif::HumanCount;
use jiff::Timestamp;
use limits::Limit;
use serde_json::json;
use windlass::{Client, Error, ErrorKind, JobState, QueueLimits, QueueStats};

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
                let queues = client.queues().await?;
                globals.print(&queues, || text(&queues))?;
            }
            Action::Pause { queue } => {
                client.pause(&queue).await?;
                say(globals, &queue, true)?;
            }
            Action::Resume { queue } => {
                client.resume(&queue).await?;
                say(globals, &queue, false)?;
            }
            Action::Limit(limit) => limit.run(globals, &client).await?,
            Action::Unlimit { queue } => {
                limits::set(globals, &client, &queue, QueueLimits::default()).await?;
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

/// The queues as a table.
pub(crate) fn text(queues: &[QueueStats]) -> String {
    if queues.is_empty() {
        return "no queues\n".to_owned();
    }
    let now = Timestamp::now();
    let any_limits = queues.iter().any(|queue| !queue.limits.is_none());
    let row = |queue: &QueueStats| {
        let counts = [
            (JobState::Available, queue.available),
            (JobState::Running, queue.running),
            (JobState::Scheduled, queue.scheduled),
            (JobState::Retryable, queue.retryable),
            (JobState::Completed, queue.completed),
            (JobState::Cancelled, queue.cancelled),
            (JobState::Discarded, queue.discarded),
        ];
        let count = |(state, count)| match queue.estimates.contains(&state) {
            true => format!("≈{}", HumanCount(rounded(count))),
            false => HumanCount(count).to_string(),
        };
        let state = if queue.paused { "paused" } else { "open" };
        let head = [escape(&queue.name), state.to_owned()];
        let waits = queue.oldest_available_at.map_or_else(|| "-".to_owned(), |since| waited(now, since));
        let limits = any_limits.then(|| limits::text(&queue.limits));
        head.into_iter().chain(limits).chain(counts.map(count)).chain([waits]).collect::<Vec<_>>()
    };
    let counts = [
        ">AVAILABLE",
        ">RUNNING",
        ">SCHEDULED",
        ">RETRYABLE",
        ">COMPLETED",
        ">CANCELLED",
        ">DISCARDED",
        ">WAITS",
    ];
    let head = ["QUEUE", "STATE"].into_iter().chain(any_limits.then_some("LIMITS"));
    let headers: Vec<_> = head.chain(counts).collect();
    table(&headers, &queues.iter().map(row).collect::<Vec<_>>())
}

/// An estimate to two digits: more would look exact.
fn rounded(count: u64) -> u64 {
    let unit = 10u64.pow(count.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (count + unit / 2) / unit * unit
}

/// How long the first job in line has waited, by this machine's clock.
fn waited(now: Timestamp, since: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_have_two_digits() {
        let pairs = [(0, 0), (9, 9), (99, 99), (10_449, 10_000), (10_500, 11_000), (99_999, 100_000)];
        for (count, shown) in pairs {
            assert_eq!(rounded(count), shown);
        }
    }

    #[test]
    fn an_estimate_is_marked() {
        let queue = QueueStats {
            name: "mail".to_owned(),
            available: 1_234_567,
            completed: 7,
            estimates: vec![JobState::Available],
            ..QueueStats::default()
        };
        let shown = text(&[queue]);
        assert!(shown.contains("≈1") && !shown.contains("≈7"), "{shown}");
    }
}
