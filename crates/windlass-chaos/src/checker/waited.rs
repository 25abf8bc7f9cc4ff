//! I13 for those who waited for a job's end: they were told in time, when it had ended, and how.

use super::{
    Invariant, Report, Rules,
    holds::{Job, Jobs},
};
use crate::history::Outcome;
use windlass_core::JobState;

/// Who waits hears of an end sooner than this, also where the database was away meanwhile.
const LATE_NS: u64 = 10_000_000_000;

pub(super) fn check(jobs: &Jobs, rules: &Rules, report: &mut Report) {
    let mut told = 0;
    for job in jobs.by_id.values() {
        for (state, at) in &job.waited {
            told += u64::from(state.is_some());
            let wrong = match state {
                Some(state) => lie(job, *state, *at),
                None => ended(job)
                    .filter(|ended| ended.saturating_add(LATE_NS) < *at)
                    .map(|_| "nothing".to_owned()),
            };
            if let Some(wrong) = wrong {
                let state = job.records.first().map_or("gone", |record| record.state.as_str());
                let text = format!("somebody who waited for its end was told {wrong}, and it is {state}");
                report.violate(Invariant::I13, Some(job.id), text);
            }
        }
    }
    if rules.waits && told == 0 {
        report.doubts.push("nobody was told how a job ended".to_owned());
    }
}

/// What is wrong with this answer. A job that is retried by hand ends several times.
fn lie(job: &Job, state: JobState, at: u64) -> Option<String> {
    let stored = job.records.first().map(|record| record.state);
    if job.retries_asked == 0 && stored.is_some_and(|stored| stored != state) {
        return Some(format!("that it is {state}"));
    }
    let completes = |(finished, outcome): (u64, Outcome)| outcome == Outcome::Complete && finished < at;
    let has_run = job.holds.iter().any(|hold| hold.finished.is_some_and(completes))
        || job.effects_sent.iter().any(|sent| *sent < at);
    (state == JobState::Completed && !has_run).then(|| "too early that it is completed".to_owned())
}

/// When it was over for certain.
fn ended(job: &Job) -> Option<u64> {
    let last = job.holds.last().filter(|hold| hold.ended().is_some() && job.retries_asked == 0)?;
    last.answers.iter().map(|(.., noted)| *noted).max()
}
