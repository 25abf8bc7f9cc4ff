use windlass_core::{ClaimedJob, JobId, RetryPolicy};

/// What it depends on how a job is settled, besides how its attempt ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) id: JobId,
    pub(crate) number: u16,
    pub(crate) max_attempts: u16,
    pub(crate) tracked: bool,
    pub(crate) own_policy: Option<RetryPolicy>,
}

impl Ending {
    pub(crate) fn of(job: &ClaimedJob) -> Self {
        let (tracked, own_policy) = match &job.attributes {
            Some(attributes) => (attributes.tracked, attributes.retry_policy),
            None => (false, None),
        };
        Self { id: job.id, number: job.attempt, max_attempts: job.max_attempts, tracked, own_policy }
    }
}
