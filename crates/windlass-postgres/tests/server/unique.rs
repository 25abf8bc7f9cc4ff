//! Unique jobs in PostgreSQL: in transactions, by plain SQL, in races, through segments that go, after a restore.

use crate::cluster::Fixture;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;
use windlass_conformance::steps::{
    KEEP_NOTHING, KIND, LATER, LEASE, QUEUE, eventually, job, maintain_with, record, worker, worker_on,
};
use windlass_core::{
    Args, Conflict, Disposition, EnqueuedUnique, ErrorKind, JobId, JobState, JobStore, NewJob, RetryReply,
    Store, Unique,
};

fn keyed(key: &str) -> NewJob {
    job().with_unique(Unique::by_key(key))
}

fn kept(id: JobId) -> EnqueuedUnique {
    EnqueuedUnique { id, conflict: Some(Conflict::Kept) }
}

async fn unique(store: &impl AsStore, job: NewJob) -> EnqueuedUnique {
    store.as_store().enqueue_unique(&[job]).await.unwrap()[0]
}

trait AsStore {
    fn as_store(&self) -> &dyn JobStore;
}

impl AsStore for Arc<dyn Store> {
    fn as_store(&self) -> &dyn JobStore {
        self.as_ref()
    }
}

impl AsStore for windlass_postgres::PostgresStore {
    fn as_store(&self) -> &dyn JobStore {
        self
    }
}

async fn one(client: &tokio_postgres::Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// A rollback leaves the key free; whoever waits for it gets it. A commit has it taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_with_the_key_is_waited_for() {
    let fixture = Fixture::shared().await;
    let (store, mut client, watcher) =
        (Arc::new(fixture.store().await), fixture.sql().await, fixture.sql().await);
    unique(&*store, keyed("lane")).await;
    for size in [1, 12] {
        for (round, commits) in [("a", false), ("b", true), ("c", false)] {
            let batch: Vec<_> = (0..size).map(|n| keyed(&format!("{round}/{size}/{n}"))).collect();
            if round == "c" {
                // Taken and free again: taken over, not new.
                let ids = store.enqueue(&batch).await.unwrap();
                store.cancel(&ids).await.unwrap();
            }
            let transaction = client.transaction().await.unwrap();
            let first = store.enqueue_unique_in(&transaction, &batch).await.unwrap();
            assert!(first.iter().all(|stored| stored.conflict.is_none()), "{first:?}");
            let again = store.enqueue_unique_in(&transaction, &batch).await.unwrap();
            assert!(again.iter().zip(&first).all(|(again, first)| *again == kept(first.id)), "{again:?}");
            let waiting = tokio::spawn({
                let (store, batch) = (store.clone(), batch.clone());
                async move { store.enqueue_unique(&batch).await.unwrap() }
            });
            another_waits(&fixture, &watcher).await;
            match commits {
                true => transaction.commit().await.unwrap(),
                false => transaction.rollback().await.unwrap(),
            }
            for (first, second) in first.iter().zip(waiting.await.unwrap()) {
                assert_eq!(second.conflict.is_some(), commits);
                assert_eq!(second.id == first.id, commits);
            }
        }
    }
    let transaction =
        client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let transaction = transaction.start().await.unwrap();
    let error = store.enqueue_unique_in(&transaction, &[keyed("k")]).await.unwrap_err();
    assert!(
        error.kind() == ErrorKind::InvalidOption && error.to_string().contains("READ COMMITTED"),
        "{error}"
    );
}

/// A call for unique jobs waits for somebody's lock.
async fn another_waits(fixture: &Fixture, watcher: &tokio_postgres::Client) {
    let blocked = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%\"{}\".%_unique%'",
        fixture.schema
    );
    eventually("the other call waits", || async { (one(watcher, &blocked).await > 0).then_some(()) }).await;
}

