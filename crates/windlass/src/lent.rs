use crate::{Context, RawJob, encryption::OpenHandler};
use windlass_runtime::{HandlerFuture, lend::Lender};

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
