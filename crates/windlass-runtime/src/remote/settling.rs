//! How a worker that runs elsewhere says what became of its jobs.

use super::{
    RemoteWorker,
    table::{Over, Table},
    whole,
};
use crate::{
    backoff::Backoff,
    disposition::Settlement,
    ending::Ending,
    epoch::Phase,
    lend::{HandIn, Ticket},
    meter::Begun,
    refused::{MOST_REFUSALS, instead, is_defect},
    suspect,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};
use tokio::time::sleep;
use tracing::warn;
use windlass_core::{
    ClaimRef, Completion, Exception, JobId, JobSet, Outcome, Result, RetryPolicy, SettleReply, SettleRequest,
    Settled, WorkerId,
};

/// Who says what became of jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Worker,
    /// Nobody else any more: they took too long.
    TimeLimit,
}

/// What is sent to the store, and for which tickets.
#[derive(Default)]
struct Sheet {
    completed: BTreeMap<ClaimRef, Vec<JobId>>,
    exceptions: Vec<Exception>,
    jobs: BTreeMap<Ticket, JobId>,
    attempts: BTreeMap<Ticket, Attempted>,
    /// How many jobs of each claim are not in here.
    others: BTreeMap<ClaimRef, usize>,
}

/// What is measured of a job.
struct Attempted {
    queue: Arc<str>,
    kind: Arc<str>,
    begun: Option<Begun>,
    error: Option<String>,
}

impl Sheet {
    fn enter(&mut self, table: &mut Table, hand_in: HandIn, by: By) {
        let HandIn { ticket, outcome } = hand_in;
        // Of a ticket that comes twice the first counts.
        if self.jobs.contains_key(&ticket) {
            return;
        }
        let Some((held, cancelled)) = table.settle(ticket, by == By::TimeLimit) else { return };
        let job = &held.given.job;
        self.jobs.insert(ticket, job.id);
        *self.others.entry(held.claim).or_insert(held.claimed) -= 1;
        let ending = Ending::of(job);
        let outcome = match outcome {
            Outcome::Retry { after, error } => {
                Outcome::Retry { after, error: held.late_error(&error).unwrap_or(error) }
            }
            other => other,
        };
        let settlement = ending.outside(outcome, &RetryPolicy::default(), fastrand::f64(), cancelled);
        let (queue, kind) = (Arc::clone(&held.given.queue), Arc::clone(&job.kind));
        let error = settlement.failure().map(str::to_owned);
        self.attempts.insert(ticket, Attempted { queue, kind, begun: held.begun(), error });
        match settlement {
            Settlement::WithClaim => self.completed.entry(held.claim).or_default().push(job.id),
            Settlement::ByItself(disposition) => self.exceptions.push(held.exception(*disposition)),
        }
    }

    fn request(&mut self, worker: WorkerId) -> SettleRequest {
        let others = &self.others;
        let completion = |(claim, jobs): (&ClaimRef, &mut Vec<JobId>)| {
            jobs.sort_unstable();
            let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
            // Of a claim that is settled at once the store keeps one small row. What was settled before is not taken
            // for known: a failover may have lost it.
            let is_whole = others.get(claim) == Some(&0);
            let jobs = if is_whole { JobSet::Rest } else { JobSet::Ranges(ranges(jobs)) };
            Completion { claim: *claim, jobs, count }
        };
        let completions = self.completed.iter_mut().map(completion).collect();
        SettleRequest { worker, completions, exceptions: std::mem::take(&mut self.exceptions) }
    }
}

/// Sorted ids as ranges. Only ids that follow each other are one: another job of the claim may stand between others.
fn ranges(jobs: &[JobId]) -> Vec<(i64, i64)> {
    jobs.chunk_by(|one, next| one.0 + 1 == next.0).map(|run| (run[0].0, run[run.len() - 1].0)).collect()
}

impl RemoteWorker {
    /// Settles jobs: what is said of each is decided by the engine's rules, and committed on return. One reply for each, in order: repeating it after a lost
    /// answer is `Already`; `Refused` is what this worker was not given, or the store does not know.
    ///
    /// # Errors
    /// A lost lease, or the store's; nothing is settled then, or all may be: repeat it.
    pub async fn settle(self: &Arc<Self>, done: Vec<HandIn>) -> Result<Vec<Settled>> {
        if self.lock().phase() == Phase::Lost {
            return Err(self.lost());
        }
        if done.is_empty() {
            return Ok(Vec::new());
        }
        let worker = Arc::clone(self);
        whole(tokio::spawn(async move { worker.settle_whole(done, By::Worker).await })).await
    }

