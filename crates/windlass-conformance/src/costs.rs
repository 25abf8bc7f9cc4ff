//! Costs: what a job takes of its queue's rate.

use crate::{
    Fixture,
    limits::{limit, per},
    steps::*,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use windlass_core::{QueueLimits, QueueNeed, RateLimit, Share, ShareRequest, Starts, Store, WorkerId};

/// The shortest period, so that windows pass while somebody looks.
const PERIOD: Duration = RateLimit::SHORTEST;
/// How long a worker keeps its place, and how long to wait for what comes after that.
const PLACE: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(20);

/// What a worker gets that holds jobs which cost so much, in this order.
async fn ask(store: &Arc<dyn Store>, worker: WorkerId, costs: &[u32]) -> (u32, Option<Duration>) {
    let starts: Starts = costs.iter().copied().collect();
    let need = QueueNeed { queue: QUEUE.into(), running: 0, slots: 1, starts };
    let shares =
        store.share(&ShareRequest { worker, generation: 0, queues: vec![need] }).await.expect("share");
    let Share { starts, next_start, .. } = shares[0].expect("not locked");
    (starts.expect("a limit of the rate"), next_start)
}

/// As a worker does: asks, and again when it was told to, until it gets something.
async fn until_given(store: &Arc<dyn Store>, worker: WorkerId, costs: &[u32]) -> u32 {
    let began = Instant::now();
    loop {
        match ask(store, worker, costs).await {
            (0, Some(next)) => tokio::time::sleep(next).await,
            (given, _) => return given,
        }
        assert!(began.elapsed() < LONG, "{costs:?} never start");
    }
}

/// The permissions are what the first jobs cost that fit, never a part of one; the reply says when the next may start.
pub async fn a_job_gets_all_it_costs_or_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    limit(&store, per(20, LATER)).await;
    let (given, next) = ask(&store, worker.id, &[4, 4, 9, 9, 1]).await;
    assert_eq!(given, 17, "the fourth does not fit, and nothing before it is passed over");
    let next = next.expect("there are more later");
    assert!(next > LATER / 2 && next <= LATER + Duration::from_secs(2), "{next:?}");
    assert_eq!(ask(&store, worker.id, &[9, 1]).await.0, 0);
    assert_eq!(ask(&store, worker.id, &[3]).await, (3, None));
    assert_eq!(ask(&store, worker.id, &[1]).await.0, 0);
}

/// When a dear job may start is when enough is free for it, not when anything is.
pub async fn it_says_when_there_is_enough(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let rate = RateLimit::new(10, 4 * PERIOD);
    limit(&store, QueueLimits::default().with_rate(rate)).await;
    for dear in [6, 7, 10] {
        let next = loop {
            assert_eq!(until_given(&store, worker.id, &[3]).await, 3);
            tokio::time::sleep(PERIOD).await;
            assert_eq!(until_given(&store, worker.id, &[4]).await, 4);
            // Unless this comes so late that all of it is free again.
            if let (0, Some(next)) = ask(&store, worker.id, &[dear]).await {
                break next;
            }
        };
        assert!(next <= rate.period + rate.grace() + PERIOD / 100, "{next:?} is too late");
        tokio::time::sleep(next).await;
        assert_eq!(ask(&store, worker.id, &[dear]).await, (dear, None), "after {next:?}");
    }
}

/// Whoever asks for whatever costs: no window has more than its count.
pub async fn no_window_costs_too_much(fixture: &dyn Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let mut rng = fastrand::Rng::with_seed(9);
    let rate = RateLimit::new(40, 2 * PERIOD).with_burst(20);
    limit(&stores[0], QueueLimits::default().with_rate(rate)).await;
    let mut workers = Vec::new();
    for store in &stores {
        workers.push((store, worker_on(store).await.id));
    }
    let mut given: Vec<(Instant, Instant, u32)> = Vec::new();
    while given.iter().map(|(.., count)| count).sum::<u32>() < 300 {
        let (store, worker) = workers[rng.usize(..workers.len())];
        let costs: Vec<_> = (0..rng.usize(1..6)).map(|_| rng.u32(1..=20)).collect();
        let from = Instant::now();
        let (count, next) = ask(store, worker, &costs).await;
        given.push((from, Instant::now(), count));
        let sums = costs.iter().scan(0, |sum, cost| {
            *sum += cost;
            Some(*sum)
        });
        assert!(count == 0 || sums.clone().any(|sum| sum == count), "{count} of {costs:?}");
        assert_eq!(next.is_some(), sums.last() != Some(count), "says when there is more");
        if let Some(next) = next.filter(|_| rng.bool()) {
            tokio::time::sleep(next / 2).await;
        }
    }
    for window in rate.windows() {
        for (nth, (first, ..)) in given.iter().enumerate() {
            let inside =
                given[nth..].iter().take_while(|(_, last, _)| *last - *first < window.length + rate.grace());
            let sum: u32 = inside.map(|(.., count)| count).sum();
            assert!(sum <= window.count, "{sum} in a window of {window:?}");
        }
    }
}

