//! Limits of keys: how many jobs of one key of a queue workers hold at once.

mod crowd;
pub(crate) mod story;

use crate::{
    Fixture,
    steps::{worker as test_worker, *},
};
use std::{collections::BTreeMap, time::Duration};
use story::*;
use windlass_core::{
    ClaimRequest, Disposition, JobEdit, JobId, JobState, KeyLimit, KeyLimits, KeyLimitsChange, QueueDemand,
    QueueLimits, QueueNeed, RateLimit, Settings, ShareRequest, Unique,
};

/// No more jobs of a key are held than its limit says, whoever holds them; each that is over makes room for one.
pub async fn a_limit_holds_over_workers(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(3)).await;
    let enqueued = enqueue_of(&store, "a", 8).await;
    let (one, other) = (worker_on(&store).await, worker_on(&fixture.open().await).await);
    let first = one.claim_all(2).await;
    assert_eq!(ids_of(&first), enqueued[..2]);
    let second = other.claim_all(10).await;
    assert_eq!(ids_of(&second), enqueued[2..3]);
    one.waits().await;
    one.complete(&first[1]).await;
    assert_eq!(ids_of(&other.claim_all(10).await), enqueued[3..4]);
    other.waits().await;
    one.complete(&first[0]).await;
    other.complete(&second[0]).await;
    assert_eq!(ids_of(&one.claim_all(10).await), enqueued[4..6]);
    one.waits().await;
}

/// A key without room has no work for who asks, until one of its jobs is over.
pub async fn a_full_key_has_no_work(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(1)).await;
    enqueue_of(&store, "a", 2).await;
    let worker = worker_on(&store).await;
    let any = async || store.any_available(&[QUEUE.to_owned()], &[]).await.expect("asks");
    assert!(any().await);
    let held = worker.claim_all(10).await;
    worker.waits().await;
    assert!(!any().await);
    worker.complete_all(&held).await;
    assert!(any().await);
}

/// A key has its limit over all priorities; the best goes first.
pub async fn a_limit_holds_over_priorities(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(2)).await;
    for priority in [5, 0, -5, 0, 5, -5] {
        enqueue(&store, job_of("a").with_priority(priority)).await;
    }
    let worker = worker_on(&store).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let jobs = worker.work(10).await;
        assert_eq!(jobs.len(), 2);
        seen.extend(jobs.iter().map(|held| held.priority));
    }
    assert_eq!(seen, [-5, -5, 0, 0, 5, 5]);
    worker.waits().await;
}

/// Each key has the limit of its name, or else that of all; the same key of another queue is another.
pub async fn each_key_has_its_own_limit(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(1)).await;
    limit_key(&store, "b", at_once(3)).await;
    limit_key(&store, "c", KeyLimit::default()).await;
    for key in ["a", "b", "c", "d", "ä \u{1f600} ' \" \\"] {
        enqueue_of(&store, key, 5).await;
        let elsewhere = job_of(key).with_queue("elsewhere");
        store.enqueue(&vec![elsewhere; 5]).await.expect("enqueue");
    }
    let worker = worker_on(&store).await;
    let jobs = worker.claim_all(100).await;
    let counts = ["a", "b", "c", "d", "ä \u{1f600} ' \" \\"].map(|key| count_of(&jobs, key));
    assert_eq!(counts, [1, 3, 5, 1, 1]);
    let elsewhere = test_worker(&store, &["elsewhere"], &[], LEASE).await;
    assert_eq!(elsewhere.take(25).await.len(), 25, "a queue whose keys have no limits");
    limit_key(&store, "b", None).await;
    worker.complete_all(&jobs).await;
    let jobs = worker.claim_all(100).await;
    assert_eq!(["a", "b", "d"].map(|key| count_of(&jobs, key)), [1, 1, 1]);
}

/// Whatever a worker says of a job makes room for another of its key.
pub async fn every_settlement_makes_room(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(1)).await;
    let worker = test_worker(&store, &[QUEUE], &["known"], LEASE).await;
    for (n, said) in not_over(LATER).into_iter().chain(over()).enumerate() {
        let key = format!("k{n}");
        enqueue_of(&store, &key, 2).await;
        let first = worker.next().await;
        worker.waits().await;
        worker.except(&first, said.clone()).await;
        // What was given back may come again; what has no handler does not come to this worker.
        let second = worker.next().await;
        worker.waits().await;
        worker.complete(&second).await;
        let left = worker.work_all(10).await;
        assert_eq!(left.len(), usize::from(said == Disposition::Return), "{said:?}");
    }
}

