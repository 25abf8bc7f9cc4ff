use super::RemoteWorker;
use crate::{QueueConfig, WorkerConfig};
use std::{collections::BTreeMap, time::Duration};
use windlass_core::{ClaimedJob, Error, ErrorKind, Limits, Program, Result};

/// What a worker that runs elsewhere says of itself.
#[derive(Clone, Debug)]
pub struct RemoteSpec {
    /// A name for people.
    pub name: String,
    /// What it runs, for people.
    pub program: Program,
    /// Its queues, and how many jobs of each it has at the same time.
    pub queues: Vec<QueueConfig>,
    /// The kinds that it can run; empty: any.
    pub kinds: Vec<String>,
    /// How long it may be silent before others take its jobs.
    pub lease: Duration,
    /// How long an attempt may take, where neither the job nor its kind says so; `None`: as long as it likes.
    pub timeout: Option<Duration>,
    /// How long attempts of these kinds may take, where the job does not say so.
    pub timeouts: BTreeMap<String, Duration>,
    /// How long after that the worker may still say what becomes of the job. Then the attempt has failed.
    pub timeout_grace: Duration,
    /// Whether encrypted jobs are handed out: to who opens them for the worker. Otherwise they wait for another worker.
    pub takes_encrypted: bool,
}

/// No queue yet; a lease of a minute, no time limits.
impl Default for RemoteSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            program: Program::default(),
            queues: Vec::new(),
            kinds: Vec::new(),
            lease: Duration::from_secs(60),
            timeout: None,
            timeouts: BTreeMap::new(),
            timeout_grace: WorkerConfig::DEFAULT_TIMEOUT_GRACE,
            takes_encrypted: false,
        }
    }
}

impl RemoteSpec {
    /// How long an attempt at this job may take.
    pub(super) fn timeout_of(&self, job: &ClaimedJob) -> Option<Duration> {
        let own = job.attributes.as_ref().and_then(|attributes| attributes.timeout);
        own.or_else(|| self.timeouts.get(&*job.kind).copied()).or(self.timeout)
    }

    pub(super) fn check(&self) -> Result<()> {
        let Self { queues, lease, timeout, timeout_grace, program, .. } = self.clone();
        WorkerConfig { queues, lease, timeout, timeout_grace, program, ..WorkerConfig::default() }.check()?;
        self.kinds.iter().chain(self.timeouts.keys()).try_for_each(|kind| Limits::check_kind_name(kind))?;
        self.timeouts.values().try_for_each(|timeout| Limits::check_timeout(*timeout))?;
        let (jobs, most) =
            (self.queues.iter().map(|queue| queue.concurrency).sum::<usize>(), RemoteWorker::MOST_JOBS);
        if jobs > most {
            let message =
                format!("a worker has at most {most} jobs at once, over all its queues, got {jobs}");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Ok(())
    }
}
