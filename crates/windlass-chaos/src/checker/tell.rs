use super::moved::tell_apart;
use crate::history::{History, What};
use std::{collections::HashSet, fmt::Write as _};

/// The whole history of one job as text: what happened to it, to the workers that held it, and the faults
/// that hit their processes, with seconds since the run began.
pub fn tell(history: &History, job: i64) -> String {
    let history = &*tell_apart(history);
    let ours = |what: &What| what.job() == Some(job);
    let keys = history.events.iter().filter(|r| ours(&r.event.what)).filter_map(|r| r.event.what.key());
    let keys: HashSet<i64> = keys.collect();
    let holders = history.events.iter().filter(|r| ours(&r.event.what) && r.event.what.worker().is_some());
    let (mut workers, mut processes) = (HashSet::new(), HashSet::new());
    let (mut first, mut last) = (u64::MAX, 0);
    for recorded in holders {
        workers.extend(recorded.event.what.worker());
        processes.insert(history.processes[recorded.process as usize].0);
        first = first.min(recorded.event.at);
        last = last.max(recorded.event.at);
    }
    let origin = history.events.first().map_or(0, |recorded| recorded.event.at);
    let mut text = String::new();
    for recorded in &history.events {
        let (at, what) = (recorded.event.at, &recorded.event.what);
        let near = at.saturating_add(5_000_000_000) >= first && at <= last.saturating_add(1_000_000_000);
        let wanted = match what {
            What::EnqueueSent { key }
            | What::UniqueSent { key, .. }
            | What::EnqueueFailed { key }
            | What::EnqueueUnknown { key } => keys.contains(key),
            What::Fault { target: None, .. } => near,
            What::Fault { target: Some(target), .. } => processes.contains(target),
            What::Phase { .. } => true,
            what if what.job().is_some() => ours(what),
            what => what.worker().is_some_and(|worker| workers.contains(&worker)),
        };
        if wanted {
            let seconds = (at - origin) as f64 / 1e9;
            let name = &history.processes[recorded.process as usize].1;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {seconds:>11.6} {name:<14} {what:?}");
        }
    }
    text
}
