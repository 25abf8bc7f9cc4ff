//! How many jobs ended in which way, as counters that never go back while this process runs.

use jiff::{SignedDuration, Timestamp};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};
use windlass::{Count, EventType, History, HistoryRequest};

use super::{Named, REST};

/// How many pairs of queue and kind have counters of their own; kinds beyond that are one, `_other`.
const MOST_PAIRS: usize = 1_000;
/// How far one look goes back: so many minutes of the most counters still fit into one answer.
const LONGEST: Duration = Duration::from_secs(90 * 60);
/// A minute may get counts for so long after everything in it is said to be counted: of transactions that were open then.
const LATE: SignedDuration = SignedDuration::from_mins(15);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    queue: String,
    kind: String,
    outcome: &'static str,
}

/// What the store's counters per minute gained since the first look.
#[derive(Default)]
pub(super) struct Outcomes {
    totals: Family<OfOutcome, Counter>,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    /// Minutes before this are over; `None` before the first look.
    from: Option<Timestamp>,
    /// What the minutes after it said last.
    minutes: HashMap<(Timestamp, Option<String>, Option<String>, EventType), u64>,
    /// The queues and pairs that have counters.
    queues: Named,
    pairs: HashSet<(String, String)>,
}

impl Outcomes {
    /// What to ask the store for next.
    pub(super) fn request(&self, now: Timestamp) -> HistoryRequest {
        let from = self.counted.lock().unwrap_or_else(PoisonError::into_inner).from;
        let since = from.and_then(|from| Duration::try_from(now.duration_since(from)).ok());
        let last = since.map_or(LONGEST, |since| since + HistoryRequest::MINUTE);
        HistoryRequest::last(last.clamp(HistoryRequest::MINUTE, LONGEST))
    }

    /// Counts what is new in it. The first look counts nothing: what was before is not of this process's time. The order in which answers
    /// come does not matter, because a minute's counters only grow.
    pub(super) fn add(&self, history: &History, now: Timestamp) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = counted.from.is_none();
        let from = counted.from.unwrap_or(Timestamp::MIN);
        let (mut begun, mut untold) = (HashSet::new(), Timestamp::MAX);
        for count in history.counts.iter().filter(|count| count.at >= from) {
            let pair = counted.names(count);
            if self.begin(&pair) && !is_first {
                begun.insert(pair.clone());
            }
            // Counted by the next look: what Prometheus has seen nothing of before is no increase.
            if begun.contains(&pair) {
                untold = untold.min(count.at);
                continue;
            }
            let of = (count.at, count.queue.clone(), count.kind.clone(), count.outcome);
            let known = counted.minutes.entry(of).or_default();
            let new = count.count.saturating_sub(*known);
            *known = count.count.max(*known);
            if !is_first {
                let (queue, kind) = pair;
                let of = OfOutcome { queue, kind, outcome: count.outcome.as_str() };
                self.totals.get_or_create(&of).inc_by(new);
            }
        }
        let open =
            (history.counted_until - LATE).max(now - SignedDuration::try_from(LONGEST).unwrap_or(LATE));
        let minute = Timestamp::from_second(open.as_second().div_euclid(60) * 60).unwrap_or(open);
        let from = from.max(minute.min(untold));
        counted.from = Some(from);
        counted.minutes.retain(|(at, ..), _| *at >= from);
    }

    /// All outcomes of a pair are there from the first one on, with 0, so that the first failure of a kind is a step from 0 to 1. Whether they were
    /// not there before.
    fn begin(&self, (queue, kind): &(String, String)) -> bool {
        let of = HistoryRequest::OUTCOMES.map(|outcome| OfOutcome {
            queue: queue.clone(),
            kind: kind.clone(),
            outcome: outcome.as_str(),
        });
        let is_new = of.iter().any(|of| self.totals.get(of).is_none());
        of.iter().for_each(|of| drop(self.totals.get_or_create(of)));
        is_new
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "job_outcomes",
            "Ends of jobs and of attempts that the store counted while this server was looked at",
            self.totals.clone(),
        );
    }
}

