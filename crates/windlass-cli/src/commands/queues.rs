use crate::{failure::Outcome, globals::Globals, open, table::table, text::escape};
use indicatif::HumanCount;
use serde_json::json;
use windlass::QueueStats;

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
        }
        client.close().await;
        Ok(())
    }
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
    let row = |queue: &QueueStats| {
        let counts = [
            queue.available,
            queue.running,
            queue.scheduled,
            queue.retryable,
            queue.completed,
            queue.cancelled,
            queue.discarded,
        ];
        let state = if queue.paused { "paused" } else { "open" };
        let head = [escape(&queue.name), state.to_owned()];
        head.into_iter().chain(counts.map(|count| HumanCount(count).to_string())).collect::<Vec<_>>()
    };
    let headers = [
        "QUEUE",
        "STATE",
        ">AVAILABLE",
        ">RUNNING",
        ">SCHEDULED",
        ">RETRYABLE",
        ">COMPLETED",
        ">CANCELLED",
        ">DISCARDED",
    ];
    table(&headers, &queues.iter().map(row).collect::<Vec<_>>())
}
