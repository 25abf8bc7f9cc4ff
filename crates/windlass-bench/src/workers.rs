use crate::{
    delays::Delays,
    jobs::{Alarm, Nap, Parcel, Question, Stamp, Sums},
    load::{letters, sums, text_of},
    measure::Timeline,
    options::MAX_PAYLOAD,
    timer,
    worker_settings::WorkerSettings,
};
use std::{
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};
use windlass::{Client, Context, WorkerBuilder};
use windlass_cli::{
    failure::Outcome,
    measure::{CountedWorkers, Counts, Expected, Latencies, PingStarts},
    progress::Progress,
};

/// Workers that handle every kind of job that is measured, count each job, and know how many were handled in each
/// second.
pub(crate) struct Workers {
    counted: CountedWorkers,
    delays: Arc<Delays>,
    timeline: Timeline,
}

impl Workers {
    /// Starts a worker for each client, all on one queue.
    pub(crate) async fn start(
        clients: &[Client],
        settings: WorkerSettings,
        expected: Expected,
    ) -> Outcome<(Self, PingStarts)> {
        let delays = Arc::new(Delays::new());
        let builder = |client: &Client, counts: &Arc<Counts>| {
            add_timed(add_work(settings.builder(client), counts), counts, &delays)
        };
        let (counted, starts) = CountedWorkers::start(clients, expected, builder).await?;
        Ok((Self { counted, delays, timeline: Timeline::default() }, starts))
    }

    /// How many jobs were handled so far. Adds that to the timeline and shows the progress.
    pub(crate) fn look(&mut self, progress: &mut Progress) -> u64 {
        let handled = self.handled();
        self.timeline.record(self.started().elapsed(), handled);
        progress.reach(handled);
        handled
    }

    /// Waits until every job was handled and its settlement confirmed. Returns the time since the start.
    pub(crate) async fn finish(&mut self, progress: &mut Progress) -> Outcome<Duration> {
        let (started, timeline) = (self.started(), &mut self.timeline);
        let look = |handled| {
            timeline.record(started.elapsed(), handled);
            progress.reach(handled);
        };
        self.counted.finish(look).await
    }

    /// When they were started. The times in jobs count from this.
    pub(crate) fn started(&self) -> Instant {
        self.counts().started
    }

    pub(crate) fn handled(&self) -> u64 {
        self.counts().tally.handled()
    }

    pub(crate) fn counts(&self) -> &Arc<Counts> {
        self.counted.counts()
    }

    /// Whether the settlement of every job that was handled so far is confirmed.
    pub(crate) fn is_settled(&self) -> bool {
        self.counted.is_settled()
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
        self.delays.sum()
    }

    /// How many jobs started before their time.
    pub(crate) fn early(&self) -> u64 {
        self.delays.early()
    }

    /// Fails unless every expected job was handled exactly once, and no other.
    pub(crate) fn verify(&self) -> Outcome {
        self.counted.verify()
    }

    /// Stops the workers. Returns how long that took.
    pub(crate) async fn stop(self) -> Duration {
        self.counted.stop().await
    }
}

/// What jobs return.
static ANSWERS: LazyLock<String> = LazyLock::new(|| letters(MAX_PAYLOAD as usize));

/// The handlers of jobs that carry text, return text, wait or calculate.
fn add_work(builder: WorkerBuilder, counts: &Arc<Counts>) -> WorkerBuilder {
    let [parcels, questions, naps, calculations] = std::array::from_fn(|_| Arc::clone(counts));
    builder
        .handle(move |job: Parcel, context: Context| {
            std::hint::black_box(&job.text);
            parcels.job(context.id(), job.id);
            async {}
        })
        .handle(move |job: Question, context: Context| {
            questions.job(context.id(), job.id);
            // Two bytes are the quotes.
            let text = text_of(&ANSWERS, job.id, job.bytes.saturating_sub(2));
            std::future::ready(windlass::Outcome::complete_with(text))
        })
        .handle(move |job: Nap, context: Context| {
            let counts = Arc::clone(&naps);
            async move {
                timer::nap(Duration::from_millis(job.ms)).await;
                counts.job(context.id(), job.id);
            }
        })
        .handle(move |job: Sums, context: Context| {
            let counts = Arc::clone(&calculations);
            async move {
                std::hint::black_box(sums(job.count));
                counts.job(context.id(), job.id);
            }
        })
}

/// The handlers of jobs that know when they were to be sent, or are due.
fn add_timed(builder: WorkerBuilder, counts: &Arc<Counts>, delays: &Arc<Delays>) -> WorkerBuilder {
    let [stamps, alarms] = std::array::from_fn(|_| (Arc::clone(counts), Arc::clone(delays)));
    builder
        .handle(move |job: Stamp, context: Context| {
            let (counts, delays) = &stamps;
            if counts.is_counted(context.id()) {
                let sent = Duration::from_micros(job.sent_us);
                delays.record(job.id, counts.started.elapsed().saturating_sub(sent));
            }
            counts.job(context.id(), job.id);
            async {}
        })
        .handle(move |job: Alarm, context: Context| {
            let (counts, delays) = &alarms;
            if counts.is_counted(context.id()) {
                delays.record_due(job.id, job.due_us);
            }
            counts.job(context.id(), job.id);
            async {}
        })
}
