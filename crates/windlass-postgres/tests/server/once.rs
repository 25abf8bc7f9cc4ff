//! Idempotency keys in PostgreSQL: by plain SQL, by other roles, beside open transactions, behind cuts.

use crate::cluster::{Fixture, connect, url};
use windlass_conformance::steps::{enqueue_jobs, eventually, job, jobs};
use windlass_core::{ErrorKind, JobId, JobStore, Store};

async fn one(client: &tokio_postgres::Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn count(fixture: &Fixture, client: &tokio_postgres::Client) -> i64 {
    one(client, &fixture.text("SELECT count(*) FROM windlass.job")).await
}

#[tokio::test]
async fn plain_sql_and_the_store_share_keys() {
    let fixture = Fixture::shared().await;
    let (store, client) = (fixture.store().await, fixture.sql().await);
    let call =
        fixture.text("SELECT windlass.enqueue_once('a', 'k', '{\"n\": 1}', queue => 'q', priority => 3)");
    let id = one(&client, &call).await;
    assert_eq!(one(&client, &call).await, id);
    let again = store.enqueue_once("a", &[job()]).await.unwrap();
    assert_eq!((again.ids, again.repeated), (vec![JobId(id)], true));
    let kept = store.job(JobId(id)).await.unwrap().unwrap();
    assert_eq!((kept.kind.as_str(), kept.queue.as_str(), kept.priority), ("k", "q", 3));

    let first = store.enqueue_once("b", &jobs(2)).await.unwrap();
    let many =
        fixture.text("SELECT windlass.enqueue_many_once('b', '[{\"kind\": \"k\"}, {\"kind\": \"k\"}]')");
    let ids: Vec<_> = client.query(&many, &[]).await.unwrap().iter().map(|row| JobId(row.get(0))).collect();
    assert_eq!(ids, first.ids);
    let three = fixture.text("SELECT windlass.enqueue_once('b', 'k')");
    let error = client.query_one(&three, &[]).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "WL003");
    assert!(error.message().contains("'b' was used for 2 jobs, now for 1"), "{}", error.message());

    let many = many.replace("'b'", "'c'");
    let ids: Vec<_> = client.query(&many, &[]).await.unwrap().iter().map(|row| JobId(row.get(0))).collect();
    assert_eq!(store.enqueue_once("c", &jobs(2)).await.unwrap().ids, ids);
    assert_eq!(count(&fixture, &client).await, 5);
}

/// Ids of one call may have gaps: others take some in between.
#[tokio::test]
async fn gaps_between_ids_are_kept() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    for (ids, ranges) in [("{}", "{}"), ("{5}", "{5,5}"), ("{1,2,3,7,9,10}", "{1,3,7,7,9,10}")] {
        let text = fixture.text("SELECT windlass.ranges_of($1::text::bigint[])::text");
        assert_eq!(client.query_one(&text, &[&ids]).await.unwrap().get::<_, &str>(0), ranges);
        let text = fixture.text("SELECT windlass.ids_of($1::text::bigint[])::text");
        assert_eq!(client.query_one(&text, &[&ranges]).await.unwrap().get::<_, &str>(0), ids);
    }
}

#[tokio::test]
async fn an_open_transaction_with_the_key_is_waited_for() {
    let fixture = Fixture::shared().await;
    let (store, mut client, watcher) =
        (std::sync::Arc::new(fixture.store().await), fixture.sql().await, fixture.sql().await);
    enqueue_jobs(&(store.clone() as std::sync::Arc<dyn Store>), 1).await; // the lane is known
    for (round, commits) in [(1, false), (2, true)] {
        let transaction = client.transaction().await.unwrap();
        let call = fixture.text(&format!("SELECT windlass.enqueue_once('open/{round}', 'k')"));
        let held: i64 = transaction.query_one(&call, &[]).await.unwrap().get(0);
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.enqueue_once(&format!("open/{round}"), &[job()]).await.unwrap() }
        });
        let blocked = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{}\".take_key%'",
            fixture.schema
        );
        eventually("the second call waits", || async { (one(&watcher, &blocked).await > 0).then_some(()) })
            .await;
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        let answer = waiting.await.unwrap();
        assert_eq!((answer.repeated, answer.ids == [JobId(held)]), (commits, commits));
    }
    assert_eq!(count(&fixture, &client).await, 3);
}

