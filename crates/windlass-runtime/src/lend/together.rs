//! A batch that is lent: its jobs are offered under one lock, so that whoever takes one takes all, and one future waits for their
//! outcomes. Nothing is made for a job that nobody tells anything.

use super::{Lender, StopReason, Ticket, calls::Calls, loan::Waits, loans::Loans, outcomes::Outcomes};
use crate::{BatchFuture, BatchHandler, Context, epoch::ClaimScope};
use bytes::Bytes;
use std::{
    collections::HashSet,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
    task::{self, Poll, Waker},
};
use tokio_util::sync::WaitForCancellationFutureOwned;
use windlass_core::{JobId, Outcome};

impl Lender {
    /// Offers one attempt of each of these jobs to the borrowers, as a batch: one of them takes all that are still to be run. The future is
    /// ready when the outcome of each was handed in. Dropping it takes them away, and their borrower is told so.
    pub fn offer_batch(&self, jobs: Vec<(Bytes, Context)>) -> BatchFuture {
        if jobs.is_empty() {
            return Box::pin(ready(Vec::new()));
        }
        let mut whose: Vec<(Arc<ClaimScope>, JobId)> = Vec::with_capacity(jobs.len());
        let mut switched = Vec::new();
        for (_, job) in &jobs {
            let scope = job.scope();
            if whose.last().is_none_or(|(last, _)| !Arc::ptr_eq(&last.epoch, &scope.epoch)) {
                scope.epoch.is_watched_by(Arc::new(self.clone()));
            }
            whose.push((Arc::clone(scope), job.id()));
            // Only where something is there that may fire it without a word to those who watch: the job's time, or its batch's.
            if let Some(switch) = job.known_switch() {
                switch.put_on_offer();
                switched.push(Box::pin(switch.token.clone().cancelled_owned()));
            }
        }
        let first = self.change(|loans, calls| loans.offer_batch(jobs, calls));
        let (lender, told) = (self.clone(), HashSet::new());
        Box::pin(Together { lender, first, jobs: whose, switched, told, is_over: false })
    }
}

impl BatchHandler for Lender {
    fn call_batch(&self, jobs: Vec<(Bytes, Context)>) -> BatchFuture {
        self.offer_batch(jobs)
    }
}

/// One attempt of each job of a batch, for the engine.
struct Together {
    lender: Lender,
    /// The ticket of the first job. Those of the others follow it.
    first: Ticket,
    jobs: Vec<(Arc<ClaimScope>, JobId)>,
    /// Those that had a switch of their own from the start.
    switched: Vec<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Whose borrower was told to stop.
    told: HashSet<Ticket>,
    /// The lender knows nothing of it any more.
    is_over: bool,
}

impl Together {
    /// The jobs that should stop, and that nobody was told of yet.
    fn stops(&mut self) -> Vec<(Ticket, StopReason)> {
        let Self { first, jobs, told, .. } = self;
        let stops = jobs.iter().zip(first.0..).filter_map(|((scope, job), ticket)| {
            let is_new = scope.should_stop(*job) && told.insert(Ticket(ticket));
            is_new.then(|| (Ticket(ticket), StopReason::of(scope, *job)))
        });
        stops.collect()
    }
}

impl Future for Together {
    type Output = Vec<Outcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Vec<Outcome>> {
        let seen_early = if cfg!(feature = "bug_lost_stop") { Some(self.stops()) } else { None };
        let known = self.lender.lock().outcomes(self.first, cx.waker());
        if let Some(outcomes) = known {
            self.is_over = true;
            return Poll::Ready(outcomes);
        }
        self.switched.retain_mut(|fired| fired.as_mut().poll(cx).is_pending());
        // Looked at when the waker is in its place: who fires a token looks for that afterwards.
        let stops = seen_early.unwrap_or_else(|| self.stops());
        if !stops.is_empty() {
            let first = self.first;
            self.lender.change(|loans, calls| loans.interrupt_batch(first, stops, calls));
        }
        Poll::Pending
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if !self.is_over {
            self.lender.change(|loans, calls| loans.withdraw_batch(self.first, calls));
        }
    }
}

impl Loans {
    /// Offers the jobs of a batch that has begun. The ticket of the first of them; those of the others follow it.
    fn offer_batch(&mut self, jobs: Vec<(Bytes, Context)>, calls: &mut Calls) -> Ticket {
        let (first, count) = (self.following_ticket(), jobs.len());
        self.batches.insert(first, Outcomes::of(count));
        for (args, context) in jobs {
            self.add_offer(first, args, context, Waits::Batch);
        }
        self.hand_back_if_due(calls);
        self.ring_next(calls);
        first
    }

    /// The outcomes of a batch of which every job has one; otherwise who waits for that.
    fn outcomes(&mut self, first: Ticket, waker: &Waker) -> Option<Vec<Outcome>> {
        let outcomes = self.batches.get_mut(&first)?;
        let all = outcomes.take();
        match all {
            Some(_) => _ = self.batches.remove(&first),
            None => outcomes.set_waker(waker),
        }
        all
    }

    /// Tells the borrower of these jobs of a batch to stop them. Those that nobody has are over.
    fn interrupt_batch(&mut self, first: Ticket, stops: Vec<(Ticket, StopReason)>, calls: &mut Calls) {
        for (ticket, reason) in stops {
            if let Some(outcome) = self.interrupt(ticket, reason, calls) {
                self.enter(first, ticket, outcome, calls);
            }
        }
    }

    /// The engine does not wait for this batch any more.
    fn withdraw_batch(&mut self, first: Ticket, calls: &mut Calls) {
        let jobs = self.batches.remove(&first).map_or(0, |outcomes| outcomes.jobs() as u64);
        (first.0..first.0 + jobs).for_each(|ticket| self.withdraw(Ticket(ticket), calls));
    }
}
