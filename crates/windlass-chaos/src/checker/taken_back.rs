//! I3 and I13 for jobs that somebody took back: the answer was right, and nobody is handed such a job afterwards.

use super::{
    Invariant, Report, Rules,
    holds::{Job, Jobs},
};
use crate::history::{Fate, Outcome};
use windlass_core::JobState;

pub(super) fn check(jobs: &Jobs, rules: &Rules, report: &mut Report) {
    for job in jobs.by_id.values().filter(|job| job.retries_asked == 0 && !job.left_behind) {
        let ended = [(job.cancelled, "cancelled"), (job.deleted, "deleted")];
        for (at, what) in ended.into_iter().filter_map(|(at, what)| Some((at?, what))) {
            handed_out(job, at, what, report);
        }
        if !rules.may_lose_commits {
            stored(job, report);
        }
    }
}

fn handed_out(job: &Job, at: u64, what: &str, report: &mut Report) {
    if let Some(hold) = job.holds.iter().find(|hold| hold.sent > at) {
        let text = format!("handed out to worker {} after somebody was told that it is {what}", hold.worker);
        report.violate(Invariant::I3, Some(job.id), text);
    }
}

fn stored(job: &Job, report: &mut Report) {
    let state = job.records.first().map(|record| record.state);
    let completes = |(fate, outcome, ..): &(Fate, Outcome, u64, u64)| {
        *fate == Fate::Accepted && *outcome == Outcome::Complete
    };
    let completed = job.holds.iter().flat_map(|hold| &hold.answers).any(completes);
    let (asked, id) = (job.delete_asked, Some(job.id));
    match (job.cancelled, job.deleted, state) {
        (_, Some(_), Some(state)) => {
            report.violate(Invariant::I13, id, format!("deleted, and stored as {state} in the end"));
        }
        (Some(_), _, state) if state != Some(JobState::Cancelled) && !(state.is_none() && asked) => {
            let state = state.map_or("gone", JobState::as_str);
            report.violate(
                Invariant::I13,
                id,
                format!("somebody was told that it is cancelled, and it is {state}"),
            );
        }
        (cancelled, deleted, _) if completed && (cancelled.is_some() || deleted.is_some()) => {
            report.violate(Invariant::I13, id, "taken back, and its completion was accepted".to_owned());
        }
        _ => {}
    }
}
