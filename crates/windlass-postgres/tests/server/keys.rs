//! Keyed queues under what only PostgreSQL does: commits in any order, a restore, the ring of segments, limits that come while others write.

use crate::{cluster::Fixture, limits::writes};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use windlass_conformance::steps::{
    Held, LATER, QUEUE, TestWorker, eventually, job, jobs, maintain_with, worker_on,
};
use windlass_core::{
    ClaimRequest, Disposition, JobId, KeyLimit, KeyLimitsChange, NewJob, QueueDemand, RateLimit, Settings,
    Store,
};
use windlass_postgres::{PostgresOptions, PostgresStore};

/// Nothing settled stays, and segments are small.
pub(crate) const SMALL: Settings =
    Settings::DEFAULT.with_retention(Duration::ZERO).with_segment_bytes(1 << 20);
const ROUNDS: usize = 40;

async fn keyed(fixture: &Fixture, limit: KeyLimit) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    store.limit_keys(QUEUE, &KeyLimitsChange::Default(limit)).await.expect("limit keys");
    store
}

pub(crate) fn of(key: &str, count: usize) -> Vec<NewJob> {
    jobs(count).into_iter().map(|job| job.with_key(key)).collect()
}

/// One call, within these bounds. Whether the store says that there is more comes with it.
pub(crate) async fn claim_within(worker: &TestWorker, demand: QueueDemand) -> (Vec<Held>, bool) {
    let request = ClaimRequest { worker: worker.id, queues: vec![demand] };
    let claimed = worker.store.claim(&request).await.expect("claim");
    (windlass_conformance::steps::held(&claimed.claims), claimed.contended)
}

/// Claims at most so many jobs, as often as the store says that there is more.
pub(crate) async fn claim(worker: &TestWorker, most: u32) -> Vec<Held> {
    loop {
        let (held, more) = claim_within(worker, QueueDemand::new(QUEUE, most)).await;
        if !held.is_empty() || !more {
            return held;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) async fn complete(worker: &TestWorker, held: &[Held]) {
    let reply = worker.settle(held.iter().map(Held::completion).collect(), vec![]).await;
    assert_eq!(reply.completions.len(), held.len());
}

/// Works until nothing is left that may run. The ids in order.
pub(crate) async fn work_all(worker: &TestWorker, batch: u32) -> Vec<JobId> {
    let mut done = Vec::new();
    loop {
        let held = claim(worker, batch).await;
        if held.is_empty() {
            return done;
        }
        complete(worker, &held).await;
        done.extend(held.iter().map(|held| held.job.id));
    }
}

/// Jobs of a key come by their ids as far as they are visible; one that commits late goes next, from a savepoint too.
#[tokio::test]
async fn a_late_commit_goes_next() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::serial()).await;
    let early = fixture.sql().await;
    early.batch_execute("BEGIN; SELECT pg_current_xact_id(); SAVEPOINT inside").await.unwrap();
    let enqueue = fixture.text("SELECT windlass.enqueue('k', '{}', 'q', key => 'a')");
    let first = JobId(early.query_one(&enqueue, &[]).await.unwrap().get(0));
    early.batch_execute("RELEASE inside").await.unwrap();
    let ids = store.enqueue(&of("a", 4)).await.unwrap();
    let worker = worker_on(&store).await;
    let held = claim(&worker, 10).await;
    assert_eq!(held.iter().map(|held| held.job.id).collect::<Vec<_>>(), ids[..1]);
    early.batch_execute("COMMIT").await.unwrap();
    assert!(claim(&worker, 10).await.is_empty());
    complete(&worker, &held).await;
    assert_eq!(work_all(&worker, 10).await, [&[first], &ids[1..]].concat());
}

/// A bulk of one key that is not committed, or was rolled back, hides nothing of the same key, and comes as soon as it commits.
#[tokio::test]
async fn an_open_bulk_of_the_same_key_is_passed_over() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::default()).await;
    let bulk = fixture.text(
        "SELECT count(*) FROM (SELECT windlass.enqueue('k', '{}', 'q', key => 'a') FROM generate_series(1, 300)) AS e",
    );
    let (open, undone) = (fixture.sql().await, fixture.sql().await);
    open.batch_execute(&format!("BEGIN; {bulk}")).await.unwrap();
    undone.batch_execute(&format!("BEGIN; {bulk}; ROLLBACK")).await.unwrap();
    let ids = store.enqueue(&of("a", 200)).await.unwrap();
    let worker = worker_on(&store).await;
    assert_eq!(work_all(&worker, 70).await, ids);
    open.batch_execute("COMMIT").await.unwrap();
    let late = work_all(&worker, 70).await;
    assert_eq!(late.len(), 300);
    assert!(late.is_sorted() && late.iter().all(|id| !ids.contains(id)));
    assert_eq!(work_all(&worker, 70).await, []);
}

