//! I9: no process runs more handlers at once than it has slots.

use super::{Invariant, Report};
use crate::history::{History, What};
use std::collections::{HashMap, HashSet};

pub(super) fn check(history: &History, report: &mut Report) {
    let mut slots: HashMap<u32, i64> = HashMap::new();
    let mut running: HashMap<u32, HashSet<(i32, i64)>> = HashMap::new();
    let mut exceeded = HashSet::new();
    for recorded in &history.events {
        let process = recorded.process;
        match recorded.event.what {
            What::Registered { slots: count, .. } => {
                slots.insert(process, count);
            }
            What::Started { worker, id, .. } => {
                let running = running.entry(process).or_default();
                running.insert((worker, id));
                let most = slots.get(&process).copied().unwrap_or(i64::MAX);
                if running.len() as i64 > most && exceeded.insert(process) {
                    let name = &history.processes[process as usize].1;
                    let text = format!("{name} runs {} jobs at once, its slots are {most}", running.len());
                    report.violate(Invariant::I9, Some(id), text);
                }
            }
            What::Finished { worker, id, .. } => {
                running.entry(process).or_default().remove(&(worker, id));
            }
            _ => {}
        }
    }
}
