//! What the first page says: the store, its queues and workers, and what needs somebody's look.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use windlass::{
    Client, EventType, HistoryRequest, JobState, QueueStats, Result, ScheduleFilter, StoreStatus,
};

/// Jobs that wait for longer are worth a look.
const OLD: SignedDuration = SignedDuration::from_mins(5);
/// What went wrong within this time is.
const LATELY: Duration = Duration::from_secs(3600);
/// What changes slowly is asked so rarely.
const SLOW: Duration = Duration::from_secs(10);

/// Makes overviews, and keeps what is costly to know for some seconds.
#[derive(Default)]
pub(crate) struct Overview(Mutex<Option<(Instant, Vec<Value>)>>);

impl Overview {
    /// The state of the store now.
    pub(crate) async fn look(&self, client: &Client) -> Result<Value> {
        let status = client.status().await?;
        let now = Timestamp::now();
        let mut needs = now_needs(&status, now);
        needs.extend(self.lately(client).await?);
        let StoreStatus { store, schema_version, size_bytes, workers, queues } = status;
        Ok(json!({
            "at": now,
            "store": store,
            "schema_version": schema_version,
            "size_bytes": size_bytes,
            "totals": totals(&queues),
            "queues": queues,
            "workers": workers,
            "needs_a_look": needs,
        }))
    }

    async fn lately(&self, client: &Client) -> Result<Vec<Value>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, needs)) = known.filter(|(at, _)| at.elapsed() < SLOW) {
            let _ = at;
            return Ok(needs);
        }
        let needs = slow_needs(client).await?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), needs.clone()));
        Ok(needs)
    }
}

fn totals(queues: &[QueueStats]) -> Value {
    let sum = |of: fn(&QueueStats) -> u64| queues.iter().map(of).sum::<u64>();
    let is_estimated = |state: &JobState| queues.iter().any(|queue| queue.estimates.contains(state));
    json!({
        "available": sum(|queue| queue.available),
        "running": sum(|queue| queue.running),
        "scheduled": sum(|queue| queue.scheduled),
        "retryable": sum(|queue| queue.retryable),
        "completed": sum(|queue| queue.completed),
        "cancelled": sum(|queue| queue.cancelled),
        "discarded": sum(|queue| queue.discarded),
        "estimates": JobState::ALL.iter().filter(|state| is_estimated(state)).collect::<Vec<_>>(),
    })
}

/// What the state of queues and workers says.
fn now_needs(status: &StoreStatus, now: Timestamp) -> Vec<Value> {
    let mut needs = Vec::new();
    for queue in status.queues.iter().filter(|queue| queue.available > 0) {
        let worked = status.workers.iter().any(|worker| worker.live && worker.queues.contains(&queue.name));
        let since = queue.oldest_available_at;
        let what = match since {
            _ if queue.paused => "paused",
            _ if !worked => "no_worker",
            Some(since) if now.duration_since(since) > OLD => "old",
            _ => continue,
        };
        needs.push(json!({ "what": what, "queue": queue.name, "count": queue.available, "since": since }));
    }
    needs
}

/// What went wrong lately, by the counters, and the schedules that never fire.
async fn slow_needs(client: &Client) -> Result<Vec<Value>> {
    let mut needs = Vec::new();
    for (outcome, what) in [(EventType::Discarded, "discarded"), (EventType::Rescued, "worker_died")] {
        let mut request = HistoryRequest::last(LATELY);
        request.outcome = Some(outcome);
        let history = client.history(&request).await?;
        // Of each queue how many, and the minute of the first.
        let mut queues: BTreeMap<Option<&str>, (u64, Timestamp)> = BTreeMap::new();
        for count in &history.counts {
            let (sum, since) = queues.entry(count.queue.as_deref()).or_insert((0, count.at));
            (*sum, *since) = (*sum + count.count, count.at.min(*since));
        }
        let need =
            |(queue, (count, since))| json!({ "what": what, "queue": queue, "count": count, "since": since });
        needs.extend(queues.into_iter().map(need));
    }
    let filter = ScheduleFilter { limit: ScheduleFilter::MOST, ..ScheduleFilter::default() };
    let schedules = client.store().schedules(&filter).await?;
    let wrong = schedules.iter().filter(|schedule| schedule.error.is_some());
    needs.extend(wrong.map(|schedule| json!({ "what": "schedule_error", "schedule": schedule.name })));
    Ok(needs)
}
