//! Attributes: what only some jobs have goes with them wherever they go.

use crate::{Fixture, steps::*};
use jiff::Timestamp;
use std::time::Duration;
use windlass_core::{Args, Attributes, Disposition, ErrorKind, Limits, NewJob, RetryPolicy};

const TIMEOUT: Duration = Duration::from_millis(1_500);
const RETRY_POLICY: RetryPolicy =
    RetryPolicy { jitter: 0.25, ..RetryPolicy::linear(Duration::from_millis(10_001)) };

fn attributed(n: usize) -> NewJob {
    let meta = Args::parse(r#"{"trace": "ä\"", "deep": [1, {"a": null}]}"#).expect("an object");
    NewJob::new(KIND, args(n))
        .with_queue(QUEUE)
        .with_key(format!("tenant-{n}"))
        .with_meta(meta)
        .with_tracking()
        .with_tags(["urgent", "ä \"quoted\""])
        .with_timeout(TIMEOUT)
        .with_retry_policy(RETRY_POLICY)
        .with_cost(7)
}

fn assert_attributed(attributes: Option<&Attributes>, n: usize) {
    let attributes = attributes.expect("the job has attributes");
    assert_eq!(attributes.key.as_deref(), Some(&*format!("tenant-{n}")));
    let meta: serde_json::Value =
        serde_json::from_str(attributes.meta.as_ref().expect("it has meta").as_str()).expect("JSON");
    assert_eq!(meta, serde_json::json!({"trace": "ä\"", "deep": [1, {"a": null}]}));
    assert!(attributes.tracked);
    assert_eq!(attributes.tags, ["urgent", "ä \"quoted\""]);
    assert_eq!((attributes.timeout, attributes.retry_policy), (Some(TIMEOUT), Some(RETRY_POLICY)));
    assert_eq!(attributes.cost, Some(7));
}

/// Attributes reach the worker and the operator, whatever way the job was enqueued, also beside jobs without.
pub async fn they_reach_the_handler(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue(&store, attributed(0)).await;
    let mut few = jobs(3);
    few[1] = attributed(1);
    store.enqueue(&few).await.expect("enqueue a few");
    let mut many = jobs(40);
    many[20] = attributed(2);
    store.enqueue_once("key", &many).await.expect("enqueue once");
    store.enqueue(&many).await.expect("enqueue many");

    let held = worker_on(&store).await.take(84).await;
    let found: Vec<_> = held.iter().filter(|held| held.job.attributes.is_some()).collect();
    assert_eq!(found.len(), 4, "nobody else has any");
    for (held, n) in found.iter().zip([0, 1, 2, 2]) {
        assert_attributed(held.job.attributes.as_deref(), n);
        let record = record(&store, held.job.id).await;
        assert_eq!(record.key.as_deref(), Some(&*format!("tenant-{n}")));
        assert!(record.meta.is_some());
        assert_eq!(record.tags, ["urgent", "ä \"quoted\""]);
        assert_eq!((record.timeout, record.retry_policy), (Some(TIMEOUT), Some(RETRY_POLICY)));
        assert_eq!((record.cost, held.job.cost()), (Some(7), 7));
    }
    let plain = record(&store, held[1].job.id).await;
    assert_eq!((plain.key, plain.meta, plain.result), (None, None, None));
    assert_eq!((plain.timeout, plain.retry_policy, plain.expires_at), (None, None, None));
    assert_eq!((plain.cost, held[1].job.cost()), (None, 1));
    assert!(plain.tags.is_empty());
}

/// A job keeps them when it is scheduled, retried, snoozed, handed back, rescued, without a handler, discarded,
/// and retried by hand.
pub async fn they_survive_every_move(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, attributed(7).with_delay(Duration::from_millis(1))).await;
    assert_eq!(record(&store, id).await.key.as_deref(), Some("tenant-7"));
    let worker_a = worker_on(&store).await;
    for disposition in [
        Disposition::Retry { delay: Duration::ZERO, error: "no".into() },
        Disposition::Snooze { delay: Duration::ZERO },
        Disposition::Return,
        Disposition::NoHandler,
    ] {
        let held = worker_a.take_when_due(1).await.remove(0);
        assert_attributed(held.job.attributes.as_deref(), 7);
        worker_a.except(&held, disposition).await;
    }
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    assert_attributed(dying.take_when_due(1).await[0].job.attributes.as_deref(), 7);
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let held = worker_a.take_when_due(1).await.remove(0);
    worker_a.except(&held, Disposition::Discard { error: "no".into(), failed: true }).await;
    assert_eq!(record(&store, id).await.key.as_deref(), Some("tenant-7"));
    store.retry(&[id]).await.expect("retry");
    assert_attributed(worker_a.take_when_due(1).await[0].job.attributes.as_deref(), 7);
}

/// Keys that are empty or too long, meta that is too large or no object, absurd times and numbers: refused, and nothing is enqueued.
pub async fn they_are_limited(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(Limits::MAX_META_BYTES));
    for (bad, kind) in [
        (job().with_key(""), ErrorKind::InvalidOption),
        (job().with_key("k".repeat(201)), ErrorKind::InvalidOption),
        (job().with_key("a\0b"), ErrorKind::InvalidOption),
        (job().with_tag("t".repeat(101)), ErrorKind::InvalidOption),
        (job().with_tags((0..21).map(|n| n.to_string())), ErrorKind::InvalidOption),
        (job().with_cost(0), ErrorKind::InvalidOption),
        (job().with_cost(Limits::MAX_COST + 1), ErrorKind::InvalidOption),
        (job().with_timeout(Duration::ZERO), ErrorKind::InvalidOption),
        (job().with_timeout(Duration::MAX), ErrorKind::InvalidOption),
        (job().with_retry_policy(RetryPolicy { factor: f64::NAN, ..RETRY_POLICY }), ErrorKind::InvalidOption),
        (job().with_expiry(Duration::ZERO), ErrorKind::InvalidOption),
        (job().with_expiry(Duration::MAX), ErrorKind::InvalidOption),
        (job().with_expires_at(Timestamp::MIN), ErrorKind::InvalidOption),
        (job().with_delay(LATER).with_expiry(LATER), ErrorKind::InvalidOption),
        (job().with_meta(Args::parse("[1]").expect("JSON")), ErrorKind::InvalidArgs),
        (job().with_meta(Args::parse(&large).expect("JSON")), ErrorKind::InvalidArgs),
    ] {
        let error = store.enqueue(&[job(), bad]).await.expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
    }
    worker_on(&store).await.finds_nothing().await;
}