/// The jobs of a worker that ends, or dies, or never heard of what it claimed, make room.
pub async fn the_end_of_a_worker_makes_room(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(2)).await;
    let mut enqueued = enqueue_of(&store, "a", 3).await;
    let queues = vec![QueueDemand::new(QUEUE, 10)];
    let lost = worker_on(&store).await;
    drop(store.claim(&ClaimRequest { worker: lost.id, queues }).await.expect("claim"));
    let worker = worker_on(&store).await;
    worker.waits().await;
    store.deregister(lost.id).await.expect("deregister");
    let dying = test_worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    assert_eq!(dying.claim_all(10).await.len(), 2);
    worker.waits().await;
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let mut done = worker.claim_all(10).await;
    assert_eq!(done.len(), 2);
    worker.waits().await;
    worker.complete_all(&done).await;
    done.extend(worker.claim_all(10).await);
    let mut done = ids_of(&done);
    done.sort_unstable();
    enqueued.sort_unstable();
    assert_eq!(done, enqueued);
}

/// A job whose cancellation was asked for counts until its worker lets it go.
pub async fn a_cancelled_job_makes_room(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(1)).await;
    let enqueued = enqueue_of(&store, "a", 3).await;
    let worker = worker_on(&store).await;
    let first = worker.next().await;
    store.cancel(&[first.job.id, enqueued[1]]).await.expect("cancel");
    worker.waits().await;
    worker.except(&first, Disposition::Return).await;
    assert_eq!(state(&store, first.job.id).await, JobState::Cancelled);
    assert_eq!(worker.next().await.job.id, enqueued[2]);
    worker.waits().await;
}

/// Whatever happens in whatever order, no key is held more often than its limit says, and afterwards a limit of n admits n.
pub async fn no_slot_leaks(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    crowd::random_histories(&store).await;
}

/// Workers of several processes that claim and settle at the same time never hold more of a key than its limit says, and
/// every job is done.
pub async fn claims_race(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    crowd::race(fixture, &store).await;
}

/// Jobs without a key have no limit, and the others none of theirs.
pub async fn a_job_without_key_has_no_limit(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(1)).await;
    let mut free = enqueue_jobs(&store, 5).await;
    enqueue_of(&store, "a", 5).await;
    free.extend(enqueue_jobs(&store, 5).await);
    let worker = worker_on(&store).await;
    let jobs = worker.claim_all(100).await;
    assert_eq!((count_of(&jobs, "a"), count_of(&jobs, "")), (1, 10));
    let without = jobs.iter().filter(|held| key_of(held).is_empty());
    assert_eq!(without.map(|held| held.job.id).collect::<Vec<_>>(), free, "in their order");
    worker.waits().await;
}

/// A limit holds for jobs that were there before it, wherever they wait.
pub async fn limits_count_for_what_waits(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    let mut all = enqueue_of(&store, "a", 4).await;
    all.push(enqueue(&store, job_of("a").with_priority(-3)).await);
    let soon = job_of("a").with_delay(Duration::from_millis(5));
    all.extend(store.enqueue(&[soon.clone(), soon]).await.expect("enqueue"));
    let worker = worker_on(&store).await;
    let first = worker.claim_all(2).await;
    let soon = Duration::from_millis(5);
    worker.except(&first[0], Disposition::Retry { delay: soon, error: "no".into() }).await;
    worker.except(&first[1], Disposition::NoHandler).await;
    limit(&store, at_once(1)).await;
    let mut done = Vec::new();
    while done.len() < all.len() {
        let next = eventually("the next of them comes, alone", || async {
            store.promote(1_000).await.expect("promote");
            let jobs = worker.claim_all(10).await;
            assert!(jobs.len() <= 1, "{jobs:?}");
            worker.complete_all(&jobs).await;
            Some(ids_of(&jobs)).filter(|ids| !ids.is_empty())
        });
        done.extend(next.await);
    }
    done.sort_unstable();
    all.sort_unstable();
    assert_eq!(done, all);
}

/// A limit counts what was held before it; it stops nothing that runs. Raised, it lets more go at once.
pub async fn limits_change(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    enqueue_of(&store, "a", 20).await;
    let worker = worker_on(&store).await;
    let mut running = worker.claim_all(4).await;
    limit(&store, at_once(2)).await;
    worker.waits().await;
    for _ in 0..2 {
        worker.complete(&running.remove(0)).await;
        worker.waits().await;
    }
    worker.complete(&running.remove(0)).await;
    running.extend(worker.claim_all(10).await);
    assert_eq!(running.len(), 2);
    limit(&store, at_once(5)).await;
    running.extend(worker.claim_all(10).await);
    assert_eq!(running.len(), 5);
    limit(&store, at_once(1)).await;
    worker.complete_all(&running.split_off(1)).await;
    worker.waits().await;
    limit(&store, KeyLimit::default().with_weight(3)).await;
    assert_eq!(worker.claim_all(100).await.len(), 12, "no limit but a weight");
}

