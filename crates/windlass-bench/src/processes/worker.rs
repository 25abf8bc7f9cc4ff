//! A worker process.

use super::message::{Message, ProcessReport, Task, broken};
use crate::{
    child_process::{answer, lines},
    store::connect_each,
    workers::Workers,
};
use std::time::Duration;
use tokio::sync::mpsc;
use windlass_cli::{
    failure::Outcome,
    measure::{Expected, Tally, cpu_seconds, peak_memory},
};

/// How often it sends its progress.
const SEND_EVERY: Duration = Duration::from_millis(5);

/// What a process does that was started to work.
pub(crate) async fn run() -> Outcome {
    match work().await {
        Ok(()) => Ok(()),
        Err(failure) => answer(&Message::Failed(failure.into_message())),
    }
}

async fn work() -> Outcome {
    let mut lines = lines();
    let Some(task) = lines.recv().await else { return Ok(()) };
    let task: Task = serde_json::from_str(&task).map_err(|error| broken(&error.to_string()))?;
    let clients = connect_each(&task.url, task.workers).await?;
    for client in &clients {
        client.queues().await?;
    }
    answer(&Message::Ready)?;
    if lines.recv().await.is_none() {
        return Ok(());
    }
    let expected = Expected { jobs: u64::MAX, first: task.first };
    let (workers, _starts) = Workers::start(&clients, task.settings, expected).await?;
    send_progress(&workers, &mut lines).await?;
    let report = report(&workers.counts().tally, task.jobs);
    workers.stop().await;
    for client in clients {
        client.close().await;
    }
    answer(&Message::Done(report))
}

/// Until the end of what there is to read, which tells this process to stop.
async fn send_progress(workers: &Workers, lines: &mut mpsc::UnboundedReceiver<String>) -> Outcome {
    let mut sent = None;
    let mut ticks = tokio::time::interval(SEND_EVERY);
    loop {
        tokio::select! {
            _ = lines.recv() => return Ok(()),
            _ = ticks.tick() => {
                // In this order: what was handled by then counts as settled only when it is.
                let handled = workers.handled();
                let now = (handled, workers.is_settled());
                if sent != Some(now) {
                    answer(&Message::Progress { handled, settled: now.1 })?;
                    sent = Some(now);
                }
            }
        }
    }
}

fn report(tally: &Tally, jobs: u64) -> ProcessReport {
    let mut seen = String::with_capacity(jobs.div_ceil(4) as usize);
    for digit in 0..jobs.div_ceil(4) {
        let bit = |at: u64| u32::from(tally.times(digit * 4 + at) > 0) << at;
        let bits = (0..4).map(bit).sum();
        seen.push(char::from_digit(bits, 16).unwrap_or('0'));
    }
    let faults = tally.faults(jobs);
    ProcessReport {
        seen,
        repeated: faults.repeated,
        strangers: faults.strangers,
        cpu_seconds: cpu_seconds(),
        peak_memory: peak_memory(),
    }
}
