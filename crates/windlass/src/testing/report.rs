use super::job_line::JobLine;
use crate::Job;
use std::{collections::BTreeMap, fmt};
use windlass_core::{JobId, JobRecord, JobState};

/// What a [`drain`](crate::testing::drain) did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DrainReport {
    /// The attempts in the order in which they ran: each job as the store knew it right after. So its
    /// [state](JobRecord::state) tells what came of the attempt: `Completed` with a [result](JobRecord::result),
    /// `Retryable` and `Discarded` with [errors](JobRecord::errors), `Cancelled` with a
    /// [reason](JobRecord::reason), `Scheduled` when it was snoozed.
    pub attempts: Vec<JobRecord>,
    /// The jobs that wait now, oldest first: not due yet, in a queue that the worker does not take from, of a kind that it
    /// has no handler for, or beyond [the limit](crate::testing::Drain::at_most).
    pub left: Vec<JobRecord>,
}

impl DrainReport {
    /// The attempts of one type of job.
    ///
    /// ```
    /// # use windlass::{Job, Worker, testing};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Ping;
    /// # impl Job for Ping { const KIND: &'static str = "ping"; }
    /// # #[tokio::main]
    /// # async fn main() -> windlass::Result<()> {
    /// # let client = testing::client();
    /// # let worker = Worker::builder(&client).handle(|_: Ping| async { Err("no route") as Result<(), _> });
    /// # client.enqueue(Ping).await?;
    /// let report = testing::drain(worker).await?;
    /// assert_eq!(report.of::<Ping>().next().unwrap().errors[0].error, "no route");
    /// # Ok(()) }
    /// ```
    pub fn of<J: Job>(&self) -> impl Iterator<Item = &JobRecord> {
        self.attempts.iter().filter(|job| job.kind == J::KIND)
    }

    /// How many attempts ended in this state.
    ///
    /// ```
    /// # use windlass::testing::DrainReport;
    /// use windlass::JobState;
    /// # fn example(report: DrainReport) {
    /// assert_eq!(report.count(JobState::Completed), 3);
    /// # }
    /// ```
    pub fn count(&self, state: JobState) -> usize {
        self.attempts.iter().filter(|job| job.state == state).count()
    }

    /// Panics, with the report, unless every job that ran completed in the end, and none is left that could run now.
    /// The report again, for more.
    #[track_caller]
    pub fn assert_completed(&self) -> &Self {
        let ended: BTreeMap<JobId, JobState> = self.attempts.iter().map(|job| (job.id, job.state)).collect();
        let completed = ended.values().all(|state| *state == JobState::Completed);
        let waits = self.left.iter().any(|job| job.state == JobState::Available);
        assert!(completed && !waits, "not every job completed; {self}");
        self
    }
}

impl fmt::Display for DrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempts: {}", self.attempts.len())?;
        self.attempts.iter().try_for_each(|job| write!(f, "\n  {}", JobLine(job)))?;
        write!(f, "\njobs left: {}", self.left.len())?;
        self.left.iter().try_for_each(|job| write!(f, "\n  {}", JobLine(job)))
    }
}
