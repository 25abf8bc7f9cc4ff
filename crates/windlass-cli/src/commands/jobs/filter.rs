use windlass::{Args, ArgsPattern, JobFilter, JobState};

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
    /// Only jobs whose last error contains this text, in any case of A to Z
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

impl Filter {
    pub(super) fn of_queue(queue: String) -> Self {
        Self { queue: Some(queue), ..Self::default() }
    }
}

impl From<Filter> for JobFilter {
    fn from(Filter { state, queue, kind, tag, error }: Filter) -> Self {
        Self { state, queue, kind, tag, error, ..Self::default() }
    }
}

/// What their args have in common.
pub(crate) trait ByArgs: clap::Args {
    fn wanted(self) -> Option<Args>;
}

/// As most commands say it.
#[derive(clap::Args, Default)]
pub(crate) struct HasArgs {
    /// Only jobs whose args contain this JSON object, as in '{"user": 7}'; encrypted ones contain nothing
    #[arg(id = "has_args", long = "args", value_name = "JSON", value_parser = args)]
    wanted: Option<Args>,
}

/// As a command says it of which `--args` are the new ones.
#[derive(clap::Args)]
pub(crate) struct WithArgs {
    /// Only jobs whose args contain this JSON object, as in '{"user": 7}'; encrypted ones contain nothing
    #[arg(id = "has_args", long = "with-args", value_name = "JSON", value_parser = args)]
    wanted: Option<Args>,
}

impl ByArgs for HasArgs {
    fn wanted(self) -> Option<Args> {
        self.wanted
    }
}

impl ByArgs for WithArgs {
    fn wanted(self) -> Option<Args> {
        self.wanted
    }
}

fn state(name: &str) -> Result<JobState, String> {
    name.parse().map_err(|error: windlass::Error| error.to_string())
}

fn args(json: &str) -> Result<Args, String> {
    let args = Args::parse(json).map_err(|error| error.to_string())?;
    ArgsPattern::of(&args).map_err(|error| error.to_string())?;
    Ok(args)
}
