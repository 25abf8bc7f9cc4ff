use crate::{Args, Attributes, RetryPolicy, Unique, attributes::UniqueMark};
use jiff::Timestamp;
use std::{borrow::Cow, fmt, time::Duration};

/// When a job becomes available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// At this time of the store's clock; a time in the past means at once.
    At(Timestamp),
    /// This long after the store received the job.
    After(Duration),
}

/// A job to enqueue: what to do (kind and args), where (queue, priority), when, and how often to try.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{Args, NewJob};
/// # fn main() -> windlass_core::Result<()> {
/// let job = NewJob::new("mail.send", Args::of(&serde_json::json!({"to": "a@example.com"}))?)
///     .with_queue("mail")
///     .with_priority(-5)
///     .with_delay(Duration::from_secs(60));
/// assert_eq!(job.max_attempts(), 20);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct NewJob {
    kind: Cow<'static, str>,
    args: Args,
    queue: Cow<'static, str>,
    priority: i16,
    max_attempts: u16,
    when: When,
    attributes: Option<Box<Attributes>>,
    needs_encryption: bool,
    unique: Option<Box<Unique>>,
}

impl NewJob {
    /// The queue of a job that names none.
    pub const DEFAULT_QUEUE: &'static str = "default";
    /// How often a job is tried that does not say: with the default backoff in about a week.
    pub const DEFAULT_MAX_ATTEMPTS: u16 = 20;

    /// A job of `kind`, for the queue `default`, at once, with priority 0.
    pub fn new(kind: impl Into<Cow<'static, str>>, args: Args) -> Self {
        Self {
            kind: kind.into(),
            args,
            queue: Cow::Borrowed(Self::DEFAULT_QUEUE),
            priority: 0,
            max_attempts: Self::DEFAULT_MAX_ATTEMPTS,
            when: When::Now,
            attributes: None,
            needs_encryption: false,
            unique: None,
        }
    }

    /// Sets the args.
    #[must_use]
    pub fn with_args(mut self, args: Args) -> Self {
        self.args = args;
        self
    }

    /// Sets the queue; it is created on first use.
    #[must_use]
    pub fn with_queue(mut self, queue: impl Into<Cow<'static, str>>) -> Self {
        self.queue = queue.into();
        self
    }

