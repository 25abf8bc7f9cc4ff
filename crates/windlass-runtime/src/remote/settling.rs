//! How a worker that runs elsewhere says what became of its jobs.

use super::{RemoteWorker, table::Table, whole};
use crate::{
    conclusion::Ending,
    disposition::Settlement,
    epoch::Phase,
    lend::{HandIn, Ticket},
    refused::{instead, is_defect},
    suspect,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tracing::warn;
use windlass_core::{
    ClaimRef, Completion, Exception, JobId, JobSet, Result, RetryPolicy, SettleReply, SettleRequest, Settled,
};

/// What is sent to the store, and for which tickets.
#[derive(Default)]
struct Sheet {
    completed: BTreeMap<ClaimRef, Vec<JobId>>,
    exceptions: Vec<Exception>,
    jobs: BTreeMap<Ticket, JobId>,
}

impl Sheet {
    fn enter(&mut self, table: &Table, hand_in: HandIn) {
        let HandIn { ticket, outcome } = hand_in;
        // Of a ticket that comes twice the first counts.
        if self.jobs.contains_key(&ticket) {
            return;
        }
        let Some(held) = table.find(ticket) else { return };
        let job = &held.given.job;
        self.jobs.insert(ticket, job.id);
        let ending = Ending::of(job);
        let cancelled = table.is_cancelled(job.id);
        match ending.outside(outcome, &RetryPolicy::default(), fastrand::f64(), cancelled) {
            Settlement::WithClaim => self.completed.entry(held.claim).or_default().push(job.id),
            Settlement::ByItself(disposition) => self.exceptions.push(held.exception(disposition)),
        }
    }
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
        whole(tokio::spawn(async move { worker.settle_whole(done).await })).await
    }

    async fn settle_whole(&self, done: Vec<HandIn>) -> Result<Vec<Settled>> {
        let tickets: Vec<Ticket> = done.iter().map(|hand_in| hand_in.ticket).collect();
        let (sheet, before) = {
            let table = self.lock();
            let mut sheet = Sheet::default();
            done.into_iter().for_each(|hand_in| sheet.enter(&table, hand_in));
            let before: Vec<_> = tickets.iter().map(|ticket| table.was_settled(*ticket)).collect();
            (sheet, before)
        };
        let request = self.request(sheet.completed, sheet.exceptions);
        let settled = self.write(request).await?;
        let mut replies: BTreeMap<Ticket, Settled> = BTreeMap::new();
        for (ticket, job) in &sheet.jobs {
            let reply = settled.get(job).copied().unwrap_or(Settled::Refused);
            replies.insert(*ticket, reply);
            self.over(*ticket, *job, reply).await;
        }
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

    /// A job is not this worker's any more.
    async fn over(&self, ticket: Ticket, job: JobId, reply: Settled) {
        let refused = reply == Settled::Refused;
        if refused {
            warn!(worker = %self.worker, %job, "the store does not know a claim; no more is claimed, and when it is settled what there is, the worker ends");
            self.lock().advance(Phase::Draining);
        }
        let was_alone = self.lock().remove(ticket, refused);
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
        let paid = self.write(self.request(BTreeMap::new(), owed)).await?;
        self.lock().owed.retain(|exception| !paid.contains_key(&exception.job));
        Ok(())
    }

    fn request(
        &self,
        completed: BTreeMap<ClaimRef, Vec<JobId>>,
        exceptions: Vec<Exception>,
    ) -> SettleRequest {
        let completion = |(claim, mut jobs): (ClaimRef, Vec<JobId>)| {
            jobs.sort_unstable();
            let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
            let ranges = jobs.into_iter().map(|job| (job.0, job.0)).collect();
            Completion { claim, jobs: JobSet::Ranges(ranges), count }
        };
        let completions = completed.into_iter().map(completion).collect();
        SettleRequest { worker: self.worker, completions, exceptions }
    }

    /// What the store says of each job. A batch that it refuses for its contents is halved, until only the refused job is settled otherwise.
    async fn write(&self, request: SettleRequest) -> Result<HashMap<JobId, Settled>> {
        let (mut settled, mut left) = (HashMap::new(), vec![request]);
        while let Some(request) = left.pop() {
            match self.store.settle(&request).await {
                Ok(reply) => note(&mut settled, &request, &reply),
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

fn note(settled: &mut HashMap<JobId, Settled>, request: &SettleRequest, reply: &SettleReply) {
    for (completion, reply) in request.completions.iter().zip(&reply.completions) {
        if let JobSet::Ranges(ranges) = &completion.jobs {
            settled.extend(ranges.iter().map(|(job, _)| (JobId(*job), *reply)));
        }
    }
    let exceptions = request.exceptions.iter().zip(&reply.exceptions);
    settled.extend(exceptions.map(|(exception, reply)| (exception.job, *reply)));
}
