use super::*;
use crate::{FailureGroup, JobId, TimingRequest, Timings};
use jiff::Timestamp;
use proptest::prelude::*;
use std::time::Duration;

fn timing(queue: &str, kind: &str, attempts: u64) -> Timing {
    let mut timing = Timing::new(queue, kind);
    timing.run.add(Duration::from_millis(attempts), attempts);
    timing
}

fn attempts(timings: &[Timing]) -> u64 {
    timings.iter().map(|timing| timing.run.count()).sum()
}

#[test]
fn what_is_rare_is_not_told_apart_and_nothing_is_lost() {
    let many = |n: u64| timing("q", &n.to_string(), n);
    let bounded = Timing::bounded((1..=10).map(many).collect(), 3);
    let mut kinds: Vec<_> = bounded.iter().map(|timing| (&*timing.kind, timing.run.count())).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [("*", 28), ("10", 10), ("8", 8), ("9", 9)]);
    // What was not told apart before stays with it.
    let again = Timing::bounded([bounded, (11..=12).map(many).collect()].concat(), 3);
    assert_eq!((again.len(), attempts(&again)), (3, 78));
}

#[test]
fn causes_are_bounded_and_none_is_lost() {
    let mut timing = Timing::new("q", "a");
    for n in 0..100_u8 {
        let words =
            format!("error {}", char::from(b'A' + n % 50).to_string().repeat(1 + usize::from(n / 50)));
        timing.merge(&Timing {
            failures: vec![Failure::new("a", JobId(n.into()), &words)],
            ..Timing::new("q", "a")
        });
        timing.bound_failures();
    }
    assert_eq!(timing.failures.len(), Timing::MAX_FAILURES);
    assert_eq!(timing.failures.iter().map(|failure| failure.count).sum::<u64>(), 100);
    assert_eq!(timing.failures.iter().map(|failure| failure.last_job.0).max(), Some(99));
    Timing::check(&[timing]).unwrap();
}

#[test]
fn of_one_cause_the_newest_job_is_kept_whatever_is_merged_first() {
    let of = |job: i64| {
        let failures = vec![Failure::new("a", JobId(job), &format!("no room for job {job}"))];
        Timing { failures, ..Timing::new("q", "a") }
    };
    for (first, then) in [(9, 3), (3, 9)] {
        let mut timing = of(first);
        timing.merge(&of(then));
        let [failure] = &timing.failures[..] else { panic!("one cause: {:?}", timing.failures) };
        assert_eq!((failure.count, failure.last_job, &*failure.sample), (2, JobId(9), "no room for job 9"));
    }
}

#[test]
fn causes_of_one_time_are_joined_and_the_rare_are_one() {
    let row = |n: usize| {
        let words = format!("{}{}", "x".repeat(n / 20 + 1), ["a", "b"][n % 2]);
        (n.to_string(), "k".to_owned(), Failure::new("k", JobId(n as i64), &words))
    };
    let rows: Vec<_> = (0..300).map(row).chain((0..100).map(row)).collect();
    let joined = Failure::joined(rows);
    assert_eq!(joined.len(), Failure::MOST_IN_A_SLOT + 1);
    assert_eq!(joined.iter().map(|(.., failure)| failure.count).sum::<u64>(), 400);
    let (queue, kind, rest) = &joined[Failure::MOST_IN_A_SLOT];
    assert_eq!((&**queue, &**kind, &*rest.fingerprint, rest.count), ("*", "*", "*", 50));
}

#[test]
fn the_newest_job_of_a_cause_is_shown_whatever_comes_first() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let row = |second, job, error: &str| {
        (at(second), "q".to_owned(), "k".to_owned(), Failure::new("k", JobId(job), error))
    };
    let groups = FailureGroup::of([row(120, 9, "no 9"), row(60, 3, "no 3"), row(0, 5, "out of paper")]);
    assert_eq!(groups.len(), 2);
    let first = &groups[0];
    assert_eq!((first.last_job, &*first.sample, first.count), (JobId(9), "no 9", 2));
    assert_eq!((first.first_at, first.last_at), (at(60), at(120)));
}

proptest! {
    /// In whatever order and parts rows are put together, what is read is the same.
    #[test]
    fn putting_together_changes_no_sum(rows in prop::collection::vec((0..4_i64, 0..3_usize, 1..100_u64), 0..40), cut in 0..40_usize) {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let rows: Vec<_> = rows.into_iter().map(|(minute, kind, n)| (at(minute), timing("q", ["a", "b", "*"][kind], n))).collect();
        let request = TimingRequest { step: Duration::from_secs(3600), ..TimingRequest::last(Duration::from_secs(60)) };
        let (early, late) = rows.split_at(cut.min(rows.len()));
        let merged = Timing::merged(early.iter().map(|(_, timing)| timing.clone()));
        let joined = merged.into_iter().map(|timing| (at(0), timing)).chain(late.to_vec());
        prop_assert_eq!(Timings::of(&request, joined), Timings::of(&request, rows.clone()));
    }
}