/// Without limits the jobs of a queue go on as usual; with new ones, what is held then counts.
pub async fn limits_end(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    change(&store, KeyLimitsChange::Off).await;
    limit(&store, at_once(1)).await;
    limit_key(&store, "b", KeyLimit::serial()).await;
    let mut all = enqueue_of(&store, "a", 5).await;
    all.extend(enqueue_of(&store, "b", 5).await);
    let worker = worker_on(&store).await;
    let first = worker.claim_all(10).await;
    assert_eq!(first.len(), 2);
    let blocks = first.iter().find(|held| key_of(held) == "b").expect("a job of b");
    worker.except(blocks, Disposition::Retry { delay: LATER, error: "no".into() }).await;
    change(&store, KeyLimitsChange::Off).await;
    change(&store, KeyLimitsChange::Off).await;
    assert_eq!(store.key_limits(QUEUE).await.expect("key limits"), None);
    let mut rest = worker.claim_all(6).await;
    limit(&store, at_once(4)).await;
    let more = worker.claim_all(10).await;
    let (of_a, of_b) = (count_of(&rest, "a"), count_of(&rest, "b"));
    assert_eq!(count_of(&more, "a"), 3usize.saturating_sub(of_a), "one runs since before");
    assert_eq!(count_of(&more, "b"), 4 - of_b);
    rest.extend(more);
    worker.complete_all(&rest).await;
    rest.extend(worker.work(10).await);
    assert_eq!(rest.len(), 8, "all but the one that runs and the one that waits for its retry");
}

/// A paused queue gives nothing, whatever room its keys have.
pub async fn a_paused_queue_gives_nothing(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(2)).await;
    enqueue_of(&store, "a", 5).await;
    store.pause(QUEUE, true).await.expect("pause");
    let worker = worker_on(&store).await;
    worker.waits().await;
    store.pause(QUEUE, false).await.expect("resume");
    assert_eq!(worker.claim_all(10).await.len(), 2);
}

/// Limits of the queue and of its keys hold at the same time.
pub async fn a_limit_of_the_queue_holds_too(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(2)).await;
    enqueue_of(&store, "a", 5).await;
    store.limit(QUEUE, &QueueLimits::default().with_concurrency(5)).await.expect("limit");
    let worker = worker_on(&store).await;
    let request = ClaimRequest { worker: worker.id, queues: vec![QueueDemand::new(QUEUE, 10)] };
    let claimed = store.claim(&request).await.expect("claim");
    assert!(claimed.claims.is_empty(), "no share of the queue");
    assert_eq!(claimed.limited, [QUEUE.into()]);
    let need = QueueNeed { queue: QUEUE.into(), running: 0, slots: 5, starts: 0.into() };
    let request = ShareRequest { worker: worker.id, generation: 0, queues: vec![need] };
    assert_eq!(store.share(&request).await.expect("share")[0].expect("not locked").slots, Some(5));
    assert_eq!(worker.claim_all(10).await.len(), 2);
}

/// A job may be unique and have a key.
pub async fn a_unique_job_has_a_key(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(1)).await;
    let unique = |name: &str| job_of("a").with_unique(Unique::by_key(name));
    let batch = [unique("x"), unique("y"), unique("x")];
    let ids = store.enqueue(&batch).await.expect("enqueue");
    assert_eq!(ids[0], ids[2]);
    let worker = worker_on(&store).await;
    let first = worker.next().await;
    assert_eq!(store.enqueue(&[unique("x")]).await.expect("enqueue"), [ids[0]]);
    worker.waits().await;
    worker.complete(&first).await;
    let again = store.enqueue(&[unique("x")]).await.expect("enqueue")[0];
    assert_ne!(again, ids[0]);
    assert_eq!(worker.work_all(10).await, [ids[1], again]);
}

