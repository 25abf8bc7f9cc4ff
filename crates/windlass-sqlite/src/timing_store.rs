use crate::{
    SqliteStore,
    store::RELAXED,
    timings::{add, minute_of, read, read_failures},
};
use async_trait::async_trait;
use windlass_core::{FailureGroup, Result, Timing, TimingRequest, TimingStore, Timings};

#[async_trait]
impl TimingStore for SqliteStore {
    async fn measure(&self, timings: &[Timing]) -> Result<()> {
        Timing::check(timings)?;
        if timings.is_empty() {
            return Ok(());
        }
        let timings = timings.to_vec();
        self.write(RELAXED, move |tx| add(tx, minute_of(tx.now), &timings)).await
    }

    async fn timings(&self, request: &TimingRequest) -> Result<Timings> {
        request.check()?;
        let (asked, now) = (request.clone(), self.options.clock.now());
        let rows = self.read(move |conn| read(conn, &asked, now)).await?;
        Ok(Timings::of(request, rows))
    }

    async fn failures(&self, request: &TimingRequest) -> Result<Vec<FailureGroup>> {
        request.check()?;
        let (asked, now) = (request.clone(), self.options.clock.now());
        let rows = self.read(move |conn| read_failures(conn, &asked, now)).await?;
        Ok(FailureGroup::of(rows.into_iter().map(|(at, (queue, kind, failure))| (at, queue, kind, failure))))
    }
}