/// Ten jobs behind a bulk of another key come within the first claims. (On a machine that takes seconds to move the bulk, one of them may be of the bulk alone.)
#[tokio::test]
async fn a_bulk_hides_no_other_key() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::default()).await;
    for _ in 0..4 {
        store.enqueue(&of("noisy", 10_000)).await.unwrap();
    }
    let ids: BTreeSet<_> = store.enqueue(&of("quiet", 10)).await.unwrap().into_iter().collect();
    let worker = worker_on(&store).await;
    let mut seen: BTreeSet<JobId> = BTreeSet::new();
    for _ in 0..4 {
        seen.extend(claim(&worker, 100).await.iter().map(|held| held.job.id));
    }
    assert!(ids.is_subset(&seen));
}

/// Where a claim takes all that a queue has, whose keys have weights and nothing else, no job is moved; they come in turns all the same, and what a key had counts.
#[tokio::test]
async fn what_goes_whole_is_not_moved() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::default()).await;
    store.enqueue(&[of("noisy", 40), of("quiet", 10)].concat()).await.unwrap();
    let worker = worker_on(&store).await;
    let held = claim(&worker, 100).await;
    assert_eq!(held.len(), 50);
    let is_quiet =
        |held: &Held| held.job.attributes.as_ref().and_then(|known| known.key.as_deref()) == Some("quiet");
    assert_eq!(held[..20].iter().filter(|held| is_quiet(held)).count(), 10, "in turns");
    let rows = "SELECT (SELECT count(*) FROM windlass.job), (SELECT count(*) FROM windlass.waiting)";
    let row = fixture.sql().await.query_one(&fixture.text(rows), &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (50, 0));
    store.enqueue(&[of("noisy", 1), of("quiet", 1)].concat()).await.unwrap();
    assert!(is_quiet(&claim(&worker, 1).await[0]), "the other key is ahead");
    assert!(!is_quiet(&claim(&worker, 1).await[0]));
    // Limits that come then count what is held so.
    store
        .limit_keys(QUEUE, &KeyLimitsChange::Default(KeyLimit::default().with_concurrency(11)))
        .await
        .unwrap();
    store.enqueue(&[of("noisy", 1), of("quiet", 1)].concat()).await.unwrap();
    assert!(claim(&worker, 10).await.is_empty(), "both keys have eleven or more");
    complete(&worker, &held).await;
    assert_eq!(claim(&worker, 10).await.len(), 2);
}

/// What has room goes when it is read; of the same page the rest waits, and goes by its id.
#[tokio::test]
async fn what_has_room_goes_at_once() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::default().with_concurrency(2)).await;
    let (a, b) = (store.enqueue(&of("a", 5)).await.unwrap(), store.enqueue(&of("b", 1)).await.unwrap());
    let worker = worker_on(&store).await;
    let held = claim(&worker, 10).await;
    let ids: BTreeSet<_> = held.iter().map(|held| held.job.id).collect();
    assert_eq!(ids, BTreeSet::from([a[0], a[1], b[0]]));
    let waiting = "SELECT count(*) FROM windlass.waiting WHERE state = 'keyed'";
    let waiting: i64 = fixture.sql().await.query_one(&fixture.text(waiting), &[]).await.unwrap().get(0);
    assert_eq!(waiting, 3);
    let later = store.enqueue(&of("a", 1)).await.unwrap();
    assert!(claim(&worker, 10).await.is_empty());
    complete(&worker, &held).await;
    assert_eq!(work_all(&worker, 10).await, [&a[2..], &later[..]].concat());
}

