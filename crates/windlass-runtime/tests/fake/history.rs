use super::fault::Call;
use std::{fmt, time::Duration};
use tokio::time::Instant;
use windlass_core::{Disposition, JobId, JobLease, WorkerId};

/// What happened, in order. Equal runs have equal histories.
#[derive(Debug)]
pub struct History {
    began: Instant,
    /// Whether anything is kept: not where a million jobs only have to get done.
    pub kept: bool,
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    pub at: Duration,
    /// The process that did it, or that it was done to.
    pub client: usize,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum What {
    Enqueued {
        job: JobId,
        crash_count: u16,
    },
    Promoted(JobId),
    Claimed {
        lease: Lease,
        attempt: u16,
        crash_count: u16,
    },
    /// A handler began.
    Started {
        lease: Lease,
        attempt: u16,
        crash_count: u16,
    },
    /// A handler ended, or was dropped.
    Finished {
        lease: Lease,
        end: End,
        cancelled: bool,
    },
    /// The store accepted what became of a job.
    Settled {
        lease: Lease,
        fate: Fate,
    },
    /// A lease ended before the job was settled.
    Released {
        lease: Lease,
        why: Why,
    },
    /// Died with too many workers.
    CrashLoop(JobId),
    CancelledByHand(JobId),
    /// Somebody wants it cancelled while it runs.
    CancelAsked(JobId),
    RetriedByHand(JobId),
    Registered {
        worker: WorkerId,
        lease: Duration,
    },
    Renewed(WorkerId),
    LeaseEnded {
        worker: WorkerId,
        why: Why,
    },
    /// A call is made; by whom where it matters.
    Asked {
        call: Call,
        worker: Option<WorkerId>,
    },
    /// The client was told that this worker is no longer live.
    ToldLost {
        call: Call,
        worker: WorkerId,
    },
    /// Something else than a quick and true answer, until then.
    Fault {
        call: Call,
        until: Duration,
    },
    /// It was told to stop.
    Stopping {
        grace: Duration,
    },
    Aborting,
    Stopped,
    Crashed,
}

/// Which holding of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    pub job: i64,
    pub worker: i32,
    pub claim: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    Completed,
    Failed,
    Snoozed,
    Cancelled,
    Discarded,
    /// The future was dropped before it ended.
    Dropped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    Complete,
    Retry,
    Snooze,
    Cancel,
    Discard { failed: bool },
    NoHandler,
    Return,
}

/// Why a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It ran out and somebody rescued the jobs.
    Overdue,
    /// The test took it.
    Taken,
    Deregistered,
}

impl History {
    pub fn new() -> Self {
        Self { began: Instant::now(), kept: false, events: Vec::new() }
    }

    /// Time since the beginning.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn note(&mut self, client: usize, what: What) {
        if self.kept {
            self.events.push(Event { at: self.now(), client, what });
        }
    }
}

impl What {
    /// The job that it is about.
    pub fn job(&self) -> Option<i64> {
        match self {
            Self::Enqueued { job, .. }
            | Self::Promoted(job)
            | Self::CrashLoop(job)
            | Self::CancelledByHand(job)
            | Self::CancelAsked(job)
            | Self::RetriedByHand(job) => Some(job.0),
            Self::Claimed { lease, .. }
            | Self::Started { lease, .. }
            | Self::Finished { lease, .. }
            | Self::Settled { lease, .. }
            | Self::Released { lease, .. } => Some(lease.job),
            _ => None,
        }
    }
}

impl From<JobLease> for Lease {
    fn from(lease: JobLease) -> Self {
        Self { job: lease.job.0, worker: lease.worker.0, claim: lease.claim.1.cast_signed() }
    }
}

impl From<&Disposition> for Fate {
    fn from(disposition: &Disposition) -> Self {
        match disposition {
            Disposition::Complete { .. } => Self::Complete,
            Disposition::Retry { .. } => Self::Retry,
            Disposition::Snooze { .. } | Disposition::Undecryptable { .. } => Self::Snooze,
            Disposition::Cancel { .. } => Self::Cancel,
            Disposition::Discard { failed, .. } => Self::Discard { failed: *failed },
            Disposition::NoHandler => Self::NoHandler,
            Disposition::Return => Self::Return,
            other => panic!("unknown disposition {other:?}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} s  client {:<2} {:?}", self.at.as_secs_f64(), self.client, self.what)
    }
}