/// Begins to enqueue in a transaction that waits for as long as it takes.
async fn enqueue_in_its_own(
    fixture: &Fixture,
    store: &Arc<windlass_postgres::PostgresStore>,
    jobs: Vec<NewJob>,
) -> tokio::task::JoinHandle<Vec<EnqueuedUnique>> {
    let (mut client, store) = (fixture.sql().await, store.clone());
    tokio::spawn(async move {
        let transaction = client.transaction().await.unwrap();
        let stored = store.enqueue_unique_in(&transaction, &jobs).await.unwrap();
        transaction.commit().await.unwrap();
        stored
    })
}

/// A call that waited for a key has it from then on: its window counts from there, new or taken over, extended or replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_counts_from_when_the_key_was_had() {
    use windlass_core::OnConflict::{Extend, Keep, Replace};
    const WINDOW: Duration = Duration::from_millis(500);
    let fixture = Fixture::shared().await;
    let (store, mut client, watcher) =
        (Arc::new(fixture.store().await), fixture.sql().await, fixture.sql().await);
    let windowed = |key: &str, rule| {
        job().with_delay(LATER).with_unique(Unique::by_key(key).for_window(WINDOW).on_conflict(rule))
    };
    unique(&*store, keyed("lane")).await;
    for size in [1, 3] {
        for (key, rule) in
            [("new", Keep), ("over", Keep), ("extended", Extend), ("replaced", Replace { max_wait: None })]
        {
            let batch =
                |rule| (0..size).map(|n| windowed(&format!("{key}/{size}/{n}"), rule)).collect::<Vec<_>>();
            match key {
                "new" => {}
                // Taken, and free again.
                "over" => {
                    let jobs: Vec<_> = (0..size).map(|n| keyed(&format!("{key}/{size}/{n}"))).collect();
                    let ids = store.enqueue(&jobs).await.unwrap();
                    store.cancel(&ids).await.unwrap();
                }
                _ => drop(store.enqueue(&batch(Keep)).await.unwrap()),
            }
            let transaction = client.transaction().await.unwrap();
            let lock = fixture.text("SELECT FROM windlass.unique_key FOR UPDATE");
            match key {
                "new" => drop(store.enqueue_unique_in(&transaction, &batch(Keep)).await.unwrap()),
                _ => transaction.batch_execute(&lock).await.unwrap(),
            }
            let waiting = enqueue_in_its_own(&fixture, &store, batch(rule)).await;
            another_waits(&fixture, &watcher).await;
            tokio::time::sleep(WINDOW * 2).await;
            transaction.rollback().await.unwrap();
            let stored = waiting.await.unwrap();
            let left = fixture.text(&format!(
                "SELECT (min(extract(epoch FROM k.expires - clock_timestamp())) * 1000)::bigint FROM windlass.unique_key k WHERE k.id = ANY ('{{{}}}')",
                stored.iter().map(|stored| stored.id.to_string()).collect::<Vec<_>>().join(",")
            ));
            let left = one(&watcher, &left).await;
            assert!(left > 100, "{key} of {size}: {left} ms left");
        }
    }
}

/// A replacement whose holder is over when it has the lane is stored beside it, and has the key as any new job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_to_be_replaced_may_be_over() {
    let fixture = Fixture::shared().await;
    let (store, mut client) = (Arc::new(fixture.store().await), fixture.sql().await);
    let shared: Arc<dyn Store> = store.clone();
    let rule = windlass_core::OnConflict::Replace { max_wait: None };
    let brief = Unique::by_key("k").for_window(Duration::from_millis(300));
    for holder in [brief, Unique::by_key("k").until_started()] {
        for by_sql in [true, false] {
            let first = unique(&*store, job().with_unique(holder.clone())).await.id;
            let transaction = client.transaction().await.unwrap();
            let cancel = fixture.text(&format!("SELECT windlass.cancel({first})"));
            transaction.query_one(&cancel, &[]).await.unwrap();
            let new = job().with_unique(holder.clone().for_window(LATER).on_conflict(rule));
            let waiting = if by_sql {
                let call = format!(
                    "SELECT id, conflict FROM windlass.enqueue_unique('{KIND}', unique_key => 'k', unique_for => '1 hour', on_conflict => 'replace', queue => '{QUEUE}')"
                );
                let (other, call) = (fixture.sql().await, fixture.text(&call));
                tokio::spawn(async move {
                    let row = other.query_one(&call, &[]).await.unwrap();
                    assert_eq!(row.get::<_, Option<&str>>(1), None, "job {first} was cancelled");
                    vec![EnqueuedUnique { id: JobId(row.get(0)), conflict: None }]
                })
            } else {
                enqueue_in_its_own(&fixture, &store, vec![new]).await
            };
            tokio::time::sleep(Duration::from_millis(600)).await;
            transaction.commit().await.unwrap();
            let second = waiting.await.unwrap()[0];
            assert_eq!(second.conflict, None, "job {first} was cancelled");
            assert_eq!(worker_on(&shared).await.drain(10).await, [second.id]);
            assert_eq!(unique(&*store, job().with_unique(holder.clone())).await, kept(second.id));
            client.batch_execute(&fixture.text("TRUNCATE windlass.unique_key")).await.unwrap();
        }
    }
}