    pub(super) async fn settle_whole(&self, done: Vec<HandIn>, by: By) -> Result<Vec<Settled>> {
        let tickets: Vec<Ticket> = done.iter().map(|hand_in| hand_in.ticket).collect();
        let (mut sheet, before) = {
            let mut table = self.lock();
            let mut sheet = Sheet::default();
            done.into_iter().for_each(|hand_in| sheet.enter(&mut table, hand_in, by));
            let before: Vec<_> = tickets.iter().map(|ticket| table.was_settled(*ticket)).collect();
            (sheet, before)
        };
        let request = sheet.request(self.worker);
        let settled = self.write(request, &sheet.completed).await.inspect_err(|_| {
            sheet.jobs.keys().for_each(|ticket| self.lock().is_not_settled(*ticket));
            self.limits_bell.notify_one();
        })?;
        let mut replies: BTreeMap<Ticket, Settled> = BTreeMap::new();
        for (ticket, job) in &sheet.jobs {
            let reply = settled.get(job).copied().unwrap_or(Settled::Refused);
            replies.insert(*ticket, reply);
            self.over(*ticket, *job, reply).await;
            if let Some(attempt) = sheet.attempts.remove(ticket).filter(|_| reply == Settled::Accepted) {
                self.measured(*job, &attempt);
            }
        }
        self.load().settled += replies.values().filter(|reply| **reply == Settled::Accepted).count() as u64;
        self.tell_when_due();
        let reply = |(ticket, before): (Ticket, bool)| {
            let first = if before { Settled::Already } else { Settled::Refused };
            let Some(known) = replies.get_mut(&ticket) else { return first };
            let reply = *known;
            if reply == Settled::Accepted {
                // For the next entry with this ticket.
                *known = Settled::Already;
            }
            reply
        };
        Ok(tickets.into_iter().zip(before).map(reply).collect())
    }

    fn measured(&self, job: JobId, attempt: &Attempted) {
        let Attempted { queue, kind, begun, error } = attempt;
        if let Some(begun) = begun {
            self.meter.note(queue, begun);
        }
        if let Some(error) = error {
            self.meter.note_failure(queue, kind, job, error);
        }
    }

    /// A job is not this worker's any more.
    async fn over(&self, ticket: Ticket, job: JobId, reply: Settled) {
        let refused = reply == Settled::Refused;
        if refused {
            warn!(worker = %self.worker, %job, "the store does not know a claim; no more is claimed, and when it is settled what there is, the worker ends");
            self.lock().advance(Phase::Draining);
        }
        let Over { was_alone, frees } = self.lock().remove(self.worker, ticket, refused);
        if frees {
            self.ring();
        }
        if was_alone {
            if !suspect::tell(&*self.store, fastrand::f64, self.worker, None).await {
                warn!(%job, "could not tell the store that a suspect is over; if this worker dies, the job is blamed");
            }
            self.lock().is_over(ticket);
        }
    }

    /// Settles what is owed of jobs that were never given out.
    pub(super) async fn pay(&self) -> Result<()> {
        let owed = self.lock().owed.clone();
        if owed.is_empty() {
            return Ok(());
        }
        // A job may be claimed again, and owed anew, before the answer is there.
        let sent: HashSet<(ClaimRef, JobId)> = owed.iter().map(|owed| (owed.claim, owed.job)).collect();
        let request = SettleRequest { worker: self.worker, completions: Vec::new(), exceptions: owed };
        let paid = self.write(request, &BTreeMap::new()).await?;
        let is_paid =
            |owed: &Exception| sent.contains(&(owed.claim, owed.job)) && paid.contains_key(&owed.job);
        self.lock().owed.retain(|owed| !is_paid(owed));
        Ok(())
    }

    /// What the store says of each job; `completed`: which jobs of their claims the completions are of. A batch that it goes on refusing for its contents is halved, until only the refused job is settled otherwise.
    async fn write(
        &self,
        request: SettleRequest,
        completed: &BTreeMap<ClaimRef, Vec<JobId>>,
    ) -> Result<HashMap<JobId, Settled>> {
        let (mut settled, mut left) = (HashMap::new(), vec![request]);
        let (mut refusals, mut backoff) = (0, Backoff::outage(fastrand::f64));
        while let Some(request) = left.pop() {
            match self.store.settle(&request).await {
                Ok(reply) => note(&mut settled, &request, completed, &reply),
                Err(error) if is_defect(&error) && refusals < MOST_REFUSALS => {
                    refusals += 1;
                    left.push(request);
                    sleep(backoff.step()).await;
                }
                Err(error) if is_defect(&error) => match instead(request, &error) {
                    Some(parts) => left.extend(parts.into_iter().rev()),
                    None => return Err(error),
                },
                Err(error) => return self.fenced(Err(error)),
            }
        }
        Ok(settled)
    }
}

fn note(
    settled: &mut HashMap<JobId, Settled>,
    request: &SettleRequest,
    completed: &BTreeMap<ClaimRef, Vec<JobId>>,
    reply: &SettleReply,
) {
    for (completion, reply) in request.completions.iter().zip(&reply.completions) {
        let jobs = completed.get(&completion.claim).into_iter().flatten();
        settled.extend(jobs.map(|job| (*job, *reply)));
    }
    let exceptions = request.exceptions.iter().zip(&reply.exceptions);
    settled.extend(exceptions.map(|(exception, reply)| (exception.job, *reply)));
}
