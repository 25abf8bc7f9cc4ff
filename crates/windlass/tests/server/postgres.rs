//! Jobs inside the user's own PostgreSQL transactions.

use crate::{
    acting,
    adapters::{check, one_of_each},
    cancelling, dying, pausing, waiting,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, mpsc};
use tokio_postgres::NoTls;
use windlass::{
    Client, ConnectOptions, ErrorKind, IntoJob, Job, JobId, JobState, Result, SqlCall, SqlParam,
    SqlTransaction, Worker,
};

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

/// The text alone, with the values written into it: how a driver does it that has none of our types.
struct PlainText<'a>(&'a tokio_postgres::Client);

impl SqlTransaction for PlainText<'_> {
    async fn run(self, call: SqlCall) -> Result<Vec<i64>> {
        let mut text = call.text;
        for (number, param) in (1..).zip(call.params) {
            let value = match param {
                SqlParam::Text(value) => format!("'{}'", value.replace('\'', "''")),
                SqlParam::Int4(value) => value.to_string(),
                SqlParam::Int8(value) => value.to_string(),
            };
            // Cast, as $1 is: `-7::int4` is -(7::int4).
            text = text.replace(&format!("${number}:"), &format!("({value}):"));
        }
        let rows = self.0.simple_query(&text).await.unwrap();
        let row = |row: &_| match row {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get("id").map(|id| id.parse().unwrap()),
            _ => None,
        };
        Ok(rows.iter().filter_map(row).collect())
    }
}

#[tokio::test]
async fn any_driver_can_enqueue() {
    let (client, db) = connect("facade_enqueue_sql").await;
    let together = client.enqueue_many_in(PlainText(&db), one_of_each()).await.unwrap();
    let mut single = Vec::new();
    for job in one_of_each() {
        let ids = PlainText(&db).run(client.enqueue_sql(job).unwrap()).await.unwrap();
        single.extend(ids.into_iter().map(JobId));
    }
    check(&client, &together).await;
    check(&client, &single).await;
    let tracked = "select id from facade_enqueue_sql.job where attributes like '%\"tracked\"%' union all
        select id from facade_enqueue_sql.waiting where attributes like '%\"tracked\"%'";
    let rows = db.query(tracked, &[]).await.unwrap();
    assert_eq!(rows.len(), 4, "two of each");
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

/// What somebody has is waited for once, however many jobs that is; the others are done wherever they are among these.
#[tokio::test]
async fn a_selection_waits_once_for_what_somebody_has() {
    let (client, db) = connect("facade_held").await;
    let of = |queue: &'static str, jobs: i64| {
        (0..jobs).map(|cents| Transfer { cents }.into_job().unwrap().with_queue(queue)).collect::<Vec<_>>()
    };
    let had = client.enqueue_many(of("had", 4_001)).await.unwrap();
    let free = client.enqueue_many(of("free", 400)).await.unwrap();
    db.batch_execute(&format!("begin; select facade_held.cancel({})", had[0])).await.unwrap();
    let url = format!("{}?call_timeout=5", std::env::var("WINDLASS_TEST_POSTGRES").unwrap());
    let options = ConnectOptions::default().with_schema("facade_held");
    let client = Client::connect_with(&url, options).await.unwrap();
    // Every second one of the last chunks.
    let (first, rest) = had[1..].split_at(3_700);
    let mixed = rest.iter().zip(&free).flat_map(|(had, free)| [*had, *free]);
    let ids: Vec<_> = first.iter().copied().chain(mixed).chain(free[300..].iter().copied()).collect();
    let began = Instant::now();
    let error = client.select_ids(ids).cancel().await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed()); // five for each page are 45
    let text = error.to_string();
    assert!(
        text.starts_with("cancel: 4000 of 4400 jobs could not be had, 400 were done: a transaction"),
        "{text}"
    );
    db.batch_execute("rollback").await.unwrap();
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_while_workers_run() {
    let (client, _) = connect("facade_cancel").await;
    let (asking, _) = connect("facade_cancel").await;
    cancelling::a_running_job_is_told(&client, &asking).await;
    cancelling::a_drained_backlog_is_cancelled(&client, 10_000).await;
    cancelling::a_drained_backlog_is_edited(&client, 1_000).await;
    cancelling::what_fails_again_is_retried_once(&client).await;
    client.close().await;
    asking.close().await;
}

#[tokio::test]
async fn what_is_done_for_somebody_is_noted() {
    let (client, _) = connect("facade_acting").await;
    acting::what_is_done_for_somebody_is_noted(&client).await;
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_queue_with_limits() {
    let (client, _) = connect("facade_pause").await;
    pausing::what_was_claimed_ahead_goes_back(&client).await;
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_jobs() {
    let (working, _) = connect("facade_wait").await;
    let (waiting, _) = connect("facade_wait").await;
    waiting::many_wait(&working, &waiting, 1_000).await;
    working.close().await;
    waiting.close().await;
}

/// One that ended, and something that nobody can hurry keeps its jobs from being taken back.
#[tokio::test]
async fn who_waits_until_idle_does_not_wait_for_what_nobody_can_take_back() {
    let (client, db) = connect("facade_kept_back").await;
    let id = client.enqueue(Transfer { cents: 1 }).await.unwrap();
    let dying = dying::holds(&client, id).await;
    let fence = format!("BEGIN; SELECT facade_kept_back.fence({}); PREPARE TRANSACTION 'kept back'", dying.0);
    db.batch_execute(&fence).await.unwrap();
    dying::dies().await;

    let worker = Worker::builder(&client).handle(|_: Transfer| async {}).start().await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), worker.until_idle()).await.unwrap().unwrap();
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Running);
    db.batch_execute("ROLLBACK PREPARED 'kept back'").await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), worker.until_idle()).await.unwrap().unwrap();
    worker.shutdown().await;
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Completed);
    client.close().await;
}
