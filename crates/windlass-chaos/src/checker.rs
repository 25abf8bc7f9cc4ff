//! Reads a history and says whether the promises held.
//!
//! The rules are those of `docs/guarantees.md`: [`Invariant`] lists them. A verdict is valid, invalid or
//! unknown, and unknown fails a run: a history without jobs, without the planned faults or without a final
//! dump proves nothing. Sorting dominates the cost: a million jobs with eight events each take seconds.

mod attempts;
mod checkpoints;
mod expiry;
mod faults;
mod holds;
mod keyed;
mod leases;
mod limited;
mod moved;
mod order;
mod passed_over;
mod rates;
mod recovery;
mod replaced;
mod slots;
mod spared;
mod stored;
mod taken_back;
mod tell;
mod ticking;
mod ticks;
mod told;
mod unique;
mod verdict;
mod waited;
mod windows;

pub use tell::tell;
pub use ticking::Ticking;
pub use verdict::{Counts, Invariant, Report, Verdict, Violation};

use crate::history::{Fault, History, Phase, What};
use faults::Faults;
use holds::Jobs;
use serde::{Deserialize, Serialize};
use windlass_core::RateLimit;

/// What a run promised and planned: what the checker cannot see in the history itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rules {
    /// How many faults the run wanted to inject; fewer than 95 % of them make the verdict unknown.
    pub planned_faults: u64,
    /// Completed jobs are removed while the run goes on, so one that is no longer stored must have an
    /// accepted settlement instead.
    pub removes_completed: bool,
    /// Commits may be lost: at a failover to an asynchronous standby what was acknowledged shortly before it, at
    /// a restore what was acknowledged after the snapshot of the dump. As documented, and nothing else.
    pub may_lose_commits: bool,
    /// How many of 10,000 jobs may start a second time although the process of their first worker lived: what
    /// hits everybody, like an outage, explains nothing then. None: any number, each with an explanation.
    #[serde(default)]
    pub most_living_second_starts: Option<u64>,
    /// How many unique keys the jobs share; 0: none is unique.
    #[serde(default)]
    pub unique_keys: u32,
    /// How many unique keys, beyond those, have jobs that take each other's place.
    #[serde(default)]
    pub replaced_keys: u32,
    /// Somebody cancels and deletes jobs while they are worked.
    #[serde(default)]
    pub takes_back: bool,
    /// Some jobs are not to be started late.
    #[serde(default)]
    pub expires: bool,
    /// Somebody waits for jobs to end.
    #[serde(default)]
    pub waits: bool,
    /// Whether somebody read what happened to jobs, from the first to the last.
    #[serde(default)]
    pub listens: bool,
    /// How many jobs of all workers run at once, at most; 0: no limit.
    #[serde(default)]
    pub limit: u32,
    /// How many jobs of all workers start in a time, at most; none: no limit.
    #[serde(default)]
    pub rate: Option<RateLimit>,
    /// How many keys the jobs share, each with a limit; 0: they have none.
    #[serde(default)]
    pub keys: u32,
    /// All of them are serial.
    #[serde(default)]
    pub all_serial: bool,
    /// How many jobs of a key start in a time, of the keys that have a rate.
    #[serde(default)]
    pub key_rate: Option<RateLimit>,
    /// The schedules of the run.
    #[serde(default)]
    pub schedules: Vec<Ticking>,
    /// Throughput must be back to 90 % within 10 s of each outage.
    pub recovers: bool,
}

impl Default for Rules {
    /// The promises of PostgreSQL and SQLite as installed.
    fn default() -> Self {
        Self {
            planned_faults: 0,
            removes_completed: false,
            may_lose_commits: false,
            most_living_second_starts: None,
            unique_keys: 0,
            replaced_keys: 0,
            takes_back: false,
            expires: false,
            waits: false,
            listens: false,
            limit: 0,
            rate: None,
            keys: 0,
            all_serial: false,
            key_rate: None,
            schedules: Vec::new(),
            recovers: false,
        }
    }
}

