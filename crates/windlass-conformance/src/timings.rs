//! What workers measure is read as it was sent, put together; and claims say what is needed to measure.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use windlass_core::{Count, Disposition, ErrorKind, Failure, Histogram, JobId, Store, Timing, TimingRequest};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// So many attempts of this length, each after half of it.
fn timing(queue: &str, kind: &str, ran: u64, times: u64) -> Timing {
    let mut timing = Timing::new(queue, kind);
    timing.run.add(ms(ran), times);
    timing.wait.add(ms(ran / 2), times);
    timing
}

/// Of the queue and kind, over all minutes.
async fn read(
    store: &Arc<dyn Store>,
    request: &TimingRequest,
) -> Vec<(String, String, Histogram, Histogram)> {
    let timings = store.timings(request).await.expect("timings");
    assert_eq!(timings.step, request.step);
    let step = i64::try_from(request.step.as_secs()).expect("a short step");
    let mut sums: Vec<(String, String, Histogram, Histogram)> = Vec::new();
    for timed in timings.timed {
        assert_eq!(timed.at.as_second() % step, 0, "{timed:?}");
        let name = |name: Option<String>| name.unwrap_or_else(|| Count::ANY.to_owned());
        let (queue, kind) = (name(timed.queue), name(timed.kind));
        match sums.iter_mut().find(|(q, k, ..)| (q, k) == (&queue, &kind)) {
            Some((_, _, wait, run)) => {
                wait.merge(&timed.wait);
                run.merge(&timed.run);
            }
            None => sums.push((queue, kind, timed.wait, timed.run)),
        }
    }
    sums.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    sums
}

/// What several workers measured of one queue and kind is one; housekeeping changes nothing of it.
pub async fn what_is_measured_is_read(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    let request = TimingRequest::last(HOUR);
    assert_eq!(read(&store, &request).await, []);
    store.measure(&[]).await.expect("nothing");
    store.measure(&[timing("q", "a", 10, 3), timing("q", "b", 20, 1)]).await.expect("measure");
    other.measure(&[timing("q", "a", 1_000, 2), timing("r ä\"'", "a", 5, 1)]).await.expect("measure");
    let mut a = timing("q", "a", 10, 3);
    a.merge(&timing("q", "a", 1_000, 2));
    let all = [a, timing("q", "b", 20, 1), timing("r ä\"'", "a", 5, 1)]
        .map(|timing| (timing.queue, timing.kind, timing.wait, timing.run));
    for _ in 0..2 {
        for step in [ms(60_000), HOUR] {
            let mut request = request.clone();
            request.step = step;
            assert_eq!(read(&other, &request).await, all);
        }
        store.maintain().await.expect("maintain");
    }
    let mut of = request.clone();
    of.queue = Some("q".into());
    assert_eq!(read(&store, &of).await, all[..2]);
    of.kind = Some("b".into());
    assert_eq!(read(&store, &of).await, all[1..2]);
    of.queue = Some("nobody's".into());
    assert_eq!(read(&store, &of).await, []);
}

/// Failed attempts are told by their cause, the most frequent first.
pub async fn failures_are_grouped(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let request = TimingRequest::last(HOUR);
    assert_eq!(store.failures(&request).await.expect("failures"), []);
    let failed = |job: i64, error: &str| Failure::new("a", JobId(job), error);
    let mut timing = Timing::new("q", "a");
    timing.failures = vec![failed(1, "no answer from port 1"), failed(2, "out of paper")];
    store.measure(std::slice::from_ref(&timing)).await.expect("measure");
    timing.failures = vec![failed(9, "no answer from port 9\nand more")];
    store.measure(&[timing]).await.expect("measure");
    let mut elsewhere = Timing::new("r", "a");
    elsewhere.failures = vec![failed(5, "out of paper")];
    store.measure(&[elsewhere]).await.expect("measure");
    let groups = store.failures(&request).await.expect("failures");
    assert_eq!(groups.len(), 3);
    let first = &groups[0];
    assert_eq!((&*first.sample, first.last_job, first.count), ("no answer from port 9", JobId(9), 2));
    assert_eq!((first.queue.as_deref(), first.kind.as_deref()), (Some("q"), Some("a")));
    assert!(first.first_at <= first.last_at);
    let mut of_r = request.clone();
    of_r.queue = Some("r".into());
    let groups = store.failures(&of_r).await.expect("failures");
    assert_eq!(groups.iter().map(|group| group.last_job.0).collect::<Vec<_>>(), [5]);
    assert_eq!(read(&store, &request).await, [], "nothing was timed");
}

/// What cannot be is refused by name, and nothing of the call is stored.
pub async fn nonsense_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let many: Vec<_> = (0..=Timing::MAX_BATCH).map(|n| timing("q", &n.to_string(), 1, 1)).collect();
    let mut causes = Timing::new("q", "a");
    causes.failures = (0..=Timing::MAX_FAILURES as i64).map(|n| Failure::new("a", JobId(n), "x")).collect();
    for too_much in [many, vec![causes]] {
        let error = store.measure(&too_much).await.expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
    }
    let request = TimingRequest::last(HOUR);
    assert_eq!(read(&store, &request).await, []);
    for (last, step) in [(Duration::ZERO, ms(60_000)), (Duration::MAX, ms(60_000)), (HOUR, ms(90_000))] {
        let mut request = TimingRequest::last(last);
        request.step = step;
        assert_eq!(store.timings(&request).await.expect_err("nonsense").kind(), ErrorKind::InvalidOption);
        assert_eq!(store.failures(&request).await.expect_err("nonsense").kind(), ErrorKind::InvalidOption);
    }
}

/// A claim says when it was made, and which of its jobs were available from their enqueue on.
pub async fn claims_say_who_was_never_put_off(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    enqueue_jobs(&store, 1).await;
    let claims = worker.claim(1).await;
    let (claim, first) = (&claims[0], &claims[0].jobs[0]);
    assert!(first.never_put_off && claim.claimed_at.expect("known") >= first.enqueued_at);
    worker.except(&held(&claims)[0], Disposition::Return).await;
    let untouched = enqueue(&store, job()).await;
    enqueue(&store, job().with_delay(Duration::from_millis(1))).await;
    let taken = worker.take_when_due(3).await;
    for held in taken {
        assert_eq!(held.job.never_put_off, held.job.id == untouched, "{held:?}");
    }
}
