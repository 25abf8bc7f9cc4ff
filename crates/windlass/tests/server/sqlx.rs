//! Jobs inside transactions of sqlx.

use crate::adapters::{Transfer, check, connect, one_of_each, until_completed, url};
use sqlx::PgPool;
use tokio::sync::mpsc;
use windlass::{Client, Context, Data, ErrorKind, NewJob, Worker};

#[tokio::test]
async fn a_job_exists_if_and_when_the_transaction_commits() {
    let (client, pool) = (connect("sqlx_enqueue_in").await, PgPool::connect(&url()).await.unwrap());
    let mut tx = pool.begin().await.unwrap();
    let id = client.enqueue_in(&mut tx, Transfer { cents: 1 }).await.unwrap();
    tx.rollback().await.unwrap();
    assert!(client.job(id).await.unwrap().is_none());

    let mut tx = pool.begin().await.unwrap();
    let together = client.enqueue_many_in(&mut tx, one_of_each()).await.unwrap();
    let mut single = Vec::new();
    for job in one_of_each() {
        single.push(client.enqueue_in(&mut *tx, job).await.unwrap());
    }
    assert_eq!(client.enqueue_many_in(&mut tx, Vec::<NewJob>::new()).await.unwrap(), []);
    tx.commit().await.unwrap();
    check(&client, &together).await;
    check(&client, &single).await;
    client.close().await;
}

#[tokio::test]
async fn errors_are_told_apart() {
    let (client, pool) = (connect("sqlx_errors").await, PgPool::connect(&url()).await.unwrap());
    let mut tx = pool.begin().await.unwrap();
    let bad = windlass::NewJob::new("a b", windlass::Args::parse("1").unwrap());
    let error = client.enqueue_in(&mut tx, bad).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    let elsewhere = windlass::ConnectOptions::default().with_schema("sqlx_nowhere");
    let elsewhere = Client::connect_with(&url(), elsewhere).await.unwrap();
    let error = elsewhere.enqueue_in(&mut tx, Transfer { cents: 1 }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMissing, "{error}");
    client.close().await;
}

async fn transfer(
    job: Transfer,
    ctx: Context,
    data: Data<(Client, PgPool)>,
    told: Data<Told>,
) -> anyhow::Result<()> {
    let (client, pool) = &*data.0;
    let mut connection = pool.acquire().await?;
    let apart = client.complete_in(&mut *connection, &ctx).await.unwrap_err();
    assert_eq!(apart.kind(), ErrorKind::InvalidOption, "{apart}");
    sqlx::query("begin").execute(&mut *connection).await?;
    client.complete_in(&mut *connection, &ctx).await?;
    sqlx::query("rollback").execute(&mut *connection).await?;
    drop(connection);
    let mut tx = pool.begin().await?;
    let insert = sqlx::query("insert into sqlx_ledger values ($1, $2)").bind(ctx.id().0).bind(job.cents);
    insert.execute(&mut *tx).await?;
    client.complete_in(&mut tx, &ctx).await?;
    tx.commit().await?;
    let mut tx = pool.begin().await?;
    let again = client.complete_in(&mut tx, &ctx).await.unwrap_err();
    told.send(again.kind())?;
    Ok(())
}

type Told = mpsc::UnboundedSender<ErrorKind>;

#[tokio::test]
async fn a_job_completes_with_its_effects_exactly_once() {
    let (client, pool) = (connect("sqlx_complete_in").await, PgPool::connect(&url()).await.unwrap());
    sqlx::raw_sql("create table sqlx_ledger (job bigint, cents bigint)").execute(&pool).await.unwrap();
    let (sender, mut told) = mpsc::unbounded_channel::<ErrorKind>();
    let ids = client.enqueue_many((1..=20).map(|cents| Transfer { cents })).await.unwrap();
    let data = (client.clone(), pool.clone());
    let worker = Worker::builder(&client).handle(transfer).data(data).data(sender).start().await.unwrap();
    for id in &ids {
        assert_eq!(told.recv().await.unwrap(), ErrorKind::LeaseLost);
        until_completed(&client, *id).await;
    }
    worker.shutdown().await;
    let sums = "select count(*), sum(cents)::bigint from sqlx_ledger";
    assert_eq!(sqlx::query_as::<_, (i64, i64)>(sums).fetch_one(&pool).await.unwrap(), (20, 210));
    client.close().await;
}
