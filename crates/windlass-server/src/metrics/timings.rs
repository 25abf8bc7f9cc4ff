//! How long jobs waited and ran, as histograms that never go back while this process runs.

use super::Named;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric, family::Family},
    registry::{Registry, Unit},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use windlass::{Histogram, HistoryRequest, TimingRequest, Timings};

/// The buckets end at 2^10, 2^12 and so on to 2^32 µs, a millisecond to more than an hour, where ranges of the store's histograms end.
const BUCKETS: [u32; 12] = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32];
/// A minute is counted when it has been over for so long: what workers said in it is committed.
const SETTLED: SignedDuration = SignedDuration::from_secs(30);
/// How far one look goes back at most: in a server that nobody looks at the minutes before are not counted.
const LONGEST: Duration = Duration::from_secs(90 * 60);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQueue {
    queue: String,
}

/// The durations of one queue: how many up to the end of each bucket, of all, and their sum.
#[derive(Clone, Debug, Default)]
struct Durations(Arc<Mutex<([u64; BUCKETS.len()], u64, f64)>>);

impl Durations {
    fn lock(&self) -> MutexGuard<'_, ([u64; BUCKETS.len()], u64, f64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, histogram: &Histogram) {
        let mut all = self.lock();
        for (bucket, count) in BUCKETS.iter().zip(&mut all.0) {
            *count += histogram.count_up_to(Duration::from_micros(1 << bucket));
        }
        all.1 += histogram.count();
        all.2 += histogram.sum().as_secs_f64();
    }
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (up_to, count, sum) = *self.lock();
        let mut before = 0;
        let mut buckets: Vec<(f64, u64)> = BUCKETS
            .iter()
            .zip(up_to)
            .map(|(bucket, up_to)| {
                let within = up_to - std::mem::replace(&mut before, up_to);
                (Duration::from_micros(1 << bucket).as_secs_f64(), within)
            })
            .collect();
        buckets.push((f64::INFINITY, count.saturating_sub(before)));
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for Durations {
    const TYPE: MetricType = MetricType::Histogram;
}

/// What the minutes said that are over.
#[derive(Default)]
pub(super) struct Times {
    wait: Family<OfQueue, Durations>,
    run: Family<OfQueue, Durations>,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    /// Minutes before this are counted, or were before this process's time; `None` before the first look.
    until: Option<Timestamp>,
    queues: Named,
}

impl Times {
    /// What to ask the store for next.
    pub(super) fn request(&self, now: Timestamp) -> TimingRequest {
        let until = self.counted.lock().unwrap_or_else(PoisonError::into_inner).until;
        let since = until.and_then(|until| Duration::try_from(now.duration_since(until)).ok());
        let last = since.unwrap_or_default() + HistoryRequest::MINUTE;
        TimingRequest::last(last.clamp(HistoryRequest::MINUTE, LONGEST))
    }

    /// Counts the minutes that are over and were not counted. The first look counts nothing.
    pub(super) fn add(&self, timings: &Timings, now: Timestamp) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let over = (now - SETTLED).as_second().div_euclid(60) * 60;
        let over = Timestamp::from_second(over).unwrap_or(now);
        let next = counted.until.map_or(over, |until| until.max(over));
        let from = counted.until.replace(next);
        for timed in &timings.timed {
            let of = OfQueue { queue: counted.queues.label(timed.queue.as_deref()) };
            // There from the first sight of the queue on, so that its first minute is a step from 0.
            let (wait, run) = (self.wait.get_or_create(&of).clone(), self.run.get_or_create(&of).clone());
            if from.is_some_and(|from| timed.at >= from) && timed.at < over {
                wait.add(&timed.wait);
                run.add(&timed.run);
            }
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let help =
            "How long jobs were available before they were started; of those that were from their enqueue on";
        registry.register_with_unit("job_wait", help, Unit::Seconds, self.wait.clone());
        registry.register_with_unit("job_run", "How long attempts took", Unit::Seconds, self.run.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::Timing;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// What a store with one attempt of 3 ms in each of these minutes answers.
    fn timings(minutes: &[i64]) -> Timings {
        let mut timing = Timing::new("mail", "a");
        timing.run.add(Duration::from_millis(3), 1);
        let rows = minutes.iter().map(|minute| (at(minute * 60), timing.clone()));
        Timings::of(&TimingRequest::last(LONGEST), rows)
    }

    fn text(times: &Times) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        times.register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn a_minute_counts_once_when_it_is_over() {
        let times = Times::default();
        times.add(&timings(&[-2, -1, 0]), at(45));
        let none = r#"job_run_seconds_count{queue="mail"} 0"#;
        assert!(text(&times).contains(none), "what was before is not of this process's time");
        times.add(&timings(&[-1, 0, 1]), at(80)); // the minute is over, but not for long
        assert!(text(&times).contains(none));
        for now in [95, 100] {
            times.add(&timings(&[-1, 0, 1]), at(now));
            let text = text(&times);
            assert!(text.contains(r#"job_run_seconds_count{queue="mail"} 1"#), "{text}");
            assert!(text.contains(r#"job_run_seconds_bucket{le="0.001024",queue="mail"} 0"#), "{text}");
            assert!(text.contains(r#"job_run_seconds_bucket{le="0.004096",queue="mail"} 1"#), "{text}");
            assert!(text.contains(r#"job_run_seconds_bucket{le="+Inf",queue="mail"} 1"#), "{text}");
        }
        assert_eq!(times.request(at(100)).last, Duration::from_secs(100));
        times.add(&timings(&[1, 2]), at(150));
        assert!(text(&times).contains(r#"job_run_seconds_count{queue="mail"} 2"#));
    }
}
