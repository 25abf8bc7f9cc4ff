//! Jobs inside the user's own PostgreSQL transactions.

use std::{sync::Arc, time::Duration};
use tokio::sync::{Mutex, mpsc};
use tokio_postgres::NoTls;
use windlass::{Client, ConnectOptions, ErrorKind, Job, JobId, JobState, Worker};

#[derive(serde::Serialize, serde::Deserialize)]
struct Transfer {
    cents: i64,
}

impl Job for Transfer {
    const KIND: &'static str = "transfer";
}

/// A client and a connection of the user's own.
async fn connect(schema: &str) -> (Client, tokio_postgres::Client) {
    let url = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test -p windlass`");
    let client = Client::connect_with(&url, ConnectOptions::default().with_schema(schema)).await.unwrap();
    client.migrate().await.unwrap();
    let (db, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (client, db)
}

async fn until(client: &Client, id: JobId, state: JobState) {
    let wait = async {
        while client.job(id).await.unwrap().is_none_or(|job| job.state != state) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap();
}

#[tokio::test]
async fn a_job_exists_if_and_when_the_transaction_commits() {
    let (client, mut db) = connect("facade_enqueue_in").await;
    let tx = db.transaction().await.unwrap();
    let id = client.enqueue_in(&tx, Transfer { cents: 1 }).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(client.job(id).await.unwrap().is_none());
    let tx = db.transaction().await.unwrap();
    let ids = client.enqueue_many_in(&tx, (1..=3).map(|cents| Transfer { cents })).await.unwrap();
    tx.commit().await.unwrap();
    for id in ids {
        assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Available);
    }
    client.close().await;
}

#[tokio::test]
async fn a_job_completes_with_its_effects_exactly_once() {
    let (client, db) = connect("facade_complete_in").await;
    db.batch_execute("create table if not exists facade_ledger (job bigint, cents bigint)").await.unwrap();
    let (db, (sender, mut done)) = (Arc::new(Mutex::new(db)), mpsc::unbounded_channel());
    let (own, connection) = (client.clone(), Arc::clone(&db));
    let handler = move |transfer: Transfer, ctx: windlass::Context| {
        let (client, db, sender) = (own.clone(), Arc::clone(&connection), sender.clone());
        async move {
            let mut db = db.lock().await;
            let tx = db.transaction().await?;
            tx.execute("insert into facade_ledger values ($1, $2)", &[&ctx.id().0, &transfer.cents]).await?;
            client.complete_in(&tx, &ctx).await?;
            tx.commit().await?;
            sender.send(ctx.id())?;
            anyhow::Ok(())
        }
    };
    let ids = client.enqueue_many((1..=50).map(|cents| Transfer { cents })).await.unwrap();
    let worker = Worker::builder(&client).queue("default", 8).handle(handler).start().await.unwrap();
    for _ in &ids {
        done.recv().await.unwrap();
    }
    for id in &ids {
        until(&client, *id, JobState::Completed).await;
    }
    worker.shutdown().await;
    let db = db.lock().await;
    let row = db.query_one("select count(*), sum(cents)::bigint from facade_ledger", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (50, 1275));
    client.close().await;
}

#[tokio::test]
async fn other_stores_say_that_they_cannot() {
    let (_, mut db) = connect("facade_unsupported").await;
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("jobs.db").display());
    let client = Client::connect(&url).await.unwrap();
    let tx = db.transaction().await.unwrap();
    let error = client.enqueue_in(&tx, Transfer { cents: 1 }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
