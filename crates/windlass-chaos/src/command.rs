use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};
use windlass_chaos::{
    actor,
    bug::Bug,
    checker::{self, Report, Rules, Verdict},
    history::History,
    node,
    scenario::{self, Ended, Scenario, Store, Trial},
};

/// Proves that Windlass loses nothing: injects faults from a seed and checks what everybody saw.
#[derive(Parser)]
#[command(name = "windlass-chaos", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the scenarios.
    List,
    /// Runs one scenario.
    Run {
        /// Its name; `windlass-chaos list` shows them.
        scenario: String,
        /// Where the faults' choices come from; by default the clock.
        #[arg(long)]
        seed: Option<u64>,
        /// `postgres` or `sqlite`.
        #[arg(long, default_value = "postgres")]
        store: String,
        /// The full length instead of a short slice.
        #[arg(long)]
        full: bool,
        /// Plants this bug, to see it caught.
        #[arg(long)]
        bug: Option<String>,
        /// Keeps the histories here; otherwise they are kept only when the verdict is not valid.
        #[arg(long)]
        keep: Option<PathBuf>,
        /// Prints the report as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Checks the histories of a folder.
    Check {
        /// The folder with `*.history` files and `rules.json`.
        folder: PathBuf,
    },
    /// Tells the whole history of one job.
    Tell {
        /// The folder with `*.history` files.
        folder: PathBuf,
        /// The job, by the store's id.
        job: i64,
    },
    /// A producer or worker of a run.
    #[command(hide = true)]
    Actor {
        /// What it is told, as JSON.
        order: String,
    },
}

impl Cli {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::List => {
                for scenario in scenario::ALL {
                    println!("{:<16} {}", scenario.name, scenario.about);
                }
                Ok(ExitCode::SUCCESS)
            }
            Command::Run { scenario, seed, store, full, bug, keep, json } => {
                let chosen = scenario::named(&scenario)
                    .with_context(|| format!("no scenario {scenario:?}; `windlass-chaos list` shows them"))?;
                let store = match store.as_str() {
                    "postgres" => Store::Postgres,
                    "sqlite" => Store::Sqlite,
                    other => bail!("no store {other:?}; use postgres or sqlite"),
                };
                let bug = match bug {
                    Some(name) => Some(Bug::of(&name).with_context(|| format!("no bug {name:?}"))?),
                    None => None,
                };
                let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
                let folder = keep.unwrap_or_else(|| {
                    std::env::temp_dir().join(format!("windlass-chaos-{scenario}-{seed}"))
                });
                run_one(chosen, &Trial { seed, full, store, bug, folder }, json)
            }
            Command::Check { folder } => {
                let rules = std::fs::read(folder.join("rules.json")).ok();
                let rules: Rules =
                    rules.map(|json| serde_json::from_slice(&json)).transpose()?.unwrap_or_default();
                let history = History::read(&folder)?;
                let report = checker::check(&history, &rules);
                print(&report, Some(&history));
                Ok(code(report.verdict))
            }
            Command::Tell { folder, job } => {
                print!("{}", checker::tell(&History::read(&folder)?, job));
                Ok(ExitCode::SUCCESS)
            }
            Command::Actor { order } => {
                node::process::die_with_parent()?;
                tracing_subscriber::fmt()
                    .with_writer(std::io::stderr)
                    .with_ansi(false)
                    .with_max_level(tracing::Level::INFO)
                    .init();
                actor::run(serde_json::from_str(&order)?)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn run_one(scenario: &Scenario, trial: &Trial, json: bool) -> Result<ExitCode> {
    match (scenario.run)(trial)? {
        Ended::Skipped(why) => {
            println!("skipped: {why}");
            Ok(ExitCode::SUCCESS)
        }
        Ended::Ran(report, notes) => {
            if json {
                println!("{}", serde_json::to_string_pretty(&report)?);
            } else {
                let history =
                    (report.verdict != Verdict::Valid).then(|| History::read(&trial.folder)).transpose()?;
                print(&report, history.as_ref());
                for note in notes {
                    println!("{note}");
                }
            }
            Ok(code(report.verdict))
        }
    }
}

fn print(report: &Report, history: Option<&History>) {
    println!("{:?}: {}", report.verdict, serde_json::to_string(&report.counts).unwrap_or_default());
    for violation in &report.violations {
        println!(
            "{} ({}): job {:?}: {}",
            violation.invariant,
            violation.invariant.about(),
            violation.job,
            violation.text
        );
    }
    for (invariant, count) in &report.violated {
        println!("{invariant}: {count} violations");
    }
    for text in report.failures.iter().chain(&report.unknowns) {
        println!("{text}");
    }
    if let (Some(history), Some(job)) =
        (history, report.violations.iter().find_map(|violation| violation.job))
    {
        println!("the history of job {job}:\n{}", checker::tell(history, job));
    }
}

fn code(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Valid => ExitCode::SUCCESS,
        Verdict::Invalid | Verdict::Unknown => ExitCode::FAILURE,
    }
}
