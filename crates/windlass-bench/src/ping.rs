use crate::{options::QUEUE, timer};
use std::time::{Duration, Instant};
use tokio::{
    task::{AbortHandle, JoinHandle, JoinSet},
    time::timeout,
};
use windlass::{Client, IntoJob};
use windlass_cli::{
    failure::{Failure, Outcome},
    measure::{Latencies, Ping, PingStarts, SAMPLE_TIMEOUT, never_started},
    progress::Progress,
};

/// Enqueues a job every `gap`, even if those before it have not started, and measures from the time at which it
/// was due to be enqueued: when the store stops for a second, every sample of that second shows it. Also returns
/// how late the calls of enqueue were, which is the fault of this machine alone.
pub(crate) async fn ping_on_schedule(
    client: &Client,
    (samples, gap): (u64, Duration),
    starts: &mut PingStarts,
    progress: &mut Progress,
) -> Outcome<(Latencies, Latencies)> {
    let began = Instant::now() + gap;
    let due = move |id: u64| began + Duration::from_nanos(gap.as_nanos() as u64 * id);
    let sender = tokio::spawn(send(client.clone(), samples, due));
    // The task must end when this future is dropped.
    let abort = AbortOnDrop(sender.abort_handle());
    let mut latencies = Latencies::new();
    for count in 0..samples {
        let next = timeout(SAMPLE_TIMEOUT + gap, starts.recv()).await;
        let Ok(Some(start)) = next else {
            return Err(sender_failed(sender).await.unwrap_or_else(|| never_started(count)));
        };
        latencies.record(start.at.saturating_duration_since(due(start.id)));
        progress.reach(count + 1);
    }
    let late = sender.await??;
    drop(abort);
    Ok((latencies, late))
}

/// Enqueues each sample when it is due. Returns how late the calls were.
async fn send(client: Client, samples: u64, due: impl Fn(u64) -> Instant) -> Outcome<Latencies> {
    let (mut late, mut calls) = (Latencies::new(), JoinSet::new());
    for id in 0..samples {
        timer::nap(due(id).saturating_duration_since(Instant::now())).await;
        late.record(due(id).elapsed());
        let client = client.clone();
        calls.spawn(async move { client.enqueue(Ping { id }.into_job()?.with_queue(QUEUE)).await });
        while let Some(ended) = calls.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    Ok(late)
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why the sender ended, if it has.
async fn sender_failed(sender: JoinHandle<Outcome<Latencies>>) -> Option<Failure> {
    match sender.is_finished() {
        true => sender.await.ok()?.err(),
        false => None,
    }
}
