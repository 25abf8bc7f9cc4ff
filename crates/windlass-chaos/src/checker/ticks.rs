//! I10: each tick of a schedule fires once, and those fire that its rules say, whatever dies.

use super::{
    Invariant, Report,
    holds::{Job, Jobs},
    passed_over::Looks,
    ticking::{Fired, Ticking, micros, show},
};
use crate::history::{History, Outcome, Tick, What};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The most ticks of a schedule that are looked for: a day of one each second. A damaged history may say that it ticked for ever.
const MOST_TICKS: i64 = 86_400;
/// The most missing ticks of one schedule that are told.
const MOST_MISSING: usize = 100;

pub(super) fn check(history: &History, jobs: &Jobs, rules: &[Ticking], report: &mut Report) {
    let (told, looks) = (Told::of(history), Looks::of(history));
    let mut fired: BTreeMap<u32, Fired<'_>> = BTreeMap::new();
    let mut by_hand: HashMap<u32, HashSet<i64>> = HashMap::new();
    for job in jobs.by_id.values() {
        let Some(tick) = tick_of(job) else { continue };
        if tick.second == 0 {
            by_hand.entry(tick.schedule).or_default().insert(job.id);
        } else if let Some(first) = fired.entry(tick.schedule).or_default().insert(tick.second, job) {
            let text = format!("{} fired twice, as job {} as well", show(tick), first.id);
            report.violate(Invariant::I10, Some(job.id), text);
        }
    }
    report.counts.ticks = fired.values().map(|ticks| ticks.len() as u64).sum();
    let none = Fired::new();
    for rule in rules {
        let fired = fired.get(&rule.schedule).unwrap_or(&none);
        let wrong = Schedule { rule, fired, told: &told };
        wrong.invented(report);
        wrong.missing(report);
        wrong.paused(report);
        wrong.overlapping(report);
        looks.last_ticks(rule, fired, report);
        if let Some(until) = told.decided.get(&rule.schedule).filter(|_| !rule.overlaps) {
            looks.passed_over(rule, fired, *until, |second| wrong.is_passed_over(second), report);
        }
    }
    let known: HashSet<u32> = rules.iter().map(|rule| rule.schedule).collect();
    for (schedule, fired) in fired.iter().filter(|(schedule, _)| !known.contains(schedule)) {
        let text = format!("schedule {schedule} fired {} times, and nobody declared it", fired.len());
        report.violate(Invariant::I10, None, text);
    }
    told.runs(&by_hand, report);
}

fn tick_of(job: &Job) -> Option<Tick> {
    let keys = job.records.iter().map(|record| record.key).chain(job.seen_keys.iter().copied());
    keys.filter_map(Tick::of_key).next()
}

/// From when on nothing fires, by the wall clock, and until when.
#[derive(Clone, Copy, Debug)]
struct Pause {
    asked: i64,
    /// It was so.
    begun: Option<i64>,
    end_asked: Option<i64>,
    ended: Option<i64>,
}

/// What was noted of schedules, by their numbers. Times in microseconds.
#[derive(Default)]
struct Told {
    made: HashMap<u32, i64>,
    decided: HashMap<u32, i64>,
    pauses: HashMap<u32, Vec<Pause>>,
    asked: HashMap<u32, usize>,
    ran: Vec<(u32, i64)>,
}

impl Told {
    fn of(history: &History) -> Self {
        let mut told = Self::default();
        for recorded in &history.events {
            match recorded.event.what {
                What::ScheduleMade { schedule, from_us } => {
                    told.made.insert(schedule, from_us);
                }
                What::Decided { schedule, until_us } => {
                    told.decided.insert(schedule, until_us);
                }
                What::RunAsked { schedule } => *told.asked.entry(schedule).or_default() += 1,
                What::Ran { schedule, id } => told.ran.push((schedule, id)),
                What::PauseAsked { schedule, paused, done, wall_us } => {
                    told.note_pause(schedule, paused, done, wall_us);
                }
                _ => {}
            }
        }
        told
    }

    fn note_pause(&mut self, schedule: u32, paused: bool, done: bool, at: i64) {
        let pauses = self.pauses.entry(schedule).or_default();
        if paused && !done {
            pauses.push(Pause { asked: at, begun: None, end_asked: None, ended: None });
            return;
        }
        let Some(pause) = pauses.last_mut() else { return };
        match (paused, done) {
            (true, _) => pause.begun = Some(at),
            (false, false) => pause.end_asked = pause.end_asked.or(Some(at)),
            (false, true) => pause.ended = Some(at),
        }
    }

