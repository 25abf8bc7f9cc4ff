//! I1 for checkpoints: what a handler was told is kept, or something later, is what every later run of the job is given.

use super::{
    Invariant, Report, Rules,
    faults::Faults,
    holds::{Hold, Job, Jobs},
};

pub(super) fn check(jobs: &Jobs, faults: &Faults, rules: &Rules, report: &mut Report) {
    // A dump that is restored, or a standby that takes over, may be older than what was kept.
    if rules.may_lose_commits || faults.moved_between(0, u64::MAX) {
        return;
    }
    for job in jobs.by_id.values() {
        for (nth, hold) in job.holds.iter().enumerate() {
            if let Some(from) = hold.resumed {
                given(job, &job.holds[..nth], hold, from, report);
            }
        }
    }
}

/// Handlers count on from what they are given, so later ones have larger numbers.
fn given(job: &Job, before: &[Hold], hold: &Hold, from: u32, report: &mut Report) {
    let all = || before.iter().flat_map(|earlier| &earlier.checkpoints);
    let kept = all().filter(|(_, kept, at)| *kept && *at < hold.sent).map(|(value, ..)| *value).max();
    let who = format!("worker {} (claim {}/{})", hold.worker, hold.lane, hold.seq);
    if let Some(kept) = kept.filter(|kept| *kept > from) {
        let text = format!("{who} was given checkpoint {from}, though {kept} was kept before");
        report.violate(Invariant::I1, Some(job.id), text);
    }
    let said = job.holds.iter().flat_map(|other| &other.checkpoints).any(|(value, ..)| *value == from);
    if from > 0 && !said {
        let text = format!("{who} was given checkpoint {from}, which no handler ever kept");
        report.violate(Invariant::I2, Some(job.id), text);
    }
}
