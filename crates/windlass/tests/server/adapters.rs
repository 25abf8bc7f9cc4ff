//! What the adapters of all drivers are tested with.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test binary uses its part")]

use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{
    Args, Client, ConnectOptions, IntoJob, Job, JobId, JobRecord, JobState, NewJob, RetryPolicy, Timestamp,
};

#[derive(Serialize, Deserialize)]
pub struct Transfer {
    pub cents: i64,
}

impl Job for Transfer {
    const KIND: &'static str = "transfer";
}

/// Its args are `null`.
#[derive(Serialize, Deserialize)]
pub struct Sweep;

impl Job for Sweep {
    const KIND: &'static str = "sweep";
    const QUEUE: &'static str = "side";
    const PRIORITY: i16 = -7;
    const MAX_ATTEMPTS: u16 = 3;
}

pub fn url() -> String {
    std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test -p windlass`")
}

pub async fn connect(schema: &str) -> Client {
    let client = Client::connect_with(&url(), ConnectOptions::default().with_schema(schema)).await.unwrap();
    client.migrate().await.unwrap();
    client
}

const DAY: Duration = Duration::from_secs(86_400);

/// A job of each sort: due at once, after a delay, at a time, and at a time that is over.
pub fn one_of_each() -> Vec<NewJob> {
    let transfer = |cents| Transfer { cents }.into_job().unwrap();
    vec![
        transfer(1),
        transfer(2).with_delay(DAY),
        transfer(3).with_scheduled_at(Timestamp::now() + 2 * DAY),
        transfer(4).with_scheduled_at(Timestamp::UNIX_EPOCH),
        Sweep.into_job().unwrap(),
        transfer(6)
            .with_key("acme's")
            .with_meta(Args::parse(r#"{"trace": "a\\b"}"#).unwrap())
            .with_tracking(),
        transfer(7).with_key("both").with_delay(DAY).with_tracking(),
        transfer(8)
            .with_timeout(Duration::from_millis(1_500))
            .with_retry_policy(RetryPolicy::linear(Duration::from_secs(3)))
            .with_expiry(DAY)
            .with_tags(["urgent", "a \"b\", {c}"]),
        transfer(9).with_expires_at(Timestamp::UNIX_EPOCH),
    ]
}

/// That the store has the jobs of [`one_of_each`] under these ids, in this order.
pub async fn check(client: &Client, ids: &[JobId]) {
    let mut jobs: Vec<JobRecord> = Vec::new();
    for id in ids {
        jobs.push(client.job(*id).await.unwrap().unwrap());
    }
    let states = jobs.iter().map(|job| job.state);
    let (available, scheduled) = (JobState::Available, JobState::Scheduled);
    assert_eq!(
        states.collect::<Vec<_>>(),
        [available, scheduled, scheduled, available, available, available, scheduled, available, available]
    );
    for (days, job) in [(1, &jobs[1]), (2, &jobs[2])] {
        let wait = job.scheduled_at.unwrap().duration_since(Timestamp::now()).as_hours();
        assert!((days * 24 - 1..=days * 24).contains(&wait), "{job:?}");
    }
    for (cents, job) in (1..).zip(&jobs[..4]) {
        let args: Transfer = serde_json::from_str(job.args.as_str()).unwrap();
        assert_eq!((args.cents, &*job.kind, &*job.queue, job.priority), (cents, "transfer", "default", 0));
    }
    let sweep = &jobs[4];
    assert_eq!((&*sweep.kind, &*sweep.queue, sweep.priority, sweep.max_attempts), ("sweep", "side", -7, 3));
    assert_eq!(sweep.args.as_str(), "null");
    assert_eq!(
        (sweep.key.as_ref(), sweep.meta.is_none(), jobs[6].key.as_deref()),
        (None, true, Some("both"))
    );
    assert_eq!(jobs[5].key.as_deref(), Some("acme's"));
    let meta: serde_json::Value = serde_json::from_str(jobs[5].meta.as_ref().unwrap().as_str()).unwrap();
    assert_eq!(meta, serde_json::json!({"trace": "a\\b"}));
    let timed = &jobs[7];
    assert_eq!(timed.timeout, Some(Duration::from_millis(1_500)));
    assert_eq!(timed.retry_policy, Some(RetryPolicy::linear(Duration::from_secs(3))));
    assert_eq!(timed.tags, ["urgent", "a \"b\", {c}"]);
    let lives = timed.expires_at.unwrap().duration_since(timed.enqueued_at).as_hours();
    assert!((23..=24).contains(&lives), "{timed:?}");
    assert_eq!(jobs[8].expires_at, Some(Timestamp::UNIX_EPOCH));
    assert_eq!((jobs[0].timeout, jobs[0].retry_policy, jobs[0].expires_at), (None, None, None));
    assert!(jobs[0].tags.is_empty());
}

pub async fn until_completed(client: &Client, id: JobId) {
    let wait = async {
        while client.job(id).await.unwrap().is_none_or(|job| job.state != JobState::Completed) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap();
}