/// A claim of keyed jobs is bounded by bytes and says that there is more; the rest comes then.
pub async fn a_claim_is_bounded_by_bytes(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(10)).await;
    let large = windlass_core::Args::of(&serde_json::json!({ "text": "x".repeat(1_000) })).expect("args");
    let batch: Vec<_> = ["a", "b", "a", "b", "a", "b"]
        .iter()
        .map(|key| windlass_core::NewJob::new(KIND, large.clone()).with_queue(QUEUE).with_key(*key))
        .collect();
    let mut enqueued = store.enqueue(&batch).await.expect("enqueue");
    let worker = worker_on(&store).await;
    let mut seen = Vec::new();
    for _ in 0..enqueued.len() {
        let demand = QueueDemand { queue: QUEUE.into(), limit: 10, max_bytes: 2_500 };
        let request = ClaimRequest { worker: worker.id, queues: vec![demand] };
        let claimed = store.claim(&request).await.expect("claim");
        let count = ids(&claimed.claims).len();
        assert!(count <= 2, "{count} jobs of 1,000 bytes in 2,500");
        seen.extend(ids(&claimed.claims));
        assert!(claimed.contended || seen.len() == enqueued.len(), "there is more");
    }
    seen.sort_unstable();
    enqueued.sort_unstable();
    assert_eq!(seen, enqueued);
}

/// Jobs that wait for room are available ones: they are counted, listed, cancelled, edited and deleted like others.
pub async fn what_waits_for_room_is_available(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(1)).await;
    let all = enqueue_of(&store, "a", 6).await;
    let worker = worker_on(&store).await;
    let first = worker.next().await;
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.available, stats.running), (5, 1));
    for id in &all[1..] {
        let seen = record(&store, *id).await;
        assert_eq!((seen.state, seen.key.as_deref()), (JobState::Available, Some("a")));
    }
    store.cancel(&all[1..2]).await.expect("cancel");
    store.delete(&all[2..3]).await.expect("delete");
    store.edit(&all[3..4], &JobEdit::new().with_queue("elsewhere")).await.expect("edit");
    store.edit(&all[4..5], &JobEdit::new().with_priority(-1)).await.expect("edit");
    worker.waits().await;
    let elsewhere = test_worker(&store, &["elsewhere"], &[], LEASE).await;
    assert_eq!(elsewhere.take_one().await.job.id, all[3], "there is no limit there");
    worker.complete(&first).await;
    assert_eq!(worker.work_all(10).await, [all[4], all[5]]);
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.available, stats.running), (0, 0));
    assert_eq!(store.retry(&all[1..2]).await.expect("retry").len(), 1);
    assert_eq!(worker.work_all(10).await, [all[1]]);
}

/// Housekeeping that removes all it may, again and again, loses no job of a keyed queue, and none of its limits.
pub async fn housekeeping_keeps_them(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(2)).await;
    limit_key(&store, "idle", at_once(7)).await;
    let all: Vec<JobId> = [enqueue_of(&store, "a", 6).await, enqueue_of(&store, "b", 1).await].concat();
    let worker = worker_on(&store).await;
    let mut done = Vec::new();
    let mut running = worker.claim_all(10).await;
    assert_eq!(running.len(), 3);
    let nothing = Settings::DEFAULT.with_retention(Duration::ZERO).with_dead_retention(Duration::ZERO);
    for round in 0..12 {
        maintain_with(&store, nothing.with_segment_bytes(1)).await;
        if round % 4 == 3 {
            worker.complete_all(&running).await;
            done.extend(ids_of(&running));
            running = worker.claim_all(10).await;
            assert_eq!(running.len(), if round < 8 { 2 } else { 0 }, "round {round}");
        } else {
            worker.waits().await;
        }
    }
    done.sort_unstable();
    assert_eq!(done, all);
    let limits = store.key_limits(QUEUE).await.expect("key limits").expect("limits");
    assert_eq!((limits.default, limits.of("idle")), (at_once(2), at_once(7)));
}

