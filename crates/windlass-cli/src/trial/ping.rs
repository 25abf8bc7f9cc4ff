use super::{fill::panicked, timer};
use crate::{
    failure::{Failure, Outcome},
    measure::Latencies,
    progress::Progress,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use windlass::{Client, IntoJob, Job};

/// How long one sample may take.
const LOST: Duration = Duration::from_secs(30);

/// A job that tells when it started.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ping {
    pub(crate) id: u64,
}

impl Job for Ping {
    const KIND: &'static str = "windlass.ping";
}

/// The start of a [`Ping`].
pub(crate) struct Arrival {
    pub(super) id: u64,
    pub(super) at: Instant,
}

/// Where crews tell the starts.
pub(crate) type Arrivals = mpsc::UnboundedReceiver<Arrival>;

/// Enqueues one job after the other, each when the one before has started and `gap` has passed, and
/// measures from the call of enqueue to the start of the handler.
pub(crate) async fn ping(
    client: &Client,
    queue: &str,
    (samples, gap): (u64, Duration),
    arrived: &mut Arrivals,
    progress: &mut Progress,
) -> Outcome<Latencies> {
    let mut latencies = Latencies::new();
    for id in 0..samples {
        let job = Ping { id }.into_job()?.with_queue(queue.to_owned());
        let called = Instant::now();
        client.enqueue(job).await?;
        let started = timeout(LOST, arrival(arrived, id)).await.map_err(|_| lost(id))?;
        latencies.record(started.saturating_duration_since(called));
        progress.reach(id + 1);
        if !gap.is_zero() {
            tokio::time::sleep(gap).await;
        }
    }
    Ok(latencies)
}

/// Enqueues a job every `gap`, whatever became of those before, and measures from the time at which it was
/// to be enqueued: a store that stops for a second delays every sample of that second, and each of them
/// shows it. Also how late the enqueues themselves were called, which is the fault of this machine alone.
pub(crate) async fn ping_on_schedule(
    client: &Client,
    queue: &str,
    (samples, gap): (u64, Duration),
    arrived: &mut Arrivals,
    progress: &mut Progress,
) -> Outcome<(Latencies, Latencies)> {
    let began = Instant::now() + gap;
    let due = move |id: u64| began + Duration::from_nanos(gap.as_nanos() as u64 * id);
    let (client, queue) = (client.clone(), queue.to_owned());
    let sender = tokio::spawn(async move {
        let (mut late, mut calls) = (Latencies::new(), JoinSet::new());
        for id in 0..samples {
            timer::nap(due(id).saturating_duration_since(Instant::now())).await;
            late.record(due(id).elapsed());
            let (client, queue) = (client.clone(), queue.clone());
            calls.spawn(async move { client.enqueue(Ping { id }.into_job()?.with_queue(queue)).await });
            while let Some(ended) = calls.try_join_next() {
                ended.map_err(|error| panicked(&error))??;
            }
        }
        while let Some(ended) = calls.join_next().await {
            ended.map_err(|error| panicked(&error))??;
        }
        Ok::<_, Failure>(late)
    });
    // Ends with us when we are dropped.
    let abort = AbortOnDrop(sender.abort_handle());
    let mut latencies = Latencies::new();
    for count in 0..samples {
        let next = timeout(LOST + gap, arrived.recv()).await;
        let Ok(Some(arrival)) = next else {
            return Err(sender_failed(sender).await.unwrap_or_else(|| lost(count)));
        };
        latencies.record(arrival.at.saturating_duration_since(due(arrival.id)));
        progress.reach(count + 1);
    }
    let late = sender.await.map_err(|error| panicked(&error))??;
    drop(abort);
    Ok((latencies, late))
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a sender ended, when it did.
async fn sender_failed(sender: tokio::task::JoinHandle<Outcome<Latencies>>) -> Option<Failure> {
    match sender.is_finished() {
        true => sender.await.ok()?.err(),
        false => None,
    }
}

/// The start of this sample; those of an interrupted run before are passed over.
async fn arrival(arrived: &mut Arrivals, id: u64) -> Instant {
    loop {
        match arrived.recv().await {
            Some(arrival) if arrival.id == id => return arrival.at,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

fn lost(id: u64) -> Failure {
    Failure::failed("stalled", format!("sample {id} did not start within {LOST:?}"))
}
