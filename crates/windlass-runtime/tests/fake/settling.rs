use super::{
    history::{Fate, What},
    model::Model,
};
use std::collections::HashMap;
use windlass_core::{
    ClaimRef, Disposition, Error, ErrorKind, Exception, JobId, JobLease, JobState, JobStore, Result,
    SettleReply, SettleRequest, Settled,
};

impl Model {
    pub fn settle(&mut self, client: usize, request: &SettleRequest) -> Result<SettleReply> {
        let is_bad = |exception: &Exception| {
            Some(exception.job) == self.unstorable
                && matches!(exception.disposition, Disposition::Retry { .. })
        };
        if request.exceptions.iter().any(is_bad) {
            self.refusals += 1;
            return Err(Error::new(ErrorKind::InvalidArgs, "no equivalent for € in LATIN1"));
        }
        if self.loses_settlements {
            let all = |count| vec![Settled::Accepted; count];
            let (completions, exceptions) = (all(request.completions.len()), all(request.exceptions.len()));
            self.settled += completions.len() + exceptions.len();
            return Ok(SettleReply { completions, exceptions });
        }
        let (reply, moves) = self.run(async |store| store.settle(request).await);
        let reply = reply?;
        let leases: Vec<JobLease> = moves.iter().filter_map(|moved| moved.lease).collect();
        let mut fates: HashMap<JobId, Fate> =
            request.exceptions.iter().map(|said| (said.job, Fate::from(&said.disposition))).collect();
        // What was to come back and is to be cancelled.
        for moved in moves.iter().filter(|moved| moved.to == JobState::Cancelled) {
            fates.insert(moved.job, Fate::Cancel);
        }
        self.check_settlement(request, &reply, &fates, &leases);
        for lease in &leases {
            let fate = fates.get(&lease.job).copied().unwrap_or(Fate::Complete);
            self.history.note(client, What::Settled { lease: (*lease).into(), fate });
        }
        self.settled += leases.len();
        self.settles.push(request.clone());
        Ok(reply)
    }

    /// A live worker settles what it holds, and counts it right.
    fn check_settlement(
        &mut self,
        request: &SettleRequest,
        reply: &SettleReply,
        fates: &HashMap<JobId, Fate>,
        leases: &[JobLease],
    ) {
        let claims = request.completions.iter().map(|entry| entry.claim);
        let claims = claims.chain(request.exceptions.iter().map(|entry| entry.claim));
        let mut settled = reply.completions.iter().chain(&reply.exceptions).zip(claims);
        if settled.any(|(settled, claim)| *settled == Settled::Refused && !self.forgotten.contains(&claim)) {
            self.violate(format!("a worker settled what it does not hold: {request:?}: {reply:?}"));
        }
        let mut missing: HashMap<ClaimRef, i64> = HashMap::new();
        for (completion, settled) in request.completions.iter().zip(&reply.completions) {
            if *settled == Settled::Accepted {
                *missing.entry(completion.claim).or_default() += i64::from(completion.count);
            }
        }
        for lease in leases.iter().filter(|lease| !fates.contains_key(&lease.job)) {
            *missing.entry(lease.claim).or_default() -= 1;
        }
        if missing.values().any(|missing| *missing != 0) {
            self.violate(format!("a completion counts wrong, by {missing:?}: {request:?}"));
        }
    }
}