/// While many enqueue and claim, the queue gets limits of its keys, loses them and gets them again: every job comes once, and in the end no more
/// jobs of a key are held than may be.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn limits_come_while_others_work() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let changed = Arc::new(AtomicBool::new(false));
    let producers = (0..3).map(|n| {
        let (store, changed) = (Arc::clone(&store), Arc::clone(&changed));
        tokio::spawn(async move {
            let (mut ids, mut round) = (Vec::new(), 0);
            while round < 30 || !changed.load(Ordering::Acquire) {
                let key = format!("{}", (n + round) % 4);
                ids.extend(store.enqueue(&of(&key, 20)).await.expect("enqueue"));
                round += 1;
                if round > 30 {
                    // Enough for workers that wait for the changes, and no more than they can work in the end.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            ids
        })
    });
    let producers: Vec<_> = producers.collect();
    let (done, worked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (store, done, worked) = (Arc::clone(&store), Arc::clone(&done), Arc::clone(&worked));
            tokio::spawn(async move {
                let worker = worker_on(&store).await;
                let mut ids = Vec::new();
                loop {
                    let last = done.load(Ordering::Acquire);
                    let held = claim(&worker, 15).await;
                    complete(&worker, &held).await;
                    worked.fetch_add(held.len(), Ordering::AcqRel);
                    ids.extend(held.iter().map(|held| held.job.id));
                    if last && held.is_empty() {
                        return ids;
                    }
                }
            })
        })
        .collect();
    let two = KeyLimitsChange::Default(KeyLimit::default().with_concurrency(2));
    for change in [two.clone(), KeyLimitsChange::Off, two] {
        store.limit_keys(QUEUE, &change).await.expect("limit keys");
        let before = worked.load(Ordering::Acquire);
        eventually("jobs are worked under the change", || async {
            (worked.load(Ordering::Acquire) >= before + 100).then_some(())
        })
        .await;
    }
    changed.store(true, Ordering::Release);
    let mut enqueued = Vec::new();
    for producer in producers {
        enqueued.extend(producer.await.unwrap());
    }
    done.store(true, Ordering::Release);
    let mut seen = Vec::new();
    for worker in workers {
        seen.extend(worker.await.unwrap());
    }
    seen.extend(work_all(&worker_on(&store).await, 50).await);
    seen.sort_unstable();
    enqueued.sort_unstable();
    assert_eq!(seen, enqueued, "each job once");
    store.enqueue(&of("0", 9)).await.unwrap();
    let worker = worker_on(&store).await;
    assert_eq!(claim(&worker, 100).await.len(), 2);
    assert!(claim(&worker, 100).await.is_empty());
}

/// Segments go while keys wait: what was not handed out moves along, in order, what was done does not come again, and held jobs count on.
#[tokio::test]
async fn segments_go() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::default().with_concurrency(3)).await;
    store
        .limit_keys(QUEUE, &KeyLimitsChange::Named(vec![("s".into(), Some(KeyLimit::serial()))]))
        .await
        .unwrap();
    let (a, s) = (store.enqueue(&of("a", 40)).await.unwrap(), store.enqueue(&of("s", 20)).await.unwrap());
    let worker = worker_on(&store).await;
    let (mut of_a, mut of_s) = (Vec::new(), Vec::new());
    let mut truncated = 0;
    let first = claim(&worker, 100).await;
    assert_eq!(first.len(), 4);
    let blocker = first.iter().find(|held| held.job.id == s[0]).expect("the serial key's first job");
    worker.except(blocker, Disposition::Return).await;
    let held: Vec<_> = first.into_iter().filter(|held| held.job.id != s[0]).collect();
    for round in 0..ROUNDS {
        let report = maintain_with(&store, SMALL).await;
        truncated += report.truncated;
        let now = claim(&worker, 2).await;
        assert!(
            now.iter().all(|held| s.contains(&held.job.id)),
            "round {round}: the other key has its three"
        );
        complete(&worker, &now).await;
        of_s.extend(now.iter().map(|held| held.job.id));
    }
    assert!(truncated >= 2, "only {truncated} segments went");
    assert_eq!(of_s, s);
    complete(&worker, &held).await;
    of_a.extend(held.iter().map(|held| held.job.id));
    of_a.extend(work_all(&worker, 2).await);
    assert_eq!(of_a, a);
    // Nothing is kept of keys without jobs.
    let client = fixture.sql().await;
    for _ in 0..ROUNDS {
        store.maintain().await.unwrap();
        let forget = "UPDATE windlass.housekeeping SET turns_began_at = '-infinity'";
        client.batch_execute(&fixture.text(forget)).await.unwrap();
    }
    let left = "SELECT (SELECT count(*) FROM windlass.key_turn) + (SELECT count(*) FROM windlass.key_room) + (SELECT count(*) FROM windlass.key_held)
         + (SELECT count(*) FROM windlass.key_signal)";
    let left: i64 = client.query_one(&fixture.text(left), &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "something is kept of keys without jobs");
    let again = store.enqueue(&of("a", 2)).await.unwrap();
    assert_eq!(work_all(&worker, 2).await, again);
}

