//! A batch that is lent: its jobs are offered under one lock, so that whoever takes one takes all.

use super::{Lender, Ticket, offer::Offer};
use crate::{BatchFuture, BatchHandler, Context};
use bytes::Bytes;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};
use windlass_core::Outcome;

impl Lender {
    /// Offers one attempt of each of these jobs to the borrowers, as a batch: one of them takes all that are still to be run. The future is
    /// ready when the outcome of each was handed in. Dropping it takes them away, and their borrower is told so.
    pub fn offer_batch(&self, jobs: Vec<(Bytes, Context)>) -> BatchFuture {
        let whose: Vec<_> = jobs.iter().map(|(_, job)| (Arc::clone(job.scope()), job.id())).collect();
        jobs.iter().for_each(|(_, job)| job.switch().put_on_offer());
        let tickets = self.change(|loans, calls| {
            let mut first = None;
            let offer = |(args, job)| {
                let ticket = loans.offer(args, job, first, calls);
                first.get_or_insert(ticket);
                ticket
            };
            jobs.into_iter().map(offer).collect::<Vec<_>>()
        });
        let offers = tickets.into_iter().zip(whose);
        let offers = offers.map(|(ticket, (scope, id))| Offer::of(self.clone(), ticket, scope, id));
        let members = offers.map(Member::Out).collect();
        Box::pin(Together { lender: self.clone(), members })
    }
}

impl BatchHandler for Lender {
    fn call_batch(&self, jobs: Vec<(Bytes, Context)>) -> BatchFuture {
        self.offer_batch(jobs)
    }
}

/// A job of the batch.
enum Member {
    Out(Offer),
    Done(Outcome),
}

/// One attempt of each job of a batch.
struct Together {
    lender: Lender,
    members: Vec<Member>,
}

impl Member {
    fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Out(offer) => Some(offer.ticket),
            Self::Done(_) => None,
        }
    }
}

impl Future for Together {
    type Output = Vec<Outcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Vec<Outcome>> {
        let Self { lender, members } = &mut *self;
        let out: Vec<_> = members.iter_mut().filter(|member| matches!(member, Member::Out(_))).collect();
        let known = lender.outcomes(out.iter().filter_map(|member| member.ticket()), cx.waker());
        let mut waits = false;
        for (member, known) in out.into_iter().zip(known) {
            let Member::Out(offer) = member else { continue };
            offer.is_over = known.is_some();
            match known.or_else(|| offer.stop(cx)) {
                Some(outcome) => *member = Member::Done(outcome),
                None => waits = true,
            }
        }
        if waits {
            return Poll::Pending;
        }
        let outcomes = std::mem::take(members).into_iter().filter_map(|member| match member {
            Member::Done(outcome) => Some(outcome),
            Member::Out(_) => None,
        });
        Poll::Ready(outcomes.collect())
    }
}
