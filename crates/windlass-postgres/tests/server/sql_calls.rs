//! The calls that other drivers run say all that a job says.

use crate::cluster::Fixture;
use std::time::Duration;
use tokio_postgres::types::ToSql;
use windlass_core::{Args, ErrorKind, JobId, JobStore, NewJob, RetryPolicy, Unique};
use windlass_postgres::{SqlCall, SqlParam};

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn times_and_tags_go_with_one_job_and_with_many() {
    let fixture = Fixture::fresh().await;
    let (client, store) = (fixture.sql().await, fixture.store().await);
    let plain = NewJob::new("k", Args::parse("{}").unwrap());
    let timed = (plain.clone().with_timeout(Duration::from_millis(1_500)).with_expiry(DAY))
        .with_retry_policy(RetryPolicy::linear(Duration::from_secs(3)))
        .with_tags(["urgent", "a \"b\", {c}"])
        .with_cost(12);
    let once = store.enqueue_many_once_sql("order/7", &[timed.clone(), plain.clone()]).unwrap();
    let calls = [
        store.enqueue_sql(&timed).unwrap(),
        store.enqueue_many_sql(&[timed.clone(), plain.clone()]).unwrap(),
        store.enqueue_many_sql(&[plain]).unwrap(),
        once.clone(),
        once,
    ];
    let mut jobs = Vec::new();
    for SqlCall { text, params, .. } in &calls {
        let params: Vec<&(dyn ToSql + Sync)> = params
            .iter()
            .map(|param| match param {
                SqlParam::Text(value) => value as &(dyn ToSql + Sync),
                SqlParam::Int4(value) => value,
                SqlParam::Int8(value) => value,
            })
            .collect();
        for row in client.query(text, &params).await.unwrap() {
            jobs.push(store.job(JobId(row.get(0))).await.unwrap().expect("it is stored"));
        }
    }
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(ids[4..6], ids[6..], "repeated under its key, it stores nothing");
    let (timed, plain): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.timeout.is_some());
    assert_eq!((timed.len(), plain.len()), (4, 4));
    for job in timed {
        assert_eq!(job.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(job.retry_policy, Some(RetryPolicy::linear(Duration::from_secs(3))));
        assert_eq!((&*job.tags, job.cost), (&["urgent".to_owned(), "a \"b\", {c}".to_owned()][..], Some(12)));
        let lives = job.expires_at.unwrap().duration_since(job.enqueued_at).as_hours();
        assert!((23..=24).contains(&lives), "{job:?}");
    }
    for job in plain {
        assert!(job.retry_policy.is_none() && job.expires_at.is_none());
        assert!(job.tags.is_empty() && job.cost.is_none());
    }
}

#[tokio::test]
async fn a_key_that_cannot_be_is_refused_before_it_ends_a_transaction() {
    let store = Fixture::fresh().await.store().await;
    let job = NewJob::new("k", Args::parse("{}").unwrap());
    let unique = job.clone().with_unique(Unique::by_key("a"));
    for (key, job, words) in [("", &job, "1 to 200 bytes"), ("k", &unique, "take no idempotency key")] {
        let error = store.enqueue_many_once_sql(key, std::slice::from_ref(job)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains(words), "{error}");
    }
}
