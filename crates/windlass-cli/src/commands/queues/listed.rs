//! The queues as they are listed.

use super::{keys, limits};
use crate::{failure::Outcome, table::table, text::escape};
use indicatif::HumanCount;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use windlass::{Client, JobState, KeyLimits, QueueStats};

/// A queue with its counts and limits.
#[derive(Serialize)]
pub(crate) struct Listed {
    #[serde(flatten)]
    stats: QueueStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_limits: Option<Value>,
    #[serde(skip)]
    keys: Option<KeyLimits>,
}

impl Listed {
    /// Adds what holds for their keys.
    pub(crate) async fn of(client: &Client, queues: Vec<QueueStats>) -> Outcome<Vec<Self>> {
        let mut listed = Vec::new();
        for stats in queues {
            let keys = if stats.keyed { client.key_limits(&stats.name).await? } else { None };
            listed.push(Self { stats, key_limits: keys.as_ref().map(keys::compact), keys });
        }
        Ok(listed)
    }
}

/// The queues as a table.
pub(crate) fn text(queues: &[Listed]) -> String {
    if queues.is_empty() {
        return "no queues\n".to_owned();
    }
    let now = Timestamp::now();
    let any_limits = queues.iter().any(|queue| !queue.stats.limits.is_none());
    let any_without_handler = queues.iter().any(|queue| queue.stats.no_handler > 0);
    let any_keys = queues.iter().any(|queue| queue.keys.is_some());
    let row = |Listed { stats: queue, keys, .. }: &Listed| {
        let counts = [
            (JobState::Available, queue.available),
            (JobState::Running, queue.running),
            (JobState::Scheduled, queue.scheduled),
            (JobState::Retryable, queue.retryable),
            (JobState::Completed, queue.completed),
            (JobState::Cancelled, queue.cancelled),
            (JobState::Discarded, queue.discarded),
        ];
        let count = |(state, count)| counted(queue, state, count);
        let no_handler = any_without_handler.then(|| counted(queue, JobState::Available, queue.no_handler));
        let state = if queue.paused { "paused" } else { "open" };
        let head = [escape(&queue.name), state.to_owned()];
        let waits = queue.oldest_available_at.map_or_else(|| "-".to_owned(), |since| waited(now, since));
        let limits = any_limits.then(|| limits::text(&queue.limits));
        let none = || "-".to_owned();
        let keys = any_keys.then(|| keys.as_ref().map_or_else(none, keys::text));
        head.into_iter()
            .chain(limits)
            .chain(keys)
            .chain(counts.map(count))
            .chain(no_handler)
            .chain([waits])
            .collect::<Vec<_>>()
    };
    let counts =
        [">AVAILABLE", ">RUNNING", ">SCHEDULED", ">RETRYABLE", ">COMPLETED", ">CANCELLED", ">DISCARDED"];
    let head = ["QUEUE", "STATE"].into_iter().chain(any_limits.then_some("LIMITS"));
    let head = head.chain(any_keys.then_some("KEYS"));
    let last = any_without_handler.then_some(">NO HANDLER").into_iter().chain([">WAITS"]);
    let headers: Vec<_> = head.chain(counts).chain(last).collect();
    table(&headers, &queues.iter().map(row).collect::<Vec<_>>())
}

/// A count of a queue's jobs in a state, marked where it is an estimate.
pub(crate) fn counted(queue: &QueueStats, state: JobState, count: u64) -> String {
    match queue.estimates.contains(&state) {
        true => format!("≈{}", HumanCount(rounded(count))),
        false => HumanCount(count).to_string(),
    }
}

/// An estimate to two digits: more would look exact.
fn rounded(count: u64) -> u64 {
    let unit = 10u64.pow(count.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (count + unit / 2) / unit * unit
}

/// How long the first job in line has waited, by this machine's clock.
pub(crate) fn waited(now: Timestamp, since: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_have_two_digits() {
        let pairs = [(0, 0), (9, 9), (99, 99), (10_449, 10_000), (10_500, 11_000), (99_999, 100_000)];
        for (count, shown) in pairs {
            assert_eq!(rounded(count), shown);
        }
    }

    #[test]
    fn jobs_that_no_worker_knows_are_shown_where_there_are_some() {
        let shown = |no_handler| {
            let stats = QueueStats { available: 7, no_handler, ..QueueStats::default() };
            text(&[Listed { stats, key_limits: None, keys: None }])
        };
        assert!(shown(3).contains("NO HANDLER") && shown(3).contains(" 3 "), "{}", shown(3));
        assert!(!shown(0).contains("NO HANDLER"), "{}", shown(0));
    }

    #[test]
    fn an_estimate_is_marked() {
        let queue = QueueStats {
            name: "mail".to_owned(),
            available: 1_234_567,
            completed: 7,
            estimates: vec![JobState::Available],
            ..QueueStats::default()
        };
        let shown = text(&[Listed { stats: queue, key_limits: None, keys: None }]);
        assert!(shown.contains("≈1") && !shown.contains("≈7"), "{shown}");
    }
}
