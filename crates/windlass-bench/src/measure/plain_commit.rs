use super::open_session;
use std::time::{Duration, Instant};
use tokio_postgres::Error;
use windlass::StoreKind;
use windlass_cli::measure::Latencies;

/// How long it takes to commit a plain row, `samples` times with a pause before each: what any call that is kept takes at
/// the least, on this server, at this pace. `None` for other stores, and where the server refuses the table.
pub(crate) async fn plain_commits(url: &str, samples: u64, pause: Duration) -> Option<Latencies> {
    match StoreKind::of(url) {
        Ok(StoreKind::Postgres) => commit(url, samples, pause).await.ok(),
        _ => None,
    }
}

async fn commit(url: &str, samples: u64, pause: Duration) -> Result<Latencies, Error> {
    let client = open_session(url).await?;
    // Not a temporary table: rows of one need no disk.
    client
        .batch_execute(
            "DROP TABLE IF EXISTS windlass_bench_commit; CREATE TABLE windlass_bench_commit (id bigint)",
        )
        .await?;
    let insert = client.prepare("INSERT INTO windlass_bench_commit VALUES ($1)").await?;
    let mut times = Latencies::new();
    for id in 0..samples {
        tokio::time::sleep(pause).await;
        let began = Instant::now();
        client.execute(&insert, &[&(id as i64)]).await?;
        times.record(began.elapsed());
    }
    client.batch_execute("DROP TABLE windlass_bench_commit").await?;
    Ok(times)
}