/// The connection breaks after the key was taken and before COMMIT was sent: nothing happened, and we know.
#[tokio::test]
async fn a_cut_before_the_commit_changes_nothing() {
    let fixture = Fixture::shared().await;
    let (mut locker, admin) = (fixture.sql().await, fixture.sql().await);
    for size in [1, 20] {
        let store = fixture.store().await;
        store.enqueue(&jobs(1)).await.unwrap(); // lane and segment are known
        let locks = locker.transaction().await.unwrap();
        locks.batch_execute(&fixture.text("LOCK TABLE windlass.job IN ACCESS EXCLUSIVE MODE")).await.unwrap();
        let blocked = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{}\".job_0%'",
            fixture.schema
        );
        let cut = eventually("the call waits for the table", || async {
            admin.query_opt(&blocked, &[]).await.unwrap().map(drop)
        });
        let batch = jobs(size);
        let (answer, ()) = tokio::join!(store.enqueue_once("cut", &batch), cut);
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
        locks.rollback().await.unwrap();
    }
    assert!(!fixture.store().await.enqueue_once("cut", &jobs(3)).await.unwrap().repeated);
    assert_eq!(count(&fixture, &admin).await, 5);
}

#[tokio::test]
async fn a_producer_needs_no_more_than_execute() {
    let fixture = Fixture::shared().await;
    let admin = fixture.sql().await;
    let role = format!("o_{}", fixture.schema);
    let grant = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {} TO {role};
         GRANT EXECUTE ON FUNCTION windlass.enqueue_once TO {role}",
        fixture.schema
    );
    admin.batch_execute(&fixture.text(&grant)).await.unwrap();
    let producer = connect(&url().replace("//postgres@", &format!("//{role}@"))).await;
    let call = fixture.text("SELECT windlass.enqueue_once('key', 'k')");
    assert_eq!(one(&producer, &call).await, one(&producer, &call).await);
    for denied in [
        "SELECT * FROM windlass.enqueue_key",
        "SELECT windlass.take_key('x', 1)",
        "SELECT windlass.hold_key('x', '{}', 1)",
        "SELECT windlass.forget_keys(1)",
        "SELECT windlass.enqueue_many_once('x', '[]')",
    ] {
        let error = producer.query(&fixture.text(denied), &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{denied}");
    }
    drop(producer);
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// More keys than one chunk of housekeeping takes, and one that somebody holds.
#[tokio::test]
async fn old_keys_are_forgotten_in_bounded_chunks() {
    let fixture = Fixture::shared().await;
    let (store, client, mut holder) = (fixture.store().await, fixture.sql().await, fixture.sql().await);
    let old = "INSERT INTO windlass.enqueue_key (key, at, ranges)
               SELECT 'old' || n, now() - interval '2 days', '{1,1}' FROM generate_series(1, 25000) AS n";
    client.batch_execute(&fixture.text(old)).await.unwrap();
    store.enqueue_once("new", &[job()]).await.unwrap();
    let keys = fixture.text("SELECT count(*) FROM windlass.enqueue_key");
    let forgotten = one(&client, &fixture.text("SELECT windlass.forget_keys(10000)")).await;
    assert_eq!((forgotten, one(&client, &keys).await), (10_000, 15_001));

    let holding = holder.transaction().await.unwrap();
    let hold = fixture.text("SELECT key FROM windlass.enqueue_key WHERE key = 'old25000' FOR UPDATE");
    holding.query_one(&hold, &[]).await.unwrap();
    store.maintain().await.unwrap();
    assert_eq!(one(&client, &keys).await, 2, "what somebody uses is left for later");
    holding.rollback().await.unwrap();
    store.maintain().await.unwrap();
    assert_eq!(one(&client, &keys).await, 1);
}
