use jiff::Timestamp;
use std::time::Duration;
use windlass_core::{ClaimedJob, Disposition};

/// Until when a job may be started. The store's clock said how long that is; here it is only measured, from before the
/// claim was asked for, so that a job may be taken for expired by the time of that call too early, and never late.
pub(crate) struct Expiry {
    left: Duration,
    at: Timestamp,
}

impl Expiry {
    /// `None` when the job does not expire.
    pub(crate) fn of(job: &ClaimedJob) -> Option<Self> {
        let at = job.attributes.as_ref()?.expires_at?;
        job.expires_in.map(|left| Self { left, at })
    }

    /// What becomes of the job when it is too late to start it now; `is_over`: whether so much time is, since its claim was asked for.
    pub(crate) fn look(&self, is_over: impl FnOnce(Duration) -> bool) -> Option<Disposition> {
        is_over(self.left).then(|| Disposition::expired(self.at))
    }
}

/// What becomes of a job that is not to be started any more: somebody wants it cancelled, or it is too late.
pub(crate) fn instead_of_start(
    is_cancel_asked: bool,
    expiry: Option<&Expiry>,
    is_over: impl FnOnce(Duration) -> bool,
) -> Option<Disposition> {
    if is_cancel_asked {
        return Some(Disposition::Cancel { reason: Disposition::BY_REQUEST.to_owned() });
    }
    expiry.and_then(|expiry| expiry.look(is_over))
}
