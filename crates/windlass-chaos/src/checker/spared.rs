//! I4, where a run bounds it: an outage that hits everybody takes no job from a worker that lives through it.

use super::{
    Invariant, Report,
    faults::{AFTERMATH_NS, Faults, GOING_DOWN_NS, Window},
    holds::{Hold, Jobs},
};
use crate::history::{Fault, Outcome};

/// `most` of 10,000 jobs may start a second time although the process of their first worker lived. Faults that
/// hit one process (a SIGKILL, no processor) excuse its jobs, and so does a busy machine; a crash excuses claims that were answered while the
/// server went down already, which it may forget.
pub(super) fn check(jobs: &Jobs, faults: &Faults, most: u64, report: &mut Report) {
    let (mut started, mut again) = (0, Vec::new());
    for job in jobs.by_id.values() {
        let holds: Vec<&Hold> = job.holds.iter().filter(|hold| hold.started.is_some()).collect();
        started += u64::from(!holds.is_empty());
        for pair in holds.windows(2) {
            if !put_back(pair[0]) && !is_excused(pair[0], pair[1], faults) {
                again.push((job.id, pair[0], pair[1]));
            }
        }
        let held = holds.iter().map(|hold| outages_of(hold, faults));
        report.counts.held_through_outages += held.sum::<usize>() as u64;
    }
    report.counts.living_second_starts = again.len() as u64;
    if again.len() as u64 * 10_000 <= most * started {
        return;
    }
    for (id, hold, next) in again {
        let text = format!(
            "started by worker {} although worker {} (process {}), which had started it, lived",
            next.worker, hold.worker, hold.process
        );
        report.violate(Invariant::I4, Some(id), text);
    }
}

/// Its settlement says that it is to start again, or other invariants are about it.
fn put_back(hold: &Hold) -> bool {
    let puts_back =
        |outcome: Outcome| matches!(outcome, Outcome::Retry | Outcome::Snooze | Outcome::NoHandler);
    hold.settled().is_some() || hold.finished.is_some_and(|(_, outcome)| puts_back(outcome))
}

fn is_excused(hold: &Hold, next: &Hold, faults: &Faults) -> bool {
    let until = next.started.unwrap_or(next.claimed);
    was_hit(hold, until, faults)
        || faults.windows.iter().any(|window| {
            let going_down = window.begin..window.end.saturating_add(GOING_DOWN_NS);
            window.fault == Fault::DatabaseCrash && going_down.contains(&hold.claimed)
        })
}

fn was_hit(hold: &Hold, until: u64, faults: &Faults) -> bool {
    let lease = faults.leases.get(&hold.worker).copied().unwrap_or(0);
    faults.windows.iter().any(|window| {
        let after = window.end.saturating_add(AFTERMATH_NS).saturating_add(lease);
        // The server or the proxy had no processor, or a slow disk: nobody planned that, and it hits all.
        let is_busy = window.target.is_none() && matches!(window.fault, Fault::SlowDisk | Fault::Starved);
        let hit = window.target == Some(hold.process) || is_busy;
        hit && window.begin <= until && after >= hold.claimed
    })
}

/// Through how many outages its worker held it without being hit itself.
fn outages_of(hold: &Hold, faults: &Faults) -> usize {
    let ended = hold.answers.first().map_or(u64::MAX, |(_, _, sent, _)| *sent);
    let spans = |window: &&Window| {
        window.target.is_none() && window.end > window.begin && hold.claimed < window.begin
    };
    let through = faults.windows.iter().filter(spans).filter(|window| ended > window.end);
    through.filter(|window| !was_hit(hold, window.end, faults)).count()
}
