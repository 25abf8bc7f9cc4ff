//! Counters as charts want them: of each queue, kind and outcome one series, with its numbers by the step. As one object for each number they are ten times
//! as long: 3 MB for an hour of 20 queues with 50 kinds.

use serde::Serialize;
use std::{cmp::Reverse, collections::BTreeMap};
use windlass::{History, Timestamp};

/// What the API answers.
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

impl Charted {
    /// Queues and kinds told apart or summed; of many series only the `top` with the most jobs.
    pub(crate) fn of(history: History, (queues, kinds): (bool, bool), top: Option<usize>) -> Self {
        let History { step, counted_until, counts, .. } = history;
        let begins = counts.iter().map(|count| count.at).min();
        let seconds = i64::try_from(step.as_secs()).unwrap_or(i64::MAX).max(1);
        let first = begins.map_or(0, |at| at.as_second());
        let mut sums: BTreeMap<Of, BTreeMap<i64, u64>> = BTreeMap::new();
        for count in counts {
            let (queue, kind) = (count.queue.filter(|_| queues), count.kind.filter(|_| kinds));
            let of = Of { queue, kind, outcome: count.outcome.as_str() };
            *sums.entry(of).or_default().entry((count.at.as_second() - first) / seconds).or_default() +=
                count.count;
        }
        let series =
            |(of, counts): (Of, BTreeMap<i64, u64>)| Series { of, counts: counts.into_iter().collect() };
        let mut series: Vec<Series> = sums.into_iter().map(series).collect();
        if let Some(top) = top {
            series.sort_by_key(|each| Reverse(each.counts.iter().map(|(_, count)| count).sum::<u64>()));
            series.truncate(top);
        }
        Self { step_ms: step.as_millis().try_into().unwrap_or(u64::MAX), counted_until, begins, series }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::time::Duration;
    use windlass::Count;
    use windlass::EventType::{self, Completed, Failed};

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
        json!(Charted::of(history, apart, top))
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
        for (apart, most) in [((false, false), 2_000), ((true, false), 60_000)] {
            let length = json!(Charted::of(history.clone(), apart, None)).to_string().len();
            assert!(length <= most, "{apart:?}: {length}");
        }
    }

    #[test]
    fn without_counts_there_is_no_beginning() {
        let none = Charted::of(History::new(Duration::from_secs(60), at(10), vec![]), (true, true), Some(9));
        assert_eq!((json!(none)["begins"].clone(), json!(none)["series"].clone()), (Value::Null, json!([])));
    }
}
