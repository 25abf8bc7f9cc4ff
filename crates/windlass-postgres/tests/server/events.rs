//! Events where transactions of several writers are open at once.

use crate::cluster::Fixture;
use std::{collections::BTreeMap, sync::Arc};
use windlass_conformance::steps::{LEASE, TestWorker, enqueue_jobs, worker};
use windlass_core::{ErrorKind, EventCursor, EventRequest, EventType, JobEvent, JobId, JobStore, Store};

struct Reader {
    store: Arc<dyn Store>,
    cursor: EventCursor,
}

impl Reader {
    async fn from_now(fixture: &Fixture) -> Self {
        let mut reader = Self { store: Arc::new(fixture.store().await), cursor: EventCursor::now() };
        assert_eq!(reader.read().await, []);
        reader
    }

    async fn read(&mut self) -> Vec<JobEvent> {
        let mut events = Vec::new();
        loop {
            let request = EventRequest { limit: 2, ..EventRequest::after(self.cursor.clone()) };
            let page = self.store.events(&request).await.expect("read events");
            events.extend(page.events);
            self.cursor = page.next;
            if !page.more {
                return events;
            }
        }
    }

    async fn stories(&mut self) -> BTreeMap<JobId, Vec<EventType>> {
        let mut stories: BTreeMap<JobId, Vec<EventType>> = BTreeMap::new();
        for event in self.read().await {
            stories.entry(event.job).or_default().push(event.event);
        }
        stories
    }
}

async fn begun(fixture: &Fixture) -> tokio_postgres::Client {
    let client = fixture.sql().await;
    client.batch_execute("BEGIN").await.expect("begins");
    client
}

async fn sql_enqueue(fixture: &Fixture, client: &tokio_postgres::Client, queue: &str) -> JobId {
    let sql = fixture.text(&format!("SELECT windlass.enqueue('k', '{{}}', '{queue}')"));
    JobId(client.query_one(&sql, &[]).await.expect("enqueues").get(0))
}

async fn worker_of(fixture: &Fixture, queues: &[&str]) -> TestWorker {
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    worker(&store, queues, &[], LEASE).await
}

use EventType::{Cancelled, Completed, Enqueued, Retried, Started};

#[tokio::test]
async fn a_transaction_that_was_open_is_told_of_when_it_commits() {
    let fixture = Fixture::fresh().await;
    let mut reader = Reader::from_now(&fixture).await;
    let (early, late) = (begun(&fixture).await, fixture.sql().await);
    let first = sql_enqueue(&fixture, &early, "q").await;
    let second = sql_enqueue(&fixture, &late, "q").await;
    assert_eq!(reader.stories().await, BTreeMap::from([(second, vec![Enqueued])]));
    worker_of(&fixture, &["q"]).await.drain(5).await;
    assert_eq!(reader.stories().await, BTreeMap::from([(second, vec![Started, Completed])]));
    early.batch_execute("COMMIT").await.unwrap();
    assert_eq!(reader.stories().await, BTreeMap::from([(first, vec![Enqueued])]));
    assert_eq!(reader.read().await, []);
}

#[tokio::test]
async fn what_is_rolled_back_is_never_told() {
    let fixture = Fixture::fresh().await;
    let mut reader = Reader::from_now(&fixture).await;
    let client = begun(&fixture).await;
    let kept = sql_enqueue(&fixture, &client, "q").await;
    client.batch_execute("SAVEPOINT a").await.unwrap();
    sql_enqueue(&fixture, &client, "q").await;
    client
        .batch_execute(&fixture.text(&format!("SELECT windlass.cancel({kept}); ROLLBACK TO a; SAVEPOINT b")))
        .await
        .unwrap();
    let released = sql_enqueue(&fixture, &client, "q").await;
    client.batch_execute("RELEASE b; COMMIT; BEGIN").await.unwrap();
    sql_enqueue(&fixture, &client, "q").await;
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(reader.stories().await, BTreeMap::from([(kept, vec![Enqueued]), (released, vec![Enqueued])]));
}

#[tokio::test]
async fn an_old_transaction_that_does_something_late_comes_behind_what_it_saw() {
    let fixture = Fixture::fresh().await;
    let mut reader = Reader::from_now(&fixture).await;
    let old = begun(&fixture).await;
    old.batch_execute("SELECT pg_current_xact_id()").await.unwrap();
    let other = fixture.sql().await;
    let id = sql_enqueue(&fixture, &other, "q").await;
    old.batch_execute(&fixture.text(&format!("SELECT windlass.cancel({id}), windlass.retry({id})")))
        .await
        .unwrap();
    let told_before = reader.stories().await;
    assert_eq!(told_before, BTreeMap::from([(id, vec![Enqueued])]));
    old.batch_execute("COMMIT").await.unwrap();
    worker_of(&fixture, &["q"]).await.drain(5).await;
    assert_eq!(reader.stories().await, BTreeMap::from([(id, vec![Cancelled, Retried, Started, Completed])]));
    // All of it in one batch, for somebody who comes later.
    reader.cursor = EventCursor::start();
    let story = reader.stories().await.remove(&id).expect("its story");
    assert_eq!(story, [Enqueued, Cancelled, Retried, Started, Completed]);
}

