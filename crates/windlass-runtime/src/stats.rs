use windlass_core::Disposition;

/// What a worker did since it started, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Jobs that the store handed out.
    pub claimed: u64,
    /// Jobs whose handler completed.
    pub completed: u64,
    /// Attempts that failed and will be repeated.
    pub retried: u64,
    /// Jobs put off by their handler, or because this worker lacks their key.
    pub snoozed: u64,
    /// Jobs cancelled by their handler or because somebody asked, and those that had expired before they could start.
    pub cancelled: u64,
    /// Jobs that are dead: out of attempts, or discarded by their handler.
    pub discarded: u64,
    /// Jobs that this worker has no handler for: they wait for a worker that has one.
    pub no_handler: u64,
    /// Jobs handed back unstarted or interrupted.
    pub returned: u64,
    /// Jobs whose settlement the store has confirmed.
    pub settled: u64,
    /// Jobs in a handler now.
    pub running: usize,
    /// Jobs claimed and not started now.
    pub ready: usize,
    /// Finished jobs that the store does not know of yet.
    pub unsettled: usize,
}

impl WorkerStats {
    /// Jobs that the store took away before anything became of them here: after the lease was lost, or where it forgot a claim.
    pub fn taken_away(&self) -> u64 {
        let ended = self.completed + self.retried + self.snoozed + self.cancelled + self.discarded;
        let had = ended + self.no_handler + self.returned + (self.running + self.ready) as u64;
        self.claimed.saturating_sub(had)
    }
}

/// Counters of one queue, kept under its lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueCounters {
    pub(crate) claimed: u64,
    /// Jobs that left an executor, in whatever way.
    pub(crate) finished: u64,
    pub(crate) completed: u64,
    retried: u64,
    snoozed: u64,
    cancelled: u64,
    discarded: u64,
    no_handler: u64,
    returned: u64,
}

impl QueueCounters {
    pub(crate) fn count(&mut self, disposition: &Disposition) {
        *match disposition {
            Disposition::Complete { .. } => &mut self.completed,
            Disposition::Snooze { .. } | Disposition::Undecryptable { .. } => &mut self.snoozed,
            Disposition::Cancel { .. } => &mut self.cancelled,
            Disposition::Discard { .. } => &mut self.discarded,
            Disposition::NoHandler => &mut self.no_handler,
            Disposition::Return => &mut self.returned,
            _ => &mut self.retried,
        } += 1;
    }

    pub(crate) fn add_to(&self, stats: &mut WorkerStats) {
        stats.claimed += self.claimed;
        stats.completed += self.completed;
        stats.retried += self.retried;
        stats.snoozed += self.snoozed;
        stats.cancelled += self.cancelled;
        stats.discarded += self.discarded;
        stats.no_handler += self.no_handler;
        stats.returned += self.returned;
    }
}
