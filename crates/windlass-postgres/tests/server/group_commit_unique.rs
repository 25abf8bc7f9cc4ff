//! Single enqueues of unique jobs that come while others are being committed go together; each call still stands for its own job.

use crate::cluster::Fixture;
use std::{sync::Arc, time::Duration};
use tokio::task::{JoinHandle, JoinSet};
use windlass_conformance::steps::{LATER, QUEUE, eventually, worker_on};
use windlass_core::{
    Args, Conflict, EnqueuedUnique, ErrorKind, JobId, JobState, JobStore, NewJob, OnConflict, Result, Store,
    Unique,
};
use windlass_postgres::PostgresStore;

const CALLS: usize = 60;

fn keyed(key: impl Into<String>) -> NewJob {
    NewJob::new("k", Args::parse("1").unwrap()).with_queue(QUEUE).with_unique(Unique::by_key(key))
}

fn ruled(key: &str, on_conflict: OnConflict) -> NewJob {
    let unique = Unique::by_key(key).on_conflict(on_conflict);
    keyed(key).with_unique(if on_conflict == OnConflict::Extend { unique.for_window(LATER) } else { unique })
}

/// A store with a statement under way that waits for the transaction which has the key "gate".
struct Held {
    fixture: Fixture,
    store: Arc<PostgresStore>,
    gate: tokio_postgres::Client,
    watcher: tokio_postgres::Client,
    waits: JoinHandle<EnqueuedUnique>,
}

impl Held {
    async fn new() -> Self {
        let mut fixture = Fixture::shared().await;
        fixture.options.call_timeout = Duration::from_secs(120); // what waits for the gate waits for the test
        let store = Arc::new(fixture.store().await);
        store.enqueue(&[keyed("lane")]).await.unwrap();
        let (gate, watcher) = (fixture.sql().await, fixture.sql().await);
        let take = fixture.text("BEGIN; SELECT windlass.enqueue_unique('k', unique_key => 'gate')");
        gate.batch_execute(&take).await.unwrap();
        let waits = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.enqueue_unique(&[keyed("gate")]).await.unwrap()[0] }
        });
        let held = Self { fixture, store, gate, watcher, waits };
        eventually("a statement waits", || async { (held.waiting().await > 0).then_some(()) }).await;
        held
    }

    /// How many statements wait for a lock.
    async fn waiting(&self) -> i64 {
        let text = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{}\".%_unique%'",
            self.fixture.schema
        );
        self.watcher.query_one(&text, &[]).await.unwrap().get(0)
    }

    /// Calls of one job each, all under way.
    fn calls(&self, job: impl Fn(usize) -> NewJob) -> JoinSet<(usize, Result<EnqueuedUnique>)> {
        let mut calls = JoinSet::new();
        for n in 0..CALLS {
            let (store, job) = (Arc::clone(&self.store), job(n));
            calls.spawn(async move { (n, store.enqueue_unique(&[job]).await.map(|stored| stored[0])) });
        }
        calls
    }

    async fn answers(&self, job: impl Fn(usize) -> NewJob) -> Vec<Result<EnqueuedUnique>> {
        let mut answers = self.calls(job).join_all().await;
        answers.sort_by_key(|(n, _)| *n);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    async fn number(&self, sql: &str) -> i64 {
        self.watcher.query_one(&self.fixture.text(sql), &[]).await.unwrap().get(0)
    }

    /// Ends the transaction that has the key; what the first call found then.
    async fn open(self, how: &str) -> EnqueuedUnique {
        self.gate.batch_execute(how).await.unwrap();
        self.waits.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_come_meanwhile_go_together_and_each_gets_its_own_answer() {
    let held = Held::new().await;
    let text = "SELECT count(DISTINCT xid) FROM windlass.unique_key";
    let before = held.number(text).await;
    let answers = held.answers(|n| keyed(format!("{n}")).with_key(format!("about {n}"))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        let EnqueuedUnique { id, conflict } = answer.unwrap();
        assert_eq!(conflict, None, "{n}");
        let record = held.store.job(id).await.unwrap().unwrap();
        assert_eq!(record.key, Some(format!("about {n}")));
    }
    let transactions = held.number(text).await - before;
    assert!(transactions < 20, "{CALLS} jobs took {transactions} transactions");
    assert_eq!(held.open("COMMIT").await.conflict, Some(Conflict::Kept));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_with_one_key_get_one_job() {
    let held = Held::new().await;
    let taken = held.store.enqueue(&[keyed("lane")]).await.unwrap()[0];
    let due = Duration::from_secs(60);
    let job = |n: usize| match n % 6 {
        0 => keyed("kept"),
        1 => ruled("error", OnConflict::Error),
        2 => ruled("lane", OnConflict::Error),
        3 => ruled("extended", OnConflict::Extend),
        4 => keyed("due").with_delay(due),
        _ => ruled("replaced", OnConflict::Replace { max_wait: None }).with_delay(due),
    };
    let answers = held.answers(job).await;
    let of = |kind: usize| answers.iter().skip(kind).step_by(6);
    for (kind, conflict) in
        [(0, Conflict::Kept), (3, Conflict::Extended), (4, Conflict::Kept), (5, Conflict::Replaced)]
    {
        let answers: Vec<EnqueuedUnique> = of(kind).map(|answer| *answer.as_ref().unwrap()).collect();
        assert!(answers.iter().all(|answer| answer.id == answers[0].id), "{answers:?}");
        let first = answers.iter().filter(|answer| answer.conflict.is_none()).count();
        let later = answers.iter().filter(|answer| answer.conflict == Some(conflict)).count();
        assert_eq!((first, later), (1, CALLS / 6 - 1), "{answers:?}");
        let state = held.store.job(answers[0].id).await.unwrap().unwrap().state;
        assert_eq!(state, if kind < 4 { JobState::Available } else { JobState::Scheduled });
    }
    let won: Vec<EnqueuedUnique> = of(1).filter_map(|answer| answer.as_ref().ok().copied()).collect();
    assert_eq!((won.len(), won[0].conflict), (1, None));
    for (kind, holder) in [(1, won[0].id), (2, taken)] {
        for error in of(kind).filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(error.kind(), ErrorKind::UniqueConflict);
            assert_eq!(error.to_string(), format!("job {holder} has its unique key"));
        }
    }
    assert!(of(2).all(Result::is_err));
    assert_eq!(held.number("SELECT count(*) FROM windlass.jobs").await, 1 + 3 + 2);
    assert_eq!(held.open("ROLLBACK").await.conflict, None);
}

/// A call that has to wait for the transaction of somebody else holds up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_being_taken_holds_up_its_own_callers_only() {
    let held = Held::new().await;
    for _ in 0..2 {
        let mut calls = held.calls(|n| if n == CALLS / 2 { keyed("gate") } else { keyed(format!("{n}")) });
        for _ in 1..CALLS {
            let (n, answer) = calls.join_next().await.unwrap().unwrap();
            assert!(n != CALLS / 2 && answer.is_ok(), "{n}: {answer:?}");
        }
        // Its caller loses patience; that takes nobody with it.
        calls.abort_all();
    }
    let open = held.store.clone();
    let first = held.open("COMMIT").await;
    assert_eq!(first.conflict, Some(Conflict::Kept));
    assert_eq!(open.enqueue(&[keyed("gate")]).await.unwrap(), [first.id]);
}

/// Before the schema is migrated to what puts them together, they go one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_schema_takes_them_one_by_one() {
    let held = Held::new().await;
    let forget = "DO $$ BEGIN EXECUTE format('DROP FUNCTION %s', 'windlass.put_unique_singles'::regproc::oid::regprocedure); END $$";
    held.watcher.batch_execute(&held.fixture.text(forget)).await.unwrap();
    let answers = held.answers(|n| keyed(format!("{}", n % 30))).await;
    let stored = answers.iter().filter(|answer| answer.as_ref().unwrap().conflict.is_none()).count();
    assert_eq!(stored, 30);
}

