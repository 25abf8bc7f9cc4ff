//! Counters as charts want them: of each queue, kind and outcome one series, with its numbers by the step. As one object for each number they are ten times
//! as long: 3 MB for an hour of 20 queues with 50 kinds.

use jiff::SignedDuration;
use serde::Serialize;
use std::{cmp::Reverse, collections::BTreeMap};
use windlass::{EventType, History, Timestamp};

/// What the API answers, and what it is made of: all series of a time.
#[derive(Serialize)]
pub(crate) struct Charted {
    step_ms: u64,
    counted_until: Timestamp,
    /// When step 0 begins; `None` where there are no counts.
    begins: Option<Timestamp>,
    series: Vec<Series>,
}

#[derive(Serialize)]
struct Series {
    #[serde(flatten)]
    of: Of,
    /// The number of the step, from `begins`, and how many there were: by the step, and none of 0.
    counts: Vec<(i64, u64)>,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Of {
    queue: Option<String>,
    kind: Option<String>,
    outcome: &'static str,
}

/// The sums of some series by the step.
type Sums = BTreeMap<Of, BTreeMap<i64, u64>>;

impl Charted {
    /// Each queue, kind and outcome.
    pub(crate) fn of(history: History) -> Self {
        let History { step, counted_until, counts, .. } = history;
        let begins = counts.iter().map(|count| count.at).min();
        let seconds = i64::try_from(step.as_secs()).unwrap_or(i64::MAX).max(1);
        let first = begins.map_or(0, |at| at.as_second());
        let mut sums = Sums::new();
        for count in counts {
            let of = Of { queue: count.queue, kind: count.kind, outcome: count.outcome.as_str() };
            *sums.entry(of).or_default().entry((count.at.as_second() - first) / seconds).or_default() +=
                count.count;
        }
        let step_ms = step.as_millis().try_into().unwrap_or(u64::MAX);
        Self { step_ms, counted_until, begins, series: series(sums) }
    }

    /// Queues and kinds told apart or summed, of all outcomes or one; of many series only the `top` with the most jobs.
    pub(crate) fn part(
        &self,
        (queues, kinds): (bool, bool),
        outcome: Option<EventType>,
        top: Option<usize>,
    ) -> Self {
        let mut sums = Sums::new();
        for Series { of, counts } in self.of_outcome(outcome) {
            let (queue, kind) = (of.queue.clone().filter(|_| queues), of.kind.clone().filter(|_| kinds));
            let sum = sums.entry(Of { queue, kind, outcome: of.outcome }).or_default();
            for (step, count) in counts {
                *sum.entry(*step).or_default() += count;
            }
        }
        let mut series = series(sums);
        if let Some(top) = top {
            series.sort_by_key(|each| Reverse(each.total()));
            series.truncate(top);
        }
        let begins = self.begins.filter(|_| !series.is_empty());
        Self { begins, series, ..*self }
    }

    /// How many ended so in each queue, and since when.
    pub(crate) fn by_queue(&self, outcome: EventType) -> BTreeMap<Option<&str>, (u64, Timestamp)> {
        let mut queues = BTreeMap::new();
        for Series { of, counts } in self.of_outcome(Some(outcome)) {
            let Some(since) = counts.first().and_then(|(step, _)| self.time_of(*step)) else { continue };
            let (sum, first) = queues.entry(of.queue.as_deref()).or_insert((0, since));
            for (_, count) in counts {
                *sum += count;
            }
            *first = since.min(*first);
        }
        queues
    }

    fn of_outcome(&self, outcome: Option<EventType>) -> impl Iterator<Item = &Series> {
        self.series
            .iter()
            .filter(move |each| outcome.is_none_or(|outcome| each.of.outcome == outcome.as_str()))
    }

