//! What a committed operation changes, and what it must not have done.

use super::{Book, Entry, INNOCENT_CRASHES, Stage};
use crate::permuter::{
    call::{Call, Reply},
    scenario::Change,
};
use windlass_core::{CancelReply, Claim, ClaimedJob, DeleteReply, EditReply, JobId, RetryReply, WorkerId};

impl Book {
    /// The operation's transaction committed.
    pub(crate) fn committed(&mut self, call: &Call, reply: &Reply) {
        self.tick += 1;
        match (call, reply) {
            (Call::Enqueue { kind, .. }, Reply::Enqueued(ids)) => {
                ids.iter().for_each(|&id| self.enqueued(id, kind));
            }
            (Call::EnqueueOnce { kind, .. }, Reply::Enqueued(ids)) => self.enqueued_once(ids, kind),
            (Call::Unique { keys, way, .. }, Reply::Unique(stored)) => self.stored_unique(keys, *way, stored),
            (Call::Keyed { keys, .. }, Reply::Enqueued(ids)) => self.stored_about(keys, ids),
            (Call::LimitKeys(rule), Reply::Done) => self.key_rules.push((self.tick, *rule)),
            (Call::LimitQueue(most), Reply::Done) => self.limited(*most),
            (Call::Share(request), Reply::Shared(Some(share))) => self.shared(request, share),
            // Nothing was changed.
            (Call::Share(_), Reply::Shared(None)) => {}
            (Call::Declare | Call::Pause, Reply::Done) => self.ticks.changed(self.tick),
            (Call::Fire { step, .. }, Reply::Fired(Some(ids))) => self.fired(step, ids),
            (Call::Edit(id, change), Reply::Edit(EditReply::Edited)) => self.edited(*id, *change),
            (Call::Delete(id), Reply::Delete(DeleteReply::Deleted)) => {
                let free = |stage| !matches!(stage, Stage::Running(..) | Stage::Completed | Stage::Deleted);
                self.moved(*id, "deleted", free, Stage::Deleted);
            }
            (Call::Report(request), Reply::Reported(replies)) => self.reported(request, replies),
            (Call::Claim { worker, .. }, Reply::Claimed(claims)) => {
                claims.iter().for_each(|claim| self.claimed(*worker, claim));
            }
            (Call::Settle(request), Reply::Settled(reply)) => self.settled(request, reply),
            (Call::CompleteIn { worker, claim, job, .. }, Reply::Done) => {
                self.must_live(*worker, "completed a job");
                self.fate(*worker, *claim, *job, Stage::Completed);
            }
            (Call::Heartbeat(worker), Reply::Done) => {
                self.must_live(*worker, "renewed its lease");
                self.worker(*worker, |entry| entry.overdue = false);
            }
            (Call::Suspect(worker, job), Reply::Done) => {
                self.must_live(*worker, "announced a suspect");
                self.worker(*worker, |entry| entry.suspect = Some(*job));
            }
            (Call::Rescue(_), Reply::Ended(workers)) => workers.iter().for_each(|&id| self.rescued(id)),
            (Call::Deregister(worker), Reply::Ended(ended)) if !ended.is_empty() => self.left(*worker),
            (Call::Promote, Reply::Promoted(count)) => self.promoted += count,
            (Call::Cancel(id), Reply::Cancel(CancelReply::Cancelled)) => {
                let free =
                    |stage| matches!(stage, Stage::Waiting { .. } | Stage::Available | Stage::NoHandler);
                self.moved(*id, "cancelled", free, Stage::Cancelled);
            }
            (Call::Cancel(id), Reply::Cancel(CancelReply::Running)) => {
                if let Some(entry) = self.jobs.get_mut(id) {
                    entry.unwanted = !entry.now().is_final();
                }
            }
            (Call::Retry(id), Reply::Retry(RetryReply::Retried)) => self.retried(*id),
            (Call::Maintain | Call::Close, Reply::Housekept(_)) => self.kept_house = true,
            (Call::Expire(worker), Reply::Done) => self.worker(*worker, |entry| entry.overdue = true),
            _ => {}
        }
    }

    /// The operation's transaction rolled back.
    pub(crate) fn undone(&mut self, reply: &Reply) {
        if let Reply::Enqueued(ids) = reply {
            // A repeated enqueue under a key only told the ids of the first.
            self.rolled_back.extend(ids.iter().filter(|id| !self.jobs.contains_key(id)));
        }
        if let Reply::Fired(Some(ids)) = reply {
            self.rolled_back.extend(ids);
        }
        if let Reply::Unique(stored) = reply {
            let ids = stored.iter().map(|stored| stored.id);
            self.rolled_back.extend(ids.filter(|id| !self.jobs.contains_key(id)));
        }
    }

    pub(super) fn enqueued(&mut self, id: JobId, kind: &'static str) {
        let past = vec![(self.tick, Stage::Available)];
        let entry = Entry {
            kind,
            args: "{}".to_owned(),
            key: None,
            about: None,
            checkpoint: None,
            used: 0,
            crashes: 0,
            unwanted: false,
            past,
        };
        if self.jobs.insert(id, entry).is_some() {
            self.blame(format!("two jobs have the id {id}"));
        }
    }

