//! I3, I4 and I5: leases end before the next begins, for a reason, and what comes after is refused.

use super::{
    Invariant, Report,
    faults::{Faults, Loss},
    holds::{Hold, Job, Jobs},
};
use crate::history::{Fate, Outcome};

pub(super) fn check(jobs: &Jobs, faults: &Faults, report: &mut Report) {
    for job in jobs.by_id.values() {
        check_job(job, faults, report);
    }
}

pub(super) fn check_job(job: &Job, faults: &Faults, report: &mut Report) {
    for pair in job.holds.windows(2) {
        handover(job, &pair[0], &pair[1], faults, report);
    }
    for hold in &job.holds {
        fenced(job, hold, faults, report);
    }
    for worker in &job.stray_writes {
        let text = format!("a write by worker {worker} was accepted, which never claimed it");
        report.violate(Invariant::I5, Some(job.id), text);
    }
}

/// One lease on a job and the next.
fn handover(job: &Job, hold: &Hold, next: &Hold, faults: &Faults, report: &mut Report) {
    stale_write(job, hold, next, report);
    if let Some(outcome) = hold.settled() {
        if outcome.is_final() && job.retries_asked == 0 {
            let text =
                format!("settled as {outcome:?} by {}, and handed out again to {}", of(hold), of(next));
            report.violate(Invariant::I13, Some(job.id), text);
        }
        return;
    }
    let until = next.claimed;
    let dead = faults.may_be_dead(hold.worker, until);
    let left = faults.had_deregistered(hold.worker, until);
    let forgotten = faults.forgot_claims(hold.sent, until);
    // Nobody knows whether its settlement happened; one that puts the job back explains the next lease.
    let back = match hold.maybe_settled() {
        Some(Outcome::Retry | Outcome::Snooze | Outcome::Return | Outcome::NoHandler) => true,
        // It may have ended the job, and somebody retried that by hand.
        Some(Outcome::Cancel | Outcome::Discard) => job.retries_asked > 0,
        _ => false,
    };
    if !dead && !left && !forgotten && !back {
        let text = format!("handed out to {} while {} held it", of(next), of(hold));
        report.violate(Invariant::I3, Some(job.id), text);
    }
    let (Some(_), Some(_)) = (hold.started, next.started) else { return };
    if back && !dead && !left {
        return;
    }
    report.counts.second_starts += 1;
    let lease = faults.leases.get(&hold.worker).copied().unwrap_or(0);
    let loss = if dead && !left && !forgotten { Loss::Rescued } else { Loss::Other };
    match faults.explains(loss, hold.process, lease, hold.sent, until) {
        Some(fault) => *report.counts.explained_by.entry(fault).or_default() += 1,
        None => {
            let text = format!("started by {} after {}, and no fault explains why", of(next), of(hold));
            report.violate(Invariant::I4, Some(job.id), text);
        }
    }
}

/// I5: the settlement of the earlier lease was sent when the next one was noted, and accepted.
fn stale_write(job: &Job, hold: &Hold, next: &Hold, report: &mut Report) {
    let stale =
        |(fate, _, sent, _): &&(Fate, Outcome, u64, u64)| *fate == Fate::Accepted && *sent > next.claimed;
    if let Some((_, outcome, ..)) = hold.answers.iter().find(stale) {
        let text = format!("{outcome:?} by {} was accepted although {} held it", of(hold), of(next));
        report.violate(Invariant::I5, Some(job.id), text);
    }
}

/// I5: the worker was known to be declared dead when it sent what was accepted.
fn fenced(job: &Job, hold: &Hold, faults: &Faults, report: &mut Report) {
    let void = |(fate, _, sent, _): &&(Fate, Outcome, u64, u64)| {
        matches!(fate, Fate::Accepted | Fate::Already) && faults.moved_between(hold.claimed, *sent)
    };
    if let Some((_, outcome, ..)) = hold.answers.iter().find(void) {
        let text = format!("{outcome:?} by {} was accepted after the move to another cluster", of(hold));
        report.violate(Invariant::I5, Some(job.id), text);
    }
    let Some(dead) = faults.noted_dead(hold.worker) else { return };
    let late = |(fate, _, sent, _): &&(Fate, Outcome, u64, u64)| *fate == Fate::Accepted && *sent > dead;
    if let Some((_, outcome, ..)) = hold.answers.iter().find(late) {
        let text = format!("{outcome:?} by {} was accepted after a rescue had declared it dead", of(hold));
        report.violate(Invariant::I5, Some(job.id), text);
    }
}

fn of(hold: &Hold) -> String {
    format!("worker {} (process {}, claim {}/{})", hold.worker, hold.process, hold.lane, hold.seq)
}
