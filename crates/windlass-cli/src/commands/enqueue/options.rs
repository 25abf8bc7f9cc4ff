use crate::{duration, time};
use jiff::Timestamp;
use std::time::Duration;
use windlass::{Args, NewJob, RetryPolicy};

/// What only some jobs have.
#[derive(clap::Args)]
pub(crate) struct JobOptions {
    /// How long an attempt may take, instead of what the worker says: 30s, 5m
    #[arg(long, value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// How long to wait after failed attempts, instead of what the worker says: linear:10s, exponential:15s:1h, fixed:1m
    #[arg(long, value_name = "KIND:FIRST[:LONGEST]", value_parser = |text: &str| RetryPolicy::parse(text, duration::parse))]
    backoff: Option<RetryPolicy>,
    /// Cancels the job as expired if it is not started within this time from now, or of a schedule from its tick on: 5m, 2h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "expires_at")]
    expires_in: Option<Duration>,
    /// Cancels the job as expired if it is not started by this time: 2031-01-31T08:00:00Z. Not of a schedule, whose jobs are many
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    expires_at: Option<Timestamp>,
    /// Whom or what the job is about, a tenant or a customer: `queues limit-keys` limits each of them
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A small JSON object of yours, which the handler gets beside the args: a tenant, a request id
    #[arg(long, value_name = "JSON", value_parser = meta)]
    meta: Option<Args>,
    /// Something to find the job by; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// What each of its starts takes where the queue limits the rate: 1 to 1000000
    #[arg(long, value_name = "N")]
    cost: Option<u32>,
}

impl JobOptions {
    /// Whether --expires-at is said, which a schedule with its many jobs does not take.
    pub(crate) fn ends_at_one_moment(&self) -> bool {
        self.expires_at.is_some()
    }

    pub(crate) fn apply(self, mut job: NewJob) -> NewJob {
        if let Some(timeout) = self.timeout {
            job = job.with_timeout(timeout);
        }
        if let Some(policy) = self.backoff {
            job = job.with_retry_policy(policy);
        }
        if let Some(after) = self.expires_in {
            job = job.with_expiry(after);
        }
        if let Some(at) = self.expires_at {
            job = job.with_expires_at(at);
        }
        if let Some(key) = self.key {
            job = job.with_key(key);
        }
        if let Some(meta) = self.meta {
            job = job.with_meta(meta);
        }
        if let Some(cost) = self.cost {
            job = job.with_cost(cost);
        }
        if self.tags.is_empty() { job } else { job.with_tags(self.tags) }
    }
}

fn meta(text: &str) -> Result<Args, String> {
    Args::parse(text).map_err(|error| error.to_string())
}
