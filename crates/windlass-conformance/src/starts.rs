//! Starts: how many jobs of a queue begin in a time.

use crate::{
    Fixture,
    limits::{ask, at_once, limit, per},
    steps::*,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use windlass_core::{QueueLimits, RateLimit, Share, Store, WorkerId};

/// The shortest period, so that windows pass while somebody looks.
const PERIOD: Duration = RateLimit::SHORTEST;

/// Starts that were given out at some time between two.
struct Given {
    from: Instant,
    until: Instant,
    count: u32,
}

async fn starts(store: &Arc<dyn Store>, worker: WorkerId, want: u32) -> (u32, Option<Duration>) {
    let Share { starts, next_start, .. } = ask(store, worker, 0, 1, want).await;
    let starts = starts.expect("a limit of the rate");
    assert!(starts <= want);
    assert_eq!(next_start.is_some(), starts < want, "says when there are more, if it did not get all");
    (starts, next_start)
}

/// Asks for random counts until `enough` were given out, and checks every window of the rate.
async fn check_windows(stores: &[Arc<dyn Store>], rate: RateLimit, enough: u32, rng: &mut fastrand::Rng) {
    let mut workers = Vec::new();
    for store in stores {
        workers.push((store, worker_on(store).await.id));
    }
    let mut given: Vec<Given> = Vec::new();
    while given.iter().map(|given| given.count).sum::<u32>() < enough {
        let (store, worker) = workers[rng.usize(..workers.len())];
        let from = Instant::now();
        let (count, next) = starts(store, worker, rng.u32(1..=rate.count)).await;
        given.push(Given { from, until: Instant::now(), count });
        if let Some(next) = next {
            assert!(next <= rate.period + rate.grace() + PERIOD / 100, "{next:?} is too late");
            if rng.bool() {
                tokio::time::sleep(next / 2).await;
            }
        }
    }
    for window in rate.windows() {
        for (nth, first) in given.iter().enumerate() {
            // Those that surely were given out within one window, which begins with the first.
            let inside =
                given[nth..].iter().take_while(|last| last.until - first.from < window.length + rate.grace());
            let sum: u32 = inside.map(|given| given.count).sum();
            assert!(sum <= window.count, "{sum} in a window of {window:?}");
        }
    }
}

/// No window of a rate has more starts than its count, wherever it begins and whoever asks.
pub async fn no_window_has_too_many(fixture: &dyn Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let mut rng = fastrand::Rng::with_seed(7);
    for count in [1, 3, 50] {
        let rate = RateLimit::new(count, PERIOD);
        limit(&stores[0], QueueLimits::default()).await;
        limit(&stores[0], QueueLimits::default().with_rate(rate)).await;
        check_windows(&stores, rate, count * 8, &mut rng).await;
    }
}

/// A burst is a shorter window beside the period's.
pub async fn a_burst_is_kept(fixture: &dyn Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let mut rng = fastrand::Rng::with_seed(8);
    let rate = RateLimit::new(20, 4 * PERIOD).with_burst(5);
    limit(&stores[0], QueueLimits::default().with_rate(rate)).await;
    let worker = worker_on(&stores[0]).await;
    assert_eq!(starts(&stores[0], worker.id, 20).await.0, 5, "no more at once");
    check_windows(&stores, rate, 60, &mut rng).await;
}

/// All of a count may start at once, then none until the window has passed; the reply says when.
pub async fn it_says_when_there_are_more(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    limit(&store, per(10, LATER)).await;
    assert_eq!(starts(&store, worker.id, 4).await, (4, None));
    let (count, next) = starts(&store, worker.id, 9).await;
    assert_eq!(count, 6);
    let next = next.expect("there are more later");
    assert!(next > LATER / 2 && next <= LATER + Duration::from_secs(2), "{next:?}");
    assert_eq!(starts(&store, worker.id, 1).await.0, 0);
    assert_eq!(starts(&store, worker.id, 0).await, (0, None), "who asks for none waits for none");

    limit(&store, QueueLimits::default()).await;
    limit(&store, per(2, PERIOD)).await;
    assert_eq!(starts(&store, worker.id, 2).await, (2, None));
    for _ in 0..5 {
        // As a worker does: it asks, and then again when it was told to.
        let mut got = starts(&store, worker.id, 1).await;
        while let (0, Some(next)) = got {
            tokio::time::sleep(next).await;
            got = starts(&store, worker.id, 1).await;
            assert!(got.0 == 1, "{got:?} after {next:?}");
        }
    }
}

/// A lower rate counts what was given out before; a higher one gives the difference at once.
pub async fn rates_change(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    limit(&store, per(10, LATER)).await;
    assert_eq!(starts(&store, worker.id, 6).await, (6, None));
    limit(&store, per(4, LATER)).await;
    assert_eq!(starts(&store, worker.id, 1).await.0, 0);
    limit(&store, per(8, LATER)).await;
    assert_eq!(starts(&store, worker.id, 9).await.0, 2);
    // Where it had none meanwhile nothing was counted.
    limit(&store, at_once(5)).await;
    assert_eq!(ask(&store, worker.id, 0, 1, 9).await.starts, None);
    limit(&store, at_once(5).with_rate(RateLimit::new(8, LATER))).await;
    assert_eq!(starts(&store, worker.id, 8).await, (8, None));
}

/// What started within the period of before counts in a longer one, also when the shorter one has passed.
pub async fn a_longer_period_counts_what_is_known(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    limit(&store, per(10, PERIOD)).await;
    assert_eq!(starts(&store, worker.id, 10).await, (10, None));
    limit(&store, per(10, LATER)).await;
    for _ in 0..3 {
        store.maintain().await.expect("keeps house");
        let (count, next) = starts(&store, worker.id, 1).await;
        assert_eq!(count, 0, "ten have started within the longer period");
        assert!(next > Some(LATER / 2), "{next:?}");
        tokio::time::sleep(PERIOD).await;
    }
    limit(&store, per(13, LATER)).await;
    assert_eq!(starts(&store, worker.id, 13).await.0, 3);
}

/// A store may begin to count anew when no window reaches back to the last start. A longer period may reach back to both, and perhaps not to the first of them.
pub async fn a_new_count_is_added_to_the_last(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    limit(&store, per(50, PERIOD)).await;
    for _ in 0..4 {
        assert_eq!(starts(&store, worker.id, 25).await.0, 25);
        tokio::time::sleep(PERIOD * 2 / 3).await;
        store.maintain().await.expect("keeps house");
    }
    tokio::time::sleep(PERIOD * 2).await;
    assert_eq!(starts(&store, worker.id, 1).await, (1, None));
    limit(&store, per(60, LATER)).await;
    let (count, _) = starts(&store, worker.id, 1_000).await;
    assert!(count <= 59, "one has started within the longer period, and {count} more may");
}

/// Slots and starts limit each by itself.
pub async fn both_limits_count(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (one, other) = (worker_on(&store).await, worker_on(&store).await);
    limit(&store, at_once(3).with_rate(RateLimit::new(5, LATER))).await;
    let share = ask(&store, one.id, 0, 2, 4).await;
    assert_eq!((share.slots, share.starts, share.next_start), (Some(2), Some(4), None));
    let share = ask(&store, other.id, 0, 2, 4).await;
    assert_eq!((share.slots, share.starts), (Some(1), Some(1)));
    // Permissions outlive their worker: it may have used them.
    store.deregister(one.id).await.expect("deregister");
    let share = ask(&store, other.id, 1, 2, 4).await;
    assert_eq!((share.slots, share.starts), (Some(2), Some(0)));
}
