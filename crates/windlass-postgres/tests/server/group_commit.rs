//! Single enqueues that come while others are being committed go together; each call still stands for its own job.

use crate::cluster::Fixture;
use std::{collections::HashSet, sync::Arc};
use tokio::task::JoinSet;
use windlass_conformance::steps::{KIND, QUEUE, eventually, jobs};
use windlass_core::{Args, ErrorKind, JobId, JobStore, NewJob, Result};
use windlass_postgres::PostgresStore;

const CALLS: usize = 60;

/// A store that knows its lane and segment, with the log locked by another session.
struct Held {
    fixture: Fixture,
    store: Arc<PostgresStore>,
    locker: tokio_postgres::Client,
    watcher: tokio_postgres::Client,
}

impl Held {
    async fn new() -> Self {
        let fixture = Fixture::shared().await;
        let store = Arc::new(fixture.store().await);
        store.enqueue(&jobs(1)).await.unwrap();
        let (locker, watcher) = (fixture.sql().await, fixture.sql().await);
        let held = Self { fixture, store, locker, watcher };
        held.lock().await;
        held
    }

    async fn lock(&self) {
        let lock = self.fixture.text("BEGIN; LOCK TABLE windlass.job IN ACCESS EXCLUSIVE MODE");
        self.locker.batch_execute(&lock).await.unwrap();
    }

    /// Calls of one job each, all under way.
    async fn calls(&self, kind: impl Fn(usize) -> String) -> JoinSet<(usize, Result<JobId>)> {
        self.calls_to(CALLS, kind, |_| QUEUE).await
    }

    async fn calls_to(
        &self,
        count: usize,
        kind: impl Fn(usize) -> String,
        queue: impl Fn(usize) -> &'static str,
    ) -> JoinSet<(usize, Result<JobId>)> {
        let mut calls = JoinSet::new();
        for n in 0..count {
            let args = Args::parse(&format!("{{\"n\": {n}}}")).unwrap();
            let job = NewJob::new(kind(n), args).with_queue(queue(n));
            let job = if n % 2 == 0 { job } else { job.with_tag("odd") };
            let store = Arc::clone(&self.store);
            calls.spawn(async move { (n, store.enqueue(&[job]).await.map(|ids| ids[0])) });
        }
        eventually("a statement waits for the lock", || async {
            (!self.blocked().await.is_empty()).then_some(())
        })
        .await;
        calls
    }

