use crate::events::{by_job, now, read};
use std::{collections::BTreeMap, sync::Arc};
use windlass_core::{Count, EventCursor, EventType, HistoryRequest, JobEvent, JobId, Store};

/// How many events a page has: fewer than what happens between two looks.
pub(super) const PAGE: u32 = 40;

/// Where the events of the store and of the oracle were read up to.
pub(super) struct Told {
    store: EventCursor,
    oracle: EventCursor,
}

/// Of each job what happened, in order. The reason is without the ids of jobs, which each store gives itself.
pub(super) type Stories = BTreeMap<JobId, Vec<(EventType, Arc<str>, Option<String>)>>;

impl Told {
    pub(super) async fn begin(store: &Arc<dyn Store>, oracle: &Arc<dyn Store>) -> Self {
        Self { store: now(store).await, oracle: now(oracle).await }
    }

    /// What both tell since the last look, each by its own ids.
    pub(super) async fn since(&mut self, store: &Arc<dyn Store>, oracle: &Arc<dyn Store>) -> [Stories; 2] {
        let seen = read(store, &mut self.store, PAGE).await;
        let known = read(oracle, &mut self.oracle, PAGE).await;
        [by_job(&seen, says), by_job(&known, says)]
    }
}

fn says(event: &JobEvent) -> (EventType, Arc<str>, Option<String>) {
    let without_ids = |reason: &String| reason.replace(|digit: char| digit.is_ascii_digit(), "");
    (event.event, Arc::clone(&event.kind), event.reason.as_ref().map(without_ids))
}

/// What is counted of these queues, by outcome: minutes are of two clocks, and kinds need not be told apart where what was counted goes at once.
pub(super) async fn counted(store: &Arc<dyn Store>, queues: &[String]) -> BTreeMap<(String, EventType), u64> {
    let history = store.history(&HistoryRequest::last(HistoryRequest::LONGEST)).await.expect("history");
    let mut counts = BTreeMap::new();
    for Count { queue, outcome, count, .. } in history.counts {
        let queue = queue.expect("there are few");
        if queues.contains(&queue) {
            *counts.entry((queue, outcome)).or_default() += count;
        }
    }
    counts
}
