use std::collections::BTreeMap;
use windlass_core::{ClaimRef, Disposition, JobId, JobState, WorkerId};

/// Where the model has a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Scheduled or retryable: due already, or never within the test.
    Waiting {
        state: JobState,
        due: bool,
    },
    Available,
    Parked,
    Running(WorkerId, ClaimRef),
    /// Completed after so many rounds of housekeeping: a later one may have removed it.
    Completed {
        round: u32,
    },
    Cancelled,
    Discarded,
}

impl Stage {
    pub(super) fn state(self) -> JobState {
        match self {
            Self::Waiting { state, .. } => state,
            Self::Available | Self::Parked => JobState::Available,
            Self::Running(..) => JobState::Running,
            Self::Completed { .. } => JobState::Completed,
            Self::Cancelled => JobState::Cancelled,
            Self::Discarded => JobState::Discarded,
        }
    }
}

/// What the model knows of one job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) queue: usize,
    pub(super) priority: i16,
    pub(super) kind: &'static str,
    /// Attempts used up.
    pub(super) used: u16,
    pub(super) crashes: u16,
    /// Attempts and crashes that are as good until the job is claimed: the contract does not say whether a
    /// job that was cancelled while it was available, and comes back, starts anew.
    pub(super) or_else: Option<(u16, u16)>,
    pub(super) errors: usize,
    pub(super) stage: Stage,
}

impl Entry {
    /// Whether these are the attempts begun. What its handler ended early may count its last one or not.
    pub(super) fn has_begun(&self, attempts: u16) -> bool {
        let now = u16::from(matches!(self.stage, Stage::Running(..) | Stage::Completed { .. }));
        let early = matches!(self.stage, Stage::Cancelled | Stage::Discarded);
        let fits = |used| attempts == used + now || early && attempts == used + 1;
        fits(self.used) || self.or_else.is_some_and(|(used, _)| fits(used))
    }

    pub(super) fn has_crashed(&self, times: u16) -> bool {
        times == self.crashes || self.or_else.is_some_and(|(_, crashes)| crashes == times)
    }

    /// A claim tells attempts and crashes for sure.
    pub(super) fn settle_on(&mut self, used: u16, crashes: u16) {
        if let Some(other) = self.or_else.take()
            && other == (used, crashes)
        {
            (self.used, self.crashes) = other;
        }
    }
}

/// The model: every job that was ever enqueued, and a little about queues.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) jobs: BTreeMap<JobId, Entry>,
    pub(super) paused: [bool; 2],
    /// Cancelled jobs that claims may still have to step over: until then an answer may be short.
    pub(super) stones: [usize; 2],
    /// Rounds of housekeeping so far.
    pub(super) round: u32,
}

impl Book {
    pub(super) fn job(&mut self, id: JobId) -> &mut Entry {
        self.jobs.get_mut(&id).unwrap_or_else(|| panic!("the store knows job {id}, nobody enqueued it"))
    }

    pub(super) fn complete(&mut self, id: JobId) {
        self.job(id).stage = Stage::Completed { round: self.round };
    }

    /// Whether housekeeping may have removed the job.
    pub(super) fn may_be_gone(&self, entry: &Entry) -> bool {
        matches!(entry.stage, Stage::Completed { round } if round < self.round)
    }

    /// Another fate than completion.
    pub(super) fn except(&mut self, id: JobId, disposition: &Disposition) {
        let job = self.job(id);
        let waiting = |state, delay: &std::time::Duration| Stage::Waiting { state, due: delay.is_zero() };
        job.stage = match disposition {
            Disposition::Retry { delay, .. } => {
                job.used += 1;
                job.errors += 1;
                waiting(JobState::Retryable, delay)
            }
            Disposition::Snooze { delay } => waiting(JobState::Scheduled, delay),
            Disposition::Cancel { .. } => Stage::Cancelled,
            Disposition::Discard { failed, .. } => {
                job.errors += usize::from(*failed);
                Stage::Discarded
            }
            Disposition::NoHandler => Stage::Parked,
            _ => Stage::Available,
        };
    }

    /// The ids of a worker's jobs, by claim.
    pub(super) fn held_by(&self, worker: WorkerId) -> BTreeMap<ClaimRef, Vec<JobId>> {
        let mut held = BTreeMap::<_, Vec<_>>::new();
        for (&id, entry) in &self.jobs {
            if let Stage::Running(by, claim) = entry.stage
                && by == worker
            {
                held.entry(claim).or_default().push(id);
            }
        }
        held
    }

    /// What a claim by a worker with these kinds (none: any) may get of a queue.
    pub(super) fn eligible(&self, queue: usize, kinds: &[&str]) -> BTreeMap<JobId, i16> {
        let knows = |kind| kinds.is_empty() || kinds.contains(&kind);
        let fits = |entry: &Entry| match entry.stage {
            Stage::Available => true,
            Stage::Parked => knows(entry.kind),
            _ => false,
        };
        let of_queue = self.jobs.iter().filter(|(_, entry)| entry.queue == queue && fits(entry));
        of_queue.map(|(&id, entry)| (id, entry.priority)).collect()
    }

    pub(super) fn ids_where(&self, which: impl Fn(Stage) -> bool) -> Vec<JobId> {
        self.jobs.iter().filter(|(_, entry)| which(entry.stage)).map(|(&id, _)| id).collect()
    }
}
