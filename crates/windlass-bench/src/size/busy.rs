//! The busy queue: rounds in which its worker drains a backlog.

use super::{
    burden::Burden,
    place::Place,
    timed_store::TimedStore,
    timings::{CallTimes, Timings},
};
use crate::{
    measure::{ServerGauge, round},
    meter::forget_peak_memory,
    options::{QUEUE, batch_of},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use windlass::{Client, IntoJob, JobId, Worker};
use windlass_cli::{
    failure::Outcome,
    measure::{CountedWorkers, Expected, Fill, Noop, cpu_seconds, fill, peak_memory, per_second},
};

/// How many connections enqueue a backlog.
const CLIENTS: usize = 2;
/// The share of a backlog that is drained first, unmeasured: connections open, and the server plans.
const WARM_UP: u64 = 5;

/// A busy queue in one store, and its worker, which lives through all rounds.
pub(crate) struct Busy<'a> {
    pub(super) client: Client,
    workers: CountedWorkers,
    timings: Arc<Timings>,
    gauge: ServerGauge,
    place: &'a Place,
    jobs: u64,
    given: u64,
}

/// What one drain took.
struct Drained {
    time: Duration,
    own_cpu: f64,
    server_cpu: Option<f64>,
}

/// What rounds measured.
pub(crate) struct Rounds {
    pub(crate) times: CallTimes,
    /// Jobs per second of each.
    pub(crate) rates: Vec<u64>,
    /// Processor seconds for a million jobs, of this process and of all processes of the server, in each. They hardly
    /// depend on what else the machine does.
    own_cpu: Vec<f64>,
    server_cpu: Vec<f64>,
    /// The most memory of this process during any of them.
    pub(crate) peak_memory: u64,
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

    /// Drains a backlog, and adds what that showed.
    pub(crate) async fn round(&mut self, rounds: &mut Rounds) -> Outcome {
        let drained = self.drain(self.jobs).await?;
        let per_million = |seconds: f64| round(seconds * 1e6 / self.jobs as f64);
        rounds.times.merge(&self.timings.take());
        rounds.rates.push(per_second(self.jobs, drained.time));
        rounds.own_cpu.push(per_million(drained.own_cpu));
        rounds.server_cpu.extend(drained.server_cpu.map(per_million));
        rounds.peak_memory = rounds.peak_memory.max(peak_memory().unwrap_or(0));
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

impl Rounds {
    pub(crate) fn new() -> Self {
        let (own_cpu, server_cpu) = (Vec::new(), Vec::new());
        Self { times: CallTimes::new(), rates: Vec::new(), own_cpu, server_cpu, peak_memory: 0 }
    }

    /// The rate in the middle.
    pub(crate) fn median(&self) -> u64 {
        middle(self.rates.iter().map(|&rate| rate as f64)).unwrap_or(0.0) as u64
    }

    /// The highest rate: what the others would have been on a machine that does nothing else.
    pub(crate) fn best(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(0)
    }

    /// Processor seconds of this process for a million jobs, in the middle.
    pub(crate) fn own_cpu(&self) -> Option<f64> {
        middle(self.own_cpu.iter().copied())
    }

    /// Those of the server, where there is one on this machine.
    pub(crate) fn server_cpu(&self) -> Option<f64> {
        middle(self.server_cpu.iter().copied())
    }

    /// The longest claim or settle, in milliseconds.
    pub(crate) fn slowest_ms(&self) -> f64 {
        round(self.times.slowest.as_secs_f64() * 1e3)
    }
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
