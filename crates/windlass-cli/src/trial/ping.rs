use crate::{
    failure::{Failure, Outcome},
    measure::Latencies,
    progress::Progress,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::{sync::mpsc, time::timeout};
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

/// Enqueues one job after the other, each when the one before has started and `gap` has passed, and
/// measures from the call of enqueue to the start of the handler.
pub(crate) async fn ping(
    client: &Client,
    queue: &str,
    (samples, gap): (u64, Duration),
    arrived: &mut mpsc::UnboundedReceiver<Arrival>,
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

/// The start of this sample; those of an interrupted run before are passed over.
async fn arrival(arrived: &mut mpsc::UnboundedReceiver<Arrival>, id: u64) -> Instant {
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
