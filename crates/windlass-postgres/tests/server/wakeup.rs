//! Enqueues announce themselves only where a worker of their queue is idle.

use crate::cluster::Fixture;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::AsyncMessage;
use windlass_conformance::steps::{DEADLINE, LATER, job, jobs, worker};
use windlass_core::{JobStore, Store, Wake, Wakeup};
use windlass_postgres::{Access, PostgresStore};

/// Every payload that is notified, in order; a payload of our own tells that all before it have come.
async fn ear(fixture: &Fixture) -> (tokio_postgres::Client, UnboundedReceiver<String>) {
    let (client, mut connection) =
        tokio_postgres::connect(&crate::cluster::url(), tokio_postgres::NoTls).await.expect("connects");
    let (heard, payloads) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message {
                let _ = heard.send(notification.payload().to_owned());
            }
        }
    });
    client.batch_execute(&format!("LISTEN \"{}\"", fixture.schema)).await.expect("listens");
    (client, payloads)
}

async fn heard(
    fixture: &Fixture,
    client: &tokio_postgres::Client,
    payloads: &mut UnboundedReceiver<String>,
) -> Vec<String> {
    client.batch_execute(&format!("NOTIFY \"{}\", 'that is all'", fixture.schema)).await.expect("notifies");
    let mut heard = Vec::new();
    loop {
        match payloads.recv().await.expect("the connection lives").as_str() {
            "that is all" => return heard,
            payload => heard.push(payload.to_owned()),
        }
    }
}

/// A worker of this queue that is idle: armed, with nothing to claim.
async fn idle(fixture: &Fixture, queue: &str) -> (Arc<dyn Store>, Box<dyn Wakeup>) {
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    worker(&store, &[queue], &[], LATER).await;
    let mut wakeup = store.wakeup();
    arm(fixture, &store, &mut wakeup).await;
    (store, wakeup)
}

/// Armed once the store's connection holds flag 0; it arms again until it listens.
async fn arm(fixture: &Fixture, store: &Arc<dyn Store>, wakeup: &mut Box<dyn Wakeup>) {
    let watcher = fixture.sql().await;
    let flags = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = 0
                 AND classid = (hashtext($1 || '.idle')::bigint & 4294967295)::oid";
    let before: i64 = watcher.query_one(flags, &[&fixture.schema]).await.unwrap().get(0);
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        wakeup.arm().await;
        let now: i64 = watcher.query_one(flags, &[&fixture.schema]).await.unwrap().get(0);
        if now > before {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "never armed: {:?}", store.capabilities());
        wakeup.wait(Duration::from_millis(5)).await;
    }
}

