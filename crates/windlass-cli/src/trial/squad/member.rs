use super::{
    broken,
    news::{Deed, News, Order},
};
use crate::{
    failure::Outcome,
    measure::{cpu_seconds, peak_memory},
    trial::{Crew, place::clients},
};
use std::{io::Write, time::Duration};
use tokio::sync::mpsc;
use windlass::JobId;

/// How often a member tells how far it is.
const TELL_EVERY: Duration = Duration::from_millis(5);

/// The life of a member.
pub(crate) async fn member() -> Outcome {
    let outcome = obey().await;
    if let Err(failure) = outcome {
        let (_, why) = failure.at_line();
        tell(&News::Failed(why))?;
    }
    Ok(())
}

async fn obey() -> Outcome {
    let (sender, mut lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let Some(order) = lines.recv().await else { return Ok(()) };
    let order: Order = serde_json::from_str(&order).map_err(|error| broken(&error.to_string()))?;
    let clients = clients(&order.url, order.workers).await?;
    for client in &clients {
        client.queues().await?;
    }
    tell(&News::Ready)?;
    if lines.recv().await.is_none() {
        return Ok(());
    }
    let (crew, _pings) = Crew::start(&clients, &order.team, (u64::MAX, JobId(order.first))).await?;
    let mut told = None;
    let mut ticks = tokio::time::interval(TELL_EVERY);
    loop {
        tokio::select! {
            // Nothing more is said; this is the end of what there is to read.
            _ = lines.recv() => break,
            _ = ticks.tick() => {
                // In this order: what was handled before it was settled counts as settled.
                let handled = crew.tally().handled();
                let now = (handled, crew.settled() >= crew.calls());
                if told != Some(now) {
                    tell(&News::At { handled, settled: now.1 })?;
                    told = Some(now);
                }
            }
        }
    }
    let deed = deed(&crew, order.jobs);
    crew.stop().await;
    for client in clients {
        client.close().await;
    }
    tell(&News::Done(deed))
}

fn deed(crew: &Crew, jobs: u64) -> Deed {
    let (tally, mut seen) = (crew.tally(), String::with_capacity(jobs.div_ceil(4) as usize));
    for digit in 0..jobs.div_ceil(4) {
        let bit = |at: u64| u32::from(tally.times(digit * 4 + at) > 0) << at;
        let bits = (0..4).map(bit).sum();
        seen.push(char::from_digit(bits, 16).unwrap_or('0'));
    }
    let faults = tally.faults(jobs);
    Deed {
        seen,
        repeated: faults.repeated,
        strangers: faults.strangers,
        cpu_seconds: cpu_seconds(),
        peak_memory: peak_memory(),
    }
}

fn tell(news: &News) -> Outcome {
    let line = serde_json::to_string(news).map_err(|error| broken(&error.to_string()))?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