/// 8 connections, few keys, workers that complete, snapshots in between: no key has two live jobs in any of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_ever_has_two_jobs() {
    const KEYS: usize = 40;
    let fixture = Fixture::shared().await;
    let (ended, looks) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (mut callers, mut others) = (JoinSet::new(), JoinSet::new());
    for caller in 0..8 {
        let (store, looks) = (fixture.store().await, Arc::clone(&looks));
        callers.spawn(async move {
            let (mut stored, mut round) = (Vec::new(), 0);
            while round < 20 || looks.load(Ordering::SeqCst) < 6 {
                round += 1;
                let size = if (caller + round) % 3 == 0 { 1 } else { 30 };
                let job = |_| {
                    let n = fastrand::usize(..KEYS);
                    let job = NewJob::new("k", Args::of(&n).unwrap()).with_queue(QUEUE);
                    let job = if n % 5 == 0 { job.with_delay(Duration::from_millis(2)) } else { job };
                    job.with_unique(Unique::by_args())
                };
                let batch: Vec<_> = (0..size).map(job).collect();
                let replies = store.enqueue_unique(&batch).await.unwrap();
                stored.extend(replies.iter().filter(|reply| reply.conflict.is_none()).map(|reply| reply.id));
            }
            stored
        });
    }
    for _ in 0..2 {
        let worker = worker_on(&(Arc::new(fixture.store().await) as Arc<dyn Store>)).await;
        let ended = Arc::clone(&ended);
        others.spawn(async move {
            let mut done = Vec::new();
            loop {
                let last = ended.load(Ordering::SeqCst);
                worker.store.promote(100).await.unwrap();
                let some = worker.drain(7).await;
                if last && some.is_empty() {
                    return done;
                }
                done.extend(some);
            }
        });
    }
    let (watcher, ended_too) = (fixture.sql().await, Arc::clone(&ended));
    let doubled = fixture.text(
        "SELECT count(*) FROM (SELECT 1 FROM windlass.jobs WHERE state IN ('available', 'scheduled', 'running', 'retryable')
         GROUP BY args::text HAVING count(*) > 1) AS twice",
    );
    let watching = tokio::spawn(async move {
        while !ended_too.load(Ordering::SeqCst) {
            let doubled = one(&watcher, &doubled).await;
            looks.fetch_add(1, Ordering::SeqCst);
            assert_eq!(doubled, 0, "keys with two live jobs");
        }
    });
    let mut stored = callers.join_all().await.concat();
    ended.store(true, Ordering::SeqCst);
    let mut done = others.join_all().await.concat();
    watching.await.unwrap();
    let rest = std::sync::Mutex::new(Vec::new());
    // What the two left to one another.
    let last = worker_on(&(Arc::new(fixture.store().await) as Arc<dyn Store>)).await;
    eventually("nothing waits", || async {
        let next_due = last.store.promote(1_000).await.unwrap().next_due;
        let some = last.drain(7).await;
        let is_empty = some.is_empty();
        rest.lock().unwrap().extend(some);
        (is_empty && next_due.is_none()).then_some(())
    })
    .await;
    done.extend(rest.into_inner().unwrap());
    stored.sort_unstable();
    done.sort_unstable();
    assert!(stored == done, "{} stored, {} done", stored.len(), done.len());
    assert!(stored.len() >= KEYS);
    let client = fixture.sql().await;
    let live = "SELECT count(*) FROM windlass.unique_key k WHERE (SELECT h.held FROM windlass.unique_holders(ARRAY[k.key]) h)";
    assert_eq!(one(&client, &fixture.text(live)).await, 0, "no key is stuck");
}

