//! How fast things change: from the differences between looks.

use jiff::Timestamp;
use serde::Serialize;
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;
use windlass::{EventType, History, HistoryRequest, JobState, QueueStats};

/// How far back a look goes at least, and at most, for what ended: late minutes may still get counts.
const WINDOW: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(90 * 60));
/// For how long a rate is shown when the counters stand still. Who leads counts every ten seconds or so.
const STALE: Duration = Duration::from_secs(60);

/// A queue, and how fast it changes. What is not known is not there.
#[derive(Serialize)]
pub(super) struct Rated {
    #[serde(flatten)]
    pub(super) stats: QueueStats,
    /// How much faster jobs become available than they are claimed.
    pub(super) backlog_per_second: Option<f64>,
    pub(super) completed_per_second: Option<f64>,
    /// Of attempts.
    pub(super) failed_per_second: Option<f64>,
}

/// What earlier looks found.
#[derive(Default)]
pub(super) struct Rates {
    backlogs: Option<(Instant, HashMap<String, u64>)>,
    counted: Option<Counted>,
    ended: Option<(Instant, HashMap<Of, f64>)>,
}

/// A queue and how its jobs ended.
type Of = (String, EventType);

/// What the counters said when they last moved on.
struct Counted {
    until: Timestamp,
    minutes: HashMap<(Timestamp, Of), u64>,
}

impl Rates {
    /// What to ask the store for.
    pub(super) fn request(&self, now: Timestamp) -> HistoryRequest {
        let since = self.counted.as_ref().map(|counted| now.duration_since(counted.until));
        let since = since.and_then(|since| Duration::try_from(since).ok()).unwrap_or_default();
        HistoryRequest::last((since + WINDOW.0).min(WINDOW.1))
    }

    /// The queues, with what changed since the look before.
    pub(super) fn rate(&mut self, queues: Vec<QueueStats>, history: &History, now: Instant) -> Vec<Rated> {
        self.count(history, now);
        let ended = self.ended.as_ref().filter(|(at, _)| now.duration_since(*at) < STALE);
        let of = |queue: &str, outcome| {
            ended.map(|(_, rates)| rates.get(&(queue.to_owned(), outcome)).copied().unwrap_or(0.0))
        };
        let before = self.backlogs.take();
        let is_exact = |queue: &QueueStats| !queue.estimates.contains(&JobState::Available);
        let exact = queues.iter().filter(|queue| is_exact(queue));
        self.backlogs = Some((now, exact.map(|queue| (queue.name.clone(), queue.available)).collect()));
        let rated = |stats: QueueStats| {
            let known = before.as_ref().filter(|_| is_exact(&stats));
            let backlog_per_second = known.and_then(|(at, backlogs)| {
                let change = stats.available as f64 - *backlogs.get(&stats.name)? as f64;
                Some(change / now.duration_since(*at).as_secs_f64().max(1e-3))
            });
            let completed_per_second = of(&stats.name, EventType::Completed);
            let failed_per_second = of(&stats.name, EventType::Failed);
            Rated { stats, backlog_per_second, completed_per_second, failed_per_second }
        };
        queues.into_iter().map(rated).collect()
    }

    /// Takes what was counted since the counters last moved on, by the time that they moved.
    fn count(&mut self, history: &History, now: Instant) {
        let until = history.counted_until;
        if self.counted.as_ref().is_some_and(|counted| counted.until >= until) {
            return;
        }
        let mut minutes: HashMap<(Timestamp, Of), u64> = HashMap::new();
        for count in &history.counts {
            let Some(queue) = count.queue.clone() else { continue };
            *minutes.entry((count.at, (queue, count.outcome))).or_default() += count.count;
        }
        // What was counted last before the window would say nothing of now.
        let known = |before: &&Counted| until.duration_since(before.until).unsigned_abs() < WINDOW.1;
        if let Some(before) = self.counted.as_ref().filter(known) {
            let passed = until.duration_since(before.until).as_secs_f64().max(1e-3);
            let mut rates: HashMap<Of, f64> = HashMap::new();
            for (of, count) in &minutes {
                let new = count.saturating_sub(before.minutes.get(of).copied().unwrap_or(0));
                *rates.entry(of.1.clone()).or_default() += new as f64 / passed;
            }
            self.ended = Some((now, rates));
        }
        self.counted = Some(Counted { until, minutes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::Count;

    fn look(rates: &mut Rates, at: Instant, until: i64, available: u64, completed: &[(i64, u64)]) -> Rated {
        let time = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        let count = |&(second, count): &(i64, u64)| {
            Count::new(time(second), "mail".to_owned(), "a".to_owned(), EventType::Completed, count)
        };
        let history =
            History::new(HistoryRequest::MINUTE, time(until), completed.iter().map(count).collect());
        let estimates = if available > 10_000 { vec![JobState::Available] } else { Vec::new() };
        let queue = QueueStats { name: "mail".to_owned(), available, estimates, ..QueueStats::default() };
        rates.rate(vec![queue], &history, at).remove(0)
    }

    #[test]
    fn rates_are_differences() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let first = look(&mut rates, start, 0, 100, &[(-60, 70), (0, 5)]);
        assert_eq!((first.backlog_per_second, first.completed_per_second), (None, None));
        let same = look(&mut rates, after(1), 0, 90, &[(-60, 70), (0, 5)]);
        assert_eq!((same.backlog_per_second, same.completed_per_second), (Some(-10.0), None));
        // Counts of the minute before come late, too.
        let moved = look(&mut rates, after(2), 10, 90, &[(-60, 80), (0, 15)]);
        assert_eq!((moved.backlog_per_second, moved.completed_per_second), (Some(0.0), Some(2.0)));
        assert_eq!(moved.failed_per_second, Some(0.0));
        let later = look(&mut rates, after(3), 10, 20_000, &[(-60, 80), (0, 15)]);
        assert_eq!((later.backlog_per_second, later.completed_per_second), (None, Some(2.0)));
        let stale = look(&mut rates, after(70), 10, 90, &[]);
        assert_eq!((stale.backlog_per_second, stale.completed_per_second), (None, None));
    }
}
