use crate::{jobs::Stamp, measure::Timeline, options::QUEUE, timer, workers::Workers};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use windlass::{Client, Error, IntoJob};
use windlass_cli::{
    failure::Outcome,
    measure::{Counts, Latencies},
    progress::Progress,
};

/// How often the numbers of enqueued and handled jobs are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often a producer that must wait for room looks for it.
const BACKLOG_LOOK: Duration = Duration::from_micros(500);

/// When a producer enqueues.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Whenever no more than this many jobs would be unfinished.
    Backlog(u64),
    /// This many jobs per second, on a schedule that does not wait for the store.
    Rate(f64),
}

/// What to enqueue while jobs are worked.
#[derive(Clone)]
pub(crate) struct Mix {
    pub(crate) batch: u64,
    pub(crate) clients: usize,
    pub(crate) pace: Pace,
    pub(crate) lasts: Duration,
    /// The number of the first job.
    pub(crate) from: u64,
}

/// How that went.
pub(crate) struct Mixed {
    /// The number after the last job.
    pub(crate) end: u64,
    pub(crate) handled: u64,
    pub(crate) took: Duration,
    pub(crate) enqueued_each_second: Vec<u64>,
    /// Of each call of enqueue.
    pub(crate) calls: Latencies,
    /// How long after their time the batches were sent; nothing without a schedule.
    pub(crate) late: Latencies,
    /// Jobs that were not sent in twice the time of the schedule.
    pub(crate) unsent: u64,
}

/// What the producers share.
struct Shared {
    mix: Mix,
    began: Instant,
    /// The times in the jobs count from this.
    zero: Instant,
    next: AtomicU64,
    done: AtomicU64,
    counts: Arc<Counts>,
}

/// Enqueues for `mix.lasts` while the workers work. Jobs may be unfinished when it returns.
pub(crate) async fn mix(
    client: &Client,
    mix: &Mix,
    workers: &mut Workers,
    progress: &mut Progress,
) -> Outcome<Mixed> {
    let before = workers.look(progress);
    let shared = Arc::new(Shared {
        mix: mix.clone(),
        began: Instant::now(),
        zero: workers.started(),
        next: AtomicU64::new(mix.from),
        done: AtomicU64::new(0),
        counts: Arc::clone(workers.counts()),
    });
    let mut producers = JoinSet::new();
    for _ in 0..mix.clients {
        producers.spawn(Arc::clone(&shared).produce(client.clone()));
    }
    let (mut calls, mut late, mut timeline) = (Latencies::new(), Latencies::new(), Timeline::default());
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    let end = tokio::time::sleep(mix.lasts);
    tokio::pin!(end);
    let mut at_end = None;
    while at_end.is_none() || !producers.is_empty() {
        tokio::select! {
            Some(ended) = producers.join_next() => {
                let (its_calls, its_late) = ended??;
                calls.merge(&its_calls);
                late.merge(&its_late);
            }
            _ = ticks.tick() => {
                workers.look(progress);
                timeline.record(shared.began.elapsed(), shared.done.load(Ordering::Relaxed));
            }
            () = &mut end, if at_end.is_none() => at_end = Some((workers.look(progress) - before, shared.began.elapsed())),
        }
    }
    timeline.record(shared.began.elapsed(), shared.done.load(Ordering::Relaxed));
    let (handled, took) = at_end.unwrap_or_default();
    let end = mix.from + shared.done.load(Ordering::Relaxed);
    let unsent = (mix.scheduled() + mix.from).saturating_sub(end);
    Ok(Mixed { end, handled, took, enqueued_each_second: timeline.per_second(), calls, late, unsent })
}

impl Mix {
    /// How many jobs the schedule has; 0 without one.
    pub(crate) fn scheduled(&self) -> u64 {
        match self.pace {
            Pace::Backlog(_) => 0,
            Pace::Rate(rate) => {
                let batches = (self.lasts.as_secs_f64() * rate / self.batch as f64).ceil();
                (batches as u64).max(1).saturating_mul(self.batch)
            }
        }
    }
}

impl Shared {
    async fn produce(self: Arc<Self>, client: Client) -> Result<(Latencies, Latencies), Error> {
        let (mut calls, mut late) = (Latencies::new(), Latencies::new());
        while let Some((start, sent)) = self.next_batch().await {
            if matches!(self.mix.pace, Pace::Rate(_)) {
                late.record(sent.elapsed());
            }
            let sent_us = sent.saturating_duration_since(self.zero).as_micros() as u64;
            let job = |id| Ok(Stamp { id, sent_us }.into_job()?.with_queue(QUEUE));
            let jobs = (start..start + self.mix.batch).map(job).collect::<Result<Vec<_>, Error>>()?;
            let called = Instant::now();
            client.enqueue_many(jobs).await?;
            calls.record(called.elapsed());
            self.done.fetch_add(self.mix.batch, Ordering::Relaxed);
        }
        Ok((calls, late))
    }

    /// Waits until the next batch is to be sent. Returns its first number, and the time that its latency counts
    /// from.
    async fn next_batch(&self) -> Option<(u64, Instant)> {
        match self.mix.pace {
            Pace::Backlog(most) => self.when_room(most).await,
            Pace::Rate(rate) => {
                // This comes first: once a number is taken its job must be sent, or it would be missing.
                if self.began.elapsed() > self.mix.lasts * 2 {
                    return None;
                }
                let start = self.next.fetch_add(self.mix.batch, Ordering::Relaxed);
                let place = start - self.mix.from;
                if place >= self.mix.scheduled() {
                    return None;
                }
                let due = Duration::from_secs_f64(place as f64 / rate);
                timer::nap((self.began + due).saturating_duration_since(Instant::now())).await;
                Some((start, self.began + due))
            }
        }
    }

    async fn when_room(&self, most: u64) -> Option<(u64, Instant)> {
        while self.began.elapsed() < self.mix.lasts {
            let start = self.next.load(Ordering::Relaxed);
            let room = start + self.mix.batch <= self.counts.tally.handled() + most;
            let end = start + self.mix.batch;
            if !room {
                tokio::time::sleep(BACKLOG_LOOK).await;
            } else if self.next.compare_exchange(start, end, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Some((start, Instant::now()));
            }
        }
        None
    }
}
