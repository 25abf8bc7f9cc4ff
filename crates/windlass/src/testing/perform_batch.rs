use super::perform::claimed;
use crate::{
    BatchFn, BatchJob, DataSet, IntoJob, Job, RawJob,
    batch::{Rules, Shared},
    handler::read,
};
use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
};
use windlass_core::{Error, ErrorKind, JobId, Limits, NewJob, Outcome, Result};
use windlass_runtime::{BatchFuture, Context};

/// Starts the handler when its data is known.
type Start = Box<dyn FnOnce(&DataSet, Vec<NewJob>) -> Result<BatchFuture> + Send>;

/// Runs one [handler of batches](crate::WorkerBuilder::handle_batch) by itself, without a store, and gives the outcome of
/// each job. Await it, with the data that the handler needs before that:
///
/// ```
/// use windlass::{Batch, Data, Job, Outcome, testing};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Row { text: String }
/// # impl Job for Row { const KIND: &'static str = "row"; }
///
/// async fn insert(rows: Batch<Row>, most: Data<usize>) -> Vec<Result<(), &'static str>> {
///     rows.iter().map(|row| if row.args.text.len() <= *most { Ok(()) } else { Err("too long") }).collect()
/// }
///
/// # #[tokio::main]
/// # async fn main() -> windlass::Result<()> {
/// let rows = ["a", "abc"].map(|text| Row { text: text.into() });
/// let outcomes = testing::perform_batch(rows, insert).data(2_usize).await?;
/// assert_eq!(outcomes[0], Outcome::Complete(None));
/// assert_eq!(outcomes[1], Outcome::Retry { after: None, error: "too long".into() });
/// # Ok(()) }
/// ```
///
/// The jobs have the ids 1, 2, …, and go through JSON as on their way through a store. Layers, timeouts and the size of batches
/// are the worker's: to test them, [`drain`](crate::testing::drain). A panic of the handler is the test's.
pub fn perform_batch<J: Job, X: 'static>(
    jobs: impl IntoIterator<Item = J>,
    function: impl BatchFn<J, X>,
) -> PerformBatch {
    let start = |data: &DataSet, jobs: Vec<NewJob>| {
        let shared = Shared::new(function, data, |raw| read::<J>(&raw), Rules::default())?;
        let members = (1..).zip(&jobs).map(|(id, job)| {
            let (args, context, _) = Context::fake(claimed(job, JobId(id), 1), job.queue(), job.priority());
            let unfit =
                |outcome| Error::new(ErrorKind::InvalidArgs, format!("job {id} is not read: {outcome:?}"));
            read(&RawJob::new(args)).map(|args| BatchJob::new(args, context)).map_err(unfit)
        });
        Ok(shared.start(members.collect::<Result<_>>()?))
    };
    let jobs = jobs.into_iter().map(IntoJob::into_job).collect();
    PerformBatch { jobs, start: Box::new(start), data: DataSet::default() }
}

/// See [`perform_batch`]. Does nothing until it is awaited.
///
/// # Errors
/// Data that the handler takes and was not given; a job that breaks the [limits](Limits); no job.
#[must_use = "nothing runs until it is awaited"]
pub struct PerformBatch {
    jobs: Result<Vec<NewJob>>,
    start: Start,
    data: DataSet,
}

impl PerformBatch {
    /// Gives the handler a value that it takes as [`Data<T>`](crate::Data).
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.data.insert(value);
        self
    }

    /// Changes the options of each job, as [`Perform::options`](super::Perform::options) does.
    pub fn options(mut self, change: impl FnMut(NewJob) -> NewJob) -> Self {
        self.jobs = self.jobs.map(|jobs| jobs.into_iter().map(change).collect());
        self
    }

    async fn run(self) -> Result<Vec<Outcome>> {
        let jobs = self.jobs?;
        if jobs.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, "a batch has at least one job, got none"));
        }
        // The handler gets its args open, as in a worker.
        let open = |job: NewJob| match job.needs_encryption() {
            true => {
                let args = job.args().clone();
                job.with_envelope(args)
            }
            false => job,
        };
        let jobs: Vec<_> = jobs.into_iter().map(open).collect();
        Limits::default().check(&jobs)?;
        self.data.check()?;
        Ok((self.start)(&self.data, jobs)?.await)
    }
}

impl IntoFuture for PerformBatch {
    type Output = Result<Vec<Outcome>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl fmt::Debug for PerformBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerformBatch").field("data", &self.data).finish_non_exhaustive()
    }
}
