use crate::Client;
use std::time::Duration;
use windlass_core::{Error, ErrorKind, JobRecord, Result};
use windlass_runtime::{SteppedWorker, Worked};

/// A drain that works so many jobs without an end is taken for one that has none.
const ENDLESS: usize = 10_000;
/// How many due jobs one call makes available.
const PROMOTE_LIMIT: u32 = 1_000;
/// The store's clock counts in these.
const TICK: Duration = Duration::from_micros(1);

/// How much time goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passes {
    Nothing,
    Time(Duration),
    UntilDone,
}

/// A drain at work.
pub(super) struct UnderWay {
    pub(super) client: Client,
    pub(super) worker: SteppedWorker,
    /// What is left of it.
    pub(super) passes: Passes,
    pub(super) attempts: Vec<JobRecord>,
}

impl UnderWay {
    /// Works jobs until none is left, or so many.
    pub(super) async fn work(&mut self, at_most: Option<usize>) -> Result<()> {
        let mut left = at_most.unwrap_or(ENDLESS);
        while left > 0 {
            let worked = self.next(left).await?;
            if worked.is_empty() {
                return Ok(());
            }
            left = left.saturating_sub(worked.len());
            for Worked { job, .. } in worked.into_iter().filter(|worked| worked.ran) {
                let gone = || {
                    format!("job {job} ran, but the store does not know it any more; is its retention short?")
                };
                let record = self.client.job(job).await?;
                self.attempts.push(record.ok_or_else(|| Error::new(ErrorKind::NotFound, gone()))?);
            }
        }
        if at_most.is_some() { Ok(()) } else { Err(endless(self.attempts.last())) }
    }

    /// Works the next job or batch, moving the clock if need be.
    async fn next(&mut self, most: usize) -> Result<Vec<Worked>> {
        loop {
            let next_due = self.promote().await?;
            let worked = self.worker.step(most).await?;
            if !worked.is_empty() || !self.pass(next_due) {
                return Ok(worked);
            }
        }
    }

    /// Lets time go by until the next job is due, or to the end. Whether a job is due now.
    fn pass(&mut self, next_due: Option<Duration>) -> bool {
        let Some(store) = &self.client.memory else { return false };
        let (by, is_due) = match (self.passes, next_due) {
            (Passes::Time(left), Some(due)) if due <= left => {
                self.passes = Passes::Time(left - due);
                (due, true)
            }
            (Passes::Time(left), _) => {
                self.passes = Passes::Nothing;
                (left, false)
            }
            (Passes::UntilDone, Some(due)) => (due, true),
            (Passes::UntilDone | Passes::Nothing, _) => return false,
        };
        // The clock leaves out what is less than a tick.
        store.clock().advance(if is_due { by.saturating_add(TICK) } else { by });
        is_due
    }

    /// Makes due jobs available. How long until the next one is due.
    async fn promote(&self) -> Result<Option<Duration>> {
        loop {
            let promoted = self.client.store().promote(PROMOTE_LIMIT).await?;
            if promoted.count < u64::from(PROMOTE_LIMIT) {
                return Ok(promoted.next_due);
            }
        }
    }
}

fn endless(last: Option<&JobRecord>) -> Error {
    let last =
        last.map_or_else(String::new, |job| format!("the last was job {} of kind {:?}; ", job.id, job.kind));
    let message = format!(
        "{ENDLESS} jobs ran and there may be more; {last}does one snooze or enqueue itself for ever? at_most(..) sets \
         another limit"
    );
    Error::new(ErrorKind::InvalidOption, message)
}
