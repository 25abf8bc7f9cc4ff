use crate::{Error, ErrorKind, FailureGroup, Result, Timing, TimingRequest, Timings, async_trait};

/// Keeps what workers measure. None of it matters to a job: a store without it works all the same.
#[async_trait]
pub trait TimingStore: Send + Sync + 'static {
    /// Adds what a worker measured to the minute of the store's clock. A worker calls it every ten seconds while it has something to say, and does not repeat a call
    /// that failed: what it said is lost, or counted.
    ///
    /// # Errors
    /// What [`Timing::check`] refuses; the store's. A store that is not migrated for it yet takes them and keeps none.
    async fn measure(&self, timings: &[Timing]) -> Result<()> {
        let _ = timings;
        Ok(())
    }

    /// How long jobs waited and ran, by the minute, queue and kind.
    ///
    /// # Errors
    /// What [`TimingRequest::check`] refuses; `invalid_option` for more than [fits](TimingRequest::MOST); `schema_too_old` when the store has yet to be
    /// migrated for it; `unsupported` by stores that keep none.
    async fn timings(&self, request: &TimingRequest) -> Result<Timings> {
        let _ = request;
        Err(Error::new(ErrorKind::Unsupported, "this store keeps no timings"))
    }

    /// Why attempts failed, by cause, the most frequent first. [`TimingRequest::step`] does not matter.
    ///
    /// # Errors
    /// As [`Self::timings`].
    async fn failures(&self, request: &TimingRequest) -> Result<Vec<FailureGroup>> {
        let _ = request;
        Err(Error::new(ErrorKind::Unsupported, "this store keeps no failures"))
    }
}
