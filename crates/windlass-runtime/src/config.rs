use crate::load::this_program;
use std::{collections::HashSet, time::Duration};
use windlass_core::{Error, ErrorKind, Limits, Program, Result, RetryPolicy};

/// Everything that a worker can be told. Defaults are right for most; only queues have to be named.
///
/// ```
/// use windlass_runtime::WorkerConfig;
/// let config = WorkerConfig::default().with_queue("mail", 10);
/// assert!(config.check().is_ok());
/// assert!(WorkerConfig::default().check().is_err(), "a worker without queues has nothing to do");
/// ```
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// A name for people: `host:pid` by default.
    pub name: String,
    /// What it runs, for people: by default the name of the program's file, and the version that `WINDLASS_APP_VERSION` names.
    pub program: Program,
    /// The queues to take jobs from.
    pub queues: Vec<QueueConfig>,
    /// How long this worker may be silent before others take its jobs. Renewed every third of it.
    pub lease: Duration,
    /// How long a graceful shutdown lets running jobs go on.
    pub grace_period: Duration,
    /// The longest time between two looks at the store while nothing announces work.
    pub poll_interval: Duration,
    /// When failed jobs are tried again, unless their handler has a policy of its own.
    pub retry_policy: RetryPolicy,
    /// How long an attempt may take, unless its handler has a [timeout](crate::Handler::timeout) of its own;
    /// `None` means for ever. When the time is over the handler is told to stop by
    /// [`Context::cancelled`](crate::Context::cancelled), and the attempt fails with an error that begins with
    /// `timeout`. A handler that blocks its thread cannot be stopped.
    pub timeout: Option<Duration>,
    /// How long a handler may go on after it was told to stop because its time was over. Then its future is
    /// dropped.
    pub timeout_grace: Duration,
    /// How many finished jobs may wait for an unreachable store before claiming stops.
    pub max_buffered: usize,
    /// Whether a slot waits until its job's settlement is committed.
    pub settling: Settling,
    /// Where jitter comes from: a number in 0..1. Tests replace it.
    pub random: fn() -> f64,
}

/// When a slot takes its next job. In both modes a job counts as done only when its settlement is committed;
/// they differ in how many jobs run again when the worker dies.
///
/// ```
/// use windlass_runtime::{Settling, WorkerConfig};
/// let strict = WorkerConfig { settling: Settling::Strict, ..WorkerConfig::default() };
/// # assert_ne!(strict.settling, WorkerConfig::default().settling);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settling {
    /// At once: settlements are written in batches meanwhile. After a crash the jobs of the last few
    /// milliseconds run again ([`WorkerConfig::max_buffered`] is the most).
    #[default]
    Pipelined,
    /// When the settlement of its job before is committed: after a crash at most `concurrency` jobs of a queue run
    /// again. Each job then costs its slot a round trip to the store.
    Strict,
}

/// One queue of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// The queue's name.
    pub queue: String,
    /// How many of its jobs run at the same time in this worker.
    pub concurrency: usize,
}

impl WorkerConfig {
    /// Default of [`Self::lease`].
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
    /// Default of [`Self::grace_period`].
    pub const DEFAULT_GRACE_PERIOD: Duration = Duration::from_secs(30);
    /// Default of [`Self::timeout_grace`].
    pub const DEFAULT_TIMEOUT_GRACE: Duration = Duration::from_secs(5);
    /// The longest [`Self::poll_interval`]: a day.
    pub const LONGEST_POLL_INTERVAL: Duration = Duration::from_secs(86_400);
    /// Default of [`Self::poll_interval`].
    pub const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
    /// Default of [`Self::max_buffered`]: seconds of full speed, a few megabytes.
    pub const DEFAULT_MAX_BUFFERED: usize = 100_000;
    /// The most jobs of one queue that one worker runs at the same time.
    pub const MAX_CONCURRENCY: usize = 100_000;
    /// The most queues of one worker.
    pub const MAX_QUEUES: usize = 1_000;

