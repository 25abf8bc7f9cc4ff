use std::collections::{BTreeMap, BTreeSet, HashMap};
use windlass_core::{Claim, ClaimRef, Completion, Exception, JobSet, SettleReply, SettleRequest, Settled};

/// The most claims that a heartbeat lists. A worker with more old ones has its later claims looked at too.
const MOST_LISTED: usize = 128;

/// What one worker holds, as this process knows it: tells which claims can be open, so that rescue and
/// inspection look at these instead of at the worker's whole life.
///
/// Its claim calls are counted from 1, and each claim is stored with the number of its call. Numbers, not times:
/// a clock that is set back would hide claims.
///
/// Invariant: every open claim of the worker is covered by [`Self::open_claims`]. A claim call whose answer
/// never came may have handed out jobs, so it counts as open for good.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    /// How many claim calls went out.
    calls: u64,
    unanswered: BTreeSet<u64>,
    open: HashMap<ClaimRef, Open>,
}

#[derive(Debug)]
struct Open {
    call: u64,
    left: u64,
}

/// Which claims can be open: all from call `from` on, and the `older` ones.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenClaims {
    pub(crate) from: u64,
    pub(crate) older: Vec<ClaimRef>,
}

impl Holdings {
    /// A claim call goes out; its number. Until [`Self::claimed`] comes, its claims are unknown.
    pub(crate) fn claiming(&mut self) -> u64 {
        self.calls += 1;
        self.unanswered.insert(self.calls);
        self.calls
    }

    /// The call was answered, by these claims.
    pub(crate) fn claimed(&mut self, call: u64, claims: &[Claim]) {
        self.unanswered.remove(&call);
        for claim in claims.iter().filter(|claim| !claim.jobs.is_empty()) {
            self.open.insert(claim.reference, Open { call, left: claim.jobs.len() as u64 });
        }
    }

    /// A settlement was answered. The engine repeats a call only until it is answered, so each job is counted
    /// once, whether this call or a lost one before it did the work.
    pub(crate) fn settled(&mut self, request: &SettleRequest, reply: &SettleReply) {
        for (Completion { claim, jobs, count }, settled) in request.completions.iter().zip(&reply.completions)
        {
            match (settled, jobs) {
                (Settled::Refused, _) => {}
                (_, JobSet::Rest) => drop(self.open.remove(claim)),
                (_, JobSet::Ranges(_)) => self.reduce(*claim, u64::from(*count)),
            }
        }
        for (Exception { claim, .. }, settled) in request.exceptions.iter().zip(&reply.exceptions) {
            if *settled != Settled::Refused {
                self.reduce(*claim, 1);
            }
        }
    }

    fn reduce(&mut self, claim: ClaimRef, by: u64) {
        if let Some(open) = self.open.get_mut(&claim) {
            open.left = open.left.saturating_sub(by);
            if open.left == 0 {
                self.open.remove(&claim);
            }
        }
    }

