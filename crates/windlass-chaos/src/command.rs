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
    suite::{self, Line},
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
        /// How many seconds the faults go on instead: of scenarios with storms.
        #[arg(long)]
        seconds: Option<u64>,
        /// Plants this bug, to see it caught.
        #[arg(long)]
        bug: Option<String>,
        /// Keeps the histories here; otherwise they are kept only when the verdict is not valid.
        #[arg(long)]
        keep: Option<PathBuf>,
        /// Prints the report as JSON.
        #[arg(long)]
        json: bool,
        /// A worker of another language, as a command of the shell, for scenarios whose fleet is mixed; may be repeated.
        #[arg(long)]
        actor: Vec<String>,
    },
    /// Runs every scenario on every store it is for: the verdict.
    Suite {
        /// The full lengths, hours; otherwise a short slice of each.
        #[arg(long)]
        full: bool,
        /// Where the choices come from; by default the clock.
        #[arg(long)]
        seed: Option<u64>,
        /// Only these scenarios.
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// Each on only one of its stores; the seed says which, so that each has its turn over some runs.
        #[arg(long)]
        one_store: bool,
        /// How many run side by side.
        #[arg(long, default_value_t = 3)]
        side_by_side: usize,
        /// Where the verdict goes as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
        /// A worker of another language, as a command of the shell, for scenarios whose fleet is mixed; may be repeated.
        #[arg(long)]
        actor: Vec<String>,
    },
    /// Puts the checker on trial: runs with each seeded bug, mostly storms, must be found invalid, 95 % of them.
    Bugs {
        /// How many storms with each.
        #[arg(long, default_value_t = 5)]
        tries: u64,
        /// No more storms with a bug that was caught: quick, and no measurement of how often.
        #[arg(long)]
        until_caught: bool,
        /// The first seed; by default the clock.
        #[arg(long)]
        seed: Option<u64>,
        /// Only these bugs.
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// Only one in so many of the bugs; the seed says which, so that each has its turn over some runs.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        one_in: u64,
        /// How many run side by side.
        #[arg(long, default_value_t = 4)]
        side_by_side: usize,
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
            Command::Run { scenario, seed, store, full, seconds, bug, keep, json, actor: actors } => {
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
                let seed = seed.unwrap_or_else(any_seed);
                let folder = keep.unwrap_or_else(|| place_of(&scenario, seed));
                run_one(chosen, &Trial { seed, full, seconds, store, bug, folder, actors }, json)
            }
            Command::Suite { full, seed, only, one_store, side_by_side, json, actor: actors } => {
                let seed = seed.unwrap_or_else(any_seed);
                let mut entries = suite::everything(seed, full, &place(), &actors);
                entries
                    .retain(|entry| only.is_empty() || only.iter().any(|name| name == entry.scenario.name));
                if one_store {
                    suite::in_turn(&mut entries);
                }
                println!("{} trials with seed {seed}, {side_by_side} side by side", entries.len());
                let lines = suite::run(entries, side_by_side, say);
                if let Some(path) = json {
                    std::fs::write(path, serde_json::to_vec_pretty(&lines)?)?;
                }
                let bad: Vec<&Line> = lines.iter().filter(|line| !line.is_fine()).collect();
                println!("{} trials, {} not as promised", lines.len(), bad.len());
                bad.iter().for_each(|line| say_in_short(line));
                Ok(if bad.is_empty() && !lines.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            Command::Bugs { tries, until_caught, seed, only, one_in, side_by_side } => {
                let seed = seed.unwrap_or_else(any_seed);
                println!("storms from seed {seed} on, {side_by_side} side by side");
                let is_wanted = |bug: &Bug| only.is_empty() || only.iter().any(|name| name == bug.name());
                let wanted = Bug::ALL.iter().copied().filter(is_wanted);
                let turn = (0..).zip(wanted).filter(|(n, _)| n % one_in == seed % one_in).map(|(_, bug)| bug);
                Ok(try_bugs(seed..seed + tries, until_caught, turn.collect(), side_by_side))
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
                actor::run(&serde_json::from_str(&order)?)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn try_bugs(
    seeds: std::ops::Range<u64>,
    until_caught: bool,
    mut bugs: Vec<Bug>,
    side_by_side: usize,
) -> ExitCode {
    let mut lines = Vec::new();
    let rounds = if until_caught { seeds.map(|seed| seed..seed + 1).collect() } else { vec![seeds] };
    for round in rounds {
        lines.extend(suite::run(suite::bugs(&bugs, round, &place()), side_by_side, say_bug));
        let is_missed =
            |bug: &Bug| !lines.iter().any(|line: &Line| line.bug == Some(bug.name()) && line.is_caught());
        bugs.retain(is_missed);
        if until_caught && bugs.is_empty() {
            break;
        }
    }
    let mut fine = !lines.is_empty() && bugs.is_empty();
    for (bug, tried, caught) in suite::caught(&lines) {
        println!("{bug:<28} caught in {caught} of {tried}");
        fine &= until_caught || caught * 100 >= tried * 95;
    }
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn any_seed() -> u64 {
    fastrand::u64(..1 << 32)
}

/// Where the histories of a suite go.
fn place() -> PathBuf {
    std::env::temp_dir().join(format!("windlass-chaos-{}", std::process::id()))
}

/// Where the histories of one run go. A folder of the same scenario and seed may be there from before, kept.
fn place_of(scenario: &str, seed: u64) -> PathBuf {
    std::env::temp_dir().join(format!("windlass-chaos-{scenario}-{seed}-{}", std::process::id()))
}

/// One line of a suite, and everything when it is not as promised.
fn say(line: &Line) {
    let verdict =
        line.verdict.map_or_else(|| "-".to_owned(), |verdict| format!("{verdict:?}").to_lowercase());
    let store = format!("{:?}", line.store).to_lowercase();
    let trouble = line.trouble.as_deref().unwrap_or_default();
    let figures = line.report.as_ref().map(figures).unwrap_or_default();
    println!("{verdict:<8} {:<16} {store:<9} {:>6.1} s  {figures}{trouble}", line.scenario, line.seconds);
    for note in &line.notes {
        println!("         {note}");
    }
    if line.is_fine() {
        return;
    }
    println!("         replay: {}", line.replay);
    if let (Some(report), Some(folder)) = (&line.report, &line.histories) {
        println!("         histories: {}", folder.display());
        print(report, History::read(folder).ok().as_ref());
    }
}

/// What a trial broke, once more at the end: a CI server shows the last lines of a long output.
fn say_in_short(line: &Line) {
    let Line { scenario, store, seed, .. } = line;
    println!("{scenario} on {store:?} with seed {seed}: {}", line.trouble.as_deref().unwrap_or_default());
    let Some(report) = &line.report else { return };
    println!("    {}", figures(report));
    for violation in report.violations.iter().take(3) {
        println!("    {} (job {:?}): {}", violation.invariant, violation.job, violation.text);
    }
    for text in report.failures.iter().chain(&report.unknowns).take(3) {
        println!("    {text}");
    }
}

fn figures(report: &Report) -> String {
    let counts = &report.counts;
    let faults: Vec<String> =
        counts.faults.iter().map(|(fault, count)| format!("{count} {fault:?}")).collect();
    format!(
        "{} acknowledged, {}{} second starts explained, {} writes refused; {}{}",
        counts.acknowledged,
        if counts.ticks > 0 { format!("{} ticks, ", counts.ticks) } else { String::new() },
        counts.second_starts,
        counts.refused_writes,
        faults.join(", "),
        match counts.recoveries {
            0 => String::new(),
            n => format!("; {n} recoveries, slowest {} ms", counts.slowest_recovery_ms),
        }
    )
}

fn say_bug(line: &Line) {
    let invariants = line
        .report
        .as_ref()
        .map(|report| report.violated.keys().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    let found = match (&line.verdict, &line.trouble) {
        (Some(Verdict::Invalid), _) => format!("caught by {}", invariants.unwrap_or_default()),
        (_, Some(trouble)) => trouble.clone(),
        _ => "NOT CAUGHT".to_owned(),
    };
    println!("{:<28} seed {} {:>6.1} s  {found}", line.bug.unwrap_or_default(), line.seed, line.seconds);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorders refuse to write over a history: what another process kept of the same run must not be in the way.
    #[test]
    fn a_run_is_kept_beside_others_of_its_seed() {
        let place = place_of("storm", 7);
        assert!(
            place.ends_with(format!("windlass-chaos-storm-7-{}", std::process::id())),
            "{}",
            place.display()
        );
    }
}
