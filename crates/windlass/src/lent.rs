use crate::{Batch, Context, RawJob, encryption::OpenHandler};
use bytes::Bytes;
use std::sync::Arc;
use windlass_runtime::{BatchFuture, BatchHandler, Handler, HandlerFuture, lend::Lender};

/// Gives the jobs of its kinds to foreign code.
pub(crate) struct LentHandler(pub(crate) Lender);

impl OpenHandler for LentHandler {
    fn call(&self, job: RawJob, context: Context) -> HandlerFuture {
        self.0.offer(job.bytes().clone(), context)
    }

    fn lender(&self) -> Option<&Lender> {
        Some(&self.0)
    }
}

/// The function of a batch that foreign code runs.
pub(crate) fn lend_batch(lender: &Lender, batch: Batch<RawJob>) -> BatchFuture {
    lender.offer_batch(batch.into_iter().map(|job| (job.args.bytes().clone(), job.ctx)).collect())
}

/// Gives the jobs of its kind to foreign code in batches.
pub(crate) struct LentBatches {
    /// Lends a job by itself.
    pub(crate) alone: Arc<dyn Handler>,
    /// Lends a batch each of whose jobs went through layers, or had its args opened.
    pub(crate) together: Arc<dyn Handler>,
}

impl Handler for LentBatches {
    fn call(&self, args: Bytes, context: Context) -> HandlerFuture {
        self.alone.call(args, context)
    }

    fn batch(&self) -> Option<&dyn BatchHandler> {
        Some(self)
    }
}

impl BatchHandler for LentBatches {
    fn call_batch(&self, jobs: Vec<(Bytes, Context)>) -> BatchFuture {
        let lenders = jobs.iter().map(|(args, _)| self.alone.lender(args));
        // Where there is nothing on their way they need no future each.
        match (lenders.collect::<Option<Vec<_>>>().as_deref(), self.together.batch()) {
            (Some([lender, ..]), _) => lender.offer_batch(jobs),
            (_, Some(together)) => together.call_batch(jobs),
            (_, None) => Box::pin(async { Vec::new() }),
        }
    }
}
