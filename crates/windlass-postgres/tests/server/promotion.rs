//! Promotion costs what there is to do, however many ask for it and whatever transaction is open beside it.

use crate::cluster::Fixture;
use std::sync::Arc;
use tokio::task::JoinSet;
use windlass_core::JobStore;

const DUE: i64 = 20_000;

async fn schedule(fixture: &Fixture, client: &tokio_postgres::Client) {
    let sql = fixture.text(
        "INSERT INTO windlass.waiting (id, available_at, lane_id, max_attempts, kind, args)
         SELECT n, now() - interval '1 minute', (SELECT windlass.lane_of('q', 0)), 20, 'k', '{}' FROM generate_series(1, $1::bigint) AS n",
    );
    client.execute(&sql, &[&DUE]).await.expect("schedules");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_promote_at_once_do_the_work_of_one() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    schedule(&fixture, &client).await;
    let store = Arc::new(fixture.store().await);
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let store = Arc::clone(&store);
        callers.spawn(async move {
            let mut worked = 0;
            loop {
                let promoted = store.promote(1_000).await.expect("promotes");
                worked += u64::from(promoted.count > 0);
                let left = store.queues().await.expect("lists")[0].scheduled;
                if left == 0 {
                    return worked;
                }
            }
        });
    }
    let worked: u64 = callers.join_all().await.into_iter().sum();
    assert_eq!(worked, DUE as u64 / 1_000, "each call that did anything took a full batch");
    let count = fixture.text("SELECT count(*), count(DISTINCT id) FROM windlass.job");
    let row = client.query_one(&count, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (DUE, DUE));
}

/// The pages that a promotion may touch that finds nothing due.
const MOST_PAGES: i64 = 100;

#[tokio::test]
async fn what_was_promoted_beside_an_old_snapshot_is_not_walked_again() {
    let fixture = Fixture::fresh().await;
    let (client, old) = (fixture.sql().await, fixture.sql().await);
    schedule(&fixture, &client).await;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()").await.unwrap();
    let promote = fixture.text(
        "SELECT promoted, from_at::text, from_id FROM windlass.promote(5000, $1::text::timestamptz, $2)",
    );
    let (mut at, mut id, mut promoted) = (None::<String>, None::<i64>, 0);
    while promoted < DUE {
        let row = client.query_one(&promote, &[&at, &id]).await.unwrap();
        promoted += row.get::<_, i64>(0);
        (at, id) = (row.get(1), row.get(2));
    }
    let id = id.unwrap();
    let pages = async |at: &str| {
        fixture.pages(&client, &format!("SELECT * FROM windlass.promote(5000, {at}, {id})")).await
    };
    let (from_here, from_the_beginning) = (pages(&format!("'{}'", at.unwrap())).await, pages("NULL").await);
    println!("{from_here} pages, from the beginning {from_the_beginning}");
    assert!(from_here <= MOST_PAGES, "{from_here} pages");
    old.batch_execute("ROLLBACK").await.unwrap();
}
