//! I7 for jobs that take the place of others under their unique key: what was replaced never runs, the last of them does, and none is put
//! off for longer than it may be.
//!
//! Under a key that jobs have until they are finished only one that waits untried can be replaced. So when a call is told that it
//! replaced one, whatever was enqueued under the key before is over by then, or never runs.

use super::{Invariant, Report, Rules, holds::Jobs};
use std::collections::BTreeMap;
use windlass_core::JobState;

/// An enqueue that stored its job or may have: a new one (`place` false), or in the place of another.
#[derive(Clone, Copy)]
struct Call {
    key: i64,
    sent: u64,
    /// When its answer was noted; never, where that was lost.
    noted: u64,
    /// As which job; none: nobody knows.
    job: Option<i64>,
    place: bool,
}

pub(super) fn check(jobs: &mut Jobs, rules: &Rules, report: &mut Report) {
    for job in jobs.by_id.values() {
        if let Some((after, most)) = job.put_off.iter().find(|(after, most)| after > most) {
            let text = format!("put off until {after} us after it was first enqueued, {most} is the most");
            report.violate(Invariant::I7, Some(job.id), text);
        }
    }
    let by_unique = calls(jobs);
    if by_unique.is_empty() {
        return;
    }
    let ran = runs(jobs);
    mark_replaced(&by_unique, jobs);
    for calls in by_unique.values() {
        for call in calls.iter().filter(|call| call.job.is_some()) {
            check_call(*call, calls, &ran, jobs, rules, report);
        }
    }
}

/// The calls under each unique key whose jobs take each other's place.
fn calls(jobs: &Jobs) -> BTreeMap<i64, Vec<Call>> {
    let mut by_unique: BTreeMap<i64, Vec<Call>> = BTreeMap::new();
    for (key, known) in &jobs.keys {
        let Some((unique, sent)) = known.unique else { continue };
        let acked = known.acked.map(|id| (id, jobs.by_id.get(&id).map_or(sent, |job| job.acked)));
        let call = match (known.replaced, acked) {
            (Some((id, sent, noted)), _) => Call { key: *key, sent, noted, job: Some(id), place: true },
            (None, Some((id, noted))) => Call { key: *key, sent, noted, job: Some(id), place: false },
            _ if known.failed || known.kept || known.rolled_back => continue,
            _ => Call { key: *key, sent, noted: u64::MAX, job: None, place: known.replaces },
        };
        by_unique.entry(unique).or_default().push(call);
    }
    by_unique.retain(|_, calls| calls.iter().any(|call| call.place));
    for calls in by_unique.values_mut() {
        calls.sort_unstable_by_key(|call| (call.sent, call.key));
    }
    by_unique
}

/// When the calls were sent that handed a key's args to a handler.
fn runs(jobs: &Jobs) -> BTreeMap<i64, Vec<u64>> {
    let mut runs: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
    for hold in jobs.by_id.values().flat_map(|job| &job.holds) {
        if let Some(key) = hold.ran {
            runs.entry(key).or_default().push(hold.sent);
        }
    }
    runs
}

/// From when on each job may be cancelled because another took its place: that one has an id of its own.
fn mark_replaced(by_unique: &BTreeMap<i64, Vec<Call>>, jobs: &mut Jobs) {
    let call_of: BTreeMap<i64, (i64, u64)> = by_unique
        .iter()
        .flat_map(|(unique, calls)| calls.iter().map(|call| (call.key, (*unique, call.sent))))
        .collect();
    for job in jobs.by_id.values_mut() {
        let placed = job.placed.map(|(key, _)| key);
        let stored = job.records.first().map(|record| record.key);
        let Some(key) = job.acked_key.or(placed).or(stored) else { continue };
        let Some((unique, sent)) = call_of.get(&key) else { continue };
        let may_bury = |call: &&Call| call.place && call.noted > *sent && call.job != Some(job.id);
        job.replaced = by_unique[unique].iter().filter(may_bury).map(|call| call.sent).min();
    }
}

fn check_call(
    call: Call,
    calls: &[Call],
    ran: &BTreeMap<i64, Vec<u64>>,
    jobs: &Jobs,
    rules: &Rules,
    report: &mut Report,
) {
    let runs = ran.get(&call.key).map_or(&[][..], |runs| runs);
    let others = || calls.iter().filter(|other| other.key != call.key);
    let after = others().filter(|other| other.place && other.job.is_some() && other.sent > call.noted);
    if let Some(next) = after.min_by_key(|other| other.noted)
        && runs.iter().any(|claimed| *claimed > next.noted)
    {
        let text = format!("key {} was handed out though key {} had taken its place", call.key, next.key);
        report.violate(Invariant::I7, call.job, text);
    }
    // Where a later one was stored as new, this one was over by then.
    let fresh = others().filter(|other| !other.place && other.job.is_some() && other.sent > call.noted);
    let over = fresh.map(|other| other.noted).min().unwrap_or(u64::MAX);
    let earlier_of_its_batch = |other: &Call| other.sent == call.sent && other.key < call.key;
    let may_replace = |other: &Call| other.place && other.noted >= call.sent && other.sent <= over;
    let may_be_replaced = others().any(|other| may_replace(other) && !earlier_of_its_batch(other));
    let record = call.job.and_then(|id| jobs.by_id.get(&id)?.records.first());
    let died = record.is_some_and(|record| record.key == call.key && record.state == JobState::Discarded);
    if runs.is_empty() && !may_be_replaced && !died && !jobs.stuck && !rules.may_lose_commits {
        let text = format!("key {} was the last to take its place, and no handler got it", call.key);
        report.violate(Invariant::I7, call.job, text);
    }
}
