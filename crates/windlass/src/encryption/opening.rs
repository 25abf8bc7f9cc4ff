use super::Codec;
use crate::RawJob;
use bytes::Bytes;
use std::{future::ready, sync::Arc, time::Duration};
use windlass_core::{Envelope, Outcome, RetryPolicy};
use windlass_runtime::{Context, Handler, HandlerFuture, lend::Lender};

/// A handler that gets its args open.
pub(crate) trait OpenHandler: Send + Sync + 'static {
    fn call(&self, job: RawJob, context: Context) -> HandlerFuture;

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        None
    }

    fn retry_delay(&self, _attempt: u16, _error: &str) -> Option<Duration> {
        None
    }

    fn timeout(&self) -> Option<Duration> {
        None
    }

    fn lender(&self) -> Option<&Lender> {
        None
    }
}

/// Where all args are opened and all results and checkpoints sealed: directly around the handler, so that layers, logs and the engine
/// see envelopes. Args that are not encrypted pass at the cost of comparing 16 bytes.
pub(crate) struct Opening<H> {
    pub(crate) handler: H,
    pub(crate) codec: Arc<Codec>,
    /// Whether the kind says that its jobs are encrypted.
    pub(crate) encrypted: bool,
}

impl<H: OpenHandler> Handler for Opening<H> {
    fn call(&self, args: Bytes, context: Context) -> HandlerFuture {
        let job = match (Envelope::is_one(&args), self.encrypted) {
            (false, false) => return self.handler.call(RawJob::new(args), context),
            (false, true) if self.codec.takes_plain_args => RawJob::new_encrypted(args),
            (false, true) => return Box::pin(ready(refused(&context))),
            (true, _) => match self.codec.open(&args, &context) {
                Ok(args) => RawJob::new_encrypted(args),
                Err(outcome) => return Box::pin(ready(outcome)),
            },
        };
        let codec = Arc::clone(&self.codec);
        let sealing = context.clone().with_sealed_checkpoints(Arc::<Codec>::clone(&codec));
        let running = self.handler.call(job, sealing);
        Box::pin(async move { codec.seal_result(running.await, &context) })
    }

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        self.handler.retry_policy()
    }

    fn retry_delay(&self, attempt: u16, error: &str) -> Option<Duration> {
        self.handler.retry_delay(attempt, error)
    }

    fn timeout(&self) -> Option<Duration> {
        self.handler.timeout()
    }

    fn lender(&self, args: &Bytes) -> Option<&Lender> {
        let is_plain = !self.encrypted && !Envelope::is_one(args);
        self.handler.lender().filter(|_| is_plain)
    }
}

/// Plain args of an encrypted kind: from before it was encrypted, or from somebody who has no key.
fn refused(context: &Context) -> Outcome {
    let error = format!(
        "jobs of kind {:?} are encrypted, and this one's args are plain; to take jobs from before the change, build \
         the worker with accept_plain_args",
        context.kind()
    );
    Outcome::Retry { after: None, error }
}
