use super::latency::Latencies;
use crate::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::{sync::mpsc, time::timeout};
use windlass::{Client, IntoJob, Job, NewJob};

/// How long one sample may take.
pub const SAMPLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A job whose handler reports when it started.
#[derive(Serialize, Deserialize)]
pub struct Ping {
    /// The number of the sample.
    pub id: u64,
}

impl Job for Ping {
    const KIND: &'static str = "windlass.ping";
}

/// The start of a [`Ping`].
pub struct PingStart {
    /// The number of the sample.
    pub id: u64,
    /// When its handler started.
    pub at: Instant,
}

/// Where the starts arrive.
pub type PingStarts = mpsc::UnboundedReceiver<PingStart>;

/// Enqueues one job after the other, each when the one before has started and `gap` has passed, and
/// measures from the call of enqueue to the start of the handler. `look` is called with the
/// number of samples so far; `place` says where each job goes.
pub async fn ping(
    client: &Client,
    place: impl Fn(NewJob) -> NewJob,
    (samples, gap): (u64, Duration),
    starts: &mut PingStarts,
    mut look: impl FnMut(u64),
) -> Outcome<Latencies> {
    let mut latencies = Latencies::new();
    for id in 0..samples {
        let job = place(Ping { id }.into_job()?);
        let called = Instant::now();
        client.enqueue(job).await?;
        let started = timeout(SAMPLE_TIMEOUT, start_of(starts, id)).await.map_err(|_| never_started(id))?;
        latencies.record(started.saturating_duration_since(called));
        look(id + 1);
        if !gap.is_zero() {
            tokio::time::sleep(gap).await;
        }
    }
    Ok(latencies)
}

/// When this sample started. Samples of an earlier run that was interrupted are ignored.
async fn start_of(starts: &mut PingStarts, id: u64) -> Instant {
    loop {
        match starts.recv().await {
            Some(start) if start.id == id => return start.at,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// The failure of a sample that took longer than [`SAMPLE_TIMEOUT`].
pub fn never_started(id: u64) -> Failure {
    Failure::failed("stalled", format!("sample {id} did not start within {SAMPLE_TIMEOUT:?}"))
}