    fn enqueued_once(&mut self, ids: &[JobId], kind: &'static str) {
        match &self.once {
            Some(known) if known == ids => {}
            Some(known) => {
                let what = format!("jobs {ids:?} were stored under a key that had stored {known:?}");
                self.blame(what);
            }
            None => {
                self.once = Some(ids.to_vec());
                ids.iter().for_each(|&id| self.enqueued(id, kind));
            }
        }
    }

    fn claimed(&mut self, worker: WorkerId, claim: &Claim) {
        self.must_live(worker, "claimed");
        for job in &claim.jobs {
            self.handed_out(worker, claim, job);
        }
        self.must_keep_limits(worker, claim);
    }

    fn handed_out(&mut self, worker: WorkerId, claim: &Claim, job: &ClaimedJob) {
        let id = job.id;
        let kinds = self.workers.get(&worker).map_or(&[][..], |entry| entry.kinds);
        let Some(entry) = self.jobs.get_mut(&id) else {
            let why = if self.rolled_back.contains(&id) { "was rolled back" } else { "was never committed" };
            return self.blame(format!("job {id} was handed to worker {worker}, but it {why}"));
        };
        let knows = kinds.is_empty() || kinds.contains(&entry.kind);
        let stage = entry.now();
        let fits = match stage {
            Stage::Available => true,
            Stage::NoHandler => knows,
            Stage::Waiting { .. } if self.promoted > 0 => {
                self.promoted -= 1;
                true
            }
            _ => false,
        };
        let told = (job.attempt.saturating_sub(1), job.crash_count);
        let counts = told == (entry.used, entry.crashes);
        let args = entry.args.as_bytes() == &*job.args;
        (entry.used, entry.crashes) = told;
        if !fits {
            self.blame(format!("job {id} was handed to worker {worker} while it was {stage:?}"));
        } else if !counts {
            self.blame(format!("job {id} came as attempt {} with {} crashes", job.attempt, job.crash_count));
        } else if !args {
            self.blame(format!("job {id} came with args that it has not: {:?}", job.args));
        }
        self.enter(id, Stage::Running(worker, claim.reference));
    }

    fn rescued(&mut self, worker: WorkerId) {
        let suspect = match self.workers.get_mut(&worker) {
            Some(entry) if entry.live && entry.overdue => {
                entry.live = false;
                entry.suspect
            }
            entry => {
                let what = format!("worker {worker} was rescued while it was {entry:?}");
                return self.blame(what);
            }
        };
        self.slots_end(worker);
        for id in self.held(worker, None) {
            if let Some(entry) = self.jobs.get_mut(&id) {
                let counts = match suspect {
                    Some(suspect) => suspect == id,
                    None => entry.crashes < INNOCENT_CRASHES,
                };
                entry.crashes += u16::from(counts);
            }
            self.enter(id, Stage::Available);
        }
    }

    fn left(&mut self, worker: WorkerId) {
        self.must_live(worker, "deregistered");
        self.worker(worker, |entry| entry.live = false);
        self.slots_end(worker);
        for id in self.held(worker, None) {
            self.enter(id, Stage::Available);
        }
    }

    fn retried(&mut self, id: JobId) {
        let dead = |stage| matches!(stage, Stage::Cancelled | Stage::Discarded);
        if self.jobs.get(&id).is_some_and(Entry::may_be_cancelled) {
            self.enter(id, Stage::Cancelled);
        }
        let was = self.jobs.get(&id).map(Entry::now);
        let fits = |stage| dead(stage) || stage == Stage::Waiting { retryable: true };
        self.moved(id, "retried by hand", fits, Stage::Available);
        if let Some(entry) = self.jobs.get_mut(&id)
            && was.is_some_and(dead)
        {
            (entry.used, entry.crashes) = (0, 0);
        }
        if was.is_some_and(dead) {
            self.must_have_its_key_alone(id);
        }
    }

    /// Changed while nobody held it; one that has ended stays where it is.
    fn edited(&mut self, id: JobId, change: Change) {
        let Some(stage) = self.jobs.get(&id).map(Entry::now) else {
            return self.blame(format!("job {id} was edited, but it was never committed"));
        };
        if matches!(stage, Stage::Running(..) | Stage::Completed | Stage::Deleted) {
            self.blame(format!("job {id} was edited while it was {stage:?}"));
        }
        match change {
            Change::Args(n) => {
                self.jobs.entry(id).and_modify(|entry| entry.args = n.to_string());
            }
            Change::Now if matches!(stage, Stage::Waiting { .. }) => self.enter(id, Stage::Available),
            Change::Now | Change::Priority(_) => {}
        }
    }

    pub(super) fn moved(&mut self, id: JobId, how: &str, from: impl Fn(Stage) -> bool, to: Stage) {
        match self.jobs.get(&id).map(Entry::now) {
            Some(stage) if from(stage) => {}
            Some(stage) => self.blame(format!("job {id} was {how} while it was {stage:?}")),
            None => self.blame(format!("job {id} was {how}, but it was never committed")),
        }
        self.enter(id, to);
    }

    pub(super) fn must_live(&mut self, worker: WorkerId, did: &str) {
        if !self.workers.get(&worker).is_some_and(|entry| entry.live) {
            self.blame(format!("worker {worker} {did} after its lease was taken away"));
        }
    }

    fn worker(&mut self, worker: WorkerId, change: impl FnOnce(&mut super::WorkerEntry)) {
        if let Some(entry) = self.workers.get_mut(&worker) {
            change(entry);
        }
    }
}
