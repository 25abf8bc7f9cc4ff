//! Enqueueing: order, atomicity, and what is refused.

use crate::{Fixture, steps::*};
use jiff::Timestamp;
use std::time::Duration;
use windlass_core::{Args, ErrorKind, JobFilter, JobState, Limits, NewJob, Unique};

/// Ids come back one per job, ascending in the order of the batch, and each names its own job.
pub async fn ids_come_in_order(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let batch: Vec<_> = (0..10).map(|n| NewJob::new(format!("kind{n}"), args(n)).with_queue(QUEUE)).collect();
    let ids = store.enqueue(&batch).await.expect("enqueue");
    assert_eq!(ids.len(), 10);
    assert!(ids.is_sorted() && ids[0].0 > 0, "{ids:?}");
    for (n, &id) in ids.iter().enumerate() {
        assert_eq!(record(&store, id).await.kind, format!("kind{n}"));
    }
}

/// A job keeps all that it was enqueued with, whatever the args' shape and alphabet.
pub async fn a_job_keeps_what_it_was_given(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let json = r#"{"text":"äß漢🦀\\u0000 \"q\" \n","list":[1,2.5,-3e4,null,true,[]],"deep":{"a":{"b":{}}}}"#;
    let job = NewJob::new("mail.send:€", Args::parse(json).expect("valid"))
        .with_queue("eu/mail:high-1_x.y")
        .with_priority(-7)
        .with_max_attempts(3);
    let id = enqueue(&store, job).await;

    let seen = record(&store, id).await;
    assert_eq!((seen.state, seen.kind.as_str()), (JobState::Available, "mail.send:€"));
    assert_eq!((seen.queue.as_str(), seen.priority), ("eu/mail:high-1_x.y", -7));
    assert_eq!((seen.attempt, seen.max_attempts, seen.crash_count), (0, 3, 0));
    let worker = worker(&store, &["eu/mail:high-1_x.y"], &[], LEASE).await;
    let held = worker.take_one().await;
    let expected: serde_json::Value = serde_json::from_str(json).expect("valid");
    for kept in [seen.args.as_str().as_bytes(), &held.job.args] {
        assert_eq!(serde_json::from_slice::<serde_json::Value>(kept).expect("still JSON"), expected);
    }
    assert_eq!((&*held.job.kind, held.job.attempt, held.job.max_attempts), ("mail.send:€", 1, 3));
}

/// Every kind of JSON value is good args, not only objects.
pub async fn any_json_value_is_good_args(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let values = ["null", "true", "0", "-1.5", "\"\"", "[]", "{}", "12345678901234567890123"];
    let batch: Vec<_> = values.iter().map(|v| NewJob::new(KIND, Args::parse(v).expect("valid"))).collect();
    store.enqueue(&batch).await.expect("enqueue");
    let worker = worker(&store, &[NewJob::DEFAULT_QUEUE], &[], LEASE).await;
    let seen: Vec<_> = worker.take(values.len()).await.into_iter().map(|held| held.job.args).collect();
    assert_eq!(seen, values);
}

/// An empty batch is no error and stores nothing.
pub async fn an_empty_batch_is_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    assert_eq!(store.enqueue(&[]).await.expect("enqueue nothing"), []);
}

/// A batch is stored whole or not at all: one invalid job anywhere and nothing was enqueued.
pub async fn a_batch_is_all_or_none(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for position in [0, 5, 9] {
        let mut batch = jobs(10);
        batch[position] = job().with_max_attempts(0);
        let error = store.enqueue(&batch).await.expect_err("an invalid job");
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains(&format!("job {position} of 10")), "{error}");
    }
    assert!(store.jobs(&JobFilter::default()).await.expect("list").is_empty());
    worker_on(&store).await.finds_nothing().await;
}

/// What breaks a limit is refused with the limit's code.
pub async fn what_breaks_a_limit_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let most = Limits::default().max_args_bytes;
    let text = |bytes: usize| Args::parse(&format!("\"{}\"", "x".repeat(bytes - 2))).expect("valid");
    let cases = [
        (job().with_queue(""), ErrorKind::InvalidName),
        (job().with_queue("a b"), ErrorKind::InvalidName),
        (job().with_queue("q".repeat(Limits::MAX_QUEUE_BYTES + 1)), ErrorKind::InvalidName),
        (NewJob::new("", args(0)), ErrorKind::InvalidName),
        (NewJob::new("a\nb", args(0)), ErrorKind::InvalidName),
        (NewJob::new("k".repeat(Limits::MAX_KIND_BYTES + 1), args(0)), ErrorKind::InvalidName),
        (NewJob::new(KIND, text(most + 1)), ErrorKind::InvalidArgs),
        (job().with_max_attempts(0), ErrorKind::InvalidOption),
        (job().with_max_attempts(Limits::MAX_ATTEMPTS + 1), ErrorKind::InvalidOption),
    ];
    for (job, expected) in cases {
        let error = store.enqueue(std::slice::from_ref(&job)).await.expect_err("refused");
        assert_eq!(error.kind(), expected, "{error}");
    }
    assert!(store.jobs(&JobFilter::default()).await.expect("list").is_empty());
    let largest = NewJob::new("k".repeat(Limits::MAX_KIND_BYTES), text(most))
        .with_queue("q".repeat(Limits::MAX_QUEUE_BYTES))
        .with_max_attempts(Limits::MAX_ATTEMPTS)
        .with_priority(Limits::PRIORITY_MIN);
    enqueue(&store, largest).await;
}

/// A time long past is now, whichever way a job comes. A delay beyond the furthest is refused.
pub async fn absurd_schedules_are_understood(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let unique = |key: &str| job().with_unique(Unique::by_key(key));
    for size in [1, 300] {
        let past =
            |n| [job(), unique(&format!("{size}/{n}"))].map(|job| job.with_scheduled_at(Timestamp::MIN));
        let jobs: Vec<_> = (0..size).flat_map(past).collect();
        for batch in jobs.chunks(size) {
            store.enqueue(batch).await.expect("enqueue");
            let taken = worker.take(batch.len()).await;
            worker.settle(taken.iter().map(Held::completion).collect(), vec![]).await;
        }
        for job in [job(), unique("late")] {
            for delay in [Limits::LONGEST + Duration::from_nanos(1), Duration::MAX] {
                let late = vec![job.clone().with_delay(delay); size];
                let refused = store.enqueue(&late).await.expect_err("refused");
                assert_eq!(refused.kind(), ErrorKind::InvalidOption);
                assert!(refused.to_string().contains("delay must be at most 100 years"), "{refused}");
            }
        }
        worker.finds_nothing().await;
    }
}

/// The furthest schedule that the limits allow is stored, not overflowed.
pub async fn the_furthest_schedule_is_stored(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job().with_delay(Duration::from_secs(Limits::MAX_DELAY_SECONDS))).await;
    let seen = record(&store, id).await;
    assert_eq!(seen.state, JobState::Scheduled);
    assert!(seen.scheduled_at.expect("scheduled") > seen.enqueued_at);
}