#[tokio::test]
async fn a_claim_of_many_lanes_comes_behind_all_its_jobs() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let claimer = worker_of(&fixture, &["a", "b", "c", "d"]).await;
    let writing = {
        let fixture_sql = fixture.sql().await;
        let sql =
            fixture.text("SELECT windlass.enqueue('k', '{}', q) FROM unnest(ARRAY['d', 'c', 'b', 'a']) q");
        tokio::spawn(async move {
            for _ in 0..300 {
                fixture_sql.query(&sql, &[]).await.expect("enqueues");
            }
        })
    };
    while !writing.is_finished() {
        claimer.drain(3).await;
    }
    writing.await.unwrap();
    claimer.drain(100).await;
    let mut reader = Reader { store, cursor: EventCursor::start() };
    let stories = reader.stories().await;
    assert_eq!(stories.len(), 1_200);
    for (id, story) in stories {
        assert_eq!(story, [Enqueued, Started, Completed], "job {id}");
    }
}

#[tokio::test]
async fn a_page_in_the_midst_of_a_bulk_costs_a_page() {
    let fixture = Fixture::fresh().await;
    let mut reader = Reader::from_now(&fixture).await;
    enqueue_jobs(&reader.store, 20_000).await;
    worker_of(&fixture, &["q"]).await.drain(5_000).await;
    let mut count = 0;
    loop {
        let request = EventRequest { limit: 7_001, ..EventRequest::after(reader.cursor.clone()) };
        let page = reader.store.events(&request).await.expect("read events");
        count += page.events.len();
        reader.cursor = page.next;
        if !page.more {
            break;
        }
    }
    assert_eq!(count, 60_000);
}

/// No job has a kind that is NULL: it adds nothing to those that are named.
#[tokio::test]
async fn a_null_among_the_kinds_selects_nothing() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    client
        .query(&fixture.text("SELECT windlass.enqueue(k) FROM unnest('{a,b}'::text[]) AS k"), &[])
        .await
        .unwrap();
    for (kinds, found) in [("'{a,NULL}'", 1), ("'{NULL}'", 0), ("NULL", 2)] {
        let count = format!(
            "SELECT count(*) FROM windlass.events('start', kinds => {kinds}) WHERE job_id IS NOT NULL"
        );
        let count = client.query_one(&fixture.text(&count), &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), found, "{kinds}");
    }
}

/// A cursor that was altered is refused as what it is, wherever it is wrong.
#[tokio::test]
async fn an_altered_cursor_is_no_cursor() {
    let fixture = Fixture::shared().await;
    let (store, client) = (fixture.store().await, fixture.sql().await);
    let ask = fixture.text("SELECT cursor FROM windlass.events($1)");
    let good: String = client.query_one(&ask, &[&"now"]).await.expect("reads").get(0);
    let since = good.rsplit('/').next().expect("a snapshot");
    let end = "9223372036854775807";
    let within =
        ["e/1/0/0", "e/-5/7/9", "e/2147483647/0/0", "w/0/-5/-/-/0", "w/5/7/9/11/2"].map(str::to_owned);
    for rest in within.into_iter().chain([format!("w/{end}/{end}/{end}/{end}/{end}")]) {
        let cursor = format!("{good}/{since}/{rest}");
        if let Err(error) = client.query(&ask, &[&cursor]).await {
            assert_eq!(
                error.as_db_error().expect("the server's").code().code(),
                "WL008",
                "{cursor}: {error}"
            );
        }
    }
    let bad = [
        "e/99999999999/0/0",
        "e/1.5/0/0",
        "e/-/0/0",
        "e/1/-/0",
        "e/1/0/-",
        "e/1/-1/0",
        "e/1/0/-1",
        "e/1/0/1e3",
        "e//0/0",
        "e/ 1/0/0",
        "e/+1/0/0",
        "e/1/99999999999999999999/0",
        "e/1/9999999999999999999/0",
        "w/0/0/-/-/1e30",
        "w/-1/0/-/-/0",
        "w/-/0/-/-/0",
        "w/0/-/-/-/0",
        "w/0/0/-/-/-",
        "w/0/0/-/5/0",
        "w/0/0/5/-/0",
        "w/0/0/5/-1/0",
        "w/0/0.5/-/-/0",
        "w/0/NaN/-/-/0",
        "w/0/0/-/-/9223372036854775808",
        "w/0/0/-/-/0x1",
        "n/0/0/-/-/0",
        "e/1/0",
        "w/0/0/-/-",
    ];
    let heads = ["1", "2/a", "3/a/b/1:1:", &format!("{good}x"), &format!("{good}/{since}x/e/1/0/0")]
        .map(str::to_owned);
    for cursor in bad.map(|rest| format!("{good}/{since}/{rest}")).into_iter().chain(heads) {
        let error = client.query(&ask, &[&cursor]).await.expect_err(&cursor);
        assert_eq!(error.as_db_error().expect("the server's").code().code(), "WL003", "{cursor}: {error}");
        let request = EventRequest::after(EventCursor::from(cursor.clone()));
        let error = store.events(&request).await.expect_err(&cursor);
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{cursor}: {error}");
    }
}