/// Changes add up, are the same to everybody, can be repeated, and outlive a migration; the queue need not exist before.
pub async fn limits_show(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    let other = fixture.open().await;
    assert_eq!(other.key_limits(QUEUE).await.expect("key limits"), None);
    let named = |names: &[&str], limit: Option<KeyLimit>| {
        KeyLimitsChange::Named(names.iter().map(|name| ((*name).to_owned(), limit)).collect())
    };
    let mut expected = KeyLimits::default();
    for step in [
        named(&["b", "a", "ä'\"\\%"], Some(KeyLimit::serial().with_weight(1_000))),
        KeyLimitsChange::Default(at_once(1_000_000).with_weight(3)),
        KeyLimitsChange::Default(
            at_once(1).with_rate(RateLimit::new(1_000_000_000, Duration::from_millis(100))),
        ),
        named(&["b", "c"], Some(KeyLimit::serial().with_rate(RateLimit::new(1, RateLimit::LONGEST)))),
        named(&["c"], None),
        named(&["b"], Some(at_once(1))),
        named(&["a", "unknown"], None),
        KeyLimitsChange::Default(KeyLimit::serial()),
    ] {
        for _ in 0..2 {
            change(&store, step.clone()).await;
        }
        expected = step.apply(Some(expected)).expect("limits");
        assert_eq!(other.key_limits(QUEUE).await.expect("key limits").as_ref(), Some(&expected), "{step:?}");
    }
    store.migrate().await.expect("migrate");
    assert_eq!(fixture.open().await.key_limits(QUEUE).await.expect("key limits"), Some(expected));
    assert_eq!(store.key_limits("other").await.expect("key limits"), None);
    let many: BTreeMap<String, Option<KeyLimit>> =
        (0..KeyLimits::MAX_NAMED).map(|n| (format!("key {n}"), Some(at_once(n as u32 + 1)))).collect();
    change(&store, KeyLimitsChange::Named(many.into_iter().collect())).await;
    let limits = other.key_limits(QUEUE).await.expect("key limits").expect("limits");
    assert_eq!((limits.named.len(), limits.of("key 41")), (KeyLimits::MAX_NAMED + 2, at_once(42)));
    change(&store, KeyLimitsChange::Off).await;
    assert_eq!(other.key_limits(QUEUE).await.expect("key limits"), None);
}

/// Who takes the limit of a key away where there is none begins no limits.
pub async fn taking_away_begins_nothing(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    for names in [&["a", "b"][..], &[]] {
        let named = names.iter().map(|name| ((*name).to_owned(), None)).collect();
        change(&store, KeyLimitsChange::Named(named)).await;
        assert_eq!(store.key_limits(QUEUE).await.expect("key limits"), None, "{names:?}");
    }
    change(&store, KeyLimitsChange::Off).await;
    assert_eq!(store.key_limits(QUEUE).await.expect("key limits"), None);
    let queues = store.queues().await.expect("queues");
    assert!(queues.is_empty(), "nobody uses the queue: {queues:?}");
}

/// What cannot be is refused by name and changes nothing.
pub async fn nonsense_is_refused(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    use windlass_core::ErrorKind::{InvalidName, InvalidOption};
    limit(&store, at_once(3)).await;
    let serial_twice = KeyLimit::serial().with_concurrency(2);
    let named = |key: &str, limit| {
        KeyLimitsChange::Named(vec![("fine".to_owned(), Some(at_once(1))), (key.to_owned(), Some(limit))])
    };
    let (fine, second) = (KeyLimit::default(), Duration::from_secs(1));
    let rate = |rate| fine.with_rate(rate);
    let many = (0..=KeyLimits::MAX_NAMED).map(|n| (n.to_string(), Some(fine))).collect();
    for (bad, says) in [
        (KeyLimitsChange::Default(at_once(0)), "0"),
        (KeyLimitsChange::Default(at_once(1_000_001)), "1000001"),
        (KeyLimitsChange::Default(fine.with_weight(0)), "weight"),
        (KeyLimitsChange::Default(fine.with_weight(1_001)), "1001"),
        (KeyLimitsChange::Default(serial_twice), "serial"),
        (KeyLimitsChange::Default(rate(RateLimit::new(0, second))), "0"),
        (KeyLimitsChange::Default(rate(RateLimit::new(1_000_000_001, second))), "1000000001"),
        (KeyLimitsChange::Default(rate(RateLimit::new(1, second / 100))), "100 ms"),
        (KeyLimitsChange::Default(rate(RateLimit::new(1, second * 86_400 * 367))), "366 days"),
        (KeyLimitsChange::Default(rate(RateLimit::new(5, second).with_burst(1))), "no burst"),
        (named("bad", rate(RateLimit::new(0, second))), "\"bad\""),
        (named("bad", serial_twice), "\"bad\""),
        (named("bad", at_once(0)), "\"bad\""),
        (named("", fine), "1 to 200 bytes"),
        (named(&"x".repeat(201), fine), "201"),
        (named("a\0b", fine), "NUL"),
        (KeyLimitsChange::Named(many), "10001"),
    ] {
        let error = store.limit_keys(QUEUE, &bad).await.expect_err("refused");
        assert_eq!(error.kind(), InvalidOption, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    for name in ["", "no spaces", &"x".repeat(129)] {
        let error = store.limit_keys(name, &KeyLimitsChange::Default(fine)).await.expect_err("refused");
        assert_eq!(error.kind(), InvalidName, "{error}");
    }
    let limits = store.key_limits(QUEUE).await.expect("key limits").expect("limits");
    assert_eq!((limits.default, limits.named.len()), (at_once(3), 0));
}
