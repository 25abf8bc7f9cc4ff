//! I9 for rates: no window of time has more starts than its rate allows.

use super::{Invariant, Report, faults::Faults};
use crate::history::{Fault, History, What};
use std::time::Duration;
use windlass_core::RateLimit;

/// How long after its decision a handler may note that it runs, on a busy machine: windows are looked at that are shorter by this. Who
/// waits longer for a processor notes that.
const LATE: Duration = Duration::from_millis(500);

/// All jobs of the run are of the queue. Each start counts, whatever became of its worker: the store counted it before.
pub(super) fn check(history: &History, faults: &Faults, rate: RateLimit, report: &mut Report) {
    let mut starts = Vec::new();
    for recorded in &history.events {
        if let What::Started { id, .. } = recorded.event.what {
            let (process, _) = history.processes[recorded.process as usize];
            if !held_up(faults, process, recorded.event.at) {
                starts.push((recorded.event.at, id));
            }
        }
    }
    let window = rate.period.saturating_sub(LATE);
    if let Some((id, count)) = exceeded(&mut starts, rate.count, window) {
        let text = format!("{count} jobs started within {window:?}, {} may in {:?}", rate.count, rate.period);
        report.violate(Invariant::I9, Some(id), text);
    }
}

/// Whether the process may have decided on what it noted at `at` long before: it was paused meanwhile, or had no processor.
fn held_up(faults: &Faults, process: i64, at: u64) -> bool {
    let late = nanos(LATE);
    faults.windows.iter().filter(|window| window.target == Some(process)).any(|window| match window.fault {
        Fault::Pause => window.begin <= at && at <= window.end.saturating_add(late),
        // Noted when it is over, like all that was held up.
        Fault::Starved => window.end.abs_diff(at) <= late,
        _ => false,
    })
}

/// The first job, by its start, with which some window of this length has more than `most` starts, and how many it has.
pub(super) fn exceeded(starts: &mut [(u64, i64)], most: u32, window: Duration) -> Option<(i64, usize)> {
    starts.sort_unstable();
    let (most, window) = (most as usize, nanos(window));
    let within = |from: usize| starts[from..].partition_point(|(at, _)| at - starts[from].0 < window);
    let from = (0..starts.len().saturating_sub(most)).find(|from| within(*from) > most)?;
    Some((starts[from + most].1, within(from)))
}

fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_anywhere() {
        let exceeds = |at: &[u64], most| {
            let mut starts: Vec<(u64, i64)> = at.iter().map(|at| (*at, *at as i64)).collect();
            exceeded(&mut starts, most, Duration::from_nanos(10))
        };
        assert_eq!(exceeds(&[], 1), None);
        assert_eq!(exceeds(&[0, 10, 20], 1), None, "a window does not hold its end");
        assert_eq!(exceeds(&[20, 0, 9], 1), Some((9, 2)));
        assert_eq!(exceeds(&[0, 5, 6, 14, 15], 2), Some((14, 3)));
        assert_eq!(exceeds(&[0, 5, 14, 15, 24], 2), None);
    }
}
