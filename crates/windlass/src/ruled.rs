use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use windlass_core::RetryPolicy;
use windlass_runtime::{BatchHandler, Context, Handler, HandlerFuture, lend::Lender};

/// What a worker says of the jobs of a kind that say nothing themselves.
#[derive(Clone, Copy, Default)]
pub(crate) struct KindRules {
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry_policy: Option<RetryPolicy>,
}

/// A handler whose kind the worker has rules for.
pub(crate) struct Ruled {
    pub(crate) rules: KindRules,
    pub(crate) inner: Arc<dyn Handler>,
}

impl Handler for Ruled {
    fn call(&self, args: Bytes, context: Context) -> HandlerFuture {
        self.inner.call(args, context)
    }

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        self.rules.retry_policy.as_ref().or_else(|| self.inner.retry_policy())
    }

    fn retry_delay(&self, attempt: u16, error: &str) -> Option<Duration> {
        self.inner.retry_delay(attempt, error)
    }

    fn timeout(&self) -> Option<Duration> {
        self.rules.timeout.or_else(|| self.inner.timeout())
    }

    fn batch(&self) -> Option<&dyn BatchHandler> {
        self.inner.batch()
    }

    fn lender(&self, args: &Bytes) -> Option<&Lender> {
        self.inner.lender(args)
    }
}