    /// The server processes that wait for the lock.
    async fn blocked(&self) -> Vec<i32> {
        let text = format!(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{}\".job_%'",
            self.fixture.schema
        );
        self.watcher.query(&text, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    async fn release(&self) {
        self.locker.batch_execute("ROLLBACK").await.unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        self.watcher.query_one(&self.fixture.text(sql), &[]).await.unwrap().get(0)
    }
}

/// Those of one queue share blocks of ids: up to a block, more than one, and those of two queues, which share none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_go_together_and_each_gets_its_own_id() {
    let held = Held::new().await;
    held.release().await;
    held.store.enqueue(&[NewJob::new(KIND, Args::parse("{}").unwrap()).with_queue("other")]).await.unwrap();
    let mut all = 2;
    for (count, queues) in [(12, 1), (CALLS, 1), (CALLS, 2)] {
        held.lock().await;
        let queue = |n: usize| if n.is_multiple_of(queues) { QUEUE } else { "other" };
        let calls = held.calls_to(count, |n| format!("kind.{n}"), queue).await;
        held.release().await;
        let stored = calls.join_all().await;
        let ids: HashSet<_> = stored.iter().map(|(_, id)| id.as_ref().unwrap().0).collect();
        assert_eq!(ids.len(), count);
        for (n, id) in stored {
            let record = held.store.job(id.unwrap()).await.unwrap().unwrap();
            assert_eq!((record.kind, &*record.queue), (format!("kind.{n}"), queue(n)));
            assert_eq!(record.args.as_str(), format!("{{\"n\": {n}}}"));
        }
        let blocks = ids.iter().filter(|id| *id & 15 == 1).count();
        assert!(if queues == 1 { blocks < count } else { blocks > count / 2 }, "{count}: {blocks} blocks");
        all += i64::try_from(count).unwrap();
        assert_eq!(held.number("SELECT count(*) FROM windlass.job").await, all);
    }
    let transactions = held.number("SELECT count(DISTINCT xid) FROM windlass.job").await;
    // The first goes alone each time, the others with it or with those that patience lets start.
    assert!(transactions < 50, "{all} jobs took {transactions} transactions");
}

#[tokio::test]
async fn one_bad_job_does_not_fail_the_others() {
    let held = Held::new().await;
    held.release().await;
    let refuse = "CREATE FUNCTION windlass.refuse() RETURNS trigger LANGUAGE plpgsql AS
                  $$ BEGIN IF NEW.kind = 'bad' THEN RAISE 'not this one'; END IF; RETURN NEW; END $$;
                  CREATE TRIGGER refuse BEFORE INSERT ON windlass.job FOR EACH ROW EXECUTE FUNCTION windlass.refuse()";
    held.locker.batch_execute(&held.fixture.text(refuse)).await.unwrap();
    held.lock().await;
    let calls = held.calls(|n| if n == CALLS / 2 { "bad".to_owned() } else { KIND.to_owned() }).await;
    held.release().await;
    for (n, stored) in calls.join_all().await {
        match stored {
            Ok(_) => assert_ne!(n, CALLS / 2),
            Err(error) => {
                assert!(n == CALLS / 2 && error.to_string().contains("not this one"), "{n}: {error}");
            }
        }
    }
    assert_eq!(held.number("SELECT count(*) FROM windlass.job").await, CALLS as i64);
}

#[tokio::test]
async fn callers_that_go_take_nobody_with_them() {
    let held = Held::new().await;
    let mut calls = held.calls(|_| KIND.to_owned()).await;
    let keep = Arc::clone(&held.store);
    let stays = tokio::spawn(async move { keep.enqueue(&jobs(1)).await });
    calls.abort_all();
    while calls.join_next().await.is_some() {}
    held.release().await;
    let id = stays.await.unwrap().unwrap()[0];
    assert!(held.store.job(id).await.unwrap().is_some());
    // The store is none the worse for it.
    held.store.enqueue(&jobs(1)).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_breaks_fails_every_call_that_it_carried() {
    let held = Held::new().await;
    let mut calls = held.calls(|_| KIND.to_owned()).await;
    while !calls.is_empty() {
        for pid in held.blocked().await {
            held.watcher.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
        }
        while let Some(ended) = calls.try_join_next() {
            // Unavailable when it broke before the statement was sent.
            let kind = ended.unwrap().1.unwrap_err().kind();
            assert!(matches!(kind, ErrorKind::Ambiguous | ErrorKind::Unavailable), "{kind:?}");
        }
        tokio::task::yield_now().await;
    }
    held.release().await;
    assert_eq!(held.number("SELECT count(*) FROM windlass.job").await, 1);
}

/// What goes together is bounded by its bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_jobs_go_in_several_statements() {
    let fixture = Fixture::shared().await;
    let store = Arc::new(fixture.store().await);
    let args = Args::of(&"x".repeat(1_048_000)).unwrap();
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let job = NewJob::new(format!("kind.{n}"), args.clone()).with_queue(QUEUE);
        let store = Arc::clone(&store);
        calls.spawn(async move { (n, store.enqueue(&[job]).await.unwrap()[0]) });
    }
    let stored = calls.join_all().await;
    let client = fixture.sql().await;
    for (n, id) in stored {
        let sql = fixture.text("SELECT kind FROM windlass.job WHERE id = $1");
        assert_eq!(client.query_one(&sql, &[&id.0]).await.unwrap().get::<_, &str>(0), format!("kind.{n}"));
    }
    let sql =
        fixture.text("SELECT max(n) FROM (SELECT count(*) AS n FROM windlass.job GROUP BY xid) AS together");
    let most: i64 = client.query_one(&sql, &[]).await.unwrap().get(0);
    assert!((2..=8).contains(&most), "{most} jobs of 1 MiB in one statement");
}

#[test]
fn a_runtime_that_ends_with_calls_under_way_ends() {
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let held = runtime.block_on(async {
            let held = Held::new().await;
            held.calls(|_| KIND.to_owned()).await.detach_all();
            held
        });
        drop(runtime);
        drop(held);
        ended.send(()).unwrap();
    });
    end.recv_timeout(std::time::Duration::from_secs(30)).expect("the runtime ends");
}

/// A call of one job that has begun to wait.
async fn begun(
    store: &Arc<PostgresStore>,
) -> impl Future<Output = Result<Vec<JobId>>> + Send + Unpin + use<> {
    let store = Arc::clone(store);
    let mut call = Box::pin(async move { store.enqueue(&jobs(1)).await });
    assert!(futures_util::poll!(&mut call).is_pending());
    call
}

/// They were told that the job was not sent, so that who repeated it stored it twice.
#[tokio::test]
async fn the_calls_of_a_statement_whose_runtime_ends_are_told_that_they_may_be_stored() {
    let held = Held::new().await;
    let first = begun(&held.store).await;
    let first = tokio::spawn(first);
    let waits = begun(&held.store).await;
    let other = tokio::runtime::Runtime::new().unwrap();
    let store = Arc::clone(&held.store);
    other.spawn(async move { store.enqueue(&jobs(1)).await });
    eventually("the other runtime sends both", || async { (held.blocked().await.len() == 2).then_some(()) })
        .await;
    other.shutdown_background();
    assert_eq!(waits.await.unwrap_err().kind(), ErrorKind::Ambiguous);
    held.release().await;
    first.await.unwrap().unwrap();
}

/// They were told that their runtime had ended.
#[tokio::test]
async fn a_call_that_is_dropped_outside_a_runtime_takes_nobody_along() {
    let held = Held::new().await;
    let (first, waits) = (begun(&held.store).await, begun(&held.store).await);
    std::thread::spawn(move || drop(first)).join().unwrap();
    held.release().await;
    waits.await.unwrap();
}
