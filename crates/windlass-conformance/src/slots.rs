//! Slots: how many jobs of a queue run at once, shared by its workers.

mod history;

use crate::{
    Fixture,
    limits::{ask, at_once, limit},
    steps::*,
};
use history::{History, slots};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use windlass_core::{QueueLimits, RateLimit};

/// How many histories a rule tells, and how many calls one makes.
const SEEDS: u64 = 20;
const CALLS: usize = 120;

/// Whatever is asked in whatever order, workers ending and limits changing meanwhile: nobody gets a slot beyond the limit, nobody
/// loses the slot of what it runs; and afterwards a limit of n admits n.
pub async fn the_sum_never_exceeds_the_limit(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for seed in 0..SEEDS {
        let mut history = History::begin(&store, seed).await;
        for _ in 0..CALLS {
            history.call().await;
        }
        let limit = history.end().await;
        let alone = worker_on(&store).await;
        assert_eq!(slots(&store, alone.id, 0, 100).await, limit, "seed {seed}: all slots are free again");
        store.deregister(alone.id).await.expect("deregister");
    }
}

/// A lower limit takes no slot of what runs, and gives none until enough is over; a higher one counts at once.
pub async fn limits_change(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(6)).await;
    let (one, other) = (worker_on(&store).await, worker_on(&store).await);
    assert_eq!(slots(&store, one.id, 0, 6).await, 6);
    limit(&store, at_once(2)).await;
    assert_eq!(slots(&store, one.id, 5, 6).await, 5, "they run");
    assert_eq!(slots(&store, other.id, 0, 1).await, 0);
    assert_eq!(slots(&store, one.id, 3, 6).await, 3);
    assert!(ask(&store, one.id, 3, 6, 0).await.wanted, "too many");
    assert_eq!(slots(&store, other.id, 0, 1).await, 0, "still too many");
    assert_eq!(slots(&store, one.id, 1, 6).await, 1);
    assert_eq!(slots(&store, other.id, 0, 1).await, 1);
    limit(&store, at_once(10)).await;
    assert_eq!(slots(&store, one.id, 1, 6).await, 6);
    limit(&store, QueueLimits::default()).await;
    assert_eq!(ask(&store, one.id, 6, 20, 0).await.slots, None);
}

/// What ran before there was a limit counts: nobody else starts until enough is over.
pub async fn what_ran_before_counts(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (one, other) = (worker_on(&store).await, worker_on(&store).await);
    limit(&store, at_once(3)).await;
    assert_eq!(slots(&store, one.id, 5, 5).await, 5);
    assert_eq!(slots(&store, other.id, 0, 5).await, 0);
    assert_eq!(slots(&store, one.id, 2, 2).await, 2);
    assert_eq!(slots(&store, other.id, 0, 5).await, 1);
    // Of a queue that had a rate only nobody has said how many it runs, or would, though some have a share of it.
    let rate = RateLimit::new(100, LATER);
    limit(&store, QueueLimits::default().with_rate(rate)).await;
    ask(&store, other.id, 0, 5, 0).await;
    ask(&store, one.id, 5, 5, 0).await;
    limit(&store, at_once(6).with_rate(rate)).await;
    assert_eq!(slots(&store, one.id, 5, 6).await, 6, "the other has asked for none");
    assert_eq!(slots(&store, other.id, 0, 5).await, 0);
}

/// The end of a worker, clean or not, frees its slots; so does asking for none.
pub async fn slots_come_back(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(3)).await;
    let next = worker_on(&store).await;
    let clean = worker_on(&store).await;
    assert_eq!(slots(&store, clean.id, 0, 3).await, 3);
    store.deregister(clean.id).await.expect("deregister");
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    assert_eq!(slots(&store, dying.id, 0, 3).await, 3);
    assert_eq!(slots(&store, next.id, 0, 1).await, 0, "nobody took its lease yet");
    rescue_of(&store, &dying, MAX_CRASHES).await;
    assert_eq!(slots(&store, next.id, 0, 3).await, 3);
    assert_eq!(slots(&store, next.id, 2, 0).await, 2, "all but what runs");
    let last = worker_on(&store).await;
    assert_eq!(slots(&store, last.id, 0, 3).await, 1);
    assert_eq!(slots(&store, next.id, 0, 0).await, 0);
    assert_eq!(slots(&store, last.id, 1, 3).await, 3);
}

