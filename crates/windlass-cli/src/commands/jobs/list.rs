use crate::{
    cli::Globals,
    failure::Outcome,
    table::table,
    text::{escape, shorten},
};
use windlass::{Client, JobFilter, JobId, JobRecord, JobState};

/// How much of a job's args a list shows.
const ARGS_SHOWN: usize = 60;

/// Which jobs to list.
#[derive(clap::Args)]
pub(crate) struct List {
    /// Only jobs in this state: scheduled, available, running, retryable, completed, cancelled, discarded
    #[arg(long, value_parser = state)]
    state: Option<JobState>,
    /// Only jobs of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only jobs with a smaller id: the last id of the page before
    #[arg(long, value_name = "ID")]
    before: Option<i64>,
    /// The most jobs to list
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(JobFilter::MAX_LIMIT)))]
    limit: u32,
}

fn state(name: &str) -> Result<JobState, String> {
    name.parse().map_err(|error: windlass::Error| error.to_string())
}

impl List {
    pub(crate) async fn run(self, globals: &Globals, client: &Client) -> Outcome {
        let filter = JobFilter {
            state: self.state,
            queue: self.queue,
            kind: self.kind,
            before: self.before.map(JobId),
            limit: self.limit,
        };
        let jobs = client.jobs(&filter).await?;
        globals.print(&jobs, || text(&jobs))
    }
}

fn text(jobs: &[JobRecord]) -> String {
    if jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    let row = |job: &JobRecord| {
        vec![
            job.id.to_string(),
            job.state.to_string(),
            escape(&job.queue),
            job.priority.to_string(),
            escape(&job.kind),
            format!("{}/{}", job.attempt, job.max_attempts),
            job.enqueued_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            shorten(job.args.as_str(), ARGS_SHOWN),
        ]
    };
    let headers = [">ID", "STATE", "QUEUE", ">PRIORITY", "KIND", ">ATTEMPT", "ENQUEUED", "ARGS"];
    table(&headers, &jobs.iter().map(row).collect::<Vec<_>>())
}
