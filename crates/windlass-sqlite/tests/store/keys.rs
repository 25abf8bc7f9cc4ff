//! Keys inside a queue, as far as only this store has to do with it.

use crate::fixture::{Fixture, Held, completion, demand, ids, job, jobs};
use std::{collections::BTreeMap, time::Duration};
use windlass_core::{
    Claim, ClaimRequest, Disposition, JobId, JobSet, JobStore, KeyLimit, KeyLimits, KeyLimitsChange, NewJob,
    QueueDemand, RateLimit, Wake, WorkerId,
};

/// More jobs than one claim or one transaction of `limit_keys` enters by their keys.
const MANY: usize = 25_000;

pub(crate) fn at_once(concurrency: u32) -> KeyLimit {
    KeyLimit::default().with_concurrency(concurrency)
}

pub(crate) async fn limit(f: &Fixture, limit: KeyLimit) {
    f.limit_keys("default", &KeyLimitsChange::Default(limit)).await.unwrap();
}

pub(crate) async fn add_of(f: &Fixture, key: &str, count: usize) -> Vec<JobId> {
    let jobs: Vec<_> = jobs(count).into_iter().map(|job| job.with_key(key)).collect();
    f.enqueue(&jobs).await.unwrap()
}

/// How many jobs of each key these claims have.
pub(crate) fn keys(claims: &[Claim]) -> BTreeMap<&str, usize> {
    let mut keys = BTreeMap::new();
    for job in claims.iter().flat_map(|claim| &claim.jobs) {
        let key = job.attributes.as_ref().and_then(|attributes| attributes.key.as_deref());
        *keys.entry(key.unwrap_or_default()).or_default() += 1;
    }
    keys
}

pub(crate) async fn complete_all(f: &Fixture, worker: WorkerId, claims: &[Claim]) {
    for claim in claims {
        f.complete(worker, claim).await;
    }
}

/// How many rows the tables of keys have, but for the limits.
pub(crate) fn rows(f: &Fixture) -> BTreeMap<&'static str, i64> {
    let conn = rusqlite::Connection::open(f.path()).unwrap();
    let tables =
        ["keyed_job", "key_turn", "held_job", "key_held", "key_blocker", "key_ended", "key_ended_count"];
    let count = |table| {
        let sql = format!("SELECT count(*) FROM {table}");
        (table, conn.query_one(&sql, [], |row| row.get(0)).unwrap())
    };
    tables.map(count).into_iter().filter(|(_, rows)| *rows > 0).collect()
}

/// Of keys with a rate nothing is kept after their period, though nobody claims.
#[tokio::test]
async fn a_period_leaves_nothing() {
    let f = Fixture::new();
    limit(&f, KeyLimit::default().with_rate(RateLimit::new(5, RateLimit::SHORTEST))).await;
    add_of(&f, "a", 5).await;
    let worker = f.worker().await;
    let claims = f.take(worker, 9).await;
    complete_all(&f, worker, &claims).await;
    assert!(rows(&f).contains_key("key_ended"));
    f.advance(RateLimit::SHORTEST);
    f.maintain().await.unwrap();
    assert_eq!(rows(&f), BTreeMap::new());
}

#[tokio::test]
async fn idle_keys_leave_nothing() {
    let f = Fixture::new();
    limit(&f, at_once(1)).await;
    add_of(&f, "busy", 2).await;
    let worker = f.worker().await;
    let busy = f.take(worker, 1).await;
    let others: Vec<NewJob> = (0..3_000).map(|n| job("test").with_key(format!("k{}", n % 1_000))).collect();
    f.enqueue(&others).await.unwrap();
    loop {
        let claims = f.take(worker, 700).await;
        if claims.is_empty() {
            break;
        }
        complete_all(&f, worker, &claims).await;
    }
    f.maintain().await.unwrap();
    let of_busy = ["keyed_job", "key_turn", "held_job", "key_held"].map(|table| (table, 1));
    assert_eq!(rows(&f), BTreeMap::from(of_busy));
    complete_all(&f, worker, &busy).await;
    let last = f.take(worker, 10).await;
    assert_eq!(keys(&last), BTreeMap::from([("busy", 1)]));
    complete_all(&f, worker, &last).await;
    f.maintain().await.unwrap();
    assert_eq!(rows(&f), BTreeMap::new());
    assert!(f.key_limits("default").await.unwrap().is_some());
}