/// Slots are evened out among those who want more than they have; who wants less gets what it wants, and none stays unused.
pub async fn slots_are_evened_out(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(10)).await;
    let mut workers = Vec::new();
    for want in [10, 1, 20, 10] {
        workers.push((worker_on(&store).await.id, want));
    }
    assert_eq!(slots(&store, workers[0].0, 0, 10).await, 10, "nobody else wants any");
    let mut shares = vec![];
    for _ in 0..5 {
        shares.clear();
        for (worker, want) in &workers {
            shares.push(slots(&store, *worker, 0, *want).await);
        }
    }
    assert_eq!((shares[1], shares.iter().sum::<u32>()), (1, 10), "{shares:?}");
    assert!(shares[0] == 3 && shares[2] == 3 && shares[3] == 3, "{shares:?}");
}

/// Who has more than its share is told when others wait.
pub async fn more_than_its_share_is_wanted(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(4)).await;
    let (one, other) = (worker_on(&store).await, worker_on(&store).await);
    assert_eq!(slots(&store, one.id, 0, 4).await, 4);
    assert!(!ask(&store, one.id, 4, 4, 0).await.wanted, "nobody waits");
    assert_eq!(slots(&store, other.id, 0, 4).await, 0);
    let share = ask(&store, one.id, 4, 4, 0).await;
    assert_eq!((share.slots, share.wanted), (Some(4), true));
    let share = ask(&store, one.id, 2, 4, 0).await;
    assert_eq!((share.slots, share.wanted), (Some(2), false));
    assert_eq!(slots(&store, other.id, 0, 4).await, 2);
}

/// Where there are more workers than slots they take turns, so that each has one from time to time.
pub async fn nobody_starves(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(2)).await;
    let mut turns = BTreeMap::new();
    for _ in 0..5 {
        turns.insert(worker_on(&store).await.id, 0);
    }
    let turns = tokio::sync::Mutex::new(turns);
    eventually("each has had a slot", || async {
        let mut turns = turns.lock().await;
        let mut sum = 0;
        for (worker, turns) in turns.iter_mut() {
            let got = slots(&store, *worker, 0, 1).await;
            *turns += got;
            sum += got;
        }
        assert!(sum <= 3, "{sum}: one may have changed hands in a round");
        turns.values().all(|turns| *turns > 0).then_some(())
    })
    .await;
}

/// Who has a slot and runs a job with it keeps it as long as that takes, though others wait; then it goes to who has waited longest.
pub async fn a_turn_ends_with_its_job(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(1)).await;
    let (one, first, second) = (worker_on(&store).await, worker_on(&store).await, worker_on(&store).await);
    assert_eq!(slots(&store, one.id, 0, 1).await, 1);
    assert_eq!(slots(&store, first.id, 0, 1).await, 0);
    assert_eq!(slots(&store, second.id, 0, 1).await, 0);
    eventually("its slot is wanted", || async { ask(&store, one.id, 1, 1, 0).await.wanted.then_some(()) })
        .await;
    assert_eq!(slots(&store, one.id, 1, 1).await, 1, "it runs");
    assert_eq!(slots(&store, one.id, 0, 1).await, 0);
    assert_eq!(slots(&store, one.id, 0, 1).await, 0, "others have waited longer");
    assert_eq!(slots(&store, second.id, 0, 1).await, 0, "another has waited longer");
    assert_eq!(slots(&store, first.id, 0, 1).await, 1);
}

/// Who has just got the only slot keeps it for its second, also before it runs anything and while others wait that are older.
pub async fn a_turn_lasts_a_second(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(1)).await;
    let (waits, one) = (worker_on(&store).await, worker_on(&store).await);
    eventually("nobody was slow", || async {
        let began = Instant::now();
        assert_eq!(slots(&store, one.id, 0, 1).await, 1);
        assert_eq!(slots(&store, waits.id, 0, 1).await, 0);
        let share = ask(&store, one.id, 0, 1, 0).await;
        let in_time = began.elapsed() < Duration::from_secs(1);
        assert!(!in_time || (share.slots, share.wanted) == (Some(1), false), "{share:?}");
        assert_eq!(slots(&store, waits.id, 0, 0).await + slots(&store, one.id, 0, 0).await, 0);
        in_time.then_some(())
    })
    .await;
}

/// Many handles that ask at the same time get as many slots as there are.
pub async fn askers_race(fixture: &dyn Fixture) {
    for round in 1..=5 {
        let store = fixture.open().await;
        limit(&store, at_once(round)).await;
        let mut asking = Vec::new();
        for _ in 0..4 {
            let store = fixture.open().await;
            asking.push(tokio::spawn(async move {
                let worker = worker_on(&store).await.id;
                (worker, slots(&store, worker, 0, 2).await)
            }));
        }
        let mut sum = 0;
        let mut workers = Vec::new();
        for asked in asking {
            let (worker, got) = asked.await.expect("asked");
            sum += got;
            workers.push(worker);
        }
        assert!(sum <= round, "{sum} of {round}");
        for worker in workers {
            store.deregister(worker).await.expect("deregister");
        }
    }
}
