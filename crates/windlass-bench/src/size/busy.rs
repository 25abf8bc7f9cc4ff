//! The busy queue: rounds in which its worker drains a backlog.

use super::{
    burden::Burden,
    place::Place,
    rounds::{Drained, Rounds},
    timed_store::TimedStore,
    timings::Timings,
};
use crate::{
    measure::ServerGauge,
    meter::forget_peak_memory,
    options::{QUEUE, batch_of},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::MissedTickBehavior;
use windlass::{Client, IntoJob, JobId, Worker};
use windlass_cli::{
    failure::Outcome,
    measure::{CountedWorkers, Expected, Fill, Noop, cpu_seconds, fill},
};

/// How many connections enqueue a backlog.
const CLIENTS: usize = 2;
/// The share of a round's jobs that come one by one after its drain, and how far apart: a busy queue that keeps up.
const STEADY: u64 = 500;
const STEADY_EVERY: Duration = Duration::from_millis(1);
/// The share of a backlog that is drained first, unmeasured: connections open, and the server plans.
const WARM_UP: u64 = 5;

/// A busy queue in one store, and its worker, which lives through all rounds.
pub(crate) struct Busy<'a> {
    pub(super) client: Client,
    workers: CountedWorkers,
    timings: Arc<Timings>,
    gauge: ServerGauge,
    pub(super) place: &'a Place,
    jobs: u64,
    given: u64,
}

impl<'a> Busy<'a> {
    /// Starts the worker. It works the queue of a paused burden as well.
    pub(crate) async fn start(
        place: &'a Place,
        jobs: u64,
        concurrency: usize,
        burden: Burden,
    ) -> Outcome<Self> {
        let client = Client::connect(&place.url).await?;
        client.migrate().await?;
        let timings = Arc::new(Timings::new());
        let store = TimedStore { store: Arc::clone(client.store()), timings: Arc::clone(&timings) };
        let timed = Client::from_store(Arc::new(store));
        let (workers, _starts) =
            CountedWorkers::start(&[timed], Expected { jobs: 0, first: JobId(0) }, |client, _| {
                let builder = Worker::builder(client).queue(QUEUE, concurrency);
                if burden == Burden::Paused { builder.queue(Burden::QUEUE, concurrency) } else { builder }
            })
            .await?;
        let gauge = ServerGauge::open(&place.url).await;
        let mut busy = Self { client, workers, timings, gauge, place, jobs, given: 0 };
        busy.drain(jobs.div_ceil(WARM_UP)).await?;
        Ok(busy)
    }

    /// Drains a backlog, then works jobs that come one by one, and adds what that showed.
    pub(crate) async fn round(&mut self, rounds: &mut Rounds) -> Outcome {
        let drained = self.drain(self.jobs).await?;
        rounds.add(self.jobs, &drained, &self.timings.take());
        self.keep_up().await?;
        rounds.add_steady(&self.timings.take());
        Ok(())
    }

    /// Works jobs that come one by one.
    async fn keep_up(&mut self) -> Outcome {
        let first = self.given;
        self.given += self.jobs.div_ceil(STEADY);
        self.workers.counts().expect(self.given);
        let mut tick = tokio::time::interval(STEADY_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for id in first..self.given {
            tick.tick().await;
            self.client.enqueue(Noop { id }.into_job()?.with_queue(QUEUE)).await?;
        }
        self.workers.finish(|_| {}).await?;
        Ok(())
    }

    /// Enqueues jobs while the queue is paused, so that the worker is there and has nothing to do, and lets it go.
    /// The time is that from the first claim that handed out a job to the last settlement.
    async fn drain(&mut self, jobs: u64) -> Outcome<Drained> {
        self.client.pause(QUEUE).await?;
        let work = Fill { queue: QUEUE, jobs, batch: batch_of(0), clients: CLIENTS };
        let from = self.given;
        fill(&self.client, &work, move |id| Noop { id: from + id }.into_job(), |_, _| {}).await?;
        self.given += jobs;
        self.workers.counts().expect(self.given);
        self.place.checkpoint().await;
        self.timings.take();
        forget_peak_memory();
        let server_cpu = self.gauge.counters().await.cpu_seconds;
        let (own_cpu, resumed) = (cpu_seconds(), Instant::now());
        self.client.resume(QUEUE).await?;
        self.workers.finish(|_| {}).await?;
        let end = Instant::now();
        let now = self.gauge.counters().await.cpu_seconds;
        Ok(Drained {
            time: end - self.timings.first_jobs().unwrap_or(resumed),
            own_cpu: cpu_seconds() - own_cpu,
            server_cpu: now.zip(server_cpu).map(|(now, before)| now - before),
        })
    }

    /// Fails unless each job was handled exactly once; ends the worker.
    pub(crate) async fn stop(self) -> Outcome {
        self.workers.verify()?;
        self.workers.stop().await;
        self.client.close().await;
        Ok(())
    }
}
