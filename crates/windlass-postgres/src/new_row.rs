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

/// How many attempts a job may have.
pub(crate) fn attempts(job: &NewJob) -> i16 {
    i16::try_from(job.max_attempts()).unwrap_or(i16::MAX)
}

/// Whether a job is available at once and has no attributes: what the statements for single jobs can write.
pub(crate) fn is_plain(job: &NewJob) -> bool {
    job.when() == When::Now && job.attributes().is_none()
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
