use anyhow::{Context as _, bail};
use std::{env, str::FromStr, time::Duration};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Enqueue,
    Drain,
    Work,
    Latency,
    Mixed,
}

impl Command {
    pub fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Drain => "drain",
            Self::Work => "work",
            Self::Latency => "latency",
            Self::Mixed => "mixed",
        }
    }
}

impl FromStr for Command {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let all = [Self::Enqueue, Self::Drain, Self::Work, Self::Latency, Self::Mixed];
        let found = all.into_iter().find(|command| command.name() == name);
        found.with_context(|| {
            format!("unknown scenario {name:?}: give enqueue, drain, work, latency or mixed")
        })
    }
}

/// The scenario as the environment gives it.
#[derive(Clone, Debug)]
pub struct Settings {
    pub command: Command,
    /// The empty database of this run.
    pub url: String,
    pub jobs: u64,
    pub clients: usize,
    /// Jobs per call; one is the system's call for a single job.
    pub batch: u64,
    pub processes: usize,
    /// The best documented settings instead of the defaults.
    pub tuned: bool,
    /// How long each handler of `work` sleeps; zero in the other scenarios.
    pub sleep: Duration,
    /// How many handlers of `work` run at once.
    pub concurrency: usize,
    pub samples: u64,
    pub gap: Duration,
    /// How long `mixed` lasts.
    pub span: Duration,
    /// The most unfinished jobs of `mixed`.
    pub backlog: u64,
}

impl Settings {
    /// # Errors
    ///
    /// When a variable is missing, no number, or zero where something has to be done.
    pub fn from_env(command: Command) -> anyhow::Result<Self> {
        let sleep = if command == Command::Work { number("BENCH_SLEEP_MS", 10)? } else { 0 };
        let settings = Self {
            command,
            url: env::var("BENCH_URL").context("BENCH_URL is not set: give the URL of an empty database")?,
            jobs: number("BENCH_JOBS", 20_000)?,
            clients: number("BENCH_CLIENTS", 1)?,
            batch: number("BENCH_BATCH", if command == Command::Enqueue { 1 } else { 10_000 })?,
            processes: number("BENCH_PROCESSES", 1)?,
            // The caller says for a drain alone whether it wants the defaults.
            tuned: command != Command::Drain || number("BENCH_TUNED", 1)? != 0,
            sleep: Duration::from_millis(sleep),
            concurrency: number("BENCH_CONCURRENCY", 100)?,
            samples: number("BENCH_SAMPLES", 1_000)?,
            gap: Duration::from_millis(number("BENCH_GAP_MS", 5)?),
            span: Duration::from_secs(number("BENCH_SECONDS", 30)?),
            backlog: number("BENCH_BACKLOG", 20_000)?,
        };
        if settings.jobs == 0 || settings.batch == 0 || settings.clients == 0 || settings.samples == 0 {
            bail!("BENCH_JOBS, BENCH_BATCH, BENCH_CLIENTS and BENCH_SAMPLES must be at least 1");
        }
        if settings.processes == 0 || settings.concurrency == 0 || settings.backlog == 0 {
            bail!("BENCH_PROCESSES, BENCH_CONCURRENCY and BENCH_BACKLOG must be at least 1");
        }
        Ok(settings)
    }
}

fn number<T: FromStr>(name: &str, default: T) -> anyhow::Result<T> {
    match env::var(name) {
        Ok(text) => text.parse().ok().with_context(|| format!("{name} is {text:?}: give a whole number")),
        Err(_) => Ok(default),
    }
}
