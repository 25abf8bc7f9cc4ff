use super::plan::{BATCH, CLIENTS, COLUMNS, KIND, Plan, ROUNDS, Times};
use crate::measure::open_session;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{SinkExt, TryStreamExt};
use std::{
    pin::pin,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use tokio_postgres::Client;
use windlass_cli::failure::{Failure, Outcome};

/// The head of COPY's binary format, and its end.
const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const END: &[u8] = &(-1_i16).to_be_bytes();

/// Measures COPY in and COPY out, each batch in a transaction; the rows are encoded before the clock starts.
pub(super) async fn measure(url: &str, plan: &Plan) -> Outcome<Times> {
    let found = run(url, plan).await;
    found.map_err(|error| Failure::failed("unavailable", format!("cannot measure the limit: {error}")))
}

async fn run(url: &str, plan: &Plan) -> Result<Times, tokio_postgres::Error> {
    let client = open_session(url).await?;
    let table = "windlass_bench_limit";
    let create = format!(
        "DROP TABLE IF EXISTS {table}; \
         CREATE TABLE {table} ({COLUMNS}, kind text, args json) WITH (autovacuum_enabled = off)"
    );
    let (mut write, mut read) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        client.batch_execute(&create).await?;
        let asked = Instant::now();
        copy_in(&client, table, plan.rows).await?;
        write = write.min(asked.elapsed());
        let asked = Instant::now();
        copy_out(&client, table).await?;
        read = read.min(asked.elapsed());
    }
    client.batch_execute(&create).await?;
    let mut commits = [0; 2];
    for (count, clients) in commits.iter_mut().zip(CLIENTS) {
        *count = commit(url, table, clients, plan.commits_for).await?;
    }
    client.batch_execute(&format!("DROP TABLE {table}")).await?;
    Ok(Times { write, read, commits })
}

async fn copy_in(client: &Client, table: &str, rows: u64) -> Result<(), tokio_postgres::Error> {
    let (whole, rest) = (encode(BATCH), encode(rows % BATCH));
    let batches = (0..rows / BATCH).map(|_| &whole).chain((!rows.is_multiple_of(BATCH)).then_some(&rest));
    for batch in batches {
        let copy = format!("COPY {table} FROM STDIN (FORMAT binary)");
        let mut sink = pin!(client.copy_in::<_, Bytes>(&copy).await?);
        sink.send(batch.clone()).await?;
        sink.finish().await?;
    }
    Ok(())
}

/// Rows as the store writes them for jobs without work.
fn encode(rows: u64) -> Bytes {
    let mut out = BytesMut::from(HEAD);
    for id in 0..rows {
        out.put_i16(10);
        for number in [id as i64, 0] {
            out.put_i32(8);
            out.put_i64(number);
        }
        out.put_i32(4);
        out.put_i32(1);
        for number in [0, 0, 20, 0] {
            out.put_i32(2);
            out.put_i16(number);
        }
        out.put_i32(8);
        out.put_i64(id as i64);
        for text in [KIND, &format!("{{\"id\":{id}}}")] {
            out.put_i32(text.len() as i32);
            out.put_slice(text.as_bytes());
        }
    }
    out.put_slice(END);
    out.freeze()
}

async fn copy_out(client: &Client, table: &str) -> Result<(), tokio_postgres::Error> {
    let mut rows = pin!(client.copy_out(&format!("COPY {table} TO STDOUT (FORMAT binary)")).await?);
    while rows.try_next().await?.is_some() {}
    Ok(())
}

/// How many transactions of one row `clients` connections commit.
async fn commit(
    url: &str,
    table: &str,
    clients: usize,
    time: Duration,
) -> Result<u64, tokio_postgres::Error> {
    let insert = format!("INSERT INTO {table} (id, kind, args) VALUES ($1, '{KIND}', '{{\"id\":1}}')");
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (client, insert) = (open_session(url).await?, insert.clone());
        tasks.spawn(async move {
            let insert = client.prepare(&insert).await?;
            let (started, mut count) = (Instant::now(), 0);
            while started.elapsed() < time {
                client.execute(&insert, &[&(count as i64)]).await?;
                count += 1;
            }
            Ok::<u64, tokio_postgres::Error>(count)
        });
    }
    let mut all = 0;
    for done in tasks.join_all().await {
        all += done?;
    }
    Ok(all)
}