    /// Sets the priority, -100 to 100; lower runs first.
    #[must_use]
    pub fn with_priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// Sets how often the job is tried at most, the first time included.
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: u16) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    /// Makes the job available at a time instead of at once.
    #[must_use]
    pub fn with_scheduled_at(mut self, at: Timestamp) -> Self {
        self.when = When::At(at);
        self
    }

    /// Makes the job available after a delay of at most 100 years, counted by the store's clock.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.when = When::After(delay);
        self
    }

    /// Says whom or what the job is about: a tenant, a customer, an account. 1 to 200 bytes.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.attributes.get_or_insert_default().key = Some(key.into());
        self
    }

    /// Adds a small JSON object for the handler and for people; Windlass does not read it.
    #[must_use]
    pub fn with_meta(mut self, meta: Args) -> Self {
        self.set_meta(meta);
        self
    }

    pub(crate) fn set_meta(&mut self, meta: Args) {
        self.attributes.get_or_insert_default().meta = Some(meta);
    }

    /// Has the job settled by itself, not as a part of its claim. Costs a row of its own.
    #[must_use]
    pub fn with_tracking(mut self) -> Self {
        self.attributes.get_or_insert_default().tracked = true;
        self
    }

    /// Has the client encrypt the args before they leave the program. A store refuses a job that still has to be.
    #[must_use]
    pub fn with_encryption(mut self) -> Self {
        self.needs_encryption = true;
        self
    }

    /// Sets the [envelope](crate::Envelope) of the args in their place, which is what [`Self::with_encryption`]
    /// asked for.
    #[must_use]
    pub fn with_envelope(mut self, envelope: Args) -> Self {
        (self.args, self.needs_encryption) = (envelope, false);
        self
    }

    /// Whether the args are still to be encrypted.
    pub fn needs_encryption(&self) -> bool {
        self.needs_encryption
    }

    /// Adds something that the job can be [found](crate::JobFilter::tag) by. At most 20, each of 1 to 100 bytes.
    #[must_use]
    pub fn with_tag(mut self, tag: impl Into<String>) -> Self {
        let (tags, tag) = (&mut self.attributes.get_or_insert_default().tags, tag.into());
        if !tags.contains(&tag) {
            tags.push(tag);
        }
        self
    }

    /// Adds several; see [`Self::with_tag`].
    #[must_use]
    pub fn with_tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        tags.into_iter().fold(self, Self::with_tag)
    }

    /// Sets how long an attempt of this job may take, instead of what its kind says: 1 ms to 100 years.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.attributes.get_or_insert_default().timeout = Some(timeout);
        self
    }

    /// Sets when failed attempts of this job are tried again, instead of what its kind says.
    #[must_use]
    pub fn with_retry_policy(mut self, policy: RetryPolicy) -> Self {
        self.attributes.get_or_insert_default().retry_policy = Some(policy);
        self
    }

    /// Has the job cancelled as `expired`, instead of started, from this time of the store's clock on. Holds for each
    /// attempt.
    #[must_use]
    pub fn with_expires_at(mut self, at: Timestamp) -> Self {
        let attributes = self.attributes.get_or_insert_default();
        (attributes.expires_at, attributes.expires_after) = (Some(at), None);
        self
    }

    /// The same, counted by the store's clock from when it receives the job, not from when the job is due.
    #[must_use]
    pub fn with_expiry(mut self, after: Duration) -> Self {
        let attributes = self.attributes.get_or_insert_default();
        (attributes.expires_at, attributes.expires_after) = (None, Some(after));
        self
    }

    /// Sets how many permissions a start of this job takes where its queue limits the [rate](crate::RateLimit): 1 to
    /// 1,000,000, and 1 where nothing is said. Elsewhere it means nothing.
    #[must_use]
    pub fn with_cost(mut self, cost: u32) -> Self {
        if cost != 1 || self.attributes.is_some() {
            self.attributes.get_or_insert_default().cost = (cost != 1).then_some(cost);
        }
        self
    }

    /// Makes the job [unique](Unique).
    #[must_use]
    pub fn with_unique(mut self, unique: Unique) -> Self {
        self.unique = Some(Box::new(unique));
        self
    }

    /// What a schedule keeps of its job's attributes: all but the time that counts from when each of its jobs is received.
    pub(crate) fn with_attributes(
        mut self,
        attributes: Option<Attributes>,
        expiry: Option<Duration>,
    ) -> Self {
        self.attributes =
            attributes.map(|attributes| Box::new(Attributes { expires_after: expiry, ..attributes }));
        self
    }

    pub(crate) fn with_mark(mut self, mark: UniqueMark) -> Self {
        self.attributes.get_or_insert_default().unique = Some(mark);
        self
    }

    /// Whether and how the job is unique.
    pub fn unique(&self) -> Option<&Unique> {
        self.unique.as_deref()
    }

    /// What only some jobs have.
    pub fn attributes(&self) -> Option<&Attributes> {
        self.attributes.as_deref()
    }

    /// What to do.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// With what.
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// The queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The priority; lower runs first.
    pub fn priority(&self) -> i16 {
        self.priority
    }

    /// How often the job is tried at most.
    pub fn max_attempts(&self) -> u16 {
        self.max_attempts
    }

    /// When the job becomes available.
    pub fn when(&self) -> When {
        self.when
    }
}

/// Without args that are to be encrypted.
impl fmt::Debug for NewJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: &dyn fmt::Debug = if self.needs_encryption { &"[to be encrypted]" } else { &self.args };
        f.debug_struct("NewJob")
            .field("kind", &self.kind)
            .field("args", args)
            .field("queue", &self.queue)
            .field("priority", &self.priority)
            .field("max_attempts", &self.max_attempts)
            .field("when", &self.when)
            .field("attributes", &self.attributes)
            .finish()
    }
}
