//! Encrypted jobs on PostgreSQL: inside transactions, past jsonb, and swapped by SQL.

use crate::adapters::url;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use windlass::{
    Client, ConnectOptions, Envelope, Job, JobId, JobRecord, JobState, Keyring, Outcome, RetryReply,
    SqlParam, Worker,
};

const SECRET: &str = "hunter2-of-ada";

#[derive(Serialize, Deserialize)]
struct Login {
    password: String,
}

impl Job for Login {
    const KIND: &'static str = "login";
    const ENCRYPTED: bool = true;
}

fn login(nth: usize) -> Login {
    Login { password: format!("{SECRET} {nth}") }
}

/// A client without keys, and a connection.
async fn connect(schema: &str) -> (Client, tokio_postgres::Client) {
    let options = ConnectOptions::default().with_schema(schema);
    let client = Client::connect_with(&url(), options).await.unwrap();
    client.migrate().await.unwrap();
    let (db, connection) = tokio_postgres::connect(&url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    (client, db)
}

async fn worker(client: &Client) -> Worker {
    Worker::builder(client)
        .handle(|job: Login| async move { Outcome::complete_with(&job.password) })
        .start()
        .await
        .unwrap()
}

async fn until(client: &Client, id: JobId, state: JobState) -> JobRecord {
    let wait = async {
        loop {
            match client.job(id).await.unwrap() {
                Some(job) if job.state == state => return job,
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the job gets there")
}

#[tokio::test]
async fn every_way_in_seals_and_jsonb_changes_nothing() {
    let (plain, mut db) = connect("facade_encryption").await;
    let client = plain.clone().with_keyring(Keyring::new("k1", [1; 32]).unwrap());
    let tx = db.transaction().await.unwrap();
    let mut ids = vec![client.enqueue_in(&tx, login(0)).await.unwrap()];
    ids.extend(client.enqueue_many_in(&tx, (1..100).map(login)).await.unwrap());
    let call = client.enqueue_sql(login(100)).unwrap();
    assert!(!format!("{call:?}").contains(SECRET));
    let [kind, args, queue, priority, attempts, meta] = &call.params[..] else { panic!("{call:?}") };
    let text = |param: &SqlParam| match param {
        SqlParam::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((priority, attempts), (&SqlParam::Int4(0), &SqlParam::Int4(20)));
    let params = [text(kind), text(args), text(queue), text(meta)];
    let row = db_row(&tx, &call.text, &params).await;
    ids.push(JobId(row));
    tx.commit().await.unwrap();
    ids.push(client.enqueue(login(101)).await.unwrap());
    ids.extend(client.enqueue_many((102..2_000).map(login)).await.unwrap());
    assert!(client.job(ids[100]).await.unwrap().unwrap().args.as_str().starts_with(r#"{"windlass.enc": {"#));
    let rows = "select args::text || attributes from facade_encryption.job";
    for row in db.query(rows, &[]).await.unwrap() {
        assert!(!row.get::<_, &str>(0).contains(SECRET));
    }
    let worker = worker(&client).await;
    for (nth, id) in ids.into_iter().enumerate().filter(|(nth, _)| *nth <= 102 || *nth == 1_999) {
        let job = until(&client, id, JobState::Completed).await;
        assert_eq!(Envelope::describe(&job.args).unwrap(), "[encrypted, key k1]");
        assert!(!job.result.unwrap().as_str().contains(SECRET));
        assert_eq!(client.result::<String>(id).await.unwrap().unwrap(), format!("{SECRET} {nth}"));
    }
    worker.shutdown().await;
    client.close().await;
}

/// Runs the call of one job: four texts and two small numbers.
async fn db_row(tx: &tokio_postgres::Transaction<'_>, text: &str, params: &[String; 4]) -> i64 {
    let [kind, args, queue, meta] = params;
    tx.query_one(text, &[kind, args, queue, &0_i32, &20_i32, meta]).await.unwrap().get(0)
}

#[tokio::test]
async fn swapped_envelopes_are_refused() {
    let (plain, db) = connect("facade_encryption_swap").await;
    let client = plain.clone().with_keyring(Keyring::new("k1", [1; 32]).unwrap());
    let ids = client.enqueue_many([login(0), login(1), login(2)]).await.unwrap();
    let swap = "update facade_encryption_swap.job j set args = o.args from facade_encryption_swap.job o
        where j.id + o.id = $1 and j.id <> o.id";
    assert_eq!(db.execute(swap, &[&(ids[0].0 + ids[1].0)]).await.unwrap(), 2);
    let worker = worker(&client).await;
    for id in &ids[..2] {
        let job = until(&client, *id, JobState::Discarded).await;
        assert!(job.reason.unwrap().contains("belongs to another job"));
    }
    until(&client, ids[2], JobState::Completed).await;
    worker.shutdown().await;
    client.close().await;
}

#[tokio::test]
async fn a_job_without_its_key_waits_for_it() {
    let (plain, _) = connect("facade_encryption_lost").await;
    let client = plain.clone().with_keyring(Keyring::new("k1", [1; 32]).unwrap());
    let id = client.enqueue_with(login(0), |job| job.with_max_attempts(1)).await.unwrap();
    let keyless = worker(&plain).await;
    for looks in 1..=3 {
        while keyless.stats().snoozed < looks {
            tokio::task::yield_now().await;
        }
        // Its worker may not have said yet that it waits.
        while looks < 3 && client.retry(&[id]).await.unwrap() != [RetryReply::Retried] {
            tokio::task::yield_now().await;
        }
    }
    keyless.shutdown().await;
    let job = client.job(id).await.unwrap().unwrap();
    assert_eq!((job.state, job.attempt, job.errors.len()), (JobState::Retryable, 0, 1), "{job:?}");
    assert!(job.errors[0].error.starts_with("undecryptable: key k1 is not in the keyring"), "{job:?}");
    let worker = worker(&client).await;
    client.retry(&[id]).await.unwrap();
    assert_eq!(until(&client, id, JobState::Completed).await.attempt, 1);
    assert_eq!(client.result::<String>(id).await.unwrap().unwrap(), format!("{SECRET} 0"));
    worker.shutdown().await;
    client.close().await;
}