/// A dear job is not overtaken by cheap ones: who asks later gets what is left beside it.
pub async fn a_dear_job_is_not_overtaken(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (dear, cheap) = (worker_on(&store).await, worker_on(&store).await);
    limit(&store, per(10, LATER)).await;
    assert_eq!(ask(&store, cheap.id, &[1, 1]).await, (2, None));
    assert_eq!(ask(&store, dear.id, &[9]).await.0, 0);
    let (given, next) = ask(&store, cheap.id, &[1, 1, 1]).await;
    assert_eq!(given, 0, "eight are free, and nine are spoken for");
    assert!(next.is_some_and(|next| next > Duration::ZERO), "{next:?}");
    limit(&store, per(12, LATER)).await;
    assert_eq!(ask(&store, cheap.id, &[1, 1]).await.0, 1, "ten are free");
    assert_eq!(ask(&store, dear.id, &[9]).await, (9, None));
    assert_eq!(ask(&store, cheap.id, &[1]).await.0, 0);
    limit(&store, per(13, LATER)).await;
    assert_eq!(ask(&store, cheap.id, &[1]).await, (1, None), "nobody is before it any more");
}

/// They take turns: who had its dear job waits behind those who came meanwhile.
pub async fn who_asked_first_goes_first(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (one, other) = (worker_on(&store).await, worker_on(&store).await);
    limit(&store, per(10, LATER)).await;
    assert_eq!(ask(&store, one.id, &[6, 6]).await.0, 6, "and it waits for the second");
    assert_eq!(ask(&store, other.id, &[7]).await.0, 0);
    limit(&store, per(16, LATER)).await;
    assert_eq!(ask(&store, other.id, &[7]).await.0, 0, "ten are free, and six of them spoken for");
    assert_eq!(ask(&store, one.id, &[6, 6]).await.0, 6);
    limit(&store, per(24, LATER)).await;
    assert_eq!(ask(&store, one.id, &[6]).await.0, 0, "now it is behind the other");
    assert_eq!(ask(&store, other.id, &[7]).await, (7, None));
    limit(&store, per(25, LATER)).await;
    assert_eq!(ask(&store, one.id, &[6]).await, (6, None));
}

/// A place is held for who comes back for it: not for a worker that does not want it any more, that ended, or that does not come.
pub async fn a_place_lapses(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (one, other) = (worker_on(&store).await, worker_on(&store).await);
    limit(&store, per(10, LATER)).await;
    assert_eq!(ask(&store, other.id, &[1]).await, (1, None));
    assert_eq!(ask(&store, one.id, &[10]).await.0, 0);
    assert_eq!(ask(&store, other.id, &[1]).await.0, 0);
    assert_eq!(ask(&store, one.id, &[]).await, (0, None), "it wants it no more");
    assert_eq!(ask(&store, other.id, &[1]).await, (1, None));
    assert_eq!(ask(&store, one.id, &[10]).await.0, 0);
    store.deregister(one.id).await.expect("deregister");
    assert_eq!(ask(&store, other.id, &[1]).await, (1, None));

    limit(&store, QueueLimits::default()).await;
    limit(&store, per(10, PERIOD)).await;
    let silent = worker_on(&store).await;
    let (asked, next) = loop {
        assert_eq!(until_given(&store, other.id, &[1]).await, 1);
        // Unless this comes so late that all of it is free again.
        let before = Instant::now();
        if let (0, Some(next)) = ask(&store, silent.id, &[10]).await {
            break (before, next);
        }
    };
    assert_eq!(until_given(&store, other.id, &[1]).await, 1);
    assert!(asked.elapsed() > next + PLACE / 2, "its place was held for a while: {:?}", asked.elapsed());
}

/// What costs more than the rate allows starts when nothing else did in the window, and takes all of it.
pub async fn what_is_too_dear_takes_the_whole_window(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    limit(&store, per(5, LATER)).await;
    assert_eq!(ask(&store, worker.id, &[1_000_000, 1]).await.0, 5);
    assert_eq!(ask(&store, worker.id, &[1]).await.0, 0);
    limit(&store, QueueLimits::default()).await;
    limit(&store, per(5, LATER)).await;
    assert_eq!(ask(&store, worker.id, &[1]).await, (1, None));
    assert_eq!(ask(&store, worker.id, &[6]).await.0, 0, "one has started");

    limit(&store, QueueLimits::default()).await;
    let burst = RateLimit::new(360_000, LATER).with_burst(10);
    limit(&store, QueueLimits::default().with_rate(burst)).await;
    let (given, next) = ask(&store, worker.id, &[180_000, 1]).await;
    assert_eq!(given, 180_000, "more than the burst, alone");
    let next = next.expect("later");
    assert!(
        next <= PERIOD + burst.grace() + PERIOD / 100,
        "{next:?} is when the window of the burst is empty"
    );
    assert_eq!(until_given(&store, worker.id, &[180_000, 1]).await, 180_000);
    let (given, next) = ask(&store, worker.id, &[1]).await;
    assert_eq!(given, 0, "that is all for the period");
    assert!(next.expect("later") > LATER / 2, "{next:?}");
}
