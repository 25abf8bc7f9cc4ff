//! Jobs that are lent without a future that waits for their outcome.

use super::{Lender, Ticket, loans::Loans, offer::Offer};
use crate::{
    Context,
    epoch::{Epoch, Watch},
    unattended::Unattended,
};
use bytes::Bytes;
use std::sync::Arc;
use windlass_core::JobId;

/// A job to be lent so.
pub(crate) type ToLend = (Bytes, Context, Box<Unattended>);

impl Lender {
    /// Offers jobs to the borrowers. Their epochs know that [this lender watches them](Epoch::is_watched_by).
    pub(crate) fn lend(&self, jobs: impl IntoIterator<Item = ToLend>) {
        let refused = self.change(|loans, calls| {
            let refused = jobs.into_iter().filter_map(|job| loans.offer_unattended(job, calls));
            refused.collect::<Vec<_>>()
        });
        self.attend(refused);
    }

    /// Has a future wait for each of these jobs, which may be offered, lent, or handed in meanwhile.
    fn attend(&self, jobs: Vec<(Ticket, Box<Unattended>)>) {
        for (ticket, job) in jobs {
            let offer = Offer::of(self.clone(), ticket, Arc::clone(&job.scope), job.ending.id);
            Arc::clone(&job.home).attend(job, Box::pin(offer));
        }
    }
}

impl Watch for Lender {
    fn identity(&self) -> usize {
        Arc::as_ptr(&self.loans) as usize
    }

    fn should_stop(&self, epoch: &Epoch, jobs: Option<&[JobId]>) {
        let concerned = |job: &Unattended| {
            std::ptr::eq(&*job.scope.epoch, epoch) && jobs.is_none_or(|jobs| jobs.contains(&job.ending.id))
        };
        let found = self.change(|loans: &mut Loans, calls| {
            loans.wake_batches(calls);
            loans.take_unattended(concerned)
        });
        self.attend(found);
    }
}