    fn time_of(&self, step: i64) -> Option<Timestamp> {
        let step_ms = i64::try_from(self.step_ms).unwrap_or(i64::MAX);
        self.begins?.checked_add(SignedDuration::from_millis(step.saturating_mul(step_ms))).ok()
    }
}

impl Series {
    fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

fn series(sums: Sums) -> Vec<Series> {
    let series = |(of, counts): (Of, BTreeMap<i64, u64>)| Series { of, counts: counts.into_iter().collect() };
    sums.into_iter().map(series).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::time::Duration;
    use windlass::Count;
    use windlass::EventType::{Completed, Failed};

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn charted(apart: (bool, bool), top: Option<usize>) -> Value {
        let count = |minute, queue: &str, kind: &str, outcome: EventType, count| {
            Count::new(at(minute), queue.into(), kind.into(), outcome, count)
        };
        let counts = vec![
            count(7, "mail", "send", Completed, 5),
            count(7, "mail", "digest", Completed, 1),
            count(7, "sync", "pull", Completed, 10),
            count(9, "mail", "send", Completed, 2),
            count(9, "mail", "send", Failed, 30),
        ];
        let history = History::new(Duration::from_secs(60), at(10), counts);
        json!(Charted::of(history).part(apart, None, top))
    }

    #[test]
    fn steps_are_numbered_and_what_is_not_told_apart_is_summed() {
        assert_eq!(
            charted((false, false), None),
            json!({
                "step_ms": 60_000, "counted_until": "1970-01-01T00:10:00Z", "begins": "1970-01-01T00:07:00Z",
                "series": [
                    { "queue": null, "kind": null, "outcome": "completed", "counts": [[0, 16], [2, 2]] },
                    { "queue": null, "kind": null, "outcome": "failed", "counts": [[2, 30]] },
                ],
            })
        );
        let queues = charted((true, false), None);
        let mail =
            json!({ "queue": "mail", "kind": null, "outcome": "completed", "counts": [[0, 6], [2, 2]] });
        assert_eq!((&queues["series"][0], queues["series"].as_array().unwrap().len()), (&mail, 3));
    }

    #[test]
    fn of_many_those_with_the_most_jobs_are_there() {
        let top = charted((true, true), Some(2));
        let names: Vec<_> = top["series"].as_array().unwrap().iter().map(|each| &each["outcome"]).collect();
        assert_eq!(names, ["failed", "completed"]);
        assert_eq!(top["series"][1]["queue"], "sync");
    }

    /// What the overview asks for.
    #[test]
    fn an_hour_of_many_queues_is_short() {
        let counts = (0..60).flat_map(|minute| {
            let of = move |n: usize| {
                let (queue, kind) = (format!("a-queue-{}", n % 20), format!("a.kind.of-job-{}", n / 20));
                [Completed, Failed]
                    .map(|outcome| Count::new(at(minute), queue.clone(), kind.clone(), outcome, 12_345))
            };
            (0..1_000).flat_map(of)
        });
        let history = History::new(Duration::from_secs(60), at(60), counts.collect());
        let whole = Charted::of(history);
        for (apart, most) in [((false, false), 2_000), ((true, false), 60_000)] {
            let length = json!(whole.part(apart, None, None)).to_string().len();
            assert!(length <= most, "{apart:?}: {length}");
        }
    }

    #[test]
    fn one_outcome_is_a_part_with_the_same_steps() {
        let count = |minute, outcome| Count::new(at(minute), "mail".into(), "send".into(), outcome, 4);
        let counts = vec![count(7, Completed), count(9, Failed), count(8, Failed)];
        let whole = Charted::of(History::new(Duration::from_secs(60), at(10), counts));
        let part = json!(whole.part((true, true), Some(Failed), None));
        assert_eq!(
            (&part["begins"], &part["series"][0]["counts"]),
            (&json!(at(7)), &json!([[1, 4], [2, 4]]))
        );
        assert_eq!(
            (part["series"].as_array().unwrap().len(), whole.by_queue(Failed)),
            (1, [(Some("mail"), (8, at(8)))].into())
        );
        assert_eq!(json!(whole.part((true, true), Some(EventType::Discarded), None))["begins"], Value::Null);
    }

    #[test]
    fn without_counts_there_is_no_beginning() {
        let none = Charted::of(History::new(Duration::from_secs(60), at(10), vec![]));
        let none = none.part((true, true), None, Some(9));
        assert_eq!((json!(none)["begins"].clone(), json!(none)["series"].clone()), (Value::Null, json!([])));
    }
}
