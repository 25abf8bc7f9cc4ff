use windlass::{JobFilter, JobState};

/// What jobs have in common.
#[derive(clap::Args, Default)]
pub(crate) struct Filter {
    /// Only jobs in this state: scheduled, available, running, retryable, completed, cancelled, discarded
    #[arg(long, value_parser = state)]
    state: Option<JobState>,
    /// Only jobs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only jobs with this tag
    #[arg(long)]
    tag: Option<String>,
}

impl Filter {
    pub(super) fn of_queue(queue: String) -> Self {
        Self { queue: Some(queue), ..Self::default() }
    }
}

impl From<Filter> for JobFilter {
    fn from(Filter { state, queue, kind, tag }: Filter) -> Self {
        Self { state, queue, kind, tag, ..Self::default() }
    }
}

fn state(name: &str) -> Result<JobState, String> {
    name.parse().map_err(|error: windlass::Error| error.to_string())
}
