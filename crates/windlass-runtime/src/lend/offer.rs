use super::{Lender, StopReason, Ticket};
use crate::{Context, epoch::ClaimScope};
use bytes::Bytes;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};
use tokio_util::sync::WaitForCancellationFutureOwned;
use windlass_core::{JobId, Outcome};

/// One attempt of a job, for the engine: waits until a borrower hands in its outcome.
pub(super) struct Offer {
    lender: Lender,
    ticket: Ticket,
    scope: Arc<ClaimScope>,
    id: JobId,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Its borrower was told to stop.
    told: bool,
    /// The lender knows nothing of it any more.
    is_over: bool,
}

impl Offer {
    pub(super) fn new(lender: Lender, args: Bytes, context: Context) -> Self {
        context.switch().put_on_offer();
        let (scope, id) = (Arc::clone(context.scope()), context.id());
        let ticket = lender.change(|loans, calls| loans.offer(args, context, calls));
        Self::of(lender, ticket, scope, id)
    }

    /// Of a job that is offered, or lent, already.
    pub(super) fn of(lender: Lender, ticket: Ticket, scope: Arc<ClaimScope>, id: JobId) -> Self {
        let cancelled = Box::pin(scope.switch(id).token.clone().cancelled_owned());
        Self { lender, ticket, scope, id, cancelled, told: false, is_over: false }
    }
}

impl Offer {
    /// Tells its borrower to stop, once it has to. The outcome of a job that nobody has then.
    fn stop(&mut self, cx: &mut task::Context<'_>) -> Option<Outcome> {
        if self.told || self.cancelled.as_mut().poll(cx).is_pending() {
            return None;
        }
        self.told = true;
        let (ticket, reason) = (self.ticket, StopReason::of(&self.scope, self.id));
        let unstarted = self.lender.change(|loans, calls| loans.interrupt(ticket, reason, calls));
        self.is_over = unstarted.is_some();
        unstarted
    }
}

impl Future for Offer {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Outcome> {
        if let Some(outcome) = self.lender.outcome(self.ticket, cx.waker()) {
            self.is_over = true;
            return Poll::Ready(outcome);
        }
        self.stop(cx).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if !self.is_over {
            let ticket = self.ticket;
            self.lender.change(|loans, calls| loans.withdraw(ticket, calls));
        }
    }
}