/// What the key's short cut into the log points at may be gone: a cancelled job that was dropped as its segment was emptied, a
/// completed one whose segment was truncated, a moved one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_outlive_segments() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    let done = unique(&store, keyed("done")).await.id;
    worker.drain(10).await;
    let waiting = unique(&store, keyed("waiting")).await.id;
    let cancelled = unique(&store, keyed("cancelled")).await.id;
    store.cancel(&[cancelled]).await.unwrap();
    let client = fixture.sql().await;
    eventually("the segment is emptied", || async {
        let fill = store.enqueue(&[job().with_queue("fill")]).await.unwrap();
        store.cancel(&fill).await.unwrap();
        maintain_with(&store, KEEP_NOTHING).await;
        let rows =
            fixture.text(&format!("SELECT count(*) FROM windlass.job WHERE id IN ({done}, {cancelled})"));
        (one(&client, &rows).await == 0).then_some(())
    })
    .await;
    assert_eq!(unique(&store, keyed("waiting")).await, kept(waiting));
    assert_eq!(unique(&store, keyed("done")).await.conflict, None);
    assert_eq!(unique(&store, keyed("cancelled")).await.conflict, None);
}

/// After a restore into another cluster positions in the log mean nothing: keys go by their jobs, once the log is in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_survive_a_restore() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    unique(&store, keyed("done")).await;
    worker.drain(10).await;
    let running = unique(&store, keyed("running")).await.id;
    let _held = worker.take_one().await;
    let waiting = unique(&store, keyed("waiting")).await.id;
    let client = fixture.sql().await;
    let by = 1_000_000_000;
    let ahead = format!(
        "UPDATE windlass.job SET xid = (xid::text::bigint + {by})::text::xid8;
         UPDATE windlass.unique_key SET xid = (xid::text::bigint + {by})::text::xid8;
         UPDATE windlass.claim SET to_snapshot = format('%s:%s:', pg_snapshot_xmin(to_snapshot)::text::bigint + {by},
             pg_snapshot_xmax(to_snapshot)::text::bigint + {by})::pg_snapshot,
             from_snapshot = CASE from_snapshot::text WHEN '4:4:' THEN from_snapshot
                 ELSE format('%s:%s:', pg_snapshot_xmin(from_snapshot)::text::bigint + {by},
                             pg_snapshot_xmax(from_snapshot)::text::bigint + {by})::pg_snapshot END,
             start_xid = (start_xid::text::bigint + {by})::text::xid8, end_xid = (end_xid::text::bigint + {by})::text::xid8;
         UPDATE windlass.home SET xid = (xid::text::bigint + {by})::text::xid8, system = 1"
    );
    client.batch_execute(&fixture.text(&ahead)).await.unwrap();
    // Until the log is in order nobody can tell whether a job has its key: what this cluster wrote itself looks like history, and would be stored again.
    let new = unique(&store, keyed("new")).await.id;
    for key in ["new", "running", "waiting", "done"] {
        let refused = store.enqueue_unique(&[keyed(key)]).await.expect_err(key);
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    }
    client
        .batch_execute(&fixture.text("UPDATE windlass.unique_key SET check_at = '-infinity'"))
        .await
        .unwrap();
    store.maintain().await.unwrap();
    let keys = fixture.text("SELECT count(*) FROM windlass.unique_key");
    assert_eq!(client.query_one(&keys, &[]).await.unwrap().get::<_, i64>(0), 4, "none is forgotten");
    let restored: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&restored).await;
    for (key, id) in [("running", running), ("waiting", waiting), ("new", new)] {
        assert_eq!(unique(&restored, keyed(key)).await, kept(id));
    }
    assert_eq!(unique(&restored, keyed("done")).await.conflict, None);
    worker.take_when_due(4).await;
    assert_eq!(unique(&restored, keyed("waiting")).await, kept(waiting), "it runs");
    restored.deregister(worker.id).await.unwrap();
    let all = worker_on(&restored).await.drain(10).await;
    assert_eq!(all.len(), 4);
    assert_eq!(unique(&restored, keyed("waiting")).await.conflict, None);
}