/// A worker on the database after it was moved to another cluster.
async fn restored(fixture: &Fixture) -> TestWorker {
    let moved = "UPDATE windlass.home SET xid = (xid::text::bigint + 1000000000)::text::xid8, system = 1";
    fixture.sql().await.batch_execute(&fixture.text(moved)).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    store.promote(1_000).await.unwrap();
    worker
}

/// A database that was moved to another cluster: keys and limits come along, each unfinished job comes once.
#[tokio::test]
async fn a_restore_keeps_keys() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::default().with_concurrency(2)).await;
    let ids = store.enqueue(&of("a", 12)).await.unwrap();
    store.enqueue(&[job().with_priority(5).with_key("a")]).await.unwrap();
    let worker = worker_on(&store).await;
    let done = claim(&worker, 2).await;
    complete(&worker, &done).await;
    assert_eq!(claim(&worker, 10).await.len(), 2);
    let worker = restored(&fixture).await;
    let held = claim(&worker, 10).await;
    assert_eq!(held.iter().map(|held| held.job.id).collect::<Vec<_>>(), ids[2..4]);
    complete(&worker, &held).await;
    let rest = work_all(&worker, 10).await;
    assert_eq!(rest.len(), 9);
    assert_eq!(rest[..8], ids[4..]);
}

/// A key that was at its limit when the database was moved goes on, though the other one of its lane had gone far ahead meanwhile.
#[tokio::test]
async fn a_restore_leaves_no_key_behind() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::default().with_concurrency(1)).await;
    let (a, b) = (store.enqueue(&of("a", 2)).await.unwrap(), store.enqueue(&of("b", 5)).await.unwrap());
    let worker = worker_on(&store).await;
    let mut held = claim(&worker, 10).await;
    assert_eq!(held.len(), 2);
    held.retain(|held| held.job.id != a[0]);
    for _ in 0..3 {
        complete(&worker, &held).await;
        held = claim(&worker, 10).await;
        assert_eq!(held.len(), 1);
    }
    let worker = restored(&fixture).await;
    let later = store.enqueue(&of("a", 1)).await.unwrap();
    let done: BTreeSet<_> = work_all(&worker, 10).await.into_iter().collect();
    assert_eq!(done, [&a[..], &b[3..], &later[..]].concat().into_iter().collect());
}

/// What was over when the dump was taken keeps no job of its serial key waiting, though no claim had seen it yet; what waits for its retry does.
#[tokio::test]
async fn a_restore_lets_the_next_of_a_serial_key_go() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::serial()).await;
    let (over, tried) = (of("over", 3), of("tried", 2));
    let ids = store.enqueue(&[over, tried].concat()).await.unwrap();
    let worker = worker_on(&store).await;
    let first = claim(&worker, 10).await;
    let (over, tried): (Vec<_>, Vec<_>) = first.into_iter().partition(|held| held.job.id == ids[0]);
    worker.except(&tried[0], Disposition::Retry { delay: LATER, error: "again".to_owned() }).await;
    complete(&worker, &over).await;
    let worker = restored(&fixture).await;
    assert_eq!(work_all(&worker, 10).await, ids[1..3]);
    store.retry(&ids[3..4]).await.unwrap();
    assert_eq!(work_all(&worker, 10).await, ids[3..]);
}

/// So many in a time.
fn rate(count: u32, period: Duration) -> KeyLimit {
    KeyLimit::default().with_rate(RateLimit::new(count, period))
}

/// What ended before the database was moved counts on, and what was held then.
#[tokio::test]
async fn a_restore_keeps_rates() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, rate(4, Duration::from_secs(3600))).await;
    store.enqueue(&of("a", 9)).await.unwrap();
    let worker = worker_on(&store).await;
    let done = claim(&worker, 1).await;
    complete(&worker, &done).await;
    assert_eq!(claim(&worker, 2).await.len(), 2);
    let worker = restored(&fixture).await;
    let held = claim(&worker, 10).await;
    assert_eq!(held.len(), 1, "three count");
    complete(&worker, &held).await;
    assert!(claim(&worker, 10).await.is_empty());
}