/// Checks a whole history.
///
/// ```
/// use windlass_chaos::{checker::{Rules, Verdict, check}, history::History};
/// let report = check(&History::default(), &Rules::default());
/// assert_eq!(report.verdict, Verdict::Unknown, "nothing happened, so nothing is proven");
/// ```
pub fn check(history: &History, rules: &Rules) -> Report {
    let history = &*moved::tell_apart(history);
    let faults = Faults::of(history);
    let mut jobs = Jobs::of(history);
    order::sort(&mut jobs, &faults);
    if rules.may_lose_commits {
        jobs.doubt(&faults.begins_of(&[Fault::Failover]));
    }
    if let Some(moved) = moved::Move::of(history) {
        jobs.restored(moved, rules.may_lose_commits);
    }
    let mut report = Report::default();
    replaced::check(&mut jobs, rules, &mut report);
    stored::check(&jobs, rules, &mut report);
    unique::check(&jobs, rules, &mut report);
    windows::check(&jobs, &mut report);
    taken_back::check(&jobs, rules, &mut report);
    expiry::check(&jobs, &faults, rules, &mut report);
    waited::check(&jobs, rules, &mut report);
    checkpoints::check(&jobs, &faults, rules, &mut report);
    if rules.listens {
        told::check(history, &jobs, &faults, &mut report);
    }
    leases::check(&jobs, &faults, &mut report);
    attempts::check(&jobs, &faults, &mut report);
    slots::check(history, &mut report);
    if rules.limit > 0 {
        limited::check(history, &faults, rules.limit, &mut report);
    }
    limited::admitted(history, &mut report);
    if let Some(rate) = rules.rate {
        rates::check(history, &faults, rate, &mut report);
    }
    if rules.keys > 0 {
        keyed::check(&jobs, &faults, rules, &mut report);
    }
    ticks::check(history, &jobs, &rules.schedules, &mut report);
    if let Some(most) = rules.most_living_second_starts {
        spared::check(&jobs, &faults, most, &mut report);
    }
    if rules.recovers {
        recovery::check(history, &faults, &mut report);
    }
    count(history, &jobs, &mut report);
    let mut unknowns = unknowns(history, rules, &report.counts);
    unknowns.append(&mut report.doubts);
    report.conclude(unknowns);
    report
}

fn count(history: &History, jobs: &Jobs, report: &mut Report) {
    let counts = &mut report.counts;
    counts.jobs = jobs.len() as u64;
    counts.events = history.events.len() as u64;
    counts.processes = history.processes.len() as u64;
    for recorded in &history.events {
        match recorded.event.what {
            What::EnqueueAcked { .. } => counts.acknowledged += 1,
            What::EnqueueUnknown { .. } => counts.unknown_enqueues += 1,
            What::Started { .. } => counts.starts += 1,
            What::Settled { fate: crate::history::Fate::Refused, .. } => counts.refused_writes += 1,
            What::CancelAsked { done: true, .. } | What::DeleteAsked { done: true, .. } => {
                counts.taken_back += 1;
            }
            What::CheckpointKept { .. } => counts.checkpoints += 1,
            What::LeaseLost { .. } => counts.lost_leases += 1,
            What::Fault { fault, begins: true, .. } => *counts.faults.entry(fault).or_default() += 1,
            _ => {}
        }
    }
}

/// Why the history proves nothing, if it does not.
fn unknowns(history: &History, rules: &Rules, counts: &Counts) -> Vec<String> {
    let mut reasons = Vec::new();
    let saw = |wanted: Phase| {
        let is = |what: &What| matches!(what, What::Phase { phase } if *phase == wanted);
        history.events.iter().any(|recorded| is(&recorded.event.what))
    };
    if history.processes.len() < 2 {
        reasons.push("no process but the injector left a history".to_owned());
    }
    if counts.acknowledged == 0 {
        reasons.push("no job was acknowledged".to_owned());
    }
    let is_kept = |recorded: &crate::history::Recorded| matches!(recorded.event.what, What::Kept { .. });
    if rules.unique_keys > 0 && !history.events.iter().any(is_kept) {
        reasons.push("no enqueue found its unique key taken".to_owned());
    }
    let replaced = |recorded: &crate::history::Recorded| matches!(recorded.event.what, What::Replaced { .. });
    if rules.replaced_keys > 0 && !history.events.iter().any(replaced) {
        reasons.push("no job took the place of another".to_owned());
    }
    if rules.takes_back && counts.taken_back == 0 {
        reasons.push("no job was cancelled or deleted".to_owned());
    }
    let is_told = |recorded: &crate::history::Recorded| matches!(recorded.event.what, What::Told { .. });
    if rules.listens && !history.events.iter().any(is_told) {
        reasons.push("nobody read an event".to_owned());
    }
    if !rules.schedules.is_empty() && counts.ticks == 0 {
        reasons.push("no schedule ticked".to_owned());
    }
    if !saw(Phase::Drained) && !saw(Phase::Stuck) {
        reasons.push("the run ended before it drained".to_owned());
    }
    if !saw(Phase::Dumped) {
        reasons.push("there is no complete final dump".to_owned());
    }
    // What a poison job or a busy machine does is nobody's plan.
    let unplanned = [Fault::Poison, Fault::Starved, Fault::SlowDisk]
        .map(|fault| counts.faults.get(&fault).copied().unwrap_or(0));
    let fired = counts.faults.values().sum::<u64>() - unplanned.iter().sum::<u64>();
    if (fired as f64) < rules.planned_faults as f64 * 0.95 {
        reasons.push(format!("only {fired} of {} planned faults happened", rules.planned_faults));
    }
    reasons
}
