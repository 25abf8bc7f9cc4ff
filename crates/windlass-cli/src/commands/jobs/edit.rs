use super::{
    filter::WithArgs,
    select::{Select, Verb},
};
use crate::{commands::enqueue::args as read_args, duration, failure::Outcome, globals::Globals, time};
use jiff::Timestamp;
use std::time::Duration;
use windlass::{Client, JobEdit};

/// Which jobs, and what to change.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["delay", "at", "now", "priority", "max_attempts", "to_queue", "args"])))]
pub(crate) struct Edit {
    #[command(flatten)]
    select: Select<WithArgs>,
    /// Available after this long: 250ms, 5m, 1h30m, 2d
    #[arg(long = "in", value_name = "DELAY", value_parser = duration::parse, conflicts_with_all = ["at", "now"])]
    delay: Option<Duration>,
    /// Available at this time: 2031-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time::parse, conflicts_with = "now")]
    at: Option<Timestamp>,
    /// Available at once
    #[arg(long)]
    now: bool,
    /// The new priority; lower runs first
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i16>,
    /// How often the job is tried at most, the attempts it has used included
    #[arg(long)]
    max_attempts: Option<u16>,
    /// Moves the job to this queue; created on first use
    #[arg(long, value_name = "QUEUE")]
    to_queue: Option<String>,
    /// The new args as JSON
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
}

impl Edit {
    pub(crate) async fn run(self, globals: &Globals, client: &Client) -> Outcome {
        let mut edit = JobEdit::new();
        if let Some(delay) = self.delay {
            edit = edit.with_delay(delay);
        }
        if let Some(at) = self.at {
            edit = edit.with_scheduled_at(at);
        }
        if self.now {
            edit = edit.with_no_delay();
        }
        if let Some(priority) = self.priority {
            edit = edit.with_priority(priority);
        }
        if let Some(max_attempts) = self.max_attempts {
            edit = edit.with_max_attempts(max_attempts);
        }
        if let Some(queue) = self.to_queue {
            edit = edit.with_queue(queue);
        }
        if let Some(args) = &self.args {
            edit = edit.with_args(read_args(args)?);
        }
        self.select.run(globals, client, &Verb::Edit(edit)).await
    }
}
