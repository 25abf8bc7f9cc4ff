use bytes::Bytes;
use jiff::Timestamp;
use std::sync::Arc;
use windlass_core::{
    Args, AttemptError, Attributes, ClaimRef, ClaimedJob, HandlerReport, JobId, JobLease, JobState, WorkerId,
};

/// One job, wherever it is.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    /// Its lane's index.
    pub(crate) lane: usize,
    pub(crate) kind: Arc<str>,
    pub(crate) args: Args,
    pub(crate) attributes: Option<Box<Attributes>>,
    /// Attempts used up.
    pub(crate) attempt: u16,
    pub(crate) max_attempts: u16,
    pub(crate) crash_count: u16,
    pub(crate) enqueued_at: Timestamp,
    /// Since when it could be claimed, while it can be.
    pub(crate) available_since: Timestamp,
    /// Whether it was available from its enqueue on.
    pub(crate) never_put_off: bool,
    /// Who held it last.
    pub(crate) held: Option<Hold>,
    /// Somebody wants it cancelled while it runs.
    pub(crate) cancel_asked: bool,
    pub(crate) errors: Vec<AttemptError>,
    pub(crate) said: Option<Box<Said>>,
    pub(crate) place: Place,
}

/// What handlers said of a job.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) report: HandlerReport,
    /// Under which claim last, and which of its reports that was.
    pub(crate) last: (ClaimRef, u64),
}

/// When and by whom a job was claimed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) claim: ClaimRef,
    pub(crate) worker: WorkerId,
    pub(crate) at: Timestamp,
    /// Its place in the order of everything that was handed out.
    pub(crate) order: i64,
}

impl Hold {
    pub(crate) fn lease(&self, job: JobId) -> JobLease {
        JobLease { worker: self.worker, claim: self.claim, job, position: self.order }
    }
}

/// Where a job is in its life.
#[derive(Debug)]
pub(crate) enum Place {
    /// In its lane, at this place in the order.
    Available(i64),
    /// Until this time.
    Scheduled(Timestamp),
    /// Until this time.
    Retryable(Timestamp),
    /// In its lane, for a worker that knows its kind.
    NoHandler,
    /// As [`Job::held`] says.
    Running,
    Completed {
        at: Timestamp,
        result: Option<Args>,
    },
    Cancelled {
        at: Timestamp,
        reason: String,
    },
    Discarded {
        at: Timestamp,
        reason: String,
    },
}

impl Place {
    pub(crate) fn state(&self) -> JobState {
        match self {
            Self::Available(_) | Self::NoHandler => JobState::Available,
            Self::Scheduled(_) => JobState::Scheduled,
            Self::Retryable(_) => JobState::Retryable,
            Self::Running => JobState::Running,
            Self::Completed { .. } => JobState::Completed,
            Self::Cancelled { .. } => JobState::Cancelled,
            Self::Discarded { .. } => JobState::Discarded,
        }
    }

    /// When it reached a final state.
    pub(crate) fn finished_at(&self) -> Option<Timestamp> {
        match self {
            Self::Completed { at, .. } | Self::Cancelled { at, .. } | Self::Discarded { at, .. } => Some(*at),
            _ => None,
        }
    }
}

impl Job {
    /// Whom it is about.
    pub(crate) fn key(&self) -> Option<&str> {
        self.attributes.as_ref()?.key.as_deref()
    }

    pub(crate) fn tags(&self) -> &[String] {
        self.attributes.as_ref().map_or(&[], |attributes| &attributes.tags)
    }

    /// As a worker gets it now. `order` is its position: it changes each time that the job is handed out.
    pub(crate) fn claimed(&self, order: i64, now: Timestamp) -> ClaimedJob {
        ClaimedJob {
            id: self.id,
            position: order,
            kind: Arc::clone(&self.kind),
            args: Bytes::copy_from_slice(self.args.as_str().as_bytes()),
            attempt: self.attempt.saturating_add(1),
            max_attempts: self.max_attempts,
            crash_count: self.crash_count,
            enqueued_at: self.enqueued_at,
            never_put_off: self.never_put_off,
            attributes: self.attributes.clone(),
            expires_in: self.attributes.as_ref().and_then(|attributes| attributes.expires_in(now)),
        }
    }
}