/// Of keys with a rate nothing is kept after their period, though nobody claims.
#[tokio::test]
async fn a_period_leaves_nothing() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, rate(5, RateLimit::SHORTEST)).await;
    store.enqueue(&of("a", 5)).await.unwrap();
    let worker = worker_on(&store).await;
    let held = claim(&worker, 10).await;
    complete(&worker, &held).await;
    assert!(claim(&worker, 10).await.is_empty());
    let client = fixture.sql().await;
    let left = fixture
        .text("SELECT (SELECT count(*) FROM windlass.key_room) + (SELECT count(*) FROM windlass.key_ended)");
    eventually("housekeeping forgets what ended", || async {
        store.maintain().await.unwrap();
        let left: i64 = client.query_one(&left, &[]).await.unwrap().get(0);
        (left == 0).then_some(())
    })
    .await;
}

/// What settles while the clock is set back counts no shorter and no longer than until the clock is where it was.
#[tokio::test]
async fn a_clock_that_is_set_back_loses_nothing() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, rate(2, Duration::from_millis(500))).await;
    store.enqueue(&of("a", 4)).await.unwrap();
    let worker = worker_on(&store).await;
    let held = claim(&worker, 10).await;
    // As if claims had looked up to a time that is to come.
    let client = fixture.sql().await;
    let ahead =
        "INSERT INTO windlass.key_looked (queue, at) VALUES ('q', clock_timestamp() + interval '5 seconds')";
    client.batch_execute(&fixture.text(ahead)).await.unwrap();
    complete(&worker, &held).await;
    assert!(claim(&worker, 10).await.is_empty());
    eventually("the others come", || async {
        store.promote(1_000).await.unwrap();
        (claim(&worker, 10).await.len() == 2).then_some(())
    })
    .await;
}

/// Settings of a role or a database that change what text says of a number or a string.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_the_role_starve_no_key() {
    let fixture = Fixture::fresh().await;
    let options = "&options=-c%20extra_float_digits%3D0%20-c%20standard_conforming_strings%3Doff";
    let store =
        PostgresStore::connect(&format!("{}{options}", fixture.url), PostgresOptions::default()).await;
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    let limit = KeyLimit::default().with_weight(3).with_concurrency(1);
    store.limit_keys(QUEUE, &KeyLimitsChange::Default(limit)).await.unwrap();
    let keys = ["a", "b", "eu\\acme", "a\"b", "a\"c"];
    for key in keys {
        for one in of(key, 7) {
            store.enqueue(&[one]).await.unwrap();
        }
    }
    let worker = worker_on(&store).await;
    for done in 0..keys.len() * 7 {
        let held = claim(&worker, 1).await;
        assert_eq!(held.len(), 1, "after {done} jobs");
        worker.complete(&held[0]).await;
    }
}

/// What ended in one lane counts, also where the settlements of another went with their segment before they were seen. (Transactions of the
/// tests beside this one put housekeeping off; alone it failed each time before ends were kept.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missed_lane_forgets_no_end_of_another() {
    let fixture = Fixture::fresh().await;
    let rate = RateLimit::new(1, Duration::from_secs(3_600));
    let store = keyed(&fixture, KeyLimit::default().with_rate(rate)).await;
    store.configure(&SMALL.with_segment_bytes(1)).await.unwrap();
    let one = async |key: &str, priority| {
        store.enqueue(&[job().with_key(key).with_priority(priority)]).await.unwrap();
    };
    one("z", 1).await;
    one("b", 0).await;
    let worker = worker_on(&store).await;
    let mut both = claim(&worker, 10).await;
    for _ in 0..100 {
        if both.len() < 2 {
            both.extend(claim(&worker, 10).await);
        }
    }
    assert_eq!(both.len(), 2);
    let of_b = both.iter().max_by_key(|held| held.job.id).expect("it came later");
    worker.complete(of_b).await;
    store.maintain().await.unwrap();
    one("a", 0).await;
    one("a", 0).await;
    let first = claim(&worker, 10).await;
    assert_eq!(first.len(), 1);
    worker.complete(&first[0]).await;
    for _ in 0..4 {
        store.maintain().await.unwrap();
        assert_eq!(claim(&worker, 10).await.len(), 0, "one in an hour");
    }
}

