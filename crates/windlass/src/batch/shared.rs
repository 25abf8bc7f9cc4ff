use super::{Batch, BatchFn, BatchJob, IntoOutcomes, meeting::Meetings};
use crate::{DataSet, RawJob};
use std::{marker::PhantomData, time::Duration};
use windlass_core::{Outcome, Result, RetryPolicy};
use windlass_runtime::BatchFuture;

/// What the jobs of a kind have in common.
pub(crate) struct Rules {
    pub(crate) retry_policy: Option<RetryPolicy>,
    pub(crate) retry_delay: fn(u16, &str) -> Option<Duration>,
    pub(crate) timeout: Option<Duration>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { retry_policy: None, retry_delay: |_, _| None, timeout: None }
    }
}

/// A function of batches, and where their jobs meet.
pub(crate) struct Shared<J, X, F: BatchFn<J, X>> {
    function: F,
    prepared: F::Prepared,
    read: fn(RawJob) -> Result<J, Outcome>,
    rules: Rules,
    meetings: Meetings<J>,
    takes: PhantomData<fn(X)>,
}

impl<J, X, F: BatchFn<J, X>> Shared<J, X, F> {
    pub(crate) fn new(
        function: F,
        data: &DataSet,
        read: fn(RawJob) -> Result<J, Outcome>,
        rules: Rules,
    ) -> Result<Self> {
        let prepared = F::prepare(data)?;
        Ok(Self { function, prepared, read, rules, meetings: Meetings::default(), takes: PhantomData })
    }

    pub(super) fn read(&self, raw: RawJob) -> Result<J, Outcome> {
        (self.read)(raw)
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) fn meetings(&self) -> &Meetings<J> {
        &self.meetings
    }

    /// Runs these jobs.
    pub(crate) fn start(&self, jobs: Vec<BatchJob<J>>) -> BatchFuture {
        let ids: Vec<_> = jobs.iter().map(BatchJob::id).collect();
        let running = self.function.start(&self.prepared, Batch::new(jobs));
        Box::pin(async move { running.await.into_outcomes().of(&ids) })
    }
}
