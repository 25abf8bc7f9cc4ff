//! The book of one order: where each job must be, by what was acknowledged and committed.
//!
//! Every operation is noted when it starts, when it answers, and when its transaction commits. Transitions
//! count at commit; answers that change nothing must fit a stage that the job was in while the operation ran.

mod answers;
mod commits;
mod keys;
mod limits;
mod reports;
mod settling;
mod ticks;

use super::{call::Reply, scenario::KeyRule};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::{Args, ClaimRef, JobId, JobState, WorkerId};

/// From how many crashes on a suspect is discarded: beyond what any scenario reaches.
pub(crate) const MAX_CRASHES: u16 = 100;
/// A job that shared its workers with others is never counted above this.
const INNOCENT_CRASHES: u16 = 2;

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Outside the log and due.
    Waiting {
        retryable: bool,
    },
    Available,
    NoHandler,
    Running(WorkerId, ClaimRef),
    Completed,
    Cancelled,
    Discarded,
    Deleted,
}

#[derive(Debug)]
struct Entry {
    kind: &'static str,
    /// Its args.
    args: String,
    /// Its unique key.
    key: Option<Key>,
    /// The key that it is about.
    about: Option<u8>,
    /// The last checkpoint that was kept, and which of its claims, counted in [`Self::past`], had said so.
    checkpoint: Option<(usize, u64)>,
    /// Attempts used up.
    used: u16,
    crashes: u16,
    /// Somebody wants it cancelled while it runs: what would bring it back may cancel it. It need not, where the request
    /// commits while that is under way; then it is cancelled later.
    unwanted: bool,
    /// Every stage with the tick from which on it held.
    past: Vec<(u64, Stage)>,
}

/// A unique key, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    number: u8,
    until_started: bool,
}

#[derive(Debug)]
struct WorkerEntry {
    kinds: &'static [&'static str],
    live: bool,
    overdue: bool,
    suspect: Option<JobId>,
    /// Its slots of the queue, with the tick from which on it had so many.
    slots: Vec<(u64, u32)>,
}

/// What the store says about a job.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) id: JobId,
    pub(crate) state: JobState,
    pub(crate) crashes: u16,
    pub(crate) checkpoint: Option<Args>,
}

/// The model of one order, and what was wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Book {
    jobs: BTreeMap<JobId, Entry>,
    rolled_back: BTreeSet<JobId>,
    /// What the idempotency key stored.
    once: Option<Vec<JobId>>,
    workers: BTreeMap<WorkerId, WorkerEntry>,
    /// Claims that answered, and when each began.
    claims: BTreeMap<ClaimRef, u64>,
    /// What held for the queue's keys, and how many of its jobs might run at once, with the tick from which on it did.
    key_rules: Vec<(u64, KeyRule)>,
    queue_limits: Vec<(u64, Option<u32>)>,
    ticks: ticks::Ticks,
    /// Jobs that promotions moved and no claim has shown since.
    promoted: u64,
    /// Whether housekeeping may have removed completed jobs.
    kept_house: bool,
    tick: u64,
    wrong: Vec<String>,
}

