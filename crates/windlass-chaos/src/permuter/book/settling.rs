//! Settlements: what was accepted moves jobs, what was not must have had a reason.

use super::{Book, Entry, Stage};
use windlass_core::{
    ClaimRef, Completion, Disposition, Exception, JobId, JobSet, SettleReply, SettleRequest, Settled,
    WorkerId,
};

impl Book {
    pub(super) fn settled(&mut self, request: &SettleRequest, reply: &SettleReply) {
        let SettleRequest { worker, completions, exceptions } = request;
        if reply.completions.len() != completions.len() || reply.exceptions.len() != exceptions.len() {
            return self.blame(format!("settle answered {reply:?} to {request:?}"));
        }
        let accepted = reply.completions.iter().chain(&reply.exceptions);
        if accepted.into_iter().any(|&settled| settled == Settled::Accepted) {
            self.must_live(*worker, "settled");
        }
        // Stores decide about exceptions first, so that "the rest" leaves them out.
        for (exception, settled) in exceptions.iter().zip(&reply.exceptions) {
            self.excepted(*worker, exception, *settled);
        }
        for (completion, settled) in completions.iter().zip(&reply.completions) {
            self.completed(*worker, completion, *settled);
        }
    }

    fn completed(&mut self, worker: WorkerId, completion: &Completion, settled: Settled) {
        let held = self.held(worker, Some(completion.claim));
        let named: Vec<_> = match &completion.jobs {
            JobSet::Rest => held,
            JobSet::Ranges(ranges) => {
                let names = |id: &JobId| ranges.iter().any(|&(low, high)| low <= id.0 && id.0 <= high);
                held.into_iter().filter(names).collect()
            }
        };
        match settled {
            Settled::Accepted if named.is_empty() => {
                self.blame(format!("worker {worker} completed jobs that it no longer held: {completion:?}"));
            }
            Settled::Accepted => {
                named.into_iter().for_each(|id| self.fate(worker, completion.claim, id, Stage::Completed));
            }
            _ if !named.is_empty() => {
                self.blame(format!("worker {worker} holds {named:?}, its completion was {settled:?}"));
            }
            _ => {}
        }
    }

    fn excepted(&mut self, worker: WorkerId, exception: &Exception, settled: Settled) {
        let Exception { claim, job, disposition, .. } = exception;
        let holds = self.held(worker, Some(*claim)).contains(job);
        match settled {
            Settled::Accepted => {
                self.fate(worker, *claim, *job, stage_after(disposition));
                if let Some(entry) = self.jobs.get_mut(job) {
                    entry.used += u16::from(matches!(disposition, Disposition::Retry { .. }));
                }
            }
            _ if holds => {
                self.blame(format!("worker {worker} holds job {job}, its settlement was {settled:?}"));
            }
            _ => {}
        }
    }

    /// A settlement of this job by this worker was accepted.
    pub(super) fn fate(&mut self, worker: WorkerId, claim: ClaimRef, id: JobId, to: Stage) {
        let stage = self.jobs.get(&id).map(Entry::now);
        if stage != Some(Stage::Running(worker, claim)) {
            self.blame(format!("worker {worker} settled job {id} while it was {stage:?}"));
        }
        self.enter(id, to);
    }
}

fn stage_after(disposition: &Disposition) -> Stage {
    match disposition {
        Disposition::Retry { .. } | Disposition::Undecryptable { .. } => Stage::Waiting { retryable: true },
        Disposition::Snooze { .. } => Stage::Waiting { retryable: false },
        Disposition::Cancel { .. } => Stage::Cancelled,
        Disposition::Discard { .. } => Stage::Discarded,
        Disposition::NoHandler => Stage::NoHandler,
        Disposition::Complete { .. } => Stage::Completed,
        _ => Stage::Available,
    }
}