#[tokio::test]
async fn any_key_is_a_key() {
    let f = Fixture::new();
    let odd =
        ["\"", "\\", "'", "ü漢", "\u{1}\u{7f}", "a.b", "$.key", "[0]", " ", "null", "1", "\\u0041", "🦀\n"];
    let named = odd.iter().map(|key| ((*key).to_owned(), Some(at_once(1)))).collect();
    f.limit_keys("default", &KeyLimitsChange::Named(named)).await.unwrap();
    for key in odd {
        add_of(&f, key, 2).await;
    }
    let worker = f.worker().await;
    for _ in 0..2 {
        let claims = f.take(worker, 100).await;
        assert_eq!(keys(&claims), odd.iter().map(|key| (*key, 1)).collect());
        assert!(f.take(worker, 100).await.is_empty());
        complete_all(&f, worker, &claims).await;
    }
    f.maintain().await.unwrap();
    assert_eq!(rows(&f), BTreeMap::new());
}

#[tokio::test]
async fn limits_of_a_long_backlog_are_whole_when_they_are_set() {
    let f = Fixture::new();
    add_of(&f, "a", MANY).await;
    let b = add_of(&f, "b", 10).await;
    limit(&f, KeyLimit::default()).await;
    let worker = f.worker().await;
    let claims = f.take(worker, 100).await;
    assert_eq!(keys(&claims), BTreeMap::from([("a", 90), ("b", 10)]));
    assert_eq!(b.iter().filter(|id| ids(&claims).contains(id)).count(), 10);
}

#[tokio::test]
async fn what_was_keyed_goes_on_in_the_order_of_the_log_and_leaves_nothing() {
    let f = Fixture::new();
    for _ in 0..2 {
        limit(&f, KeyLimit::serial()).await;
        let a = add_of(&f, "a", 1_200).await;
        let b = add_of(&f, "b", 1_200).await;
        let worker = f.worker().await;
        let held = f.take(worker, 100).await;
        assert_eq!(ids(&held), [a[0], b[0]]);
        f.limit_keys("default", &KeyLimitsChange::Off).await.unwrap();
        assert_eq!(f.key_limits("default").await.unwrap(), None);
        let rest = f.take(worker, 10_000).await;
        assert_eq!(ids(&rest), [&a[1..], &b[1..]].concat());
        complete_all(&f, worker, &rest).await;
        complete_all(&f, worker, &held).await;
        f.maintain().await.unwrap();
        assert_eq!(rows(&f), BTreeMap::new());
    }
}

/// Limits that end and come back before housekeeping: what is left of before does not count.
#[tokio::test]
async fn limits_come_back() {
    let f = Fixture::new();
    limit(&f, KeyLimit::serial()).await;
    let a = add_of(&f, "a", 3).await;
    let worker = f.worker().await;
    let first = f.take_one(worker).await;
    f.except(worker, &first, Disposition::Snooze { delay: Duration::from_secs(60) }).await;
    assert!(f.take(worker, 10).await.is_empty());
    f.limit_keys("default", &KeyLimitsChange::Off).await.unwrap();
    limit(&f, at_once(1)).await;
    let second = f.take(worker, 10).await;
    assert_eq!(ids(&second), a[1..2]);
    complete_all(&f, worker, &second).await;
    assert_eq!(ids(&f.take(worker, 10).await), a[2..]);
}

#[tokio::test]
async fn repeating_a_change_writes_and_tells_nothing() {
    let f = Fixture::new();
    let named = KeyLimitsChange::Named(vec![("a".into(), Some(at_once(3))), ("b".into(), None)]);
    for change in [KeyLimitsChange::Default(at_once(2)), named, KeyLimitsChange::Off] {
        f.limit_keys("default", &change).await.unwrap();
        let mut wakeup = f.wakeup();
        wakeup.arm().await;
        let length = || std::fs::metadata(f.folder.path().join("jobs.db-wal")).unwrap().len();
        let before = length();
        f.limit_keys("default", &change).await.unwrap();
        assert_eq!(length(), before, "{change:?}");
        assert_eq!(wakeup.wait(Duration::ZERO).await, Wake::Timeout, "{change:?}");
    }
    assert_eq!(f.key_limits("default").await.unwrap(), None);
    let mut limits = KeyLimits::default();
    limits.named.insert("a".into(), at_once(7));
    f.limit_keys("new", &KeyLimitsChange::Named(vec![("a".into(), Some(at_once(7)))])).await.unwrap();
    assert_eq!(f.another().key_limits("new").await.unwrap(), Some(limits));
}

