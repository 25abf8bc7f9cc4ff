//! I9: no more jobs of a queue run at once than its limit says, of those whose lease may stand; and in the end no fewer.

use super::{
    Invariant, Report,
    faults::{Faults, Window},
};
use crate::history::{Fault, History, What};
use std::collections::BTreeSet;

/// All jobs of the run are of the queue.
pub(super) fn check(history: &History, faults: &Faults, limit: u32, report: &mut Report) {
    // In which process, under which registration, which job.
    let mut running = BTreeSet::new();
    for recorded in &history.events {
        let (process, at) = (recorded.process, recorded.event.at);
        match recorded.event.what {
            What::Started { worker, id, .. } => {
                running.insert((process, worker, id));
                running.retain(|(process, worker, _)| counts(faults, *process, *worker, at));
                if running.len() > limit as usize {
                    let text = format!("{} jobs run at once, {limit} may: {running:?}", running.len());
                    report.violate(Invariant::I9, Some(id), text);
                    return;
                }
            }
            What::Finished { worker, id, .. } => {
                running.remove(&(process, worker, id));
            }
            _ => {}
        }
    }
}

/// What the injector saw when the faults were over: of each limit all is to be had. Whether more was, others say: a lease may have ended meanwhile.
pub(super) fn admitted(history: &History, report: &mut Report) {
    for recorded in &history.events {
        if let What::Admitted { limit, got } = recorded.event.what
            && got < limit
        {
            let text = format!("when the faults were over a limit of {limit} admitted {got}");
            report.violate(Invariant::I9, None, text);
        }
    }
}

/// Whether what the worker began runs under a lease that stands for sure. A process that is dead runs nothing.
fn counts(faults: &Faults, process: u32, worker: i32, at: u64) -> bool {
    let died = |window: &Window| {
        matches!(window.fault, Fault::Kill | Fault::Poison | Fault::MemoryCap)
            && window.target == Some(i64::from(process))
            && window.begin <= at
    };
    !faults.may_be_dead(worker, at)
        && !faults.had_deregistered(worker, at)
        && !faults.windows.iter().any(died)
}
