//! I2 and I13 for jobs that expire: none is started when it is too late, and none is cancelled for that before.

use super::{
    Invariant, Report, Rules,
    faults::Faults,
    holds::{Hold, Job, Jobs},
    rates,
};
use crate::history::{Fate, Outcome};

/// How exact it is when the engine decided, beside the time that its claim took.
const INEXACT_NS: u64 = 100_000_000;

pub(super) fn check(jobs: &Jobs, faults: &Faults, rules: &Rules, report: &mut Report) {
    let mut expired = 0;
    for job in jobs.by_id.values() {
        expired += u64::from(job.expired);
        let key = job.acked_key.and_then(|key| jobs.keys.get(&key));
        let Some((after, said)) = key.and_then(|key| key.expires) else {
            if job.expired && job.acked_key.is_some() {
                let text = "cancelled as expired, and it never expires".to_owned();
                report.violate(Invariant::I13, Some(job.id), text);
            }
            continue;
        };
        late(job, job.acked.saturating_add(after), faults, report);
        early(job, said.saturating_add(after), report);
    }
    if rules.expires && expired == 0 {
        report.doubts.push("no job expired".to_owned());
    }
}

/// The store had it when it said so, at the latest.
fn late(job: &Job, latest: u64, faults: &Faults, report: &mut Report) {
    for hold in &job.holds {
        let decided = hold.started.map(|at| rates::decided(faults, hold.process, at));
        if let Some(late) = decided.and_then(|at| at.checked_sub(latest)).filter(|late| *late > 0) {
            let text =
                format!("started by worker {} {} ms after it had expired", hold.worker, late / 1_000_000);
            report.violate(Invariant::I2, Some(job.id), text);
        }
    }
}

/// The store had it when its producer began to enqueue it, at the earliest. An engine counts from before it asked for the job.
fn early(job: &Job, earliest: u64, report: &mut Report) {
    if job.cancel_asked.is_some() {
        return;
    }
    let is_cancelled = |hold: &&Hold| hold.started.is_none() && hold.settled() == Some(Outcome::Cancel);
    for hold in job.holds.iter().filter(is_cancelled) {
        let sent = hold
            .answers
            .iter()
            .filter(|(fate, ..)| *fate == Fate::Accepted)
            .map(|(_, _, sent, _)| *sent)
            .max();
        let call = hold.claimed.saturating_sub(hold.sent);
        if sent.is_some_and(|sent| sent.saturating_add(call.saturating_add(INEXACT_NS)) < earliest) {
            let text = format!("cancelled by worker {} before it expired", hold.worker);
            report.violate(Invariant::I13, Some(job.id), text);
        }
    }
}