/// Housekeeping forgets the keys of finished jobs, and looks at those of others ever more seldom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_nobody_has_are_forgotten() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let client = fixture.sql().await;
    let batch: Vec<_> = (0..30).map(|n| keyed(&format!("{n}"))).collect();
    store.enqueue(&batch).await.unwrap();
    worker_on(&store).await.drain(100).await;
    let later = unique(&store, keyed("later").with_delay(LATER)).await.id;
    let window = job().with_unique(Unique::by_key("window").for_window(LATER));
    let first = unique(&store, window.clone()).await.id;
    // One that had its key until it was started, and runs: it may come back untried.
    let started = || job().with_queue("s").with_unique(Unique::by_key("started").until_started());
    let running = unique(&store, started()).await.id;
    let of_s = worker(&store, &["s"], &[], LEASE).await;
    let held = of_s.take_one().await;
    let keys = fixture.text("SELECT count(*) FROM windlass.unique_key");
    store.maintain().await.unwrap();
    assert_eq!(one(&client, &keys).await, 33, "not yet");
    let age = "UPDATE windlass.unique_key SET check_at = check_at - interval '10 minutes', taken_at = taken_at - interval '10 minutes'
               WHERE expires IS NULL";
    client.batch_execute(&fixture.text(age)).await.unwrap();
    store.maintain().await.unwrap();
    assert_eq!(one(&client, &keys).await, 3);
    let due = fixture
        .text("SELECT count(*) FROM windlass.unique_key WHERE check_at > now() + interval '9 minutes'");
    assert_eq!(one(&client, &due).await, 3, "as long again as it is old, or at the window's end");
    assert_eq!(unique(&store, keyed("later").with_delay(LATER)).await, kept(later));
    assert_eq!(unique(&store, window).await, kept(first));
    assert_eq!(unique(&store, keyed("0")).await.conflict, None);
    of_s.except(&held, Disposition::Return).await;
    assert_eq!(unique(&store, started()).await, kept(running));
}

/// Housekeeping of keys whose jobs waited for their time: it keeps those that somebody may have, and nobody waits long for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_jobs_that_waited_are_looked_at_in_short_turns() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let client = fixture.sql().await;
    let batch = |what: &str, count, delay, unique: fn(Unique) -> Unique| {
        let job = |n| job().with_delay(delay).with_unique(unique(Unique::by_key(format!("{what}/{n}"))));
        (0..count).map(job).collect::<Vec<_>>()
    };
    let soon = Duration::from_millis(1);
    let promoted = async |jobs: &[NewJob]| {
        store.enqueue(jobs).await.unwrap();
        eventually("they are due", || async {
            store.promote(10_000).await.unwrap().next_due.is_none_or(|due| due > soon * 1_000).then_some(())
        })
        .await;
    };
    let worker = worker_on(&store).await;
    store.enqueue(&batch("later", 100, LATER, |unique| unique)).await.unwrap();
    promoted(&batch("done", 1_000, soon, |unique| unique)).await;
    assert_eq!(worker.drain(1_000).await.len(), 1_000);
    promoted(&batch("running", 100, soon, |unique| unique)).await;
    promoted(&batch("started", 100, soon, Unique::until_started)).await;
    worker.take(200).await;
    promoted(&batch("waiting", 2_000, soon, |unique| unique)).await;
    let due = fixture.text("UPDATE windlass.unique_key SET check_at = now() - interval '1 minute'");
    client.batch_execute(&due).await.unwrap();
    let (mut calls, mut longest) = (0, Duration::ZERO);
    loop {
        let began = std::time::Instant::now();
        let seen = one(&client, &fixture.text("SELECT windlass.forget_unique(5000)")).await;
        (calls, longest) = (calls + 1, longest.max(began.elapsed()));
        if seen < 5_000 {
            break;
        }
    }
    assert!(longest < Duration::from_millis(700), "one of {calls} calls took {longest:?}");
    assert_eq!(one(&client, &fixture.text("SELECT count(*) FROM windlass.unique_key")).await, 2_300);
    assert_eq!(unique(&store, keyed("done/7")).await.conflict, None);
    for what in ["later/7", "running/7", "waiting/7"] {
        assert_eq!(unique(&store, keyed(what)).await.conflict, Some(Conflict::Kept), "{what}");
    }
}