/// As `store keys::repeating_a_change_writes_and_tells_nothing` of SQLite.
#[tokio::test]
async fn repeating_a_change_writes_nothing() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    for change in [
        "unlimit_key('q', 'a')",
        "put_key_limits('q', '{a,b}', '{NULL,NULL}', '{NULL,NULL}', '{NULL,NULL}')",
        "limit_keys('q', concurrency => 2, rate => 5, period => '1 minute')",
        "limit_keys('q', serial => true)",
        "limit_key('q', 'a', concurrency => 3)",
        "put_key_limits('q', '{a,b}', '{3,NULL}', '{false,NULL}', '{1,NULL}')",
        "unlimit_key('q', 'a')",
    ] {
        let change = format!("SELECT windlass.{change}");
        client.batch_execute(&fixture.text(&change)).await.unwrap();
        assert!(!writes(&fixture, &client, &change).await, "{change} wrote something");
    }
    let keyed = fixture.text("SELECT bool_and(keyed) FROM windlass.queue");
    assert_eq!(client.query_one(&keyed, &[]).await.unwrap().get::<_, Option<bool>>(0), Some(true));
}

/// Who asks whether there is work is told of what the end of a job let go, before a claim has seen that end: behind a pooler nobody is told to claim, and `work --until-empty` would stop.
#[tokio::test]
async fn the_end_of_a_job_is_work_for_the_next_of_its_key() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::serial()).await;
    store.enqueue(&of("a", 2)).await.unwrap();
    let worker = worker_on(&store).await;
    let any = async || store.any_available(&[QUEUE.to_owned()], &[]).await.unwrap();
    for left in [true, false] {
        assert!(any().await);
        let held = claim(&worker, 10).await;
        assert!(!any().await, "it runs, and the other waits for its end");
        complete(&worker, &held).await;
        assert_eq!(any().await, left);
    }
}

/// A job that was held when its queue got limits, and waits for its retry, is put into the queue's keyed lane by the next claim: which waited for who edits the job in a transaction
/// that stays open, with the queue's lock held, and gave nobody jobs of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_edits_what_was_held_before_the_limits_keeps_no_claim_waiting() {
    let fixture = Fixture::fresh().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    let ids = store.enqueue(&of("a", 2)).await.unwrap();
    let held = worker.take_one().await;
    store.limit_keys(QUEUE, &KeyLimitsChange::Default(KeyLimit::serial())).await.unwrap();
    worker.except(&held, Disposition::Retry { delay: LATER, error: "no".into() }).await;
    let editor = fixture.sql().await;
    for (how, end) in [("max_attempts => 5", "ROLLBACK"), ("max_attempts => 6", "COMMIT")] {
        let edit = format!("BEGIN; SELECT windlass.edit({}, {how})", ids[0]);
        editor.batch_execute(&fixture.text(&edit)).await.unwrap();
        let other = store.enqueue(&of("b", 1)).await.unwrap();
        let claimed = claim(&worker, 10).await;
        assert_eq!(claimed.iter().map(|held| held.job.id).collect::<Vec<_>>(), other, "{how}");
        complete(&worker, &claimed).await;
        editor.batch_execute(end).await.unwrap();
        assert!(claim(&worker, 10).await.is_empty(), "the other waits for the first");
    }
    store.cancel(&ids[..1]).await.unwrap();
    assert_eq!(work_all(&worker, 10).await, ids[1..]);
}

/// Claims looked at all that was told of serial keys at once: a hundred thousand jobs that had become due, or were cancelled, took longer than a call may, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_looks_at_so_many_ends_at_most_and_gives_nothing_before_it_has_seen_all() {
    let fixture = Fixture::fresh().await;
    let store = keyed(&fixture, KeyLimit::serial()).await;
    let ids = store.enqueue(&of("a", 2)).await.unwrap();
    let worker = worker_on(&store).await;
    let held = claim(&worker, 10).await;
    let client = fixture.sql().await;
    let told = "INSERT INTO windlass.key_signal (lane_id, job_id, is_over, key)
        SELECT l.id, -i, false, 'b' FROM windlass.lane l, generate_series(1, 1500) AS i WHERE l.id < 0";
    client.batch_execute(&fixture.text(told)).await.unwrap();
    complete(&worker, &held).await;
    let (claimed, more) = claim_within(&worker, QueueDemand::new(QUEUE, 10)).await;
    assert!(claimed.is_empty() && more);
    let left = fixture.text("SELECT count(*) FROM windlass.key_signal");
    assert_eq!(client.query_one(&left, &[]).await.unwrap().get::<_, i64>(0), 500);
    let claimed = claim(&worker, 10).await;
    assert_eq!(claimed[0].job.id, ids[1]);
    // What becomes due is not over, and is no news.
    let again = Disposition::Retry { delay: Duration::ZERO, error: "no".into() };
    worker.except(&claimed[0], again).await;
    store.promote(10).await.unwrap();
    assert_eq!(client.query_one(&left, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(work_all(&worker, 10).await, ids[1..]);
}