/// Takes what is left of arming, so that the next hint is a new one.
async fn quiet(wakeup: &mut Box<dyn Wakeup>) {
    while wakeup.wait(Duration::from_millis(20)).await == Wake::Hint {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_one_queue_does_not_notify_the_idle_workers_of_another() {
    let fixture = Fixture::shared().await;
    let mut workers = Vec::new();
    for _ in 0..20 {
        workers.push(idle(&fixture, "b").await);
    }
    let (client, mut payloads) = ear(&fixture).await;
    let producer = fixture.store().await;
    for _ in 0..50 {
        producer.enqueue(&[job().with_queue("a")]).await.unwrap();
    }
    producer.enqueue(&vec![job().with_queue("a"); 1_000]).await.unwrap();
    producer.enqueue(&vec![job().with_queue("a").with_delay(LATER); 10]).await.unwrap();
    let calls = (0..50).map(|_| {
        let producer = producer.clone();
        tokio::spawn(async move { producer.enqueue(&[job().with_queue("a")]).await.unwrap() })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    client
        .batch_execute(
            &fixture.text("SELECT windlass.enqueue('k', queue => 'a') FROM generate_series(1, 50)"),
        )
        .await
        .unwrap();
    assert_eq!(heard(&fixture, &client, &mut payloads).await, [""; 0]);

    for (_, wakeup) in &mut workers {
        quiet(wakeup).await;
    }
    producer.enqueue(&[job().with_queue("b")]).await.unwrap();
    for (_, wakeup) in &mut workers {
        assert_eq!(wakeup.wait(DEADLINE).await, Wake::Hint);
    }
    assert_eq!(heard(&fixture, &client, &mut payloads).await, ["b"]);
}

/// Each way to enqueue wakes an idle worker of the queue; plain SQL into the tables wakes all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_enqueue_wakes() {
    let fixture = Fixture::shared().await;
    let (_store, _wakeup) = idle(&fixture, "q").await;
    let (client, mut payloads) = ear(&fixture).await;
    let producer = fixture.store().await;
    for (count, delay) in [(1, None), (3, None), (1_000, None), (1, Some(LATER)), (20, Some(LATER))] {
        let batch: Vec<_> = jobs(count)
            .into_iter()
            .map(|job| delay.map_or(job.clone(), |delay| job.with_delay(delay)))
            .collect();
        producer.enqueue(&batch).await.unwrap();
        let heard = heard(&fixture, &client, &mut payloads).await;
        assert!(
            !heard.is_empty() && heard.iter().all(|payload| payload == "q"),
            "{count} {delay:?}: {heard:?}"
        );
    }
    for (sql, payload) in [
        ("SELECT windlass.enqueue('k', queue => 'q')", "q"),
        ("SELECT windlass.enqueue_many('[{\"kind\": \"k\", \"queue\": \"q\"}]')", "q"),
        ("SELECT windlass.enqueue('k', queue => 'q', scheduled_at => now() + interval '1 day')", "q"),
        ("INSERT INTO windlass.job (lane_id, kind, args) VALUES (windlass.lane_of('q', 0), 'k', '{}')", ""),
        ("INSERT INTO windlass.job_0 (lane_id, kind, args) VALUES (windlass.lane_of('q', 0), 'k', '{}')", ""),
        // What one statement said of its queues does not hold for the next.
        (
            "BEGIN; SELECT windlass.enqueue('k', queue => 'a');
             INSERT INTO windlass.job (lane_id, kind, args) VALUES (windlass.lane_of('q', 0), 'k', '{}'); COMMIT",
            "",
        ),
        // Also not where it stored nothing.
        (
            "BEGIN; SELECT windlass.enqueue_unique('k', queue => 'a', unique_key => 'x');
             SELECT windlass.enqueue_unique('k', queue => 'a', unique_key => 'x');
             INSERT INTO windlass.job (lane_id, kind, args) VALUES (windlass.lane_of('q', 0), 'k', '{}'); COMMIT",
            "",
        ),
    ] {
        client.batch_execute(&fixture.text(sql)).await.unwrap();
        assert_eq!(heard(&fixture, &client, &mut payloads).await, [payload], "{sql}");
    }
}

/// No statement of an enqueue leaves a lock behind, wherever it is interrupted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_enqueue_leaves_no_lock() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let insert =
        fixture.text("SELECT count(windlass.enqueue('k', queue => 'q')) FROM generate_series(1, 200)");
    client.batch_execute("SET statement_timeout = '3ms'").await.unwrap();
    for _ in 0..100 {
        let _ = client.batch_execute(&insert).await;
    }
    // The limit is still on for this statement.
    while client.batch_execute("SET statement_timeout = 0").await.is_err() {}
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    assert_eq!(client.query_one(locks, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// A transaction that is to be prepared turns the wake-up off; polling finds what it brings.
#[tokio::test]
async fn with_the_wakeup_off_a_transaction_can_be_prepared_beside_an_idle_worker() {
    let fixture = Fixture::shared().await;
    let (ear, mut payloads) = ear(&fixture).await;
    let (store, _idle) = idle(&fixture, "q").await;
    let client = fixture.sql().await;
    let enqueue = fixture.text("SELECT windlass.enqueue('k', '{}', 'q')");
    let prepare = "PREPARE TRANSACTION 'with the wakeup off'";
    client.batch_execute(&format!("BEGIN; {enqueue}")).await.unwrap();
    client.batch_execute(prepare).await.expect_err("it has notified");

    client
        .batch_execute(&format!("BEGIN; SET LOCAL windlass.wakeup = off; {enqueue}; {prepare}"))
        .await
        .unwrap();
    client.batch_execute("COMMIT PREPARED 'with the wakeup off'").await.unwrap();
    assert_eq!(heard(&fixture, &ear, &mut payloads).await, [""; 0]);
    assert_eq!(worker(&store, &["q"], &[], LATER).await.drain(10).await.len(), 1);
    // The setting ends with its transaction.
    client.batch_execute(&enqueue).await.unwrap();
    assert_eq!(heard(&fixture, &ear, &mut payloads).await.len(), 1);
}

/// A limit of the role ended the connection that listens while it was idle, again and again; what was announced meanwhile was found by polling.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_idle_sessions_ends_no_listening() {
    let fixture = Fixture::shared().await;
    let admin = fixture.sql().await;
    let version = "SELECT current_setting('server_version_num')::integer >= 140000";
    if !admin.query_one(version, &[]).await.unwrap().get::<_, bool>(0) {
        return;
    }
    let url = fixture.role("idle", &[Access::Worker]).await;
    let role = format!("{}_idle", fixture.name);
    admin.batch_execute(&format!("ALTER ROLE {role} SET idle_session_timeout = '300ms'")).await.unwrap();
    let store: Arc<dyn Store> =
        Arc::new(PostgresStore::connect(&url, fixture.options.clone()).await.unwrap());
    let mut wakeup = store.wakeup();
    arm(&fixture, &store, &mut wakeup).await;
    let listens = "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE usename = $1 AND locktype = 'advisory' AND objid = 0";
    let before: i32 = admin.query_one(listens, &[&role]).await.expect("listens").get(0);
    let plain = url.split('?').next().unwrap();
    let (idle, connection) = tokio_postgres::connect(plain, tokio_postgres::NoTls).await.unwrap();
    connection.await.expect_err("the server ends a session that is idle for so long");
    drop(idle);
    let after = admin.query(listens, &[&role]).await.unwrap();
    assert_eq!(after.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [before]);
}