impl Book {
    /// Notes a new worker.
    pub(crate) fn registered(&mut self, worker: WorkerId, kinds: &'static [&'static str]) {
        let entry = WorkerEntry { kinds, live: true, overdue: false, suspect: None, slots: Vec::new() };
        self.workers.insert(worker, entry);
    }

    /// The moment at which an operation starts.
    pub(crate) fn starts(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// What was wrong so far.
    pub(crate) fn into_wrong(self) -> Vec<String> {
        self.wrong
    }

    pub(crate) fn blame(&mut self, what: impl Into<String>) {
        self.wrong.push(what.into());
    }

    /// The workers that are not ended.
    pub(crate) fn live_workers(&self) -> Vec<WorkerId> {
        self.workers.iter().filter(|(_, entry)| entry.live).map(|(&id, _)| id).collect()
    }

    /// Every job that was ever enqueued, those that were rolled back included.
    pub(crate) fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().chain(&self.rolled_back).copied().collect()
    }

    fn enter(&mut self, id: JobId, stage: Stage) {
        let tick = self.tick;
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.unwanted &= !stage.is_final();
            entry.past.push((tick, stage));
        }
    }

    /// The jobs that a worker holds under a claim, or under any.
    fn held(&self, worker: WorkerId, claim: Option<ClaimRef>) -> Vec<JobId> {
        let holds = |entry: &Entry| matches!(entry.now(), Stage::Running(by, under) if by == worker && claim.is_none_or(|claim| claim == under));
        self.jobs.iter().filter(|(_, entry)| holds(entry)).map(|(&id, _)| id).collect()
    }

    /// Compares with what the store says of every job.
    pub(crate) fn compare(&mut self, when: &str, records: &[Record]) {
        let mut wrong = Vec::new();
        let tick = self.tick;
        for (&id, entry) in &mut self.jobs {
            let found: Vec<_> = records.iter().filter(|record| record.id == id).collect();
            let stage = entry.now();
            match found.as_slice() {
                [] if stage == Stage::Completed && self.kept_house => {}
                [] if stage == Stage::Deleted => {}
                [] => wrong.push(format!("{when}: job {id} is lost; it must be {stage:?}")),
                [one] if one.state == JobState::Cancelled && entry.may_be_cancelled() => {
                    entry.unwanted = false;
                    entry.past.push((tick, Stage::Cancelled));
                }
                [one] if !entry.may_be(one, self.promoted > 0) => {
                    let Record { state, crashes, .. } = one;
                    wrong.push(format!(
                        "{when}: job {id} is {state} with {crashes} crashes; it must be {entry:?}"
                    ));
                }
                [one] if entry.said() != one.checkpoint.as_ref().map(|said| said.as_str().to_owned()) => {
                    let (kept, said) = (&one.checkpoint, entry.said());
                    wrong
                        .push(format!("{when}: the checkpoint of job {id} is {kept:?}; it must be {said:?}"));
                }
                [_] => {}
                many => wrong.push(format!("{when}: job {id} is in {} places: {many:?}", many.len())),
            }
        }
        for record in records {
            if !self.jobs.contains_key(&record.id) {
                wrong.push(format!("{when}: nobody enqueued job {}, or it was rolled back", record.id));
            }
        }
        self.wrong.append(&mut wrong);
    }

    /// After the epilogue: everything has ended.
    pub(crate) fn must_be_over(&mut self) {
        let left = self.jobs.iter().filter(|(_, entry)| !entry.now().is_final());
        let wrong: Vec<_> =
            left.map(|(id, entry)| format!("job {id} never came back: {:?}", entry.now())).collect();
        self.wrong.extend(wrong);
    }
}

impl Stage {
    fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Discarded | Self::Deleted)
    }
}

impl Entry {
    /// Whether it was cancelled perhaps, instead of being where it is.
    fn may_be_cancelled(&self) -> bool {
        self.unwanted && !matches!(self.now(), Stage::Running(..))
    }

    fn now(&self) -> Stage {
        self.past.last().map_or(Stage::Available, |&(_, stage)| stage)
    }

    /// Whether such a stage held at some time from `tick` on.
    fn was(&self, tick: u64, fits: impl Fn(Stage) -> bool) -> bool {
        let at_start = self.past.iter().rev().find(|&&(at, _)| at < tick);
        let since = self.past.iter().filter(|&&(at, _)| at >= tick);
        at_start.into_iter().chain(since).any(|&(_, stage)| fits(stage))
    }

    fn may_be(&self, record: &Record, promoted: bool) -> bool {
        let state = match self.now() {
            Stage::Waiting { .. } if promoted && record.state == JobState::Available => JobState::Available,
            Stage::Waiting { retryable: true } => JobState::Retryable,
            Stage::Waiting { retryable: false } => JobState::Scheduled,
            Stage::Available | Stage::NoHandler => JobState::Available,
            Stage::Running(..) => JobState::Running,
            Stage::Completed => JobState::Completed,
            Stage::Cancelled => JobState::Cancelled,
            Stage::Discarded => JobState::Discarded,
            Stage::Deleted => return false,
        };
        record.state == state && record.crashes == self.crashes
    }
}

/// What an answer is called in blame.
fn said(reply: &Reply) -> String {
    format!("{reply:?}").chars().take(200).collect()
}
