//! What happened to jobs, as a consumer reads it.

use crate::{Error, ErrorKind, JobId, Limits, Result, WorkerId};
use jiff::Timestamp;
use std::{fmt, str::FromStr, sync::Arc};

/// What happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventType {
    /// It was stored, to run now or later.
    Enqueued,
    /// A worker claimed it, to run it as soon as it has room.
    Started,
    /// It completed.
    Completed,
    /// An attempt failed. It is tried again, unless `Discarded` or `Cancelled` follows.
    Failed,
    /// Somebody made it available again by hand.
    Retried,
    /// It asked to run later, or could not be decrypted yet; no attempt was used up.
    Snoozed,
    /// It was cancelled.
    Cancelled,
    /// It was given up, and is kept among the dead.
    Discarded,
    /// Its worker died, and it is available again.
    Rescued,
    /// Its worker gave it back unfinished: the worker stopped, or does not know its kind.
    Returned,
    /// Somebody deleted it.
    Deleted,
}

impl EventType {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Enqueued,
        Self::Started,
        Self::Completed,
        Self::Failed,
        Self::Retried,
        Self::Snoozed,
        Self::Cancelled,
        Self::Discarded,
        Self::Rescued,
        Self::Returned,
        Self::Deleted,
    ];

    /// Its name, as the stores and the CLI write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueued => "enqueued",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Retried => "retried",
            Self::Snoozed => "snoozed",
            Self::Cancelled => "cancelled",
            Self::Discarded => "discarded",
            Self::Rescued => "rescued",
            Self::Returned => "returned",
            Self::Deleted => "deleted",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for EventType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            let message = format!("unknown event {name:?}; known are {known}");
            Error::new(ErrorKind::InvalidOption, message)
        })
    }
}

/// A place in the stream of events: text that a consumer keeps, wherever it likes, and reads on from. Opaque, and of one
/// store: it means nothing elsewhere.
///
/// ```
/// use windlass_core::EventCursor;
/// let kept: String = EventCursor::start().to_string();
/// assert_eq!(EventCursor::from(kept), EventCursor::start());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventCursor(Arc<str>);

impl EventCursor {
    /// Before everything that is kept.
    pub fn start() -> Self {
        Self("start".into())
    }

    /// Behind everything that was committed before the first page is read.
    pub fn now() -> Self {
        Self("now".into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for EventCursor {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for EventCursor {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which events to read. See [`JobStore::events`](crate::JobStore::events).
#[derive(Clone, Debug)]
pub struct EventRequest {
    /// Behind what.
    pub cursor: EventCursor,
    /// At most so many, 1 to [`Self::MOST`].
    pub limit: u32,
    /// Of these queues; none: of all.
    pub queues: Vec<String>,
    /// Of jobs of these kinds; none: of all.
    pub kinds: Vec<String>,
    /// These; none: all.
    pub types: Vec<EventType>,
}

impl EventRequest {
    /// The most events of a page.
    pub const MOST: u32 = 100_000;

    /// The next 5,000 events of every sort: what a page takes by itself is 1.5 ms of PostgreSQL, and 3 to 5 us for each event.
    pub fn after(cursor: EventCursor) -> Self {
        Self { cursor, limit: 5_000, queues: Vec::new(), kinds: Vec::new(), types: Vec::new() }
    }

    /// Refuses a limit that no page has, and names that nothing has.
    ///
    /// # Errors
    /// `invalid_option`.
    pub fn check(&self) -> Result<()> {
        Limits::check_no_nul("a queue or a kind of events", self.queues.iter().chain(&self.kinds))?;
        if (1..=Self::MOST).contains(&self.limit) {
            return Ok(());
        }
        let message = format!("a page has 1 to {} events, got {}", Self::MOST, self.limit);
        Err(Error::new(ErrorKind::InvalidOption, message))
    }

    /// Whether the filters let this one through.
    pub fn matches(&self, queue: &str, kind: &str, event: EventType) -> bool {
        (self.queues.is_empty() || self.queues.iter().any(|wanted| wanted == queue))
            && (self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind))
            && (self.types.is_empty() || self.types.contains(&event))
    }
}

/// Something that happened to a job. Its args are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobEvent {
    /// The place behind it: who keeps this reads on with the next.
    pub cursor: EventCursor,
    /// What happened.
    pub event: EventType,
    /// To which job.
    pub job: JobId,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// The job's queue then.
    pub queue: Arc<str>,
    /// The job's kind.
    pub kind: Arc<str>,
    /// The attempt that it is about, from 1; 0 where there was none yet.
    pub attempt: u16,
    /// The worker that held the job, where the store knows it.
    pub worker: Option<WorkerId>,
    /// The error or the reason, where there is one.
    pub reason: Option<String>,
}

impl JobEvent {
    /// An event without worker and reason.
    pub fn new(cursor: EventCursor, event: EventType, job: JobId, at: Timestamp) -> Self {
        Self {
            cursor,
            event,
            job,
            at,
            queue: "".into(),
            kind: "".into(),
            attempt: 0,
            worker: None,
            reason: None,
        }
    }
}

/// A page of events.
#[derive(Clone, Debug)]
pub struct EventPage {
    /// In order: what was committed earlier comes earlier, page by page, and of one job everything in the order in which it happened.
    pub events: Vec<JobEvent>,
    /// Where to go on; behind the last event or later.
    pub next: EventCursor,
    /// There may be more at once.
    pub more: bool,
}
