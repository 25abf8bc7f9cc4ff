use jiff::Timestamp;
use windlass_core::{Error, ErrorKind, JobId, NewJob, Result, When};

/// One job as a row to write.
pub(crate) struct NewRow<'a> {
    pub(crate) id: JobId,
    pub(crate) lane: i32,
    pub(crate) job: &'a NewJob,
    /// As the store keeps them; empty for most.
    pub(crate) attributes: String,
    /// When it becomes available, where it has to wait.
    pub(crate) due: Option<Timestamp>,
}

impl<'a> NewRow<'a> {
    pub(crate) fn new(id: JobId, lane: i32, job: &'a NewJob, now: Timestamp) -> Result<Self> {
        let due = due(job, now)?;
        let attributes =
            job.attributes().map_or_else(String::new, |attributes| attributes.received(now).to_json());
        Ok(Self { id, lane, job, attributes, due })
    }
}

/// Whether when the job expires depends on the database's clock.
pub(crate) fn expires_by_database(job: &NewJob) -> bool {
    job.attributes().is_some_and(|attributes| attributes.expires_after.is_some())
}

/// How many attempts a job may have.
pub(crate) fn attempts(job: &NewJob) -> i16 {
    i16::try_from(job.max_attempts()).unwrap_or(i16::MAX)
}

/// Where one statement can store a job without asking the database for its time first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The log: it is available at once.
    Log,
    /// `waiting`.
    Waiting,
}

impl Place {
    pub(crate) fn of(job: &NewJob) -> Option<Self> {
        if expires_by_database(job) {
            return None;
        }
        match job.when() {
            When::Now => Some(Self::Log),
            When::After(delay) => Some(if delay.is_zero() { Self::Log } else { Self::Waiting }),
            // By the clock here. Where the database's is ahead of it and says that this has come, the job waits until it is promoted, at once.
            When::At(at) if at > Timestamp::now() => Some(Self::Waiting),
            _ => None,
        }
    }

    /// That of all of them.
    pub(crate) fn of_all(jobs: &[NewJob]) -> Option<Self> {
        let place = Self::of(jobs.first()?);
        place.filter(|_| jobs.iter().all(|job| Self::of(job) == place))
    }
}

/// When a job becomes available, if not at once. Delays count from the database's `now`.
pub(crate) fn due(job: &NewJob, now: Timestamp) -> Result<Option<Timestamp>> {
    let at = match job.when() {
        When::At(at) => at,
        When::After(delay) => now.checked_add(delay).map_err(|cause| {
            Error::new(ErrorKind::InvalidOption, format!("delay {delay:?} is too long: {cause}"))
        })?,
        _ => return Ok(None),
    };
    Ok((at > now).then_some(at))
}
