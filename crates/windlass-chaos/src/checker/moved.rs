//! A database that was restored into another cluster: which ids mean the same before and after, and what the
//! dump may not know.

use super::holds::Jobs;
use crate::history::{Fate, Fault, History, Outcome, What};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

/// Added to the id of a job of the new cluster whose id another job of the old one had.
const ANEW: i64 = 1 << 48;
/// Added to the ids of all registrations with the new cluster.
const ANEW_WORKER: i32 = 1 << 24;

/// When the one move of a run happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    /// What was committed before is in the dump, what was sent after `taken` is not.
    begun: u64,
    taken: u64,
    /// Everything that was answered before, the old cluster answered.
    switched: u64,
}

impl Move {
    pub(super) fn of(history: &History) -> Option<Self> {
        let at = |wanted: Fault, begin: bool| {
            history.events.iter().find_map(|recorded| match recorded.event.what {
                What::Fault { fault, begins, .. } if fault == wanted && begins == begin => {
                    Some(recorded.event.at)
                }
                _ => None,
            })
        };
        Some(Self {
            begun: at(Fault::Dump, true)?,
            taken: at(Fault::Dump, false)?,
            switched: at(Fault::Restore, true)?,
        })
    }
}

/// The history with a name of its own for each job and registration. What the old cluster did after the dump is
/// forgotten, so the new one gives the same ids again, to others. A job is the same when its key is.
pub(super) fn tell_apart(history: &History) -> Cow<'_, History> {
    let Some(moved) = Move::of(history) else { return Cow::Borrowed(history) };
    let mut told = history.clone();
    let is_new = sides(history, moved);
    let (mut before, mut after): (HashMap<i64, HashSet<i64>>, HashMap<i64, HashSet<i64>>) =
        Default::default();
    for (recorded, is_new) in history.events.iter().zip(&is_new) {
        if let (Some(id), Some(key)) = (recorded.event.what.job(), recorded.event.what.key()) {
            let side = if *is_new { &mut after } else { &mut before };
            side.entry(id).or_default().insert(key);
        }
    }
    let is_another = |id: i64| {
        let (Some(before), Some(after)) = (before.get(&id), after.get(&id)) else { return false };
        before.is_disjoint(after)
    };
    for (recorded, _) in told.events.iter_mut().zip(&is_new).filter(|(_, is_new)| **is_new) {
        if let Some(worker) = recorded.event.what.worker_mut() {
            *worker = worker.saturating_add(ANEW_WORKER);
        }
        if let Some(id) = recorded.event.what.job_mut().filter(|id| is_another(**id)) {
            *id = id.saturating_add(ANEW);
        }
    }
    Cow::Owned(told)
}

/// For each event whether the ids in it are the new cluster's: those of a worker are when it registered there,
/// however long its handlers go on; all others by their time.
fn sides(history: &History, moved: Move) -> Vec<bool> {
    let mut registered: HashMap<(u32, i32), bool> = HashMap::new();
    let side = |recorded: &crate::history::Recorded| {
        let (what, is_late) = (&recorded.event.what, recorded.event.at >= moved.switched);
        let Some(worker) = what.worker() else { return is_late };
        match what {
            What::Registered { .. } => {
                registered.insert((recorded.process, worker), is_late);
                is_late
            }
            // About another process.
            What::Rescued { .. } => is_late,
            _ => registered.get(&(recorded.process, worker)).copied().unwrap_or(is_late),
        }
    };
    history.events.iter().map(side).collect()
}

impl Jobs {
    /// What a restore drops as documented, and what it `may_lose` when others wrote after the dump.
    pub(super) fn restored(&mut self, moved: Move, may_lose: bool) {
        let is_old = |at: u64| at < moved.switched;
        let is_after_dump = |at: u64| at > moved.begun && is_old(at);
        for job in self.by_id.values_mut() {
            let answers = || job.holds.iter().flat_map(|hold| &hold.answers);
            job.left_behind = answers().any(|(fate, outcome, sent, _)| {
                *outcome == Outcome::Complete && *fate != Fate::Refused && *sent <= moved.taken
            });
            if !may_lose {
                continue;
            }
            job.in_doubt |= is_after_dump(job.acked);
            // Among leases of the old cluster its answers stand; only what came of the last one is open.
            let last = job.holds.iter_mut().rfind(|hold| is_old(hold.claimed));
            for answer in last.into_iter().flat_map(|hold| &mut hold.answers) {
                if is_after_dump(answer.3) && answer.0 != Fate::Refused {
                    answer.0 = Fate::Unknown;
                }
            }
        }
    }
}
