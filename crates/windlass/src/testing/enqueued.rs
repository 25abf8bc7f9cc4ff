use crate::{Client, Job};
use windlass_core::{Error, ErrorKind, JobFilter, JobRecord, JobState, Result};

/// The states of jobs that will run.
const WAITING: [JobState; 3] = [JobState::Available, JobState::Scheduled, JobState::Retryable];
/// The most jobs that are looked at.
const MOST_JOBS: usize = 10_000;
const PAGE: u32 = 1_000;

/// A job that waits to be run, with its args read.
///
/// ```
/// # use windlass::Job;
/// use windlass::testing;
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Ping { host: String }
/// # impl Job for Ping { const KIND: &'static str = "ping"; }
/// # #[tokio::main]
/// # async fn main() -> windlass::Result<()> {
/// let client = testing::client();
/// client.enqueue_with(Ping { host: "a".into() }, |job| job.with_queue("pings")).await?;
/// let pings = testing::enqueued::<Ping>(&client).await?;
/// assert_eq!(pings.len(), 1);
/// assert_eq!((&*pings[0].args.host, &*pings[0].record.queue), ("a", "pings"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnqueuedJob<J> {
    /// The job.
    pub args: J,
    /// What the store says of it: its id, state, queue, time, key.
    pub record: JobRecord,
}

/// The jobs of one type that wait to be run, oldest first: available, scheduled or retryable. Jobs that a worker
/// holds or that ended are not among them.
///
/// # Errors
/// [`ErrorKind::InvalidArgs`] when the args of one do not fit `J`; [`ErrorKind::Unsupported`] when more than 10,000 jobs
/// wait; the store's.
pub async fn enqueued<J: Job>(client: &Client) -> Result<Vec<EnqueuedJob<J>>> {
    let records = waiting(client, Some(J::KIND)).await?;
    let read = |record: JobRecord| Ok(EnqueuedJob { args: client.read_args(&record)?, record });
    records.into_iter().map(read).collect()
}

/// The jobs that wait to be run, of one kind or of all, oldest first.
pub(super) async fn waiting(client: &Client, kind: Option<&str>) -> Result<Vec<JobRecord>> {
    let mut found: Vec<JobRecord> = Vec::new();
    for state in WAITING {
        let kind = kind.map(str::to_owned);
        let mut filter = JobFilter { state: Some(state), kind, limit: PAGE, ..JobFilter::default() };
        loop {
            let page = client.jobs(&filter).await?;
            found.extend(page.jobs);
            if found.len() > MOST_JOBS {
                let message = format!("more than {MOST_JOBS} jobs wait; give the test a store of its own");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            match page.next {
                Some(next) => filter.after = Some(next),
                None => break,
            }
        }
    }
    found.sort_by_key(|job| job.id);
    Ok(found)
}
