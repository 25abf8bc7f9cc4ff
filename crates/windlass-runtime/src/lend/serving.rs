//! A lender as the engine sees it.

use super::{Lender, loans::Loans, offer::Offer, untaken};
use crate::{BatchHandler, Context, EngineHandle, Handler, HandlerFuture};
use bytes::Bytes;
use std::sync::Arc;

impl Lender {
    /// Offers one attempt of a job to the borrowers. The future is ready when one of them handed in its outcome. Dropping it takes the
    /// job away from its borrower, who is told so.
    pub fn offer(&self, args: Bytes, context: Context) -> HandlerFuture {
        Box::pin(Offer::new(self.clone(), args, context))
    }

    /// Serves this worker, and no other. When that begins to stop, or is to [drain](windlass_core::JobStore::drain_worker), what no borrower has taken goes back, without the use of
    /// an attempt, and so does what is offered from then on. Borrowers go on with what they have. Before that, what nobody takes goes back where another worker may have room for it.
    pub fn serve(&self, engine: &EngineHandle) {
        let (lender, stopping, core) = (self.clone(), engine.stopping(), Arc::clone(engine.core()));
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stopping => {}
                () = untaken::watch(&lender, &core) => {}
            }
            lender.change(Loans::stop);
        });
    }
}

impl Handler for Lender {
    fn call(&self, args: Bytes, context: Context) -> HandlerFuture {
        self.offer(args, context)
    }

    fn batch(&self) -> Option<&dyn BatchHandler> {
        Some(self)
    }

    fn lender(&self, _: &Bytes) -> Option<&Lender> {
        Some(self)
    }
}
