//! Each access by a role of its own: what it may, what it may not, and what migrations make of it.

use crate::cluster::{Fixture, connect};
use std::{sync::Arc, time::Duration};
use tokio_postgres::{Client, error::SqlState};
use windlass_conformance::steps::{LATER, QUEUE, job, jobs, worker};
use windlass_core::{
    Args, Disposition, Error, ErrorKind, JobFilter, JobId, JobStore, Leader, Settings, Store, WorkerId,
    WorkerSpec,
};
use windlass_postgres::{Access, PostgresStore};

/// Nothing settled stays, and segments are small.
const SMALL: Settings = Settings::DEFAULT.with_retention(Duration::ZERO).with_segment_bytes(1 << 20);

async fn open(fixture: &Fixture, url: &str) -> PostgresStore {
    PostgresStore::connect(url, fixture.options.clone()).await.expect("connects")
}

/// A plain connection as the role of that URL.
async fn sql(url: &str) -> Client {
    connect(url.split('?').next().unwrap()).await
}

/// The error of a role that lacks a right, and the access that it names as the remedy.
#[track_caller]
fn refused<T>(reply: Result<T, Error>, access: &str) {
    let error = reply.err().expect("is refused");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let remedy = format!("`windlass grant {access} ROLE`");
    assert!(
        error.to_string().contains("permission denied for") && error.to_string().contains(&remedy),
        "{error}"
    );
}

#[track_caller]
fn same<T: std::fmt::Debug>(one: &T, other: &T) {
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

async fn all_refused(fixture: &Fixture, client: &Client, statements: &[&str]) {
    for statement in statements {
        let error = client.batch_execute(&fixture.text(statement)).await.expect_err(statement);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}: {error}");
    }
}

/// Every way in which the client libraries store jobs; returns how many are available at once.
async fn enqueue_by_all_ways(store: &PostgresStore, transaction: &mut Client) -> usize {
    let (one, many) = (jobs(1), jobs(600)); // more than one statement stores
    store.enqueue(&one).await.expect("one");
    let at_once = (0..20).map(|_| store.enqueue(&one));
    for reply in futures_util::future::join_all(at_once).await {
        reply.expect("calls that go together");
    }
    store.enqueue(&jobs(3)).await.expect("a few");
    store.enqueue(&many).await.expect("many");
    let attributed = job().with_key("acme");
    store.enqueue(std::slice::from_ref(&attributed)).await.expect("attributes");
    store.enqueue(&vec![attributed.clone(); 20]).await.expect("a few with attributes");
    store.enqueue(&vec![attributed; 600]).await.expect("many with attributes");
    let later = job().with_delay(LATER);
    store.enqueue(std::slice::from_ref(&later)).await.expect("a scheduled one");
    store.enqueue(&vec![later.clone(); 20]).await.expect("a few scheduled ones");
    store.enqueue(&vec![later.clone(); 600]).await.expect("many scheduled ones");
    assert!(!store.enqueue_once("one", &one).await.expect("once").repeated);
    assert!(store.enqueue_once("one", &one).await.expect("once more").repeated);
    store.enqueue_once("many", &many).await.expect("many once");
    let tx = transaction.transaction().await.unwrap();
    store.enqueue_in(&tx, &one).await.expect("in a transaction");
    store.enqueue_in(&tx, &many).await.expect("many in a transaction");
    store.enqueue_in(&tx, &[later]).await.expect("a scheduled one in a transaction");
    tx.commit().await.unwrap();
    let tx = transaction.transaction().await.unwrap();
    store.enqueue_in(&tx, &many).await.expect("in a transaction that rolls back");
    tx.rollback().await.unwrap();
    1 + 20 + 3 + 600 + 1 + 20 + 600 + 1 + 600 + 1 + 600
}

const BY_SQL: &str = "SELECT windlass.enqueue('k', '{}', 'q'); SELECT windlass.enqueue('k', scheduled_at => now() + interval '1 day');
    SELECT windlass.enqueue_many('[{\"kind\": \"a\"}, {\"kind\": \"b\", \"queue\": \"slow\"}]');
    SELECT windlass.enqueue_many_unique('[{\"kind\": \"u\", \"unique_key\": \"a\"}, {\"kind\": \"u\", \"unique_key\": \"b\"}]');
    SELECT windlass.enqueue_once('sql', 'k'); SELECT windlass.enqueue_many_once('sql many', '[{\"kind\": \"k\"}]')";
const BY_SQL_AVAILABLE: usize = 1 + 2 + 2 + 1 + 1;

