use crate::{Context, Job, RawJob};
use bytes::Bytes;
use std::{future::Future, marker::PhantomData};
use windlass_core::{IntoOutcome, Outcome, RetryPolicy};
use windlass_runtime::{Handler, HandlerFuture};

/// A function from a typed job. Per job it allocates the future and what parsing the args takes.
pub(crate) struct TypedHandler<J, F> {
    function: F,
    retry_policy: Option<RetryPolicy>,
    job: PhantomData<fn(J)>,
}

impl<J: Job, F> TypedHandler<J, F> {
    pub(crate) fn new(function: F) -> Self {
        Self { function, retry_policy: J::retry_policy(), job: PhantomData }
    }
}

impl<J, F, R> Handler for TypedHandler<J, F>
where
    J: Job,
    F: Fn(J, Context) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    fn call(&self, args: Bytes, context: Context) -> HandlerFuture {
        match serde_json::from_slice::<J>(&args) {
            Ok(job) => {
                let running = (self.function)(job, context);
                Box::pin(async move { running.await.into_outcome() })
            }
            Err(cause) => {
                let error = format!(
                    "args of kind {:?} do not fit {}: {cause}; fix the handler's type or the job's args",
                    J::KIND,
                    std::any::type_name::<J>()
                );
                Box::pin(std::future::ready(Outcome::Retry { after: None, error }))
            }
        }
    }

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        self.retry_policy.as_ref()
    }
}

/// A function from unparsed args.
pub(crate) struct RawHandler<F> {
    function: F,
}

impl<F> RawHandler<F> {
    pub(crate) fn new(function: F) -> Self {
        Self { function }
    }
}

impl<F, R> Handler for RawHandler<F>
where
    F: Fn(RawJob, Context) -> R + Send + Sync + 'static,
    R: Future<Output: IntoOutcome> + Send + 'static,
{
    fn call(&self, args: Bytes, context: Context) -> HandlerFuture {
        let running = (self.function)(RawJob::new(args), context);
        Box::pin(async move { running.await.into_outcome() })
    }
}
