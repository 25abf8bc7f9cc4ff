//! I9 for rates: no window of time has more starts than its rate allows.

use super::{
    Invariant, Report,
    faults::{Faults, Window},
};
use crate::history::{Fault, History, What};
use std::time::Duration;
use windlass_core::RateLimit;

/// How long after its decision a handler may note that it runs, on a busy machine. Who waits longer for a processor notes that.
const LATE: u64 = 500_000_000;

/// A start, which was decided on some time between these two: the latter is when it was noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) from: u64,
    pub(super) at: u64,
    pub(super) job: i64,
}

/// All jobs of the run are of the queue. Each start counts, whatever became of its worker: the store counted it before.
pub(super) fn check(history: &History, faults: &Faults, rate: RateLimit, report: &mut Report) {
    let mut starts = Vec::new();
    for recorded in &history.events {
        if let What::Started { id, .. } = recorded.event.what {
            let (process, _) = history.processes[recorded.process as usize];
            let at = recorded.event.at;
            starts.push(Start { from: decided(faults, process, at), at, job: id });
        }
    }
    if let Some((job, count)) = exceeded(&mut starts, rate.count, rate.period) {
        let text = format!("{count} jobs started within {:?}, {} may", rate.period, rate.count);
        report.violate(Invariant::I9, Some(job), text);
    }
}

/// The earliest time at which the process may have decided on a start that it noted at `at`: it may have been paused since, or had no
/// processor.
pub(super) fn decided(faults: &Faults, process: i64, at: u64) -> u64 {
    let ours = || faults.windows.iter().filter(|window| window.target == Some(process));
    let held_up = |window: &&Window| window.begin <= at && at <= window.end.saturating_add(LATE);
    let pauses = || ours().filter(|window| window.fault == Fault::Pause);
    // A process that was paused says that it had no processor, too.
    let is_paused =
        |noted: u64| pauses().any(|pause| (pause.begin..=pause.end.saturating_add(LATE)).contains(&noted));
    let starved = ours().filter(|window| window.fault == Fault::Starved && !is_paused(window.end));
    let since = pauses().chain(starved).filter(held_up).map(|window| window.begin);
    since.min().unwrap_or(at).min(at).saturating_sub(LATE)
}

/// The first job with which some window of this length has more than `most` starts for certain, and how many it has.
pub(super) fn exceeded(starts: &mut [Start], most: u32, window: Duration) -> Option<(i64, usize)> {
    starts.sort_unstable_by_key(|start| start.from);
    let length = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    for (nth, first) in starts.iter().enumerate() {
        let end = first.from.saturating_add(length);
        let may = starts[nth..].iter().take_while(|start| start.from < end);
        let mut within: Vec<_> = may.filter(|start| start.at < end).collect();
        if within.len() > most as usize {
            within.sort_unstable_by_key(|start| start.at);
            return Some((within[most as usize].job, within.len()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exceeds(starts: &[(u64, u64)], most: u32) -> Option<(i64, usize)> {
        let start = |(from, at): &(u64, u64)| Start { from: *from, at: *at, job: *at as i64 };
        let mut starts: Vec<Start> = starts.iter().map(start).collect();
        exceeded(&mut starts, most, Duration::from_nanos(10))
    }

    #[test]
    fn a_window_begins_anywhere() {
        let at = |all: &[u64], most| exceeds(&all.iter().map(|at| (*at, *at)).collect::<Vec<_>>(), most);
        assert_eq!(at(&[], 1), None);
        assert_eq!(at(&[0, 10, 20], 1), None, "a window does not hold its end");
        assert_eq!(at(&[20, 0, 9], 1), Some((9, 2)));
        assert_eq!(at(&[0, 5, 6, 14, 15], 2), Some((6, 3)));
        assert_eq!(at(&[0, 5, 14, 15, 24], 2), None);
    }

    #[test]
    fn a_start_counts_where_all_of_its_time_is_within() {
        assert_eq!(exceeds(&[(0, 1), (2, 9)], 1), Some((9, 2)));
        assert_eq!(exceeds(&[(0, 1), (2, 10)], 1), None, "it may have been at 10");
        assert_eq!(
            exceeds(&[(0, 12), (11, 12), (13, 20)], 1),
            Some((20, 2)),
            "one may have been long before"
        );
    }
}
