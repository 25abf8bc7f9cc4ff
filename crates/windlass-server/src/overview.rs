//! What the first page says: the store, its queues and workers, and what needs somebody's look.

mod schedules;

use crate::{counts::Counts, metrics::queues::may_have_more, past::Past};
use jiff::{SignedDuration, Timestamp};
use schedules::Wrong;
use serde_json::{Value, json};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::{time::Instant, try_join};
use windlass::{Client, EventType, HistoryRequest, JobState, QueueStats, Result, StoreStatus, WorkerRecord};

/// Jobs that wait for longer are worth a look.
const OLD: SignedDuration = SignedDuration::from_mins(5);
/// What went wrong within this time is.
const LATELY: Duration = Duration::from_secs(3600);
/// What changes slowly is asked so rarely.
const SLOW: Duration = Duration::from_secs(10);
/// The most queues that are listed, and the most that are said to need a look, of each sort.
const MOST_QUEUES: usize = 200;
const MOST_NEEDS: usize = 100;

/// Makes overviews, and keeps what is costly to know for some seconds.
#[derive(Default)]
pub(crate) struct Overview {
    lately: Mutex<Option<(Instant, Vec<Value>)>>,
    wrong: Wrong,
}

impl Overview {
    /// The state of the store now.
    pub(crate) async fn look(&self, client: &Client, counts: &Counts, past: &Past) -> Result<Value> {
        // Side by side: a page waits for the longest of them, and not for each.
        let (status, counted, lately) =
            try_join!(client.status(), counts.all(client), self.lately(client, past))?;
        let may_have_more = may_have_more(&status);
        let StoreStatus { store, schema_version, size_bytes, workers, more_workers } = status;
        let mut needs = now_needs(&counted.queues, &workers, may_have_more, Timestamp::now());
        needs.extend(lately);
        Ok(json!({
            "at": counted.at,
            "store": store,
            "schema_version": schema_version,
            "size_bytes": size_bytes,
            "totals": totals(&counted.queues),
            "queue_count": counted.queues.len(),
            "paused_count": counted.queues.iter().filter(|queue| queue.paused).count(),
            "oldest": oldest(&counted.queues),
            "queues": busiest(&counted.queues),
            "workers": workers,
            "more_workers": more_workers,
            "needs_a_look": needs,
        }))
    }

    /// What went wrong lately, by the counters, and the schedules that never fire.
    async fn lately(&self, client: &Client, past: &Past) -> Result<Vec<Value>> {
        let known = self.lately.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, needs)) = known.filter(|(at, _)| at.elapsed() < SLOW) {
            return Ok(needs);
        }
        // The hour that the charts of the page show.
        let counters = past.counters(client, &HistoryRequest::last(LATELY)).await?;
        let mut needs = counted_needs("discarded", counters.by_queue(EventType::Discarded));
        needs.extend(counted_needs("worker_died", counters.by_queue(EventType::Rescued)));
        let wrong = self.wrong.look(client, MOST_NEEDS).await?;
        needs.extend(wrong.iter().map(|name| json!({ "what": "schedule_error", "schedule": name })));
        *self.lately.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), needs.clone()));
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

/// Where a job waits for the longest, and since when.
fn oldest(queues: &[QueueStats]) -> Option<Value> {
    let waits = queues.iter().filter_map(|queue| Some((queue.oldest_available_at?, &queue.name)));
    waits.min().map(|(since, queue)| json!({ "queue": queue, "since": since }))
}

/// Those with the most to do, by name.
fn busiest(queues: &[QueueStats]) -> Vec<&QueueStats> {
    let mut busiest: Vec<_> = queues.iter().collect();
    if queues.len() > MOST_QUEUES {
        let jobs = |queue: &QueueStats| queue.available + queue.running + queue.retryable + queue.scheduled;
        busiest.sort_by_key(|queue| Reverse((jobs(queue), queue.discarded)));
        busiest.truncate(MOST_QUEUES);
        busiest.sort_by(|one, other| one.name.cmp(&other.name));
    }
    busiest
}