/// Plain SQL computes the same keys, and follows the same rules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_sql_and_the_store_share_keys() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let client = fixture.sql().await;
    let call = |rest: &str| {
        let text = format!(
            "SELECT id, conflict FROM windlass.enqueue_unique('mail', '{{\"b\": 1.50, \"a\": \"x\"}}', {rest})"
        );
        fixture.text(&text)
    };
    let ask = async |rest: &str| {
        let row = client.query_one(&call(rest), &[]).await.unwrap();
        (JobId(row.get(0)), row.get::<_, Option<String>>(1))
    };
    let args = Args::parse(r#"{"a":"x","b":15e-1}"#).unwrap();
    let (id, conflict) = ask("queue => 'q'").await;
    assert_eq!(conflict, None);
    let same = NewJob::new("mail", args.clone()).with_queue("q").with_unique(Unique::by_args());
    assert_eq!(unique(&store, same.clone()).await, kept(id));
    assert_eq!(ask("queue => 'q'").await, (id, Some("kept".into())));
    store.cancel(&[id]).await.unwrap();
    let second = unique(&store, same).await.id;
    assert_eq!(store.retry(&[id]).await.unwrap(), [RetryReply::KeyTaken], "its mark says so");
    assert_eq!(ask("queue => 'q'").await, (second, Some("kept".into())));

    let (id, _) =
        ask("unique_fields => '{b}', unique_in => 'queue', unique_for => '1 hour', on_conflict => 'extend'")
            .await;
    assert_eq!(
        ask("unique_fields => '{b}', unique_in => 'queue', unique_for => '1 hour', on_conflict => 'extend'")
            .await,
        (id, Some("extended".into()))
    );
    let debounced = "unique_key => 'd', unique_until => 'started', on_conflict => 'replace', max_wait => '1 minute', scheduled_at => now() + interval '30 seconds', priority => 5";
    let (id, _) = ask(debounced).await;
    assert_eq!(ask(debounced).await, (id, Some("replaced".into())));
    assert_eq!((record(&store, id).await.state, record(&store, id).await.priority), (JobState::Scheduled, 5));

    for (rest, code, says) in [
        ("unique_key => 'd', on_conflict => 'error'", "WL007", "has this unique key"),
        ("unique_key => ''", "WL003", "1 to 200 bytes, got 0"),
        ("unique_key => 'a', unique_fields => '{b}'", "WL003", "not by both"),
        ("unique_fields => '{c}'", "WL004", "field 'c'"),
        ("unique_fields => '{}'", "WL003", "1 to 32 fields, got 0"),
        ("unique_in => 'store'", "WL003", "'store'"),
        ("unique_until => 'done'", "WL003", "'done'"),
        ("unique_for => '-1 s'", "WL003", "a millisecond to 100 years"),
        ("unique_for => '200 years'", "WL003", "a millisecond to 100 years"),
        ("on_conflict => 'drop'", "WL003", "'drop'"),
        ("on_conflict => 'extend'", "WL003", "pass unique_for"),
        ("max_wait => '1 s'", "WL003", "on_conflict => 'replace'"),
        ("max_attempts => 0", "WL003", "max_attempts"),
        ("scheduled_at => 'infinity'", "WL003", "finite"),
    ] {
        let error = client.query_one(&call(rest), &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert!(error.code().code() == code && error.message().contains(says), "{rest}: {}", error.message());
    }
}

/// The statement for drivers that only run SQL: ids in the order of the jobs, plain ones among them.
#[tokio::test]
async fn other_drivers_enqueue_unique_jobs() {
    let fixture = Fixture::shared().await;
    let (store, client) = (fixture.store().await, fixture.sql().await);
    let run = async |call: windlass_postgres::SqlCall| -> Vec<JobId> {
        let windlass_postgres::SqlParam::Text(rows) = &call.params[0] else { panic!("{call:?}") };
        let rows = client.query(&call.text, &[rows]).await.unwrap();
        rows.iter().map(|row| JobId(row.get(0))).collect()
    };
    let first = run(store.enqueue_sql(&keyed("b").with_meta(Args::parse("{}").unwrap())).unwrap()).await[0];
    let replace = windlass_core::OnConflict::Replace { max_wait: Some(LATER) };
    let debounced = |n: usize| {
        let unique = Unique::by_key("d").until_started().on_conflict(replace);
        NewJob::new("k", Args::of(&n).unwrap()).with_queue(QUEUE).with_delay(LATER).with_unique(unique)
    };
    let text = NewJob::new("k", Args::of("text").unwrap()).with_queue(QUEUE).with_unique(Unique::by_args());
    let batch = [keyed("z"), job(), keyed("b"), keyed("a"), job(), debounced(1), debounced(2), text];
    let ids = run(store.enqueue_many_sql(&batch).unwrap()).await;
    assert_eq!((ids[2], ids[5]), (first, ids[6]));
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 7);
    let again = store.enqueue_unique(&batch[..1]).await.unwrap()[0];
    assert_eq!(again, kept(ids[0]));
    let seen = store.job(ids[5]).await.unwrap().unwrap();
    assert_eq!((seen.args.as_str(), seen.state), ("2", JobState::Scheduled));
    let text = store.job(ids[7]).await.unwrap().unwrap();
    assert_eq!(text.args.as_str(), "\"text\"");
    store.cancel(&[first]).await.unwrap();
    assert_eq!(unique(&store, keyed("b")).await.conflict, None);
    assert_eq!(store.retry(&[first]).await.unwrap(), [RetryReply::KeyTaken], "its mark was stored");
}