    /// The claims that can be open; `None` before the first call.
    pub(crate) fn open_claims(&self) -> Option<OpenClaims> {
        let next = (self.calls > 0).then_some(self.calls + 1)?;
        let mut from = self.unanswered.first().copied().unwrap_or(next);
        let mut by_call = BTreeMap::<u64, Vec<ClaimRef>>::new();
        for (reference, open) in self.open.iter().filter(|(_, open)| open.call < from) {
            by_call.entry(open.call).or_default().push(*reference);
        }
        let mut older = Vec::new();
        for (call, claims) in by_call {
            if older.len() + claims.len() > MOST_LISTED {
                from = call;
                break;
            }
            older.extend(claims);
        }
        Some(OpenClaims { from, older })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use windlass_core::{ClaimedJob, Disposition, JobId, WorkerId};

    fn reference(n: u64) -> ClaimRef {
        ClaimRef(7, n)
    }

    fn claim(n: u64, jobs: usize) -> Claim {
        let job = ClaimedJob {
            position: 0,
            id: JobId(1),
            attempt: 1,
            max_attempts: 1,
            crash_count: 0,
            kind: "k".into(),
            args: Bytes::new(),
            enqueued_at: jiff::Timestamp::UNIX_EPOCH,
            attributes: Default::default(),
        };
        Claim { reference: reference(n), queue: "q".into(), priority: 0, jobs: vec![job; jobs] }
    }

    /// Makes a claim of so many jobs by a call of its own.
    fn hold(held: &mut Holdings, n: u64, jobs: usize) -> u64 {
        let call = held.claiming();
        held.claimed(call, &[claim(n, jobs)]);
        call
    }

    fn settle(held: &mut Holdings, n: u64, jobs: Option<u32>, settled: Settled) {
        let (jobs, count) = (jobs.map_or(JobSet::Rest, |_| JobSet::Ranges(Vec::new())), jobs.unwrap_or(0));
        let completions = vec![Completion { claim: reference(n), jobs, count }];
        let request = SettleRequest { worker: WorkerId(1), completions, exceptions: Vec::new() };
        held.settled(&request, &SettleReply { completions: vec![settled], exceptions: Vec::new() });
    }

    fn open(held: &Holdings) -> (u64, Vec<u64>) {
        let OpenClaims { from, older } = held.open_claims().expect("a call was made");
        (from, older.iter().map(|claim| claim.1).collect())
    }

    #[test]
    fn nothing_is_said_before_the_first_call_and_nothing_is_open_after_the_last_settlement() {
        let mut held = Holdings::default();
        assert_eq!(held.open_claims(), None);
        hold(&mut held, 1, 2);
        assert_eq!(open(&held), (2, vec![1]));
        settle(&mut held, 1, None, Settled::Accepted);
        assert_eq!(open(&held), (2, vec![]));
    }

    #[test]
    fn a_long_job_does_not_hold_the_mark() {
        let mut held = Holdings::default();
        hold(&mut held, 1, 1);
        for n in 2..=1_000 {
            hold(&mut held, n, 1);
            settle(&mut held, n, None, Settled::Accepted);
        }
        assert_eq!(open(&held), (1_001, vec![1]));
    }

    #[test]
    fn a_settlement_that_a_lost_call_had_made_counts() {
        let mut held = Holdings::default();
        hold(&mut held, 1, 3);
        settle(&mut held, 1, Some(2), Settled::Already);
        assert_eq!(open(&held), (2, vec![1]));
        let exception =
            Exception { claim: reference(1), job: JobId(1), position: 0, disposition: Disposition::Return };
        let request =
            SettleRequest { worker: WorkerId(1), completions: Vec::new(), exceptions: vec![exception] };
        let reply = |settled| SettleReply { completions: Vec::new(), exceptions: vec![settled] };
        held.settled(&request, &reply(Settled::Refused));
        assert_eq!(open(&held), (2, vec![1]), "a refusal settles nothing");
        held.settled(&request, &reply(Settled::Already));
        assert_eq!(open(&held), (2, vec![]));
    }

    #[test]
    fn a_call_without_an_answer_counts_as_open_for_good() {
        let mut held = Holdings::default();
        hold(&mut held, 1, 1);
        let lost = held.claiming();
        let late = held.claiming();
        hold(&mut held, 4, 1);
        assert_eq!(open(&held), (lost, vec![1]));
        held.claimed(late, &[]);
        settle(&mut held, 1, None, Settled::Accepted);
        settle(&mut held, 4, None, Settled::Accepted);
        assert_eq!(open(&held), (lost, vec![]));
        held.claimed(lost, &[]);
        assert_eq!(open(&held), (5, vec![]));
    }

    #[test]
    fn the_list_is_short_and_covers_the_oldest() {
        let mut held = Holdings::default();
        for n in 1..=200 {
            hold(&mut held, n, 1);
        }
        let (from, older) = open(&held);
        assert_eq!((from, older), (129, (1..=128).collect()));
    }

    #[test]
    fn claims_of_one_call_are_listed_together_or_not_at_all() {
        let mut held = Holdings::default();
        let call = held.claiming();
        let claims: Vec<_> = (1..=129).map(|n| claim(n, 1)).collect();
        held.claimed(call, &claims);
        assert_eq!(open(&held), (1, vec![]));
    }
}
