use crate::{
    failure::{Failure, Outcome},
    measure::Tally,
    progress::Progress,
};
use serde::{Deserialize, Serialize};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Notify, mpsc};
use windlass::{Client, Context, Job, JobId, Worker};

use super::{
    ping::{Arrival, Ping},
    timer,
};

/// How long nothing may happen before a trial counts as stuck.
const STALL: Duration = Duration::from_secs(60);
/// How often progress is told.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the last settlements are looked for.
const SETTLE_LOOK: Duration = Duration::from_millis(1);

/// A job without work.
#[derive(Serialize, Deserialize)]
pub(crate) struct Noop {
    pub(crate) id: u64,
}

impl Job for Noop {
    const KIND: &'static str = "windlass.noop";
}

/// A job that waits.
#[derive(Serialize, Deserialize)]
pub(crate) struct Nap {
    pub(crate) id: u64,
    pub(crate) ms: u64,
}

impl Job for Nap {
    const KIND: &'static str = "windlass.nap";
}

/// A worker that notes each job that it handles.
pub(crate) struct Crew {
    worker: Worker,
    tally: Arc<Tally>,
    all_handled: Arc<Notify>,
    expected: u64,
    pub(crate) started: Instant,
}

impl Crew {
    /// Starts a worker on one queue that expects `jobs` jobs with ids from `first` on. Older jobs, left by
    /// a run that was interrupted, are handled and not counted.
    pub(crate) async fn start(
        client: &Client,
        queue: &str,
        concurrency: usize,
        (jobs, first): (u64, JobId),
    ) -> Outcome<(Self, mpsc::UnboundedReceiver<Arrival>)> {
        let (tally, all_handled) = (Arc::new(Tally::new(jobs)), Arc::new(Notify::new()));
        let (arrivals, arrived) = mpsc::unbounded_channel();
        let note = {
            let (tally, all_handled) = (Arc::clone(&tally), Arc::clone(&all_handled));
            move |id: JobId, number: u64| {
                if id >= first && tally.note(number) == jobs {
                    all_handled.notify_one();
                }
            }
        };
        let (note_noop, note_nap) = (note.clone(), note);
        let started = Instant::now();
        let worker = Worker::builder(client)
            .queue(queue, concurrency)
            .handle(move |noop: Noop, context: Context| {
                note_noop(context.id(), noop.id);
                async {}
            })
            .handle(move |nap: Nap, context: Context| {
                let note = note_nap.clone();
                async move {
                    timer::nap(Duration::from_millis(nap.ms)).await;
                    note(context.id(), nap.id);
                }
            })
            .handle(move |ping: Ping, _: Context| {
                // Nobody listens any more when the samples are complete.
                let _ = arrivals.send(Arrival { id: ping.id, at: Instant::now() });
                async {}
            })
            .start()
            .await?;
        Ok((Self { worker, tally, all_handled, expected: jobs, started }, arrived))
    }

    /// Waits until every job was handled and its settlement confirmed. The time since the start.
    pub(crate) async fn finish(&self, progress: &mut Progress) -> Outcome<Duration> {
        let (mut moved, mut handled) = (Instant::now(), 0);
        while self.tally.handled() < self.expected {
            tokio::select! {
                () = self.all_handled.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let now = self.tally.handled();
            progress.reach(now);
            if now > handled {
                (moved, handled) = (Instant::now(), now);
            }
            self.check_stall(moved)?;
        }
        while self.worker.stats().settled < self.expected {
            tokio::time::sleep(SETTLE_LOOK).await;
            self.check_stall(moved)?;
        }
        Ok(self.started.elapsed())
    }

    fn check_stall(&self, moved: Instant) -> Outcome {
        if moved.elapsed() < STALL {
            return Ok(());
        }
        let message = format!(
            "nothing happened for {STALL:?}: {} of {} jobs were handled, {:?}",
            self.tally.handled(),
            self.expected,
            self.worker.stats()
        );
        Err(Failure::failed("stalled", message))
    }

    /// That every job was handled exactly once, and no other.
    pub(crate) fn verify(&self) -> Outcome {
        self.tally.verify().map_err(|wrong| Failure::failed("not_exactly_once", wrong))
    }

    /// Ends the worker. How long that took.
    pub(crate) async fn stop(self) -> Duration {
        let asked = Instant::now();
        self.worker.shutdown().await;
        asked.elapsed()
    }
}