/// What neither kind of producer may do by SQL.
const NOT_FOR_PRODUCERS: [&str; 17] = [
    "SELECT args FROM windlass.job",
    "SELECT args FROM windlass.job_0",
    "SELECT * FROM windlass.waiting",
    "SELECT id FROM windlass.waiting",
    "SELECT * FROM windlass.enqueue_key",
    "SELECT * FROM windlass.jobs",
    "SELECT * FROM windlass.queues",
    "INSERT INTO windlass.job_0 (xid, lane_id, kind, args) VALUES ('1', 1, 'k', '1')",
    "INSERT INTO windlass.job_0 (attempt, lane_id, kind, args) VALUES (-5, 1, 'k', '1')",
    "INSERT INTO windlass.job (lane_id, segment, kind, args) VALUES (1, 0, 'k', '1')",
    "UPDATE windlass.job_0 SET args = '1'",
    "DELETE FROM windlass.waiting",
    "TRUNCATE windlass.job_0",
    "SELECT setval('windlass.job_id_seq', 1)",
    "SELECT windlass.claim(1, '{q}', '{1}')",
    "SELECT windlass.cancel(1)",
    "SELECT windlass.maintain()",
];

async fn available(fixture: &Fixture) -> usize {
    let queues = fixture.store().await.queues().await.unwrap();
    queues.iter().map(|queue| usize::try_from(queue.available).unwrap()).sum()
}

#[tokio::test]
async fn a_producer_enqueues_and_does_nothing_else() {
    let fixture = Fixture::shared().await;
    let url = fixture.role("producer", &[Access::Producer]).await;
    let (store, mut client) = (open(&fixture, &url).await, sql(&url).await);
    let mut expected = enqueue_by_all_ways(&store, &mut client).await;
    client.batch_execute(&fixture.text(BY_SQL)).await.expect("by SQL");
    expected += BY_SQL_AVAILABLE;
    assert_eq!(available(&fixture).await, expected);

    let worker = WorkerSpec {
        name: "w".to_owned(),
        queues: vec![QUEUE.to_owned()],
        kinds: vec![],
        lease: LATER,
        program: Default::default(),
    };
    refused(store.job(JobId(1)).await, "viewer");
    refused(store.jobs(&JobFilter::default()).await, "viewer");
    refused(store.queues().await, "viewer");
    refused(store.status().await, "viewer");
    refused(store.settings().await, "viewer");
    refused(store.any_available(&[], &[]).await, "viewer");
    refused(store.cancel(&[JobId(1)]).await, "operator");
    refused(store.retry(&[JobId(1)]).await, "operator");
    refused(store.pause(QUEUE, true).await, "operator");
    refused(store.configure(&SMALL).await, "operator");
    refused(store.register(&worker).await, "worker");
    refused(store.promote(1).await, "worker");
    refused(store.rescue(WorkerId(1)).await, "worker");
    refused(store.maintain().await, "worker");
    refused(store.lead(WorkerId(1), LATER).await, "worker");
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("belongs to role \"postgres\""), "{error}");
    all_refused(&fixture, &client, &NOT_FOR_PRODUCERS).await;
}

#[tokio::test]
async fn a_producer_works_behind_a_transaction_pooler() {
    let fixture = Fixture::with("&pooler=transaction").await;
    let url = fixture.role("pooled", &[Access::Producer]).await;
    let expected = enqueue_by_all_ways(&open(&fixture, &url).await, &mut sql(&url).await).await;
    assert_eq!(available(&fixture).await, expected);
}

#[tokio::test]
async fn a_sql_producer_has_the_functions_alone() {
    let fixture = Fixture::shared().await;
    let url = fixture.role("sql", &[Access::SqlProducer]).await;
    let client = sql(&url).await;
    client.batch_execute(&fixture.text(BY_SQL)).await.expect("by SQL");
    assert_eq!(available(&fixture).await, BY_SQL_AVAILABLE);
    refused(open(&fixture, &url).await.enqueue(&jobs(1)).await, "producer");
    all_refused(&fixture, &client, &NOT_FOR_PRODUCERS).await;
    let more = [
        "SELECT id FROM windlass.job_0",
        "INSERT INTO windlass.job_0 (lane_id, kind, args) VALUES (1, 'k', '1')",
    ];
    all_refused(&fixture, &client, &more).await;
}

