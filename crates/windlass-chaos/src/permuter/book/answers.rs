//! Answers that change nothing must be true of some moment while the operation ran.

use super::{Book, Stage, said};
use crate::permuter::call::{Call, Reply};
use windlass_core::{CancelReply, DeleteReply, EditReply, JobId, RetryReply, WorkerId};

impl Book {
    /// The operation that started at `tick` answered.
    pub(crate) fn answered(&mut self, call: &Call, reply: &Reply, tick: u64, may_deadlock: bool) {
        use Stage::{Available, Cancelled, Completed, Discarded, NoHandler, Running, Waiting};
        match (call, reply) {
            (_, Reply::Failed(why)) => self.blame(format!("{call:?} failed: {why}")),
            (_, Reply::Deadlock) if !may_deadlock => self.blame(format!("{call:?} met a deadlock")),
            (_, Reply::LeaseLost) => self.lease_lost(call),
            (Call::Cancel(id), Reply::Cancel(answer)) => match answer {
                CancelReply::Cancelled => {}
                CancelReply::Running => self.must_have_been(*id, tick, reply, |s| matches!(s, Running(..))),
                CancelReply::Finished => {
                    self.must_have_been(*id, tick, reply, |s| matches!(s, Completed | Cancelled | Discarded));
                }
                CancelReply::NotFound => self.may_be_unknown(*id, tick, reply),
            },
            (Call::Retry(id), Reply::Retry(answer)) => match answer {
                RetryReply::Retried => {}
                // A retryable job that is due may have been promoted.
                RetryReply::Pending => self.must_have_been(*id, tick, reply, |s| {
                    matches!(s, Running(..) | Available | NoHandler | Waiting { .. })
                }),
                RetryReply::Completed => self.must_have_been(*id, tick, reply, |s| s == Completed),
                RetryReply::KeyTaken => self.must_have_lost_its_key(*id, tick),
                RetryReply::NotFound => self.may_be_unknown(*id, tick, reply),
            },
            (Call::Unique { keys, .. }, Reply::Unique(stored)) => {
                self.must_be_kept(keys, stored, tick);
            }
            (Call::Unique { keys, .. }, Reply::KeyTaken) => self.must_be_taken(keys, tick),
            (Call::Claim { .. }, Reply::Claimed(claims)) => {
                self.claims.extend(claims.iter().map(|claim| (claim.reference, tick)));
            }
            (Call::Look(_), Reply::Seen(record)) => self.ticks.seen(record, self.tick),
            (Call::Report(request), Reply::Reported(replies)) => {
                self.must_not_be_held(request, replies, tick);
            }
            (Call::Edit(id, _), Reply::Edit(EditReply::Running))
            | (Call::Delete(id), Reply::Delete(DeleteReply::Running)) => {
                self.must_have_been(*id, tick, reply, |s| matches!(s, Running(..)));
            }
            (Call::Edit(id, _), Reply::Edit(EditReply::Finished)) => {
                self.must_have_been(*id, tick, reply, |s| matches!(s, Completed | Cancelled | Discarded));
            }
            (Call::Delete(id), Reply::Delete(DeleteReply::Completed)) => {
                self.must_have_been(*id, tick, reply, |s| s == Completed);
            }
            (Call::Edit(id, _), Reply::Edit(EditReply::NotFound))
            | (Call::Delete(id), Reply::Delete(DeleteReply::NotFound)) => {
                self.may_be_unknown(*id, tick, reply);
            }
            _ => {}
        }
    }

    fn lease_lost(&mut self, call: &Call) {
        let worker = match call {
            Call::Claim { worker, .. } | Call::CompleteIn { worker, .. } => *worker,
            Call::Settle(request) => request.worker,
            Call::Report(request) => request.worker,
            Call::Share(request) => request.worker,
            Call::Heartbeat(worker) | Call::Suspect(worker, _) => *worker,
            _ => return self.blame(format!("{call:?} needs no lease, but it was refused for one")),
        };
        // A job completed in a transaction is refused with the same code when it was settled before.
        let settled = match call {
            Call::CompleteIn { claim, job, .. } => !self.held(worker, Some(*claim)).contains(job),
            _ => false,
        };
        if self.is_live(worker) && !settled {
            self.blame(format!("worker {worker} was refused by {call:?}, but nobody took its lease"));
        }
    }

    fn is_live(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|entry| entry.live)
    }

    fn must_have_been(&mut self, id: JobId, tick: u64, reply: &Reply, fits: impl Fn(Stage) -> bool) {
        match self.jobs.get(&id) {
            Some(entry) if entry.was(tick, &fits) => {}
            Some(entry) if entry.may_be_cancelled() && fits(Stage::Cancelled) => {}
            entry => {
                let past = entry.map(|entry| &entry.past);
                let what = format!("{} was not true of job {id} at any time: {past:?}", said(reply));
                self.blame(what);
            }
        }
    }

    /// Unknown: not committed when the operation started, or removed by housekeeping.
    fn may_be_unknown(&mut self, id: JobId, tick: u64, reply: &Reply) {
        let Some(entry) = self.jobs.get(&id) else { return };
        let since = entry.past.first().map_or(0, |&(at, _)| at);
        let removed = self.kept_house && entry.now() == Stage::Completed;
        let deleted = entry.was(tick, |stage| stage == Stage::Deleted);
        if since < tick && !removed && !deleted {
            self.blame(format!("{} of job {id}, which was committed before", said(reply)));
        }
    }
}
