use super::{
    counts::{Counts, Noop},
    ping::{Ping, PingStarts},
};
use crate::failure::{Failure, Outcome};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;
use windlass::{Client, Context, JobId, Worker, WorkerBuilder};

/// How long no job may be handled before a measurement counts as stuck.
pub const STALL: Duration = Duration::from_secs(60);
/// How often the number of handled jobs is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often the last settlements are looked for.
const SETTLE_LOOK: Duration = Duration::from_millis(1);

/// The jobs that workers are to handle.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// How many; `u64::MAX` while that is not known.
    pub jobs: u64,
    /// Jobs with smaller ids were left by a run that was interrupted: they are handled and not counted.
    pub first: JobId,
}

/// Workers that count each job that they handle.
pub struct CountedWorkers {
    workers: Vec<Worker>,
    counts: Arc<Counts>,
}

impl CountedWorkers {
    /// Starts a worker for each client. `builder` makes it; the handlers of [`Noop`] and [`Ping`] are added.
    pub async fn start(
        clients: &[Client],
        expected: Expected,
        builder: impl Fn(&Client, &Arc<Counts>) -> WorkerBuilder,
    ) -> Outcome<(Self, PingStarts)> {
        let (sender, ping_starts) = mpsc::unbounded_channel();
        let counts = Arc::new(Counts::new(expected.jobs, expected.first, sender));
        let mut workers = Vec::new();
        for client in clients {
            let [noops, pings] = std::array::from_fn(|_| Arc::clone(&counts));
            let builder = builder(client, &counts)
                .handle(move |job: Noop, context: Context| {
                    noops.job(context.id(), job.id);
                    async {}
                })
                .handle(move |job: Ping, _: Context| {
                    pings.ping(&job);
                    async {}
                });
            workers.push(builder.start().await?);
        }
        Ok((Self { workers, counts }, ping_starts))
    }

    /// What the handlers count.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Waits until every job was handled and its settlement confirmed. `look` is called now and then with the
    /// number of jobs handled so far. Returns the time since the start.
    pub async fn finish(&self, mut look: impl FnMut(u64)) -> Outcome<Duration> {
        let mut last = (0, Instant::now());
        loop {
            let handled = self.counts.tally.handled();
            look(handled);
            if handled >= self.counts.expected() {
                break;
            }
            if handled > last.0 {
                last = (handled, Instant::now());
            }
            self.check_stall(last.1)?;
            tokio::select! {
                () = self.counts.all_handled.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        while !self.is_settled() {
            tokio::time::sleep(SETTLE_LOOK).await;
            self.check_stall(last.1)?;
        }
        Ok(self.counts.started.elapsed())
    }

    /// Whether the settlement of every job that was handled so far is confirmed.
    pub fn is_settled(&self) -> bool {
        let settled: u64 = self.workers.iter().map(|worker| worker.stats().settled).sum();
        settled >= self.counts.calls()
    }

    fn check_stall(&self, moved: Instant) -> Outcome {
        if moved.elapsed() < STALL {
            return Ok(());
        }
        let stats: Vec<_> = self.workers.iter().map(Worker::stats).collect();
        let handled = self.counts.tally.handled();
        let of = match self.counts.expected() {
            u64::MAX => String::new(),
            expected => format!(" of {expected}"),
        };
        let message = format!("nothing happened for {STALL:?}: {handled}{of} jobs were handled, {stats:?}");
        Err(Failure::failed("stalled", message))
    }

    /// Fails unless every expected job was handled exactly once, and no other.
    pub fn verify(&self) -> Outcome {
        let checked = self.counts.tally.faults(self.counts.expected()).check(self.counts.expected());
        checked.map_err(|wrong| Failure::failed("not_exactly_once", wrong))
    }

    /// Stops the workers. Returns how long that took.
    pub async fn stop(self) -> Duration {
        let asked = Instant::now();
        for worker in &self.workers {
            worker.stop();
        }
        for worker in &self.workers {
            worker.shutdown().await;
        }
        asked.elapsed()
    }
}
