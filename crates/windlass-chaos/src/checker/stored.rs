//! I1, I2, I7 and I13: what was enqueued, what ran, and what is stored in the end.

use super::{
    Invariant, Report, Rules,
    holds::{Hold, Job, Jobs, Record},
};
use crate::history::{Outcome, Tick};
use std::collections::HashMap;
use windlass_core::JobState;

pub(super) fn check(jobs: &Jobs, rules: &Rules, report: &mut Report) {
    let mut ids_of_keys: HashMap<i64, i64> = HashMap::new();
    for job in jobs.by_id.values() {
        lost(job, jobs, rules, report);
        phantom(job, jobs, report);
        records(job, rules, report);
        effects(job, report);
        results(job, report);
        let keys = job.seen_keys.iter().copied().chain(job.records.iter().map(|record| record.key));
        // What schedules enqueue, `ticks` looks at.
        for key in keys.filter(|key| Tick::of_key(*key).is_none()) {
            let first = *ids_of_keys.entry(key).or_insert(job.id);
            if first != job.id {
                let text = format!("key {key} is job {first} and job {} as well", job.id);
                report.violate(Invariant::I7, Some(job.id), text);
                break;
            }
        }
    }
    for (key, known) in &jobs.keys {
        if let (Some(first), Some(other)) = (known.acked, known.acked_twice) {
            let text = format!("key {key} was acknowledged as job {first} and as job {other}");
            report.violate(Invariant::I7, Some(other), text);
        }
    }
}

/// I1: an acknowledged job is stored or settled, a settled one ran, and everything drains.
fn lost(job: &Job, jobs: &Jobs, rules: &Rules, report: &mut Report) {
    let id = Some(job.id);
    let Some(record) = job.records.first() else {
        let settled = job.holds.iter().any(|hold| hold.settled().is_some());
        let excused = (rules.may_lose_commits && job.in_doubt)
            || (rules.removes_completed && settled)
            || job.delete_asked
            || job.left_behind;
        if job.acked_key.is_some() && !excused {
            report.violate(Invariant::I1, id, "acknowledged, and not stored in the end".to_owned());
        } else if settled && !excused && !job.rolled_back {
            report.violate(Invariant::I1, id, "settled, and not stored in the end".to_owned());
        }
        return;
    };
    let said = |wanted: Outcome| {
        job.holds.iter().any(|hold| hold.finished.is_some_and(|(_, outcome)| outcome == wanted))
    };
    match record.state {
        JobState::Completed if !said(Outcome::Complete) && job.effects_sent.is_empty() => {
            report.violate(Invariant::I1, id, "completed, but no handler finished it".to_owned());
        }
        JobState::Completed if completions_refused(job) => {
            report.violate(Invariant::I5, id, "completed, but every completion of it was refused".to_owned());
        }
        JobState::Cancelled
            if !said(Outcome::Cancel)
                && job.cancel_asked.is_none()
                && job.replaced.is_none()
                && !job.expired =>
        {
            report.violate(Invariant::I1, id, "cancelled, but nobody asked for it".to_owned());
        }
        JobState::Discarded if !may_be_discarded(job, record, said) => {
            report.violate(Invariant::I1, id, "discarded, but no handler failed or died of it".to_owned());
        }
        state if !state.is_final() && !jobs.stuck => {
            report.violate(Invariant::I1, id, format!("{state} in the end, though everything drained"));
        }
        state if !state.is_final() => {
            report.violate(Invariant::I12, id, format!("still {state} after the faults were over"));
        }
        _ => {}
    }
}

/// Whoever completed it was told that the write was refused. A handler may have completed it in a
/// transaction of its own: then the worker's answer says nothing.
fn completions_refused(job: &Job) -> bool {
    let completed = |hold: &&Hold| hold.finished.is_some_and(|(_, outcome)| outcome == Outcome::Complete);
    job.effects_sent.is_empty() && job.holds.iter().filter(completed).all(Hold::refused)
}

/// A handler discarded it or failed for the last time, or its workers kept dying. A paused one may finish
/// after it was declared dead, so what counts is that it never settled; and one that was killed may not have
/// noted its claim, so the store's own count tells as well.
fn may_be_discarded(job: &Job, record: &Record, said: impl Fn(Outcome) -> bool) -> bool {
    let unsettled = job.holds.iter().filter(|hold| hold.settled().is_none()).count();
    said(Outcome::Discard) || said(Outcome::Retry) || unsettled >= 2 || record.crashes >= 2
}