/// Many callers and few keys, plain calls and bulks beside them: no deadlock, and what was stored is done, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_several_stores_race_for_few_keys() {
    let fixture = Fixture::shared().await;
    let mut callers = JoinSet::new();
    for store in 0..3 {
        let shared = Arc::new(fixture.store().await);
        for caller in 0..8 {
            let store_of_caller = Arc::clone(&shared);
            callers.spawn(async move {
                let mut stored: Vec<JobId> = Vec::new();
                for round in 0..60 {
                    let key = || format!("{}", fastrand::u8(0..12));
                    let size = if (store + caller + round) % 11 == 0 { 8 } else { 1 };
                    let batch: Vec<NewJob> = (0..size).map(|_| keyed(key())).collect();
                    let replies = store_of_caller.enqueue_unique(&batch).await.unwrap();
                    stored.extend(
                        replies.iter().filter(|reply| reply.conflict.is_none()).map(|reply| reply.id),
                    );
                }
                stored
            });
        }
    }
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    let (mut stored, mut done) = (Vec::new(), Vec::new());
    while !callers.is_empty() {
        while let Some(caller) = callers.try_join_next() {
            stored.extend(caller.unwrap());
        }
        done.extend(worker.drain(5).await);
        tokio::task::yield_now().await;
    }
    done.extend(worker.drain(5).await);
    stored.sort_unstable();
    done.sort_unstable();
    assert!(stored == done && stored.len() >= 12, "{} stored, {} done", stored.len(), done.len());
}

#[tokio::test]
async fn who_loses_patience_leaves_no_connection_to_others_that_still_waits() {
    let held = Held::new().await;
    let before = held.waiting().await;
    let store = Arc::clone(&held.store);
    let call = tokio::spawn(async move { store.enqueue_unique(&[keyed("gate")]).await });
    eventually("it waits", || async { (held.waiting().await > before).then_some(()) }).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    for n in 0..CALLS {
        held.store.enqueue_unique(&[keyed(format!("{n}"))]).await.unwrap();
    }
    assert_eq!(held.open("COMMIT").await.conflict, Some(Conflict::Kept));
}
