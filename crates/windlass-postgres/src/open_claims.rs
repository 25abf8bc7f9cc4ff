use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry};
use windlass_core::{Claim, ClaimRef, Completion, Exception, JobSet, SettleReply, SettleRequest, Settled};

/// The most claims that a heartbeat lists, which makes its row 12 kB large. A worker with more old ones, a thousand long jobs that were claimed one
/// by one beside a queue of short ones, has its later claims looked at too, until the oldest ends.
const MOST_LISTED: usize = 1_000;

/// Which claims of one worker can be open, that is have jobs that are not settled yet, as this process knows. It
/// tells the store by each heartbeat, so that rescue and inspection look at these claims only, and not at all that
/// the worker ever made.
///
/// Its claim calls are counted from 1, and each claim is stored with the number of its call. Numbers, not times:
/// a clock that is set back would hide claims.
///
/// Invariant: every open claim of the worker is covered by [`Self::possibly_open`]. A claim call whose answer
/// never came may have handed out jobs, so it counts as open for good.
#[derive(Debug, Default)]
pub(crate) struct OpenClaims {
    /// How many claim calls went out.
    calls: u64,
    unanswered: BTreeSet<u64>,
    open: HashMap<ClaimRef, Open>,
}

#[derive(Debug)]
struct Open {
    call: u64,
    /// Its jobs, ascending, and of each whether it is settled. A settlement may be repeated, and jobs settled by
    /// `complete_in` too: to count one twice would hide another from rescue.
    ids: Box<[i64]>,
    settled: Box<[bool]>,
    left: usize,
}

impl Open {
    fn new(call: u64, claim: &Claim) -> Self {
        let mut ids: Box<[i64]> = claim.jobs.iter().map(|job| job.id.0).collect();
        ids.sort_unstable();
        Self { call, left: ids.len(), settled: vec![false; ids.len()].into(), ids }
    }

    /// Notes that its jobs with ids in this range are settled.
    fn settle(&mut self, low: i64, high: i64) {
        let from = self.ids.partition_point(|id| *id < low);
        let to = self.ids.partition_point(|id| *id <= high);
        for is_settled in self.settled.get_mut(from..to).into_iter().flatten() {
            self.left -= usize::from(!std::mem::replace(is_settled, true));
        }
    }
}

/// Which claims can be open: all from call `from` on, and the `older` ones.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PossiblyOpen {
    pub(crate) from: u64,
    pub(crate) older: Vec<ClaimRef>,
}

