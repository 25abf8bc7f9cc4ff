use jiff::Timestamp;
use windlass_core::JobId;

/// The job that took a key last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) job: JobId,
    /// When the key was taken, or its window began anew.
    pub(crate) since: Timestamp,
    /// How long it has the key.
    pub(crate) until: Until,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Started,
    Finished,
    Time(Timestamp),
}