/// What the state of queues and workers says: of each kind, those queues with the most jobs. Where there may be more live workers than these, no queue
/// is known to have none.
fn now_needs(
    queues: &[QueueStats],
    workers: &[WorkerRecord],
    may_have_more: bool,
    now: Timestamp,
) -> Vec<Value> {
    let live = workers.iter().filter(|worker| worker.live).flat_map(|worker| &worker.queues);
    let worked: HashSet<&str> = live.map(String::as_str).collect();
    let mut waiting: Vec<_> = queues.iter().filter(|queue| queue.available > 0).collect();
    waiting.sort_by_key(|queue| Reverse(queue.available));
    let mut needs = Vec::new();
    for queue in waiting {
        if needs.len() == MOST_NEEDS {
            break;
        }
        let said = match (queue.paused, may_have_more || worked.contains(&*queue.name)) {
            (true, _) => vec![("paused", queue.available, queue.oldest_available_at)],
            (_, false) => vec![("no_worker", queue.available, queue.oldest_available_at)],
            _ => long_waits(queue, now),
        };
        let need = |(what, count, since)| json!({ "what": what, "queue": queue.name, "count": count, "since": since });
        needs.extend(said.into_iter().map(need));
    }
    needs
}

/// What waits too long in a queue that workers take jobs of. Jobs that some workers do not know are nothing to look at while a new version of
/// them is rolled out.
fn long_waits(queue: &QueueStats, now: Timestamp) -> Vec<(&'static str, u64, Option<Timestamp>)> {
    let known = queue.available.saturating_sub(queue.no_handler);
    let mut waits = vec![
        ("old", known, queue.oldest_available_at),
        ("no_handler", queue.no_handler, queue.oldest_no_handler_at),
    ];
    waits.retain(|(.., since)| since.is_some_and(|since| now.duration_since(since) > OLD));
    waits
}

/// Of the queues with the most counts how many, and the minute of the first.
fn counted_needs(what: &str, queues: BTreeMap<Option<&str>, (u64, Timestamp)>) -> Vec<Value> {
    let mut queues: Vec<_> = queues.into_iter().collect();
    queues.sort_by_key(|(_, (count, _))| Reverse(*count));
    queues.truncate(MOST_NEEDS);
    let need =
        |(queue, (count, since))| json!({ "what": what, "queue": queue, "count": count, "since": since });
    queues.into_iter().map(need).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Charted;
    use windlass::{Count, History};

    #[test]
    fn of_ten_thousand_queues_those_with_the_most_failures_need_a_look() {
        let at = |minute| Timestamp::from_second(minute * 60).unwrap();
        let count = |n: i64| Count::new(at(n % 60), format!("q{n:05}"), "k".into(), EventType::Discarded, 1);
        let mut counts: Vec<_> = (0..10_000).map(count).collect();
        counts.extend((5..9).map(|n| Count::new(at(n), "worst".into(), "k".into(), EventType::Discarded, 2)));
        let counters = Charted::of(History::new(HistoryRequest::MINUTE, at(60), counts));
        let needs = counted_needs("discarded", counters.by_queue(EventType::Discarded));
        assert_eq!(needs.len(), MOST_NEEDS);
        assert_eq!(needs[0], json!({ "what": "discarded", "queue": "worst", "count": 8, "since": at(5) }));
    }

    #[test]
    fn a_queue_has_no_worker_only_where_all_workers_are_known() {
        let now = Timestamp::now();
        let since = Some(now - SignedDuration::from_mins(9));
        let queue =
            QueueStats { name: "q".into(), available: 3, oldest_available_at: since, ..Default::default() };
        let said = |more| now_needs(std::slice::from_ref(&queue), &[], more, now)[0]["what"].clone();
        assert_eq!((said(false), said(true)), (json!("no_worker"), json!("old")));
    }

    #[test]
    fn jobs_that_no_worker_knows_need_a_look_when_they_wait_long() {
        let now = Timestamp::now();
        let ago = |minutes| Some(now - SignedDuration::from_mins(minutes));
        let queue = |available, no_handler, waits, unknown| QueueStats {
            available,
            no_handler,
            oldest_available_at: ago(waits),
            oldest_no_handler_at: unknown,
            ..QueueStats::default()
        };
        let said = |queue: QueueStats| {
            long_waits(&queue, now).into_iter().map(|(what, count, _)| (what, count)).collect::<Vec<_>>()
        };
        assert_eq!(said(queue(9, 3, 1, ago(6))), [("no_handler", 3)]);
        assert_eq!(said(queue(9, 3, 7, ago(6))), [("old", 6), ("no_handler", 3)]);
        assert_eq!(said(queue(9, 3, 1, ago(4))), [], "a new version is rolled out");
        assert_eq!(said(queue(9, 0, 1, None)), []);
    }
}