/// Housekeeping empties segments, as the owner's does; the role itself may not.
#[tokio::test]
async fn a_worker_keeps_house() {
    let fixture = Fixture::shared().await;
    fixture.store().await.configure(&SMALL).await.unwrap();
    let url = fixture.role("worker", &[Access::Worker]).await;
    let store = Arc::new(open(&fixture, &url).await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    let worker = worker(&seam, &[QUEUE], &[], LATER).await;
    let mut truncated = 0;
    for _ in 0..8 {
        store.enqueue(&jobs(10_000)).await.unwrap();
        truncated += store.maintain().await.expect("maintains").truncated;
        assert_eq!(worker.drain(5_000).await.len(), 10_000);
        truncated += store.maintain().await.expect("maintains").truncated;
    }
    assert!(truncated > 0);
    assert!(store.lead(worker.id, LATER).await.unwrap());
    store.resign(worker.id).await.unwrap();

    let client = sql(&url).await;
    all_refused(
        &fixture,
        &client,
        &[
            &NOT_FOR_PRODUCERS[..14],
            &[
                "TRUNCATE windlass.claim_0",
                "DELETE FROM windlass.settlement",
                "UPDATE windlass.worker SET ended_at = now()",
                "SELECT windlass.cancel(1)",
                "SELECT windlass.configure()",
                "SELECT windlass.truncate_segment(0::smallint)",
                "SELECT windlass.write_outcomes(1, '[]', 0::smallint)",
            ],
        ]
        .concat(),
    )
    .await;
    refused(store.jobs(&JobFilter::default()).await, "viewer");
}

#[tokio::test]
async fn a_worker_completes_in_its_users_transaction() {
    let fixture = Fixture::shared().await;
    let url = fixture.role("worker", &[Access::Worker]).await;
    let store = Arc::new(open(&fixture, &url).await);
    let seam: Arc<dyn Store> = Arc::clone(&store) as _;
    let ids = store.enqueue(&jobs(1)).await.unwrap();
    let worker = worker(&seam, &[QUEUE], &[], LATER).await;
    let held = worker.take_one().await;
    let lease = windlass_core::JobLease {
        worker: worker.id,
        claim: held.claim,
        job: held.job.id,
        position: held.job.position,
    };
    let mut client = sql(&url).await;
    let tx = client.transaction().await.unwrap();
    store.complete_in(&tx, lease).await.expect("completes");
    store.enqueue_in(&tx, &jobs(1)).await.expect("a handler enqueues");
    tx.commit().await.unwrap();
    let done = fixture.store().await.job(ids[0]).await.unwrap().unwrap();
    assert_eq!(done.state, windlass_core::JobState::Completed);
}

/// A viewer sees what the owner sees and changes nothing; an operator acts.
#[tokio::test]
async fn viewers_look_and_operators_act() {
    let fixture = Fixture::shared().await;
    let owner = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = Arc::clone(&owner) as _;
    let ids = owner.enqueue(&jobs(30)).await.unwrap();
    owner.enqueue(&[job().with_delay(LATER)]).await.unwrap();
    let worker = worker(&seam, &[QUEUE], &[], LATER).await;
    let held = worker.take(12).await;
    let result = Args::parse("[1]").ok();
    worker.except(&held[0], Disposition::Complete { result }).await;
    worker.except(&held[1], Disposition::Retry { delay: LATER, error: "no".into() }).await;
    worker.except(&held[2], Disposition::Discard { error: "never".into(), failed: true }).await;

    let url = fixture.role("viewer", &[Access::Viewer]).await;
    let (viewer, client) = (open(&fixture, &url).await, sql(&url).await);
    for state in [
        None,
        Some("running"),
        Some("available"),
        Some("scheduled"),
        Some("retryable"),
        Some("completed"),
        Some("discarded"),
    ] {
        let state = state.map(|state| state.parse().unwrap());
        let filter = JobFilter { state, ..JobFilter::default() };
        let (seen, all) = (viewer.jobs(&filter).await.unwrap(), owner.jobs(&filter).await.unwrap());
        assert!(!all.jobs.is_empty(), "{state:?}");
        same(&seen.jobs, &all.jobs);
    }
    for id in &ids {
        same(&viewer.job(*id).await.unwrap().unwrap(), &owner.job(*id).await.unwrap().unwrap());
    }
    assert_eq!(viewer.queues().await.unwrap(), owner.queues().await.unwrap());
    same(&viewer.status().await.unwrap().workers, &owner.status().await.unwrap().workers);
    assert_eq!(viewer.settings().await.unwrap(), owner.settings().await.unwrap());
    assert!(viewer.any_available(&[QUEUE.to_owned()], &[]).await.unwrap());
    for view in ["jobs", "queues", "cursor", "unclaimed", "exceptional"] {
        client.query(&fixture.text(&format!("SELECT * FROM windlass.{view}")), &[]).await.expect(view);
    }
    refused(viewer.enqueue(&jobs(1)).await, "producer");
    refused(viewer.cancel(&[ids[29]]).await, "operator");
    refused(viewer.configure(&SMALL).await, "operator");
    let writes = [
        "DELETE FROM windlass.dead",
        "UPDATE windlass.queue SET paused_at = now()",
        "TRUNCATE windlass.job",
        "SELECT windlass.enqueue('k')",
        "SELECT windlass.pause('q')",
        "SELECT windlass.claim(1, '{q}', '{1}')",
        "SELECT key FROM windlass.enqueue_key",
    ];
    all_refused(&fixture, &client, &writes).await;

    let url = fixture.role("operator", &[Access::Operator]).await;
    let operator = open(&fixture, &url).await;
    assert_eq!(operator.cancel(&[ids[29]]).await.unwrap(), [windlass_core::CancelReply::Cancelled]);
    assert_eq!(operator.retry(&[ids[29]]).await.unwrap(), [windlass_core::RetryReply::Retried]);
    operator.pause(QUEUE, true).await.unwrap();
    operator.pause(QUEUE, false).await.unwrap();
    operator.configure(&SMALL).await.unwrap();
    assert_eq!(operator.settings().await.unwrap(), SMALL);
    refused(operator.enqueue(&jobs(1)).await, "producer");
    refused(operator.maintain().await, "worker");
    all_refused(&fixture, &sql(&url).await, &writes[..4]).await;
}
