mod child;
mod point_run;
mod summary;

use crate::{
    measure::open_session,
    options::MAX_JOBS,
    reduction::{Reduction, check},
    report::command,
    scenario::{Point, Scenario},
    scenarios::find_scenarios,
};
use child::Ended;
use point_run::{PointRun, Status};
use serde::Serialize;
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    interrupt::{Signals, interrupted},
    open,
    text::json_text,
};

/// Runs each point of the named scenarios in a process of its own, so that peak memory and processor time
/// are of that point alone. The command line that is shown beside a point repeats it.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// Scenarios from `windlass-bench list`, or `all`
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// The most jobs or samples of a point, for a quick look
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: Option<u64>,
    /// The most seconds of a point that lasts a given time
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Makes jobs, samples and seconds of all points smaller: 0.01 is a hundredth
    #[arg(long, value_parser = scale)]
    scale: Option<f64>,
    /// How often to run everything. Each round runs all points, so that a machine that slows down slows all of
    /// them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Writes the JSON of each point to a file in this folder, which is created
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// What became of all points.
#[derive(Serialize)]
struct Summary {
    points: Vec<PointRun>,
    done: usize,
    skipped: usize,
    failed: usize,
}

impl Run {
    pub(crate) async fn run(self, globals: &Globals) -> Outcome {
        let scenarios = find_scenarios(&self.names)?;
        let mut signals = Signals::listen()?;
        if globals.store.is_some() {
            // A store that is not there is reported once, not by every point.
            open::create(globals.url()).await?.close().await;
        }
        if let Some(folder) = &self.out {
            fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        }
        let mut points = Vec::new();
        for (round, scenario) in
            (1..=self.rounds).flat_map(|round| scenarios.iter().map(move |one| (round, *one)))
        {
            tell(globals, &format!("{}: {}", scenario.name, scenario.about))?;
            for point in scenario.points {
                let run = self.point((scenario, point, round), globals, &mut signals).await?;
                tell(globals, &format!("    {}", summary::line(&run)))?;
                points.push(run);
            }
        }
        let count = |status| points.iter().filter(|point| point.status == status).count();
        let (done, skipped, failed) = (count(Status::Done), count(Status::Skipped), count(Status::Failed));
        let summary = Summary { points, done, skipped, failed };
        globals.print(&summary, || format!("\n{}", summary::table_of_points(&summary.points)))?;
        match failed {
            0 => Ok(()),
            _ => {
                let all = summary.points.len();
                Err(Failure::failed("points_failed", format!("{failed} of {all} points failed")))
            }
        }
    }

    async fn point(
        &self,
        (scenario, point, round): (&'static Scenario, &'static Point, u32),
        globals: &Globals,
        signals: &mut Signals,
    ) -> Outcome<PointRun> {
        let reduction = Reduction { jobs: self.jobs, seconds: self.seconds, scale: self.scale };
        let words = reduction.apply(point.line);
        check(&words)?;
        let all = std::iter::once("windlass-bench".to_owned()).chain(words.iter().cloned());
        let command = command(all, globals);
        tell(globals, &format!("  {}: {command}", point.name))?;
        let run = |status, reason, report| PointRun {
            scenario: scenario.name,
            point: point.name,
            round,
            command: command.clone(),
            status,
            reason,
            report,
        };
        checkpoint(globals).await;
        let mut report = match child::run(&words, globals, signals).await? {
            Ended::Report(report) => report,
            Ended::Cannot(reason) => return Ok(run(Status::Skipped, Some(reason), None)),
            Ended::Failed(reason) => return Ok(run(Status::Failed, Some(reason), None)),
            Ended::Interrupted => return Err(interrupted()),
        };
        report["scenario"] = scenario.name.into();
        report["point"] = point.name.into();
        report["round"] = round.into();
        if let Some(folder) = &self.out {
            let file = folder.join(file_name(scenario.name, point.name, round));
            fs::write(&file, json_text(&report) + "\n").map_err(|error| cannot_write(&file, &error))?;
        }
        Ok(run(Status::Done, None, Some(report)))
    }
}

/// Prints the progress, unless the answer is to be JSON.
fn tell(globals: &Globals, line: &str) -> Outcome {
    if !globals.json {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}")?;
        stdout.flush()?;
    }
    Ok(())
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 1.0 => Ok(scale),
        _ => Err("not a number above 0 and up to 1, such as 0.01".to_owned()),
    }
}

/// Each point starts after a checkpoint, so that none pays for the pages of the one before. A role without the
/// right to ask for one measures without it.
async fn checkpoint(globals: &Globals) {
    if let Some(url) = globals.store.as_deref().filter(|url| url.starts_with("postgres"))
        && let Ok(session) = open_session(url).await
    {
        let _ = session.batch_execute("CHECKPOINT").await;
    }
}

fn file_name(scenario: &str, point: &str, round: u32) -> String {
    let point = point.replace(',', "").replace('%', "percent");
    let words: Vec<_> =
        point.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!("{scenario}.{}.{round}.json", words.join("-"))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::failed("io", format!("cannot write {}: {error}; choose another --out", path.display()))
}