#[derive(serde::Deserialize)]
struct Vector {
    what: String,
    kind: String,
    queue: String,
    args: String,
    scope: String,
    unique_key: Option<String>,
    fields: Option<Vec<String>>,
    preimage: Option<String>,
}

/// The golden vectors.
#[tokio::test]
async fn plain_sql_has_the_golden_keys() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let vectors: HashMap<String, serde_json::Value> =
        serde_json::from_str(include_str!("../../../../conformance/vectors/unique.json")).unwrap();
    let read = |name: &str| serde_json::from_value::<Vec<Vector>>(vectors[name].clone()).unwrap();
    let text = fixture.text("SELECT windlass.unique_text($1, $2, $3::text::jsonb, $4, $5, $6)");
    for vector in read("keys").into_iter().chain(read("refused")) {
        let Vector { what, kind, queue, args, scope, unique_key, fields, preimage } = vector;
        let got = client.query_one(&text, &[&kind, &queue, &args, &unique_key, &fields, &scope]).await;
        match preimage {
            Some(preimage) => assert_eq!(got.unwrap().get::<_, &str>(0), preimage, "{what}"),
            None => {
                let error = got.unwrap_err();
                let code = error.as_db_error().unwrap().code().code();
                assert!(["WL003", "WL004"].contains(&code), "{what}: {error:?}");
            }
        }
    }
}