/// Jobs move when they are handed out, which is no work for others.
#[tokio::test]
async fn a_claim_wakes_nobody() {
    let f = Fixture::new();
    limit(&f, at_once(5)).await;
    add_of(&f, "a", 9).await;
    let worker = f.worker().await;
    let mut wakeup = f.wakeup();
    wakeup.arm().await;
    assert_eq!(ids(&f.take(worker, 9).await).len(), 5);
    assert!(f.take(worker, 9).await.is_empty());
    assert_eq!(wakeup.wait(Duration::ZERO).await, Wake::Timeout);
}

#[tokio::test]
async fn parts_of_a_claim_that_complete_make_room() {
    let f = Fixture::new();
    limit(&f, at_once(4)).await;
    let (a, b) = (add_of(&f, "a", 8).await, add_of(&f, "b", 8).await);
    let worker = f.worker().await;
    let claim = f.take(worker, 100).await.remove(0);
    assert_eq!(claim.jobs.len(), 8);
    let some = JobSet::Ranges(vec![(a[1].0, a[2].0), (b[3].0, b[3].0)]);
    f.settle(&completion(worker, &claim, some.clone())).await.unwrap();
    f.settle(&completion(worker, &claim, some)).await.unwrap();
    let next = f.take(worker, 100).await;
    assert_eq!(ids(&next).into_iter().collect::<std::collections::BTreeSet<_>>(), [a[4], a[5], b[4]].into());
    f.complete(worker, &claim).await;
    assert_eq!(keys(&f.take(worker, 100).await), BTreeMap::from([("a", 2), ("b", 3)]));
}

/// A claim whose caller was gone before it had the answer.
#[tokio::test]
async fn a_lost_answer_makes_room() {
    let f = Fixture::new();
    limit(&f, at_once(2)).await;
    add_of(&f, "a", 2).await;
    let worker = f.worker().await;
    let request = ClaimRequest { worker, queues: vec![QueueDemand::new("default", 5)] };
    for _ in 0..50 {
        let mut lost = std::pin::pin!(f.claim(&request));
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(lost.as_mut().poll(context)));
        // The answer may have been there at once: then it is not lost.
        if let std::task::Poll::Ready(claimed) = polled.await {
            for claim in claimed.unwrap().claims {
                for job in claim.jobs {
                    let held = Held { claim: claim.reference, job };
                    f.except(worker, &held, Disposition::Return).await;
                }
            }
        }
    }
    // The writer gives back what nobody took before it serves the next call, or with the one after.
    let mut claims = f.claim(&demand(worker, 5)).await.unwrap().claims;
    for _ in 0..50 {
        if claims.is_empty() {
            claims = f.claim(&demand(worker, 5)).await.unwrap().claims;
        }
    }
    assert!(!claims.is_empty() && ids(&claims).len() <= 2);
}

/// Twenty thousand take a second, in which nobody else can do anything.
#[tokio::test]
async fn one_claim_has_a_few_thousand_turns() {
    let f = Fixture::new();
    limit(&f, at_once(3_000)).await;
    for key in ["a", "b", "c"] {
        add_of(&f, key, 2_500).await;
    }
    f.enqueue(&[job("test").with_priority(5)]).await.unwrap();
    let worker = f.worker().await;
    let first = f.claim(&demand(worker, 20_000)).await.unwrap();
    assert_eq!(
        (ids(&first.claims).len(), first.contended),
        (5_000, true),
        "none of another priority before these"
    );
    let rest = f.claim(&demand(worker, 20_000)).await.unwrap();
    assert_eq!((ids(&rest.claims).len(), rest.contended), (2_501, false));
}