impl OpenClaims {
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
            self.open.insert(claim.reference, Open::new(call, claim));
        }
    }

    /// A settlement was answered: what it did not refuse is settled, by this call or by one before it.
    pub(crate) fn settled(&mut self, request: &SettleRequest, reply: &SettleReply) {
        let completions = request.completions.iter().zip(&reply.completions);
        for (Completion { claim, jobs, .. }, _) in
            completions.filter(|(_, reply)| **reply != Settled::Refused)
        {
            match jobs {
                JobSet::Rest => drop(self.open.remove(claim)),
                JobSet::Ranges(ranges) => self.settle(*claim, ranges.iter().copied()),
            }
        }
        let exceptions = request.exceptions.iter().zip(&reply.exceptions);
        for (Exception { claim, job, .. }, _) in exceptions.filter(|(_, reply)| **reply != Settled::Refused) {
            self.settle(*claim, [(job.0, job.0)]);
        }
    }

    fn settle(&mut self, claim: ClaimRef, ranges: impl IntoIterator<Item = (i64, i64)>) {
        let Entry::Occupied(mut open) = self.open.entry(claim) else { return };
        ranges.into_iter().for_each(|(low, high)| open.get_mut().settle(low, high));
        if open.get().left == 0 {
            open.remove();
        }
    }

    /// The claims that can be open; `None` before the first call.
    pub(crate) fn possibly_open(&self) -> Option<PossiblyOpen> {
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
        Some(PossiblyOpen { from, older })
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
        let job = |id| ClaimedJob {
            position: 0,
            id: JobId(id),
            attempt: 1,
            max_attempts: 1,
            crash_count: 0,
            kind: "k".into(),
            args: Bytes::new(),
            enqueued_at: jiff::Timestamp::UNIX_EPOCH,
            never_put_off: true,
            attributes: None,
            expires_in: None,
        };
        Claim {
            reference: reference(n),
            queue: "q".into(),
            priority: 0,
            claimed_at: None,
            jobs: (1..=jobs as i64).map(job).collect(),
        }
    }

    /// Makes a claim of so many jobs by a call of its own.
    fn hold(claims: &mut OpenClaims, n: u64, jobs: usize) -> u64 {
        let call = claims.claiming();
        claims.claimed(call, &[claim(n, jobs)]);
        call
    }

    fn settle(claims: &mut OpenClaims, n: u64, ids: Option<(i64, i64)>, settled: Settled) {
        let jobs = ids.map_or(JobSet::Rest, |ids| JobSet::Ranges(vec![ids]));
        let completions = vec![Completion { claim: reference(n), jobs, count: 1 }];
        let request = SettleRequest { worker: WorkerId(1), completions, exceptions: Vec::new() };
        claims.settled(&request, &SettleReply { completions: vec![settled], exceptions: Vec::new() });
    }

    fn open(claims: &OpenClaims) -> (u64, Vec<u64>) {
        let PossiblyOpen { from, older } = claims.possibly_open().expect("a call was made");
        (from, older.iter().map(|claim| claim.1).collect())
    }

    #[test]
    fn nothing_is_said_before_the_first_call_and_nothing_is_open_after_the_last_settlement() {
        let mut claims = OpenClaims::default();
        assert_eq!(claims.possibly_open(), None);
        hold(&mut claims, 1, 2);
        assert_eq!(open(&claims), (2, vec![1]));
        settle(&mut claims, 1, None, Settled::Accepted);
        assert_eq!(open(&claims), (2, vec![]));
    }

    #[test]
    fn a_long_job_does_not_hold_the_mark() {
        let mut claims = OpenClaims::default();
        hold(&mut claims, 1, 1);
        for n in 2..=1_000 {
            hold(&mut claims, n, 1);
            settle(&mut claims, n, None, Settled::Accepted);
        }
        assert_eq!(open(&claims), (1_001, vec![1]));
    }

    #[test]
    fn a_repeated_settlement_counts_once() {
        let mut claims = OpenClaims::default();
        hold(&mut claims, 1, 3);
        let exception =
            Exception { claim: reference(1), job: JobId(1), position: 0, disposition: Disposition::Return };
        let request =
            SettleRequest { worker: WorkerId(1), completions: Vec::new(), exceptions: vec![exception] };
        let reply = |settled| SettleReply { completions: Vec::new(), exceptions: vec![settled] };
        for settled in [Settled::Accepted, Settled::Already, Settled::Already, Settled::Refused] {
            claims.settled(&request, &reply(settled));
            settle(&mut claims, 1, Some((1, 2)), settled);
        }
        assert_eq!(open(&claims), (2, vec![1]), "one job is left");
        settle(&mut claims, 1, Some((2, 9)), Settled::Already);
        assert_eq!(open(&claims), (2, vec![]), "a lost call had settled it");
    }

    #[test]
    fn a_call_without_an_answer_counts_as_open_for_good() {
        let mut claims = OpenClaims::default();
        hold(&mut claims, 1, 1);
        let lost = claims.claiming();
        let late = claims.claiming();
        hold(&mut claims, 4, 1);
        assert_eq!(open(&claims), (lost, vec![1]));
        claims.claimed(late, &[]);
        settle(&mut claims, 1, None, Settled::Accepted);
        settle(&mut claims, 4, None, Settled::Accepted);
        assert_eq!(open(&claims), (lost, vec![]));
        claims.claimed(lost, &[]);
        assert_eq!(open(&claims), (5, vec![]));
    }

    #[test]
    fn the_list_is_short_and_covers_the_oldest() {
        let mut claims = OpenClaims::default();
        let most = MOST_LISTED as u64;
        for n in 1..=most + 72 {
            hold(&mut claims, n, 1);
        }
        let (from, older) = open(&claims);
        assert_eq!((from, older), (most + 1, (1..=most).collect()));
    }

    #[test]
    fn claims_of_one_call_are_listed_together_or_not_at_all() {
        let mut claims = OpenClaims::default();
        let call = claims.claiming();
        let many: Vec<_> = (1..=MOST_LISTED as u64 + 1).map(|n| claim(n, 1)).collect();
        claims.claimed(call, &many);
        assert_eq!(open(&claims), (1, vec![]));
    }
}
