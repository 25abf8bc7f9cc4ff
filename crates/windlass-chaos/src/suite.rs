//! Many trials, several at once, with one verdict.

use crate::{
    bug::Bug,
    checker::{Report, Verdict},
    scenario::{self, Ended, Scenario, Store, Trial},
};
use serde::Serialize;
use std::{
    collections::VecDeque,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// A trial that is to be run.
#[derive(Clone)]
pub struct Entry {
    /// What is done.
    pub scenario: &'static Scenario,
    /// Where, with which seed.
    pub trial: Trial,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Line {
    /// The scenario.
    pub scenario: &'static str,
    /// The store.
    pub store: Store,
    /// The seed.
    pub seed: u64,
    /// The bug on trial.
    pub bug: Option<&'static str>,
    /// Seconds that it took.
    pub seconds: f64,
    /// The verdict; none: it was skipped or could not run.
    pub verdict: Option<Verdict>,
    /// Why it was skipped or could not run.
    pub trouble: Option<String>,
    /// Measurements.
    pub notes: Vec<String>,
    /// Everything.
    pub report: Option<Report>,
    /// What repeats it.
    pub replay: String,
    /// Where the histories are, if they were kept.
    pub histories: Option<PathBuf>,
}

impl Line {
    /// Whether a broken promise was found.
    pub fn is_caught(&self) -> bool {
        self.verdict == Some(Verdict::Invalid)
    }

    /// Whether it is as it should be: valid, or skipped with a reason.
    pub fn is_fine(&self) -> bool {
        match self.verdict {
            Some(verdict) => verdict == Verdict::Valid,
            None => self.trouble.as_ref().is_some_and(|why| why.starts_with("skipped")),
        }
    }
}

/// All scenarios on all their stores; `actors` are the workers of other languages that join where the fleet is mixed.
pub fn everything(seed: u64, full: bool, folder: &Path, actors: &[String]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for scenario in scenario::ALL {
        for store in scenario.stores {
            for repeat in 0..if full { scenario.repeats } else { 1 } {
                let mut entry = entry(scenario, *store, seed + repeat, full, None, folder);
                entry.trial.actors = actors.to_vec();
                entries.push(entry);
            }
        }
    }
    // The longest first, so that nothing waits for them in the end.
    entries.sort_by_key(|entry| entry.scenario.name != "soak");
    entries
}

/// Leaves of each scenario the trials on one of its stores, which one by the seed and the scenario's place.
pub fn in_turn(entries: &mut Vec<Entry>) {
    entries.retain(|entry| {
        let stores = entry.scenario.stores;
        let place = scenario::ALL.iter().take_while(|scenario| scenario.name != entry.scenario.name).count();
        let turn = (entry.trial.seed as usize).wrapping_add(place) % stores.len();
        stores[turn] == entry.trial.store
    });
}

/// What each bug shows in, mostly a storm, with each seed.
pub fn bugs(bugs: &[Bug], seeds: Range<u64>, folder: &Path) -> Vec<Entry> {
    let store = |bug: Bug| if bug.needs_postgres() { Store::Postgres } else { Store::Sqlite };
    let of = |bug: Bug| {
        let scenario = scenario::named(bug.scenario());
        let entries = scenario.map(|scenario| {
            seeds.clone().map(move |seed| entry(scenario, store(bug), seed, false, Some(bug), folder))
        });
        entries.into_iter().flatten()
    };
    bugs.iter().copied().flat_map(of).collect()
}

fn entry(
    scenario: &'static Scenario,
    store: Store,
    seed: u64,
    full: bool,
    bug: Option<Bug>,
    folder: &Path,
) -> Entry {
    let what = bug.map_or(scenario.name, Bug::name);
    let folder = folder.join(format!("{what}-{store:?}-{seed}").to_lowercase());
    Entry { scenario, trial: Trial { seed, full, seconds: None, store, bug, folder, actors: Vec::new() } }
}

/// Runs trials, `side_by_side` at once, those that want to be alone in the end one by one.
pub fn run(entries: Vec<Entry>, side_by_side: usize, said: impl Fn(&Line) + Sync) -> Vec<Line> {
    let (alone, shared): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.scenario.alone);
    let queue = Mutex::new(VecDeque::from(shared));
    let lines = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..side_by_side.max(1) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(entry) = next else { return };
                    let line = attempt(&entry);
                    said(&line);
                    lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                }
            });
        }
    });
    let mut lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
    for entry in alone {
        let line = attempt(&entry);
        said(&line);
        lines.push(line);
    }
    lines
}

/// Runs one; its histories stay only when there is something to look at.
fn attempt(entry: &Entry) -> Line {
    let trial = &entry.trial;
    let began = Instant::now();
    let ended = std::fs::remove_dir_all(&trial.folder)
        .or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
        .map_err(anyhow::Error::from)
        .and_then(|()| (entry.scenario.run)(trial));
    let mut line = Line {
        scenario: entry.scenario.name,
        store: trial.store,
        seed: trial.seed,
        bug: trial.bug.map(Bug::name),
        seconds: began.elapsed().as_secs_f64(),
        verdict: None,
        trouble: None,
        notes: Vec::new(),
        report: None,
        replay: replay(entry),
        histories: None,
    };
    match ended {
        Ok(Ended::Ran(report, notes)) => {
            line.verdict = Some(report.verdict);
            line.notes = notes;
            line.report = Some(*report);
        }
        Ok(Ended::Skipped(why)) => line.trouble = Some(format!("skipped: {why}")),
        Err(error) => line.trouble = Some(format!("could not run: {error:#}")),
    }
    if line.is_fine() || trial.bug.is_some() {
        let _ = std::fs::remove_dir_all(&trial.folder);
    } else {
        line.histories = Some(trial.folder.clone());
    }
    line
}

fn replay(entry: &Entry) -> String {
    let trial = &entry.trial;
    let store = if trial.store == Store::Postgres { "postgres" } else { "sqlite" };
    let full = if trial.full { " --full" } else { "" };
    let bug = trial.bug.map_or_else(String::new, |bug| format!(" --bug {}", bug.name()));
    let actors: String = match entry.scenario.name {
        "mixed" => trial.actors.iter().map(|actor| format!(" --actor '{actor}'")).collect(),
        _ => String::new(),
    };
    format!(
        "windlass-chaos run {} --store {store} --seed {}{full}{bug}{actors}",
        entry.scenario.name, trial.seed
    )
}

/// How often each bug was tried and caught.
pub fn caught(lines: &[Line]) -> Vec<(&'static str, usize, usize)> {
    let of = |bug: &Bug| {
        let tries = lines.iter().filter(|line| line.bug == Some(bug.name()));
        let caught = tries.clone().filter(|line| line.is_caught()).count();
        (bug.name(), tries.count(), caught)
    };
    Bug::ALL.iter().map(of).filter(|(_, tries, _)| *tries > 0).collect()
}
