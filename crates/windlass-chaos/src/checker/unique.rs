//! I7 for unique keys: of the jobs with one unique key at most one is there at a time, and who finds the key taken is told
//! of a job that has it.
//!
//! Nobody knows when a commit happened, only that it did between two notes. So a job counts as live from the first note that it
//! exists until the first call was sent that may have ended it: two that overlap were live at once for certain.

use super::{
    Invariant, Report, Rules,
    holds::{Hold, Job, Jobs, Kept},
};
use crate::history::{Fate, Outcome};
use std::collections::BTreeMap;
use windlass_core::{JobState, NewJob};

/// A worker that dies with a job which so many dying ones held before ends it.
const LAST_CRASH: u16 = 4;

pub(super) fn check(jobs: &Jobs, rules: &Rules, report: &mut Report) {
    let mut lives: BTreeMap<i64, Vec<(u64, u64, i64)>> = BTreeMap::new();
    for job in jobs.by_id.values() {
        let Some((unique, _)) = unique_of(job, jobs) else { continue };
        if job.rolled_back || (rules.may_lose_commits && job.in_doubt) {
            continue;
        }
        if let Some((from, until)) = life(job) {
            lives.entry(unique).or_default().push((from, until, job.id));
        }
    }
    for (unique, mut lives) in lives {
        lives.sort_unstable();
        let mut longest: Option<(u64, i64)> = None;
        for (from, until, id) in lives {
            if let Some((end, other)) = longest.filter(|(end, _)| from < *end) {
                let both = end.min(until) - from;
                let text = format!(
                    "unique key {unique} had job {other} and job {id} for {} ms at least",
                    both / 1_000_000
                );
                report.violate(Invariant::I7, Some(id), text);
            }
            longest = longest.max(Some((until, id)));
        }
    }
    let has_window = |kept: &&Kept| jobs.keys.get(&kept.key).is_some_and(|key| key.window.is_some());
    for kept in jobs.kept.iter().filter(|kept| !has_window(kept)) {
        if let Some(why) = wrongly_kept(kept, jobs, rules) {
            let text =
                format!("key {} was told that job {} has its unique key, {why}", kept.key, kept.holder);
            report.violate(Invariant::I7, Some(kept.holder), text);
        }
    }
}

/// The unique key of a job, and when the enqueue was sent that stored it.
fn unique_of(job: &Job, jobs: &Jobs) -> Option<(i64, u64)> {
    let stored = job.records.first().map(|record| record.key);
    let placed = job.placed.map(|(key, _)| key);
    let key = job.acked_key.or(placed).or(job.seen_keys.first().copied()).or(stored)?;
    jobs.keys.get(&key)?.unique
}

/// From when until when a job was live for certain. What brings it back, a retry by hand, is left out.
fn life(job: &Job) -> Option<(u64, u64)> {
    let acked = job.acked_key.map(|_| job.acked).or(job.placed.map(|(_, at)| at));
    let claimed = job.holds.iter().map(|hold| hold.claimed).min();
    let from = acked.into_iter().chain(claimed).min()?;
    let ends = job.holds.iter().filter_map(may_end);
    let asked = job.cancel_asked.into_iter().chain(job.effects_sent.iter().copied());
    let until = ends.chain(asked).chain(job.replaced).chain(died(job)).min().unwrap_or(u64::MAX);
    (from < until).then_some((from, until))
}

/// When the first call was sent that may have ended the job under this lease.
fn may_end(hold: &Hold) -> Option<u64> {
    let ends = |outcome: Outcome| match outcome {
        Outcome::Retry => hold.attempt >= NewJob::DEFAULT_MAX_ATTEMPTS,
        other => other.is_final(),
    };
    let settled = hold.answers.iter().filter(|(fate, outcome, ..)| *fate != Fate::Refused && ends(*outcome));
    let settled = settled.map(|(_, _, sent, _)| *sent).min();
    // A call of which nobody noted an answer was sent after the handler's end.
    let finished = hold.finished.filter(|(_, outcome)| ends(*outcome)).map(|(at, _)| at);
    let crashed = (hold.crashes >= LAST_CRASH).then_some(hold.claimed);
    settled.into_iter().chain(finished).chain(crashed).min()
}

/// A job that ended without a call that anybody noted: not before its last lease.
fn died(job: &Job) -> Option<u64> {
    let record = job.records.first().filter(|record| record.state.is_final())?;
    let explained = job.holds.iter().any(|hold| may_end(hold).is_some());
    let is_known = explained && record.state != JobState::Discarded;
    let last = job.holds.iter().map(|hold| hold.claimed).max().unwrap_or(job.acked);
    (!is_known).then_some(last)
}

/// Why the job that an answer names cannot have had the key, if it cannot.
fn wrongly_kept(kept: &Kept, jobs: &Jobs, rules: &Rules) -> Option<String> {
    let wanted = jobs.keys.get(&kept.key).and_then(|key| key.unique).map(|(unique, _)| unique);
    let Some(holder) = jobs.by_id.get(&kept.holder) else { return Some("which nobody ever saw".to_owned()) };
    let Some((unique, sent)) = unique_of(holder, jobs) else {
        let excused = rules.may_lose_commits || rules.removes_completed;
        return (!excused).then(|| "which nobody ever saw".to_owned());
    };
    if wanted != Some(unique) {
        return Some(format!("which has unique key {unique}"));
    }
    if holder.rolled_back {
        return Some("which was rolled back".to_owned());
    }
    // Whoever first took a place in it may have died before its answer.
    if sent > kept.noted && holder.placed.is_none() {
        return Some("before that was enqueued".to_owned());
    }
    if jobs.drained.is_some_and(|drained| drained < kept.sent) {
        return Some("after everything drained: it is stuck".to_owned());
    }
    let ended = holder.holds.iter().filter_map(ended).min().filter(|_| holder.retries_asked == 0);
    let late = ended.filter(|ended| *ended < kept.sent);
    late.map(|ended| format!("which had ended {} ms before the call", (kept.sent - ended) / 1_000_000))
}

/// When it was noted that the job ended under this lease.
fn ended(hold: &Hold) -> Option<u64> {
    let accepted =
        hold.answers.iter().filter(|(fate, outcome, ..)| *fate == Fate::Accepted && outcome.is_final());
    accepted.map(|(.., answered)| *answered).min()
}
