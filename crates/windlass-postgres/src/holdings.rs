use std::collections::HashMap;
use windlass_core::{Claim, ClaimRef, Completion, Exception, JobSet, SettleReply, SettleRequest, Settled};

/// What one worker holds, as this process knows it: tells from which time on a claim can be open, so that
/// rescue and inspection look at seconds of claims instead of the worker's whole life.
///
/// Invariant: no open claim of the worker has an earlier `claimed_at` than [`Self::open_since`]. A claim
/// call whose answer never came may have handed out jobs, so it freezes the mark for good.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    open: HashMap<ClaimRef, Open>,
    /// The newest time of the server that an answered claim call reported.
    seen: Option<i64>,
    /// Claim calls without an answer; those that never get one stay counted.
    unanswered: u32,
    /// While there are any: the mark from before the first.
    frozen: Option<Option<i64>>,
}

#[derive(Debug)]
struct Open {
    claimed_at: i64,
    left: i64,
}

impl Holdings {
    /// A claim call goes out. Until [`Self::claimed`] comes, its claims are unknown.
    pub(crate) fn claiming(&mut self) {
        let mark = self.open_since();
        self.frozen.get_or_insert(mark);
        self.unanswered += 1;
    }

    /// The call was answered: `claims` with their server time in microseconds.
    pub(crate) fn claimed(&mut self, claims: &[(Claim, i64)]) {
        for (claim, claimed_at) in claims {
            self.seen = self.seen.max(Some(*claimed_at));
            if !claim.jobs.is_empty() {
                let left = i64::try_from(claim.jobs.len()).unwrap_or(i64::MAX);
                self.open.insert(claim.reference, Open { claimed_at: *claimed_at, left });
            }
        }
        self.unanswered = self.unanswered.saturating_sub(1);
        if self.unanswered == 0 {
            self.frozen = None;
        }
    }

    /// A settlement was accepted (or had been before).
    pub(crate) fn settled(&mut self, request: &SettleRequest, reply: &SettleReply) {
        for (completion, settled) in request.completions.iter().zip(&reply.completions) {
            self.complete(completion, *settled);
        }
        for (Exception { claim, .. }, settled) in request.exceptions.iter().zip(&reply.exceptions) {
            if *settled == Settled::Accepted {
                self.reduce(*claim, 1);
            }
        }
    }

    fn complete(&mut self, completion: &Completion, settled: Settled) {
        match (&completion.jobs, settled) {
            (JobSet::Rest, Settled::Accepted | Settled::Already) => {
                self.open.remove(&completion.claim);
            }
            // Counted once, however often a call is repeated; the mark may only be too early.
            (JobSet::Ranges(_), Settled::Accepted) => {
                self.reduce(completion.claim, i64::from(completion.count));
            }
            _ => {}
        }
    }

    fn reduce(&mut self, claim: ClaimRef, by: i64) {
        if let Some(open) = self.open.get_mut(&claim) {
            open.left -= by;
            if open.left <= 0 {
                self.open.remove(&claim);
            }
        }
    }

    /// The earliest time, in microseconds since 1970, at which an open claim can have been made; `None`
    /// when nothing is known yet.
    pub(crate) fn open_since(&self) -> Option<i64> {
        match self.frozen {
            Some(mark) => mark,
            None => self.open.values().map(|open| open.claimed_at).min().or(self.seen),
        }
    }
}