    /// Adds a queue.
    #[must_use]
    pub fn with_queue(mut self, queue: impl Into<String>, concurrency: usize) -> Self {
        self.queues.push(QueueConfig { queue: queue.into(), concurrency });
        self
    }

    /// Checks every option; the engine does it on start.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] or [`ErrorKind::InvalidName`], naming the option and its value.
    pub fn check(&self) -> Result<()> {
        if self.queues.is_empty() || self.queues.len() > Self::MAX_QUEUES {
            let most = Self::MAX_QUEUES;
            return refuse(format!("a worker needs 1 to {most} queues, got {}", self.queues.len()));
        }
        let mut seen = HashSet::new();
        for QueueConfig { queue, concurrency } in &self.queues {
            Limits::check_queue_name(queue)?;
            if !seen.insert(queue.as_str()) {
                return refuse(format!("queue {queue:?} is named twice; name it once"));
            }
            if !(1..=Self::MAX_CONCURRENCY).contains(concurrency) {
                let most = Self::MAX_CONCURRENCY;
                return refuse(format!(
                    "concurrency of queue {queue:?} must be 1 to {most}, got {concurrency}"
                ));
            }
        }
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<()> {
        let at_least = |name: &str, value: Duration, least: Duration| match value < least {
            true => refuse(format!("{name} must be at least {least:?}, got {value:?}")),
            false => Ok(()),
        };
        at_least("lease", self.lease, Duration::from_millis(100))?;
        at_least("poll_interval", self.poll_interval, Duration::from_millis(5))?;
        if self.poll_interval > Self::LONGEST_POLL_INTERVAL {
            let (longest, got) = (Self::LONGEST_POLL_INTERVAL, self.poll_interval);
            return refuse(format!("poll_interval must be at most {longest:?}, got {got:?}"));
        }
        self.timeout.map_or(Ok(()), Limits::check_timeout)?;
        Limits::check_retry_policy(&self.retry_policy)?;
        self.program.check()?;
        if self.max_buffered == 0 {
            return refuse("max_buffered must be at least 1, got 0".to_owned());
        }
        Ok(())
    }
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            name: format!("{}:{}", host_name(), std::process::id()),
            program: this_program(),
            queues: Vec::new(),
            lease: Self::DEFAULT_LEASE,
            grace_period: Self::DEFAULT_GRACE_PERIOD,
            poll_interval: Self::DEFAULT_POLL_INTERVAL,
            retry_policy: RetryPolicy::default(),
            timeout: None,
            timeout_grace: Self::DEFAULT_TIMEOUT_GRACE,
            max_buffered: Self::DEFAULT_MAX_BUFFERED,
            settling: Settling::default(),
            random: fastrand::f64,
        }
    }
}

fn refuse(message: String) -> Result<()> {
    Err(Error::new(ErrorKind::InvalidOption, message))
}

/// The standard library has no call for it; a wrong guess only makes a label less telling.
fn host_name() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = from_kernel.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_cannot_work_and_says_why() {
        let fine = || WorkerConfig::default().with_queue("a", 1);
        assert!(fine().check().is_ok());
        assert!(WorkerConfig { timeout: Some(Duration::MAX), ..fine() }.check().is_ok(), "for ever");
        for (config, words) in [
            (fine().with_queue("a", 2), "named twice"),
            (fine().with_queue("b", 0), "concurrency of queue \"b\""),
            (fine().with_queue("a b", 1), "invalid queue name"),
            (WorkerConfig { lease: Duration::ZERO, ..fine() }, "lease must be"),
            (WorkerConfig { timeout: Some(Duration::ZERO), ..fine() }, "a timeout of 0 leaves no time"),
            (
                WorkerConfig {
                    retry_policy: RetryPolicy { factor: 0.5, ..RetryPolicy::default() },
                    ..fine()
                },
                "factor of a retry policy must be",
            ),
        ] {
            let error = config.check().unwrap_err();
            assert!(error.is_invalid_input() && error.to_string().contains(words), "{error}");
        }
    }
}