/// I2: nothing runs or is stored that was never enqueued, failed for certain, or was rolled back.
fn phantom(job: &Job, jobs: &Jobs, report: &mut Report) {
    let id = Some(job.id);
    if job.rolled_back && (!job.holds.is_empty() || !job.records.is_empty()) {
        let text = "its transaction was rolled back, and yet it was handed out or stored".to_owned();
        report.violate(Invariant::I2, id, text);
    }
    for key in job.seen_keys.iter().copied().chain(job.records.iter().map(|record| record.key)) {
        let known = jobs.keys.get(&key).copied().unwrap_or_default();
        let why = if known.sent.is_none() && Tick::of_key(key).is_some() {
            continue;
        } else if known.sent.is_none() {
            "nobody enqueued it"
        } else if known.failed && !known.unknown && known.acked.is_none() {
            "its enqueue failed for certain"
        } else if known.kept {
            "its enqueue found its unique key taken"
        } else if known.rolled_back {
            "its transaction was rolled back"
        } else {
            match job.acked_key {
                Some(acked) if acked != key && !takes_the_place_of(key, acked, jobs) => {
                    "its args are those of another job"
                }
                _ => continue,
            }
        };
        report.violate(Invariant::I2, id, format!("key {key}: {why}, and yet it exists"));
        return;
    }
    if let Some(at) = job.unclaimed_starts.first() {
        report.violate(Invariant::I2, id, format!("started at {at} without a claim"));
    }
}

/// Whether a job of one key may have become that of another under its id.
fn takes_the_place_of(key: i64, before: i64, jobs: &Jobs) -> bool {
    let unique = |key: i64| jobs.keys.get(&key).and_then(|known| known.unique).map(|(unique, _)| unique);
    let replaces = jobs.keys.get(&key).is_some_and(|known| known.replaces);
    replaces && unique(key) == unique(before)
}

/// I13: one terminal record, one accepted end.
fn records(job: &Job, rules: &Rules, report: &mut Report) {
    let id = Some(job.id);
    if job.records.len() > 1 {
        let states: Vec<&str> = job.records.iter().map(|record| record.state.as_str()).collect();
        report.violate(Invariant::I13, id, format!("stored {} times: {}", states.len(), states.join(", ")));
    }
    let ends: Vec<JobState> = job.holds.iter().filter_map(|hold| hold.ended()).collect();
    if ends.len() > 1 + job.retries_asked {
        report.violate(Invariant::I13, id, format!("its end was accepted {} times", ends.len()));
    }
    // A retry by hand makes an earlier end void, and so does a failover that lost it.
    let is_void = job.retries_asked > 0 || rules.may_lose_commits;
    let Some((end, record)) = ends.first().zip(job.records.first()).filter(|_| !is_void) else { return };
    if record.state.is_final() && !ends.contains(&record.state) {
        report.violate(Invariant::I13, id, format!("settled as {end}, and stored as {}", record.state));
    }
}

/// I13: what a handler commits together with its completion happens once, and only if the job is completed.
fn effects(job: &Job, report: &mut Report) {
    let Some(record) = job.records.first().filter(|_| !job.effects_sent.is_empty()) else { return };
    let expected = usize::from(record.state == JobState::Completed);
    if job.effects != expected {
        let text = format!("{} in the end, and its effect happened {} times", record.state, job.effects);
        report.violate(Invariant::I13, Some(job.id), text);
    }
}

/// I1 and I13: what a handler returned is there when its job is completed, and is what it returned.
fn results(job: &Job, report: &mut Report) {
    let Some(record) = job.records.first() else { return };
    let id = Some(job.id);
    match (&*job.results, record.state) {
        ([], JobState::Completed) if job.returned && job.effects_sent.is_empty() => {
            report.violate(Invariant::I1, id, "completed, and what it returned is not stored".to_owned());
        }
        ([], _) => {}
        ([result], JobState::Completed) if job.returned && *result == record.key => {}
        (results, state) => {
            let text = format!(
                "{state} in the end, its key is {}, and its results are those of {results:?}",
                record.key
            );
            report.violate(Invariant::I13, id, text);
        }
    }
}
