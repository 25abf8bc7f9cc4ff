use std::time::Duration;

/// That a job is unique: of jobs with the same key only one is there at a time. What the key is made of, for how long a job
/// has it, and what becomes of a job that finds its key taken.
///
/// Without more it is unique within its kind, until it is finished, and a later job is not stored: the first is kept.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Args, NewJob, OnConflict, Unique};
/// # fn main() -> windlass_core::Result<()> {
/// let args = Args::parse(r#"{"user": 7, "at": "2031-01-31"}"#)?;
/// // A report for each user at a time:
/// let report = NewJob::new("report", args.clone()).with_unique(Unique::by_fields(["user"]));
/// // Throttle, at most one a minute:
/// let throttled = Unique::by_args().for_window(Duration::from_secs(60));
/// // Debounce, when nothing changed for 5 seconds, but once a minute at least:
/// let debounced = Unique::by_key("index/7").until_started()
///     .on_conflict(OnConflict::Replace { max_wait: Some(Duration::from_secs(60)) });
/// let index = NewJob::new("index", args).with_delay(Duration::from_secs(5)).with_unique(debounced);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    pub(crate) source: Source,
    scope: UniqueScope,
    until: UniqueUntil,
    on_conflict: OnConflict,
}

/// What the key is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Key(String),
    Args,
    Fields(Vec<String>),
}

/// Among which jobs a job is unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UniqueScope {
    /// Those of its kind, in whatever queue.
    #[default]
    Kind,
    /// Those of its queue, of whatever kind.
    Queue,
}

/// For how long a job has its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UniqueUntil {
    /// While it waits and was not tried yet: until a worker takes it.
    Started,
    /// Until it completed, was cancelled or discarded; also between its attempts.
    #[default]
    Finished,
    /// For so long after it was enqueued, whatever becomes of the job.
    Window(Duration),
}

/// What becomes of a job that finds its key taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// It is not stored; the job that has the key stays as it is.
    #[default]
    Keep,
    /// The job that has the key becomes this one: kind, queue, priority, args, schedule and all else, for how long it has the key
    /// too. (A window that runs counts on from when it began, so that it ends.) Only while it waits and
    /// was not tried yet, else it is kept. One that waits for its time keeps its id. One that is
    /// available already is cancelled instead, and this one is stored.
    Replace {
        /// The job is not put off further than so long after it was first enqueued.
        max_wait: Option<Duration>,
    },
    /// It is not stored, and the window of the key begins anew.
    Extend,
    /// The whole call is refused, and nothing of it is stored.
    Error,
}

/// What became of a unique job that found its key taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conflict {
    /// The job that has the key was kept as it is.
    Kept,
    /// This job is stored in the place of the one that had the key.
    Replaced,
    /// The job that has the key was kept, and its window begins anew.
    Extended,
}

impl Conflict {
    /// The stable name, for machines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Replaced => "replaced",
            Self::Extended => "extended",
        }
    }
}

impl Unique {
    /// By a key that you choose, 1 to 200 bytes. Unlike [`NewJob::with_key`](crate::NewJob::with_key) it says nothing else about the job.
    pub fn by_key(key: impl Into<String>) -> Self {
        Self::by(Source::Key(key.into()))
    }

    /// By all of its args. The order of an object's fields and white space make no difference.
    pub fn by_args() -> Self {
        Self::by(Source::Args)
    }

    /// By these fields of its args, which must be an object that has them.
    pub fn by_fields<F: Into<String>>(fields: impl IntoIterator<Item = F>) -> Self {
        Self::by(Source::Fields(fields.into_iter().map(Into::into).collect()))
    }

    fn by(source: Source) -> Self {
        let (scope, until, on_conflict) = Default::default();
        Self { source, scope, until, on_conflict }
    }

    /// Unique among the jobs of its kind, which is how it begins.
    #[must_use]
    pub fn per_kind(self) -> Self {
        Self { scope: UniqueScope::Kind, ..self }
    }

    /// Unique among the jobs of its queue.
    #[must_use]
    pub fn in_queue(self) -> Self {
        Self { scope: UniqueScope::Queue, ..self }
    }

    /// Until a worker takes it: a change that comes later gets a job of its own.
    #[must_use]
    pub fn until_started(self) -> Self {
        Self { until: UniqueUntil::Started, ..self }
    }

    /// Until it completed, was cancelled or discarded, which is how it begins.
    #[must_use]
    pub fn until_finished(self) -> Self {
        Self { until: UniqueUntil::Finished, ..self }
    }

    /// For so long after it was enqueued: a millisecond to 100 years.
    #[must_use]
    pub fn for_window(self, window: Duration) -> Self {
        Self { until: UniqueUntil::Window(window), ..self }
    }

    /// What becomes of a job that finds its key taken.
    #[must_use]
    pub fn on_conflict(self, on_conflict: OnConflict) -> Self {
        Self { on_conflict, ..self }
    }

    /// Among which jobs it is unique.
    pub fn scope(&self) -> UniqueScope {
        self.scope
    }

    /// For how long it has its key.
    pub fn until(&self) -> UniqueUntil {
        self.until
    }

    /// Whether the key was given, and is not made of args.
    pub fn is_by_key(&self) -> bool {
        matches!(self.source, Source::Key(_))
    }

    /// What becomes of it when its key is taken.
    pub fn conflict_rule(&self) -> OnConflict {
        self.on_conflict
    }
}
