use crate::{
    finding::Finding,
    load::{Load, fill},
    measure::round,
    meter::Meter,
    options::{MAX_JOBS, QUEUE, batch_of},
    store::connect,
    worked,
    worker_settings::{Settling, WorkerSettings},
};
use serde_json::json;
use std::time::Instant;
use windlass::EventCursor;
use windlass_cli::{
    failure::{Failure, Outcome},
    globals::Globals,
    measure::{Expected, Fill, MeasuredStore, per_second},
    progress::Progress,
};

/// How many jobs the worker runs at once.
const CONCURRENCY: usize = 100;
/// How many connections enqueue.
const CLIENTS: usize = 2;
/// What happens to each job: it is enqueued, started, completed.
const EVENTS_OF_A_JOB: u64 = 3;

/// Enqueues and works jobs without work, then reads all that happened to them.
#[derive(clap::Args)]
pub(crate) struct Events {
    /// How many jobs; each has three events
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=MAX_JOBS))]
    jobs: u64,
    /// How many events are asked for at a time
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    page: u32,
}

impl Events {
    pub(crate) async fn measure(&self, globals: &Globals, store: &MeasuredStore) -> Outcome<Finding> {
        let meter = Meter::open(store).await;
        let client = connect(store, CLIENTS).await?;
        client.migrate().await?;
        let start = client.events(EventCursor::now()).next_page().await?.next;
        let work = Fill { queue: QUEUE, jobs: self.jobs, batch: batch_of(0), clients: CLIENTS };
        let (filled, _) = fill(&client, &work, Load::Noop, globals.json).await?;
        let settings = WorkerSettings { concurrency: CONCURRENCY, settling: Settling::default() };
        let expected = Expected { jobs: self.jobs, first: filled.first };
        let mut progress = Progress::new("completed", self.jobs, globals.json);
        worked::work(store, (1, settings), expected, &meter, &mut progress).await?;
        drop(progress);
        let mut events = client.events(start).queue(QUEUE).page_size(self.page);
        let mut progress = Progress::new("events", self.jobs * EVENTS_OF_A_JOB, globals.json);
        let (began, mut read) = (Instant::now(), 0);
        loop {
            let page = events.next_page().await?;
            read += page.events.len() as u64;
            progress.reach(read);
            if !page.more {
                break;
            }
        }
        let took = began.elapsed();
        drop(progress);
        client.close().await;
        if read != self.jobs * EVENTS_OF_A_JOB {
            let message =
                format!("{} jobs have {} events, {read} were read", self.jobs, self.jobs * EVENTS_OF_A_JOB);
            return Err(Failure::failed("internal", message));
        }
        let costs = meter.costs(&meter.read().await, self.jobs);
        let commits = meter.commits_per_job(self.jobs).await;
        let options = json!({ "jobs": self.jobs, "page": self.page });
        let figures = json!({
            "events": read,
            "read_seconds": round(took.as_secs_f64()),
            "events_per_second": per_second(read, took),
        });
        Ok(Finding::new("events", None, (options, figures)).costing(costs, commits))
    }
}
