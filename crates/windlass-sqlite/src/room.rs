//! How much one transaction moves of jobs whose args it copies, since others wait.

/// The most jobs of one transaction.
const JOBS_AT_ONCE: usize = 2_000;
/// It takes no further job when it has copied so many bytes of args.
const BYTES_AT_ONCE: i64 = 8 * 1024 * 1024;

/// What one transaction may still move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    jobs: usize,
    bytes: i64,
}

impl Room {
    /// Of a transaction that has moved nothing.
    pub(crate) const WHOLE: Self = Self { jobs: JOBS_AT_ONCE, bytes: BYTES_AT_ONCE };

    #[cfg(test)]
    pub(crate) fn of_jobs(jobs: usize) -> Self {
        Self { jobs, ..Self::WHOLE }
    }

    /// Whether there is none for another job.
    pub(crate) fn is_used_up(self) -> bool {
        self.jobs == 0 || self.bytes <= 0
    }

    /// A job with args of so many bytes is moved.
    pub(crate) fn take(&mut self, bytes: i64) {
        self.jobs = self.jobs.saturating_sub(1);
        self.bytes -= bytes;
    }
}
