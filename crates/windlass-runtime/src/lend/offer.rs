use super::{Lender, StopReason, Ticket};
use crate::Context;
use bytes::Bytes;
use std::{
    future::Future,
    pin::Pin,
    task::{self, Poll},
};
use tokio_util::sync::WaitForCancellationFutureOwned;
use windlass_core::Outcome;

/// One attempt of a job, for the engine: waits until a borrower hands in its outcome.
pub(super) struct Offer {
    lender: Lender,
    ticket: Ticket,
    context: Context,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Its borrower was told to stop.
    told: bool,
}

impl Offer {
    pub(super) fn new(lender: Lender, args: Bytes, context: Context) -> Self {
        let switch = context.switch();
        switch.put_on_offer();
        let cancelled = Box::pin(switch.token.clone().cancelled_owned());
        let ticket = lender.change(|loans, calls| loans.offer(args, context.clone(), calls));
        Self { lender, ticket, context, cancelled, told: false }
    }
}

impl Future for Offer {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Outcome> {
        if let Some(outcome) = self.lender.outcome(self.ticket, cx.waker()) {
            return Poll::Ready(outcome);
        }
        if !self.told && self.cancelled.as_mut().poll(cx).is_ready() {
            self.told = true;
            let (ticket, reason) = (self.ticket, StopReason::of(&self.context));
            if let Some(unstarted) = self.lender.change(|loans, calls| loans.interrupt(ticket, reason, calls))
            {
                return Poll::Ready(unstarted);
            }
        }
        Poll::Pending
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let ticket = self.ticket;
        self.lender.change(|loans, calls| loans.withdraw(ticket, calls));
    }
}
