//! Deploys: that workers of another version of a program begin is marked in the audit log, without anybody's doing.

use crate::{
    clock::earlier,
    state::{State, Worker},
};
use std::time::Duration;
use windlass_core::{AuditEntry, AuditId, Program, WorkerId};

/// How far back a look goes: far longer than who leads takes to look again.
const LOOK_BACK: Duration = Duration::from_secs(600);
/// The longest label of a mark, in characters.
const LONGEST: usize = 100;

/// Marks the versions that began of late and are not marked yet.
pub(crate) fn mark(state: &mut State) {
    let since = earlier(state.now(), LOOK_BACK);
    let of_late: Vec<WorkerId> =
        state.workers.iter().filter(|(_, worker)| worker.started_at > since).map(|(id, _)| *id).collect();
    for id in of_late {
        if !is_first(state, id) {
            continue;
        }
        let worker = &state.workers[&id];
        let label = label(&worker.spec.program);
        // A mark that is as young as the worker is its own, or of one that began beside it.
        let young = AuditId { at: worker.started_at.as_microsecond(), number: 0 };
        let is_marked =
            |entry: &AuditEntry| entry.actor == "windlass" && entry.action == "mark" && entry.target == label;
        if state.audit.range(young..).any(|(_, entry)| is_marked(entry)) {
            continue;
        }
        let entry = AuditEntry::new("windlass", "mark", label).with_via("worker");
        let entry = entry.with_reason(format!("worker {id} was the first of it"));
        state.last.audit += 1;
        let id = AuditId { at: state.now().as_microsecond(), number: state.last.audit };
        state.audit.insert(id, entry);
    }
}

/// Whether others of its program registered before, none that lived then had its version, and of those that had gone the last one had another: so the
/// first of all is none, and no restart is.
fn is_first(state: &State, id: WorkerId) -> bool {
    let worker = &state.workers[&id];
    let program = &worker.spec.program;
    let before = || {
        state
            .workers
            .range(..id)
            .map(|(_, other)| other)
            .filter(|other| other.spec.program.name == program.name)
    };
    let is_same = |other: &&Worker| other.spec.program.app_version == program.app_version;
    let until = |other: &Worker| other.ended_at.unwrap_or(jiff::Timestamp::MAX);
    let same = before().filter(is_same).map(until).max();
    let any = before().map(until).max();
    program.app_version.is_some()
        && any.is_some()
        && same.is_none_or(|same| same <= worker.started_at && Some(same) < any)
}

fn label(program: &Program) -> String {
    let parts: Vec<&str> =
        [&program.name, &program.app_version].into_iter().flatten().map(String::as_str).collect();
    parts.join(" ").chars().take(LONGEST).collect()
}
