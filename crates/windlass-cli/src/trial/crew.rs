use crate::{
    failure::{Failure, Outcome},
    measure::{Latencies, Tally, Timeline},
    progress::Progress,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::mpsc;
use windlass::{Client, Context, JobId, Worker};

use super::{
    jobs::{Alarm, Nap, Noop, Parcel, Stamp, Sums},
    load::sums,
    notes::Notes,
    ping::{Arrivals, Ping},
    team::Team,
    timer,
};

/// How long nothing may happen before a trial counts as stuck.
pub(super) const STALL: Duration = Duration::from_secs(60);
/// How often progress is told and the timeline continued.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often the last settlements are looked for.
const SETTLE_LOOK: Duration = Duration::from_millis(1);

/// Workers that note each job that they handle.
pub(crate) struct Crew {
    workers: Vec<Worker>,
    notes: Arc<Notes>,
    timeline: Timeline,
    moved: (Instant, u64),
    pub(crate) started: Instant,
}

impl Crew {
    /// Starts a worker for each client, all on one queue. They expect `jobs` jobs with ids from `first` on.
    /// Older jobs, left by a run that was interrupted, are handled and not counted.
    pub(crate) async fn start(
        clients: &[Client],
        team: &Team,
        expected: (u64, JobId),
    ) -> Outcome<(Self, Arrivals)> {
        let (arrivals, arrived) = mpsc::unbounded_channel();
        let notes = Arc::new(Notes::new(expected, arrivals));
        let started = notes.started;
        let mut workers = Vec::new();
        for client in clients {
            workers.push(start_one(client, team, &notes).await?);
        }
        let crew = Self { workers, notes, timeline: Timeline::default(), moved: (started, 0), started };
        Ok((crew, arrived))
    }

    /// How many jobs were handled so far; the timeline and the progress go on with it.
    pub(crate) fn look(&mut self, progress: &mut Progress) -> u64 {
        let now = self.notes.tally.handled();
        self.timeline.record(self.started.elapsed(), now);
        progress.reach(now);
        if now > self.moved.1 {
            self.moved = (Instant::now(), now);
        }
        now
    }

    /// Handled so far, cheaply.
    pub(crate) fn handled(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let notes = Arc::clone(&self.notes);
        move || notes.tally.handled()
    }

    /// Waits until every job was handled and its settlement confirmed. The time since the start.
    pub(crate) async fn finish(&mut self, progress: &mut Progress) -> Outcome<Duration> {
        self.moved.0 = Instant::now();
        while self.look(progress) < self.notes.expected() {
            self.check_stall()?;
            tokio::select! {
                () = self.notes.all_handled.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        while self.settled() < self.notes.calls() {
            tokio::time::sleep(SETTLE_LOOK).await;
            self.check_stall()?;
        }
        Ok(self.started.elapsed())
    }

    /// Tells how many jobs are to come, when that was not known at the start.
    pub(crate) fn expect(&self, jobs: u64) {
        self.notes.expect(jobs);
    }

    /// How many jobs the workers know to be settled.
    pub(super) fn settled(&self) -> u64 {
        self.workers.iter().map(|worker| worker.stats().settled).sum()
    }

    /// How many handlers ran, those of older jobs included.
    pub(super) fn calls(&self) -> u64 {
        self.notes.calls()
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.notes.tally
    }

    /// How many jobs were handled in each second.
    pub(crate) fn per_second(&self) -> Vec<u64> {
        self.timeline.per_second()
    }

    /// The same from a time after the start on.
    pub(crate) fn per_second_after(&self, time: Duration) -> Vec<u64> {
        self.timeline.after(time).per_second()
    }

    /// How long after their time jobs started, of those that know their time.
    pub(crate) fn delays(&self) -> Latencies {
        self.notes.delays.sum()
    }

    /// How many jobs started before their time.
    pub(crate) fn early(&self) -> u64 {
        self.notes.early()
    }

    fn check_stall(&self) -> Outcome {
        if self.moved.0.elapsed() < STALL {
            return Ok(());
        }
        let stats: Vec<_> = self.workers.iter().map(Worker::stats).collect();
        let handled = self.notes.tally.handled();
        let message = match self.notes.expected() {
            u64::MAX => format!("nothing happened for {STALL:?}: {handled} jobs were handled, {stats:?}"),
            expected => {
                format!(
                    "nothing happened for {STALL:?}: {handled} of {expected} jobs were handled, {stats:?}"
                )
            }
        };
        Err(Failure::failed("stalled", message))
    }

    /// That every job was handled exactly once, and no other.
    pub(crate) fn verify(&self) -> Outcome {
        let verdict = self.notes.tally.verify(self.notes.expected());
        verdict.map_err(|wrong| Failure::failed("not_exactly_once", wrong))
    }

    /// Ends the workers. How long that took.
    pub(crate) async fn stop(self) -> Duration {
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

async fn start_one(client: &Client, team: &Team, notes: &Arc<Notes>) -> Outcome<Worker> {
    let [noop, parcel, nap, calculate, stamp, alarm, ping] = std::array::from_fn(|_| Arc::clone(notes));
    let settling = team.settling;
    let builder = Worker::builder(client)
        .queue(&team.queue, team.concurrency)
        .configure(|config| settling.apply(config))
        .handle(move |job: Noop, context: Context| {
            noop.job(context.id(), job.id);
            async {}
        })
        .handle(move |job: Parcel, context: Context| {
            std::hint::black_box(&job.text);
            parcel.job(context.id(), job.id);
            async {}
        })
        .handle(move |job: Nap, context: Context| {
            let notes = Arc::clone(&nap);
            async move {
                timer::nap(Duration::from_millis(job.ms)).await;
                notes.job(context.id(), job.id);
            }
        })
        .handle(move |job: Sums, context: Context| {
            let notes = Arc::clone(&calculate);
            async move {
                std::hint::black_box(sums(job.count));
                notes.job(context.id(), job.id);
            }
        })
        .handle(move |job: Stamp, context: Context| {
            stamp.sent(context.id(), job.id, job.sent_us);
            async {}
        })
        .handle(move |job: Alarm, context: Context| {
            alarm.due(context.id(), job.id, job.due_us);
            async {}
        })
        .handle(move |job: Ping, _: Context| {
            ping.ping(job.id);
            async {}
        });
    Ok(builder.start().await?)
}
