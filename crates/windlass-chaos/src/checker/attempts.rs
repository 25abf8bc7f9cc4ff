//! I6: from one lease to the next, attempts and crash counts move exactly as the rules say.

use super::{
    Invariant, Report,
    faults::Faults,
    holds::{Hold, Job, Jobs},
};
use crate::history::Outcome;

/// Workers that die together hold many jobs, and one of them may be the killer: without a suspect the
/// count of each goes up, but never above this.
const TOGETHER: u16 = 2;

pub(super) fn check(jobs: &Jobs, faults: &Faults, report: &mut Report) {
    for job in jobs.by_id.values() {
        check_job(job, faults, report);
    }
}

pub(super) fn check_job(job: &Job, faults: &Faults, report: &mut Report) {
    if job.retries_asked > 0 {
        return; // a retry by hand may count anew
    }
    // What came before the first lease that anybody noted, nobody knows: a claim's answer may have been lost with
    // the process that made it.
    if let Some(first) = job.holds.first().filter(|first| first.attempt != 1) {
        let text = format!("its first lease is attempt {}", first.attempt);
        report.violate(Invariant::I6, Some(job.id), text);
    }
    for pair in job.holds.windows(2) {
        step(job, &pair[0], &pair[1], faults, report);
    }
}

fn step(job: &Job, hold: &Hold, next: &Hold, faults: &Faults, report: &mut Report) {
    let (from, to) = ((hold.attempt, hold.crashes), (next.attempt, next.crashes));
    // The dump may be older than the lease, by some attempts even.
    if hold.settled().is_none() && faults.moved_between(hold.claimed, next.claimed) {
        if to.0 > from.0.saturating_add(1) || to.1 > from.1.saturating_add(1) {
            wrong(job, hold, next, "a restore can only take back what came after the dump", report);
        }
        return;
    }
    let after = |outcome: Outcome| match outcome {
        Outcome::Retry => (from.0.saturating_add(1), from.1),
        _ => from,
    };
    if let Some(outcome) = hold.settled() {
        // The job may have been claimed and lost once more in between without a note of it.
        let expected = after(outcome);
        if to != expected && !(to.0 == expected.0 && to.1 > expected.1 && unseen(faults, hold, next)) {
            wrong(job, hold, next, &format!("{outcome:?} makes it {expected:?}"), report);
        }
        return;
    }
    let mut allowed = vec![];
    if let Some(outcome) = hold.maybe_settled() {
        allowed.push(after(outcome));
    }
    let dead = faults.may_be_dead(hold.worker, next.claimed);
    let left = faults.had_deregistered(hold.worker, next.claimed);
    if left || faults.forgot_claims(hold.sent, next.claimed) {
        allowed.push(from);
    }
    if dead {
        let together = from.1.saturating_add(1).min(from.1.max(TOGETHER));
        allowed.push((from.0, together));
        if faults.suspects.contains_key(&hold.worker) {
            allowed.extend([from, (from.0, from.1.saturating_add(1))]);
        }
    }
    let fits = |(attempt, crashes): &(u16, u16)| {
        to == (*attempt, *crashes) || (to.0 == *attempt && to.1 > *crashes && unseen(faults, hold, next))
    };
    if !allowed.is_empty() && !allowed.iter().any(fits) {
        wrong(job, hold, next, &format!("a lost lease makes it one of {allowed:?}"), report);
    }
}

/// Whether leases may lie between the two that nobody noted: some process was hit in between, so a claim's
/// answer may never have reached its history. Each lane numbers its own claims.
fn unseen(faults: &Faults, hold: &Hold, next: &Hold) -> bool {
    let room = hold.lane != next.lane || next.seq > hold.seq.saturating_add(1);
    room && faults.windows.iter().any(|window| window.begin <= next.claimed && window.end >= hold.claimed)
}

fn wrong(job: &Job, hold: &Hold, next: &Hold, why: &str, report: &mut Report) {
    let text = format!(
        "attempt and crash count went from {:?} to {:?}, but {why}",
        (hold.attempt, hold.crashes),
        (next.attempt, next.crashes)
    );
    report.violate(Invariant::I6, Some(job.id), text);
}
