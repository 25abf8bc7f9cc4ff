use super::{
    history::{Fate, Lease, What},
    model::{Model, State},
};
use tokio::time::Instant;
use windlass_core::{
    ClaimRef, Completion, Disposition, Error, ErrorKind, Exception, JobSet, Result, SettleReply,
    SettleRequest, Settled, WorkerId,
};

impl Model {
    pub fn settle(&mut self, client: usize, request: &SettleRequest) -> Result<SettleReply> {
        self.check_live(request.worker)?;
        let is_bad = |exception: &Exception| {
            Some(exception.job.0) == self.unstorable
                && matches!(exception.disposition, Disposition::Retry { .. })
        };
        if request.exceptions.iter().any(is_bad) {
            self.refusals += 1;
            return Err(Error::new(ErrorKind::InvalidArgs, "no equivalent for € in LATIN1"));
        }
        let mut reply = SettleReply::default();
        // Exceptions first: the rest of a claim is what no other settlement names.
        for exception in &request.exceptions {
            let id = exception.job.0;
            if exception.position != id * 10 {
                self.violate(format!("job {id} was settled with another position: {exception:?}"));
            }
            let fate = self.fate(request.worker, exception.claim, id);
            if fate == Settled::Accepted {
                self.accept(client, request.worker, exception.claim, id, (&exception.disposition).into());
                self.dispose(id, &exception.disposition);
            }
            reply.exceptions.push(fate);
        }
        for completion in &request.completions {
            let fate = self.complete(client, request.worker, completion);
            reply.completions.push(fate);
        }
        self.settles.push(request.clone());
        Ok(reply)
    }

    fn complete(&mut self, client: usize, worker: WorkerId, completion: &Completion) -> Settled {
        let Some((holder, ids)) = self.claims.get(&completion.claim.1.cast_signed()).cloned() else {
            return Settled::Refused;
        };
        if holder != worker {
            self.violate(format!("worker {worker} settled a claim of {holder}: {completion:?}"));
            return Settled::Refused;
        }
        let named = |id: &&i64| match &completion.jobs {
            JobSet::Rest => true,
            JobSet::Ranges(ranges) => ranges.iter().any(|(from, to)| (from..=to).contains(id)),
        };
        let mut done = 0;
        for id in ids.iter().filter(named) {
            if self.jobs[*id as usize - 1].state == State::Held(worker, completion.claim.1.cast_signed()) {
                self.jobs[*id as usize - 1].state = State::Completed;
                self.accept(client, worker, completion.claim, *id, Fate::Complete);
                done += 1;
            }
        }
        if done > 0 && done != completion.count {
            self.violate(format!("a completion counts wrong, it settled {done}: {completion:?}"));
        }
        if done > 0 { Settled::Accepted } else { Settled::Already }
    }

    fn accept(&mut self, client: usize, worker: WorkerId, claim: ClaimRef, job: i64, fate: Fate) {
        let lease = Lease { job, worker: worker.0, claim: claim.1.cast_signed() };
        self.history.note(client, What::Settled { lease, fate });
    }

    fn fate(&self, worker: WorkerId, claim: ClaimRef, id: i64) -> Settled {
        match self.jobs[id as usize - 1].state {
            State::Held(holder, seq) if (holder, seq) == (worker, claim.1.cast_signed()) => Settled::Accepted,
            _ if self.claims.contains_key(&claim.1.cast_signed()) => Settled::Already,
            _ => Settled::Refused,
        }
    }

    fn dispose(&mut self, id: i64, disposition: &Disposition) {
        let job = &mut self.jobs[id as usize - 1];
        match disposition {
            Disposition::Retry { delay, error } => {
                job.attempt += 1;
                job.errors.push(error.clone());
                self.put_off(id, Instant::now() + *delay);
            }
            Disposition::Complete { .. } => job.state = State::Completed,
            Disposition::Snooze { delay } => self.put_off(id, Instant::now() + *delay),
            Disposition::Cancel { .. } => job.state = State::Cancelled,
            Disposition::Discard { error, failed } => {
                job.state = State::Discarded { failed: *failed };
                job.errors.push(error.clone());
            }
            Disposition::NoHandler => {
                job.state = State::Parked;
                self.parked.insert(id);
            }
            Disposition::Return => {
                job.returns += 1;
                self.make_available(id);
            }
            other => panic!("unknown disposition {other:?}"),
        }
    }
}
