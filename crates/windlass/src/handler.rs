use crate::{Context, DataSet, HandlerFn, Job, RawJob, encryption::OpenHandler};
use std::{marker::PhantomData, time::Duration};
use windlass_core::{IntoOutcome, Outcome, Result, RetryPolicy};
use windlass_runtime::HandlerFuture;

/// A function from a typed job. Per job it allocates the future and what parsing the args takes.
pub(crate) struct TypedHandler<J, X, F: HandlerFn<J, X>> {
    function: F,
    prepared: F::Prepared,
    retry_policy: Option<RetryPolicy>,
    takes: PhantomData<fn(J, X)>,
}

impl<J: Job, X, F: HandlerFn<J, X>> TypedHandler<J, X, F> {
    pub(crate) fn new(function: F, data: &DataSet) -> Result<Self> {
        let prepared = F::prepare(data)?;
        Ok(Self { function, prepared, retry_policy: J::retry_policy(), takes: PhantomData })
    }
}

impl<J: Job, X: 'static, F: HandlerFn<J, X>> OpenHandler for TypedHandler<J, X, F> {
    fn call(&self, raw: RawJob, context: Context) -> HandlerFuture {
        match read(&raw) {
            Ok(job) => {
                let running = self.function.start(&self.prepared, job, context);
                Box::pin(async move { running.await.into_outcome() })
            }
            Err(unfit) => Box::pin(std::future::ready(unfit)),
        }
    }

    fn retry_policy(&self) -> Option<&RetryPolicy> {
        self.retry_policy.as_ref()
    }

    fn retry_delay(&self, attempt: u16, error: &str) -> Option<Duration> {
        J::retry_delay(attempt, error)
    }

    fn timeout(&self) -> Option<Duration> {
        J::TIMEOUT
    }
}

/// The job that these args are, or how its attempt fails.
pub(crate) fn read<J: Job>(raw: &RawJob) -> Result<J, Outcome> {
    serde_json::from_slice(raw.bytes()).map_err(|cause| {
        let error = format!(
            "args of kind {:?} do not fit {}: {}; fix the handler's type or the job's args",
            J::KIND,
            std::any::type_name::<J>(),
            raw.tell(&cause)
        );
        Outcome::Retry { after: None, error }
    })
}

/// A function from unparsed args.
pub(crate) struct RawHandler<X, F: HandlerFn<RawJob, X>> {
    function: F,
    prepared: F::Prepared,
    takes: PhantomData<fn(X)>,
}

impl<X, F: HandlerFn<RawJob, X>> RawHandler<X, F> {
    pub(crate) fn new(function: F, data: &DataSet) -> Result<Self> {
        Ok(Self { prepared: F::prepare(data)?, function, takes: PhantomData })
    }
}

impl<X: 'static, F: HandlerFn<RawJob, X>> OpenHandler for RawHandler<X, F> {
    fn call(&self, job: RawJob, context: Context) -> HandlerFuture {
        let running = self.function.start(&self.prepared, job, context);
        Box::pin(async move { running.await.into_outcome() })
    }
}