impl Counted {
    /// The labels of a count.
    fn names(&mut self, count: &Count) -> (String, String) {
        let queue = self.queues.label(count.queue.as_deref());
        let pair = (queue, count.kind.as_deref().unwrap_or(REST).to_owned());
        if self.pairs.contains(&pair) {
            return pair;
        }
        if self.pairs.len() < MOST_PAIRS {
            self.pairs.insert(pair.clone());
            return pair;
        }
        (pair.0, REST.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::MOST_QUEUES, *};
    use EventType::{Completed, Failed};

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + minute * 60).unwrap()
    }

    fn count(minute: i64, kind: &str, outcome: EventType, count: u64) -> Count {
        Count::new(at(minute), "mail".to_owned(), kind.to_owned(), outcome, count)
    }

    fn total(outcomes: &Outcomes, queue: &str, kind: &str, outcome: EventType) -> Option<u64> {
        let of = OfOutcome { queue: queue.to_owned(), kind: kind.to_owned(), outcome: outcome.as_str() };
        outcomes.totals.get(&of).map(|counter| counter.get())
    }

    fn look(outcomes: &Outcomes, until: i64, counts: Vec<Count>) {
        outcomes.add(&History::new(HistoryRequest::MINUTE, at(until), counts), at(until));
    }

    #[test]
    fn only_what_is_new_counts_and_it_counts_once() {
        let outcomes = Outcomes::default();
        assert_eq!(outcomes.request(at(0)).last, LONGEST);
        look(&outcomes, 1, vec![count(0, "a", Completed, 70), count(1, "a", Completed, 5)]);
        assert_eq!(total(&outcomes, "mail", "a", Completed), Some(0));
        assert_eq!(total(&outcomes, "mail", "a", Failed), Some(0), "it is there before the first failure");
        let now =
            || vec![count(0, "a", Completed, 71), count(1, "a", Completed, 8), count(2, "b", Failed, 2)];
        look(&outcomes, 2, now());
        assert_eq!(total(&outcomes, "mail", "b", Failed), Some(0), "`increase` sees no first sample");
        look(&outcomes, 2, now());
        look(&outcomes, 2, now());
        look(&outcomes, 2, vec![count(1, "a", Completed, 6)]); // an older answer that came late
        assert_eq!(total(&outcomes, "mail", "a", Completed), Some(4));
        assert_eq!(total(&outcomes, "mail", "b", Failed), Some(2));
    }

    #[test]
    fn what_a_kind_begins_with_is_counted_also_where_its_minute_is_long_over() {
        let outcomes = Outcomes::default();
        look(&outcomes, 0, vec![count(0, "a", Completed, 5)]);
        let now = || vec![count(2, "nightly", Failed, 3), count(39, "nightly", Completed, 1)];
        look(&outcomes, 40, now());
        assert_eq!(total(&outcomes, "mail", "nightly", Failed), Some(0));
        assert_eq!(outcomes.request(at(40)).last, Duration::from_secs(39 * 60));
        look(&outcomes, 41, now());
        assert_eq!(total(&outcomes, "mail", "nightly", Failed), Some(3));
        assert_eq!(total(&outcomes, "mail", "nightly", Completed), Some(1));
    }

    #[test]
    fn minutes_that_are_over_are_forgotten() {
        let outcomes = Outcomes::default();
        look(&outcomes, 0, vec![count(0, "a", Completed, 5)]);
        look(&outcomes, 40, vec![count(0, "a", Completed, 5), count(39, "a", Completed, 1)]);
        assert_eq!(outcomes.counted.lock().unwrap().minutes.len(), 1);
        assert_eq!(outcomes.request(at(40)).last, Duration::from_secs(16 * 60));
        look(&outcomes, 41, vec![count(0, "a", Completed, 9)]);
        assert_eq!(total(&outcomes, "mail", "a", Completed), Some(1));
        // A store in which nobody counts has a bounded part of its past in memory, too.
        outcomes.add(&History::new(HistoryRequest::MINUTE, at(41), Vec::new()), at(5_000));
        assert!(outcomes.counted.lock().unwrap().minutes.is_empty());
    }

    #[test]
    fn many_kinds_and_queues_make_no_more_counters() {
        let outcomes = Outcomes::default();
        look(&outcomes, 0, Vec::new());
        let named = |n: usize| Count::new(at(1), format!("q{}", n % 300), format!("k{n}"), Completed, 1);
        look(&outcomes, 1, (0..3 * MOST_PAIRS).map(named).collect());
        look(&outcomes, 1, (0..3 * MOST_PAIRS).map(named).collect());
        let counted = outcomes.counted.lock().unwrap();
        assert_eq!((counted.pairs.len(), counted.queues.0.len()), (MOST_PAIRS, MOST_QUEUES + 1));
        let (mut registry, mut text) = (Registry::default(), String::new());
        outcomes.register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let series = text.lines().filter(|line| line.contains("_total{")).count();
        assert!(series <= (MOST_PAIRS + MOST_QUEUES + 1) * HistoryRequest::OUTCOMES.len(), "{series}");
        drop(counted);
        assert!(total(&outcomes, REST, REST, Completed).unwrap() > 300);
    }
}
