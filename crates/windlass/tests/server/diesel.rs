//! Jobs inside transactions of diesel-async.

use crate::adapters::{Transfer, check, connect, one_of_each, until_completed, url};
use diesel::{QueryableByName, sql_query, sql_types::BigInt};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use tokio::sync::{Mutex, mpsc};
use windlass::{Client, Context, Data, ErrorKind, NewJob, Worker};

async fn database() -> AsyncPgConnection {
    AsyncPgConnection::establish(&url()).await.unwrap()
}

#[tokio::test]
async fn a_job_exists_if_and_when_the_transaction_commits() {
    let (client, mut db) = (connect("diesel_enqueue_in").await, database().await);
    let mut id = None;
    let rolled_back = db.transaction::<(), anyhow::Error, _>(async |tx| {
        id = Some(client.enqueue_in(tx, Transfer { cents: 1 }).await?);
        anyhow::bail!("no")
    });
    rolled_back.await.unwrap_err();
    assert!(client.job(id.unwrap()).await.unwrap().is_none());

    let (together, single) = db
        .transaction::<_, anyhow::Error, _>(async |tx| {
            let together = client.enqueue_many_in(&mut *tx, one_of_each()).await?;
            let mut single = Vec::new();
            for job in one_of_each() {
                single.push(client.enqueue_in(&mut *tx, job).await?);
            }
            assert_eq!(client.enqueue_many_in(tx, Vec::<NewJob>::new()).await?, []);
            Ok((together, single))
        })
        .await
        .unwrap();
    check(&client, &together).await;
    check(&client, &single).await;
    client.close().await;
}

type Told = mpsc::UnboundedSender<ErrorKind>;
type Db = (Client, Mutex<AsyncPgConnection>);

async fn transfer(job: Transfer, ctx: Context, db: Data<Db>, told: Data<Told>) -> anyhow::Result<()> {
    let (client, connection) = &*db.0;
    let mut connection = connection.lock().await;
    let connection = &mut *connection;
    let apart = client.complete_in(&mut *connection, &ctx).await.unwrap_err();
    assert_eq!(apart.kind(), ErrorKind::InvalidOption, "{apart}");
    let done = connection.transaction::<_, anyhow::Error, _>(async |tx| {
        let insert = sql_query("insert into diesel_ledger values ($1, $2)");
        insert.bind::<BigInt, _>(ctx.id().0).bind::<BigInt, _>(job.cents).execute(tx).await?;
        Ok(client.complete_in(tx, &ctx).await?)
    });
    done.await?;
    let again =
        connection.transaction::<(), anyhow::Error, _>(async |tx| Ok(client.complete_in(tx, &ctx).await?));
    let again = again.await.unwrap_err();
    told.send(again.downcast::<windlass::Error>()?.kind())?;
    Ok(())
}

#[derive(QueryableByName)]
struct Sums {
    #[diesel(sql_type = BigInt)]
    count: i64,
    #[diesel(sql_type = BigInt)]
    cents: i64,
}

#[tokio::test]
async fn a_job_completes_with_its_effects_exactly_once() {
    let (client, mut db) = (connect("diesel_complete_in").await, database().await);
    sql_query("create table diesel_ledger (job bigint, cents bigint)").execute(&mut db).await.unwrap();
    let (sender, mut told) = mpsc::unbounded_channel::<ErrorKind>();
    let ids = client.enqueue_many((1..=20).map(|cents| Transfer { cents })).await.unwrap();
    let data: Db = (client.clone(), Mutex::new(database().await));
    let worker = Worker::builder(&client).handle(transfer).data(data).data(sender).start().await.unwrap();
    for id in &ids {
        assert_eq!(told.recv().await.unwrap(), ErrorKind::LeaseLost);
        until_completed(&client, *id).await;
    }
    worker.shutdown().await;
    let sums = sql_query("select count(*), sum(cents)::bigint as cents from diesel_ledger");
    let sums: Sums = sums.get_result(&mut db).await.unwrap();
    assert_eq!((sums.count, sums.cents), (20, 210));
    client.close().await;
}