    /// Each run by hand is a job, and there are no others.
    fn runs(&self, by_hand: &HashMap<u32, HashSet<i64>>, report: &mut Report) {
        for (schedule, id) in &self.ran {
            if !by_hand.get(schedule).is_some_and(|jobs| jobs.contains(id)) {
                let text = format!("schedule {schedule} was run by hand as this job, and it is none of its");
                report.violate(Invariant::I10, Some(*id), text);
            }
        }
        for (schedule, jobs) in by_hand {
            let asked = self.asked.get(schedule).copied().unwrap_or(0);
            if jobs.len() > asked {
                let text =
                    format!("schedule {schedule} ran {} times by hand, asked were {asked}", jobs.len());
                report.violate(Invariant::I10, jobs.iter().copied().min(), text);
            }
        }
    }
}

/// One schedule, and what it did.
struct Schedule<'a> {
    rule: &'a Ticking,
    fired: &'a Fired<'a>,
    told: &'a Told,
}

impl Schedule<'_> {
    fn show(&self, second: i64) -> String {
        self.rule.show(second)
    }

    fn pauses(&self) -> &[Pause] {
        self.told.pauses.get(&self.rule.schedule).map_or(&[], Vec::as_slice)
    }

    /// What fired is a tick, and one that the schedule's record says was decided.
    fn invented(&self, report: &mut Report) {
        let decided = self.told.decided.get(&self.rule.schedule).copied();
        for (second, job) in self.fired {
            let why = if second % i64::from(self.rule.every_s.max(1)) != 0 {
                "is none"
            } else if decided.is_some_and(|until| micros(*second) > until) {
                "fired, and is not decided by its record"
            } else {
                continue;
            };
            report.violate(Invariant::I10, Some(job.id), format!("{} {why}", self.show(*second)));
        }
    }

    /// What was decided fired, if all ticks do.
    fn missing(&self, report: &mut Report) {
        let Some(until) = self.told.decided.get(&self.rule.schedule).filter(|_| self.rule.fires_all) else {
            return;
        };
        let every = i64::from(self.rule.every_s.max(1));
        let made = self.told.made.get(&self.rule.schedule).map(|us| us.div_euclid(1_000_000) + 1);
        let Some(from) = made.or_else(|| self.fired.keys().next().copied()) else { return };
        let first = from + (-from).rem_euclid(every);
        let ticks =
            (0..MOST_TICKS).map(|nth| first + nth * every).take_while(|second| micros(*second) <= *until);
        let is_missing = |second: &i64| !self.fired.contains_key(second) && !self.is_passed_over(*second);
        for second in ticks.filter(is_missing).take(MOST_MISSING) {
            let text = format!("{} was decided and never fired", self.show(second));
            report.violate(Invariant::I10, None, text);
        }
    }

    /// Whether a pause explains that the tick did not fire: it was over before the schedule went on, and not decided
    /// before the pause, as no later one was.
    fn is_passed_over(&self, second: i64) -> bool {
        self.pauses().iter().any(|pause| {
            let later = self.fired.range(second + 1..).next().map(|(later, _)| *later);
            pause.ended.is_none_or(|ended| micros(second) <= ended)
                && later.is_none_or(|later| micros(later) >= pause.asked)
        })
    }

    /// Nothing of a pause fires.
    fn paused(&self, report: &mut Report) {
        for pause in self.pauses() {
            let Some(begun) = pause.begun else { continue };
            let end = pause.end_asked.unwrap_or(i64::MAX);
            let is_within = |second: i64| micros(second) > begun && micros(second) < end;
            for (second, job) in self.fired.iter().filter(|(second, _)| is_within(**second)) {
                let text = format!("{} fired, and the schedule was paused", self.show(*second));
                report.violate(Invariant::I10, Some(job.id), text);
            }
        }
    }

    /// A job is not there before that of the tick before has ended. It has not before a handler finished it, and is there
    /// when it is claimed.
    fn overlapping(&self, report: &mut Report) {
        if self.rule.overlaps {
            return;
        }
        for ((before, first), (second, next)) in self.fired.iter().zip(self.fired.iter().skip(1)) {
            let completed = |(at, outcome)| (outcome == Outcome::Complete).then_some(at);
            let ended = first.holds.iter().filter_map(|hold| hold.finished.and_then(completed)).min();
            let claimed = next.holds.iter().map(|hold| hold.claimed).min();
            if let (Some(ended), Some(claimed)) = (ended, claimed)
                && claimed < ended
            {
                let late = (ended - claimed) / 1_000_000;
                let text = format!(
                    "{} fired while job {} of {} ran for {late} ms more",
                    self.show(*second),
                    first.id,
                    self.show(*before)
                );
                report.violate(Invariant::I10, Some(next.id), text);
            }
        }
    }
}
