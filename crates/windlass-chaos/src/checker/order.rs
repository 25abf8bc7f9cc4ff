//! Puts the leases of each job in the store's order.

use super::{
    Report, attempts,
    faults::Faults,
    holds::{Hold, Job, Jobs},
    leases,
};
use crate::history::Fault;
use std::collections::HashSet;

/// More orders of one job's leases than this are not tried.
const MAX_ORDERS: usize = 2_000;

/// A paused process notes a claim late, but the store numbers the claims of a lane in its order; a crash may forget
/// the last of them and give their numbers again, so numbers compare only between the bounds of crashes.
pub(super) fn sort(jobs: &mut Jobs, faults: &Faults) {
    let bounds = faults.bounds_of(&[Fault::DatabaseCrash, Fault::Failover, Fault::Restore]);
    let bounds_before = |at: u64| bounds.partition_point(|bound| *bound < at);
    for job in jobs.by_id.values_mut() {
        let one_lane = job.holds.windows(2).all(|pair| pair[0].lane == pair[1].lane);
        match one_lane {
            true => job.holds.sort_by_key(|hold| (bounds_before(hold.claimed), hold.seq)),
            false => job.holds.sort_by_key(|hold| hold.claimed),
        }
        let unknown = |hold: &&Hold| is_open(hold, &bounds) || is_late(hold, job);
        let open: Vec<Name> = job.holds.iter().filter(unknown).map(name).collect();
        if !open.is_empty() {
            place(job, &open, faults);
        }
    }
}

/// Whether nobody knows where this lease belongs: its call was under way during a crash, so it may be one that the
/// crash forgot, and whose answer was noted long after, when others had the job or had ended it. What was accepted was
/// not forgotten.
fn is_open(hold: &Hold, bounds: &[u64]) -> bool {
    hold.settled().is_none() && bounds.iter().any(|bound| (hold.sent..=hold.claimed).contains(bound))
}

/// Whether it was noted after a lease of another lane that came while its call was under way: lanes do not tell which was first.
fn is_late(hold: &Hold, job: &Job) -> bool {
    let came_amid =
        |other: &Hold| other.lane != hold.lane && (hold.sent..hold.claimed).contains(&other.claimed);
    hold.settled().is_none() && job.holds.iter().any(came_amid)
}

/// What tells a job's leases apart: worker and claim.
type Name = (i32, i32, i64);

fn name(hold: &Hold) -> Name {
    (hold.worker, hold.lane, hold.seq)
}

/// A history is fine when some order explains it: moves open leases forward, always going on from the order that breaks
/// the fewest promises.
fn place(job: &mut Job, open: &[Name], faults: &Faults) {
    let order = |job: &Job| -> Vec<Name> { job.holds.iter().map(name).collect() };
    let mut seen = HashSet::from([order(job)]);
    let mut orders = vec![(broken(job, faults), job.clone())];
    let mut fewest = orders[0].0;
    while fewest > 0 && seen.len() < MAX_ORDERS {
        let Some(next) = (0..orders.len()).min_by_key(|nth| orders[*nth].0) else { return };
        let (_, from) = orders.swap_remove(next);
        for other in moves(&from, open).filter(|other| seen.insert(order(other))) {
            let count = broken(&other, faults);
            if count < fewest {
                (fewest, *job) = (count, other.clone());
            }
            orders.push((count, other));
        }
    }
}

fn broken(job: &Job, faults: &Faults) -> u64 {
    let mut report = Report::default();
    leases::check_job(job, faults, &mut report);
    attempts::check_job(job, faults, &mut report);
    report.violated.values().sum()
}

/// The job with one open lease put before leases that were noted when its call had been sent.
fn moves<'a>(job: &'a Job, open: &'a [Name]) -> impl Iterator<Item = Job> + 'a {
    let late = (0..job.holds.len()).filter(|from| open.contains(&name(&job.holds[*from])));
    late.flat_map(move |from| {
        let sent = job.holds[from].sent;
        (0..from).filter(move |to| job.holds[*to].claimed >= sent).map(move |to| {
            let mut other = job.clone();
            let mut hold = other.holds.remove(from);
            hold.claimed = hold.claimed.min(other.holds[to].claimed);
            other.holds.insert(to, hold);
            other
        })
    })
}
