//! Limits of queues: setting them, and what a worker may claim of a limited queue.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;
use windlass_core::{
    ClaimRequest, Claimed, ErrorKind, QueueDemand, QueueLimits, QueueNeed, RateLimit, Share, ShareRequest,
    Store, WorkerId,
};

/// So many at once.
pub(crate) fn at_once(concurrency: u32) -> QueueLimits {
    QueueLimits::default().with_concurrency(concurrency)
}

/// So many per period.
pub(crate) fn per(count: u32, period: Duration) -> QueueLimits {
    QueueLimits::default().with_rate(RateLimit::new(count, period))
}

/// Limits [`QUEUE`].
pub(crate) async fn limit(store: &Arc<dyn Store>, limits: QueueLimits) {
    store.limit(QUEUE, &limits).await.expect("limit");
}

/// What a worker that runs `running` jobs gets of [`QUEUE`] when it would run `slots` and start `starts`.
pub(crate) async fn ask(
    store: &Arc<dyn Store>,
    worker: WorkerId,
    running: u32,
    slots: u32,
    starts: u32,
) -> Share {
    let need = QueueNeed { queue: QUEUE.into(), running, slots, starts: starts.into() };
    let shares =
        store.share(&ShareRequest { worker, generation: 0, queues: vec![need] }).await.expect("share");
    assert_eq!(shares.len(), 1, "one reply per queue");
    shares[0].expect("not locked")
}

async fn claim(store: &Arc<dyn Store>, worker: WorkerId, queues: &[&str]) -> Claimed {
    let queues = queues.iter().map(|&queue| QueueDemand::new(queue, 10)).collect();
    store.claim(&ClaimRequest { worker, queues }).await.expect("claim")
}

async fn limits_of(store: &Arc<dyn Store>) -> QueueLimits {
    queue(store, QUEUE).await.limits
}

/// Without a share a worker gets nothing of a limited queue, and is told so; other queues are as ever. With one it gets jobs.
pub async fn a_claim_needs_a_share(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 3).await;
    enqueue(&store, job().with_queue("free")).await;
    limit(&store, at_once(2)).await;
    let worker = worker(&store, &[QUEUE, "free"], &[], LEASE).await;
    let claimed = claim(&store, worker.id, &[QUEUE, "free"]).await;
    assert_eq!(claimed.limited, [QUEUE.into()]);
    assert_eq!(claimed.claims.len(), 1, "the other queue's job");
    assert_eq!(&*claimed.claims[0].queue, "free");
    assert!(!claimed.contended, "nothing else to wait for");
    assert_eq!(ask(&store, worker.id, 0, 5, 0).await.slots, Some(2));
    let claimed = claim(&store, worker.id, &["free", QUEUE]).await;
    assert!(claimed.limited.is_empty());
    assert_eq!(ids(&claimed.claims).len(), 3, "how many of them run is the worker's affair");
    ask(&store, worker.id, 0, 0, 0).await;
    enqueue_jobs(&store, 1).await;
    assert_eq!(claim(&store, worker.id, &[QUEUE]).await.limited, [QUEUE.into()], "given back");
}

/// Who waits for slots has no share yet, and a rate alone gives one to everybody.
pub async fn who_waits_claims_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 3).await;
    limit(&store, at_once(1)).await;
    let (holder, waiting) = (worker_on(&store).await, worker_on(&store).await);
    assert_eq!(ask(&store, holder.id, 0, 1, 0).await.slots, Some(1));
    assert_eq!(ask(&store, waiting.id, 0, 1, 0).await.slots, Some(0));
    assert_eq!(claim(&store, waiting.id, &[QUEUE]).await.limited, [QUEUE.into()]);
    limit(&store, per(1, LATER)).await;
    let stranger = worker_on(&store).await;
    assert_eq!(claim(&store, stranger.id, &[QUEUE]).await.limited, [QUEUE.into()]);
    let share = ask(&store, stranger.id, 0, 1, 0).await;
    assert_eq!((share.slots, share.starts), (None, Some(0)));
    assert_eq!(ids(&claim(&store, stranger.id, &[QUEUE]).await.claims).len(), 3);
    ask(&store, stranger.id, 3, 0, 0).await;
    enqueue_jobs(&store, 1).await;
    assert_eq!(claim(&store, stranger.id, &[QUEUE]).await.limited, [QUEUE.into()], "given back");
}

/// A paused queue gives nothing, limited or not, and says nothing of limits.
pub async fn a_paused_queue_is_paused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 1).await;
    limit(&store, at_once(1)).await;
    store.pause(QUEUE, true).await.expect("pause");
    let worker = worker_on(&store).await;
    ask(&store, worker.id, 0, 1, 0).await;
    let claimed = claim(&store, worker.id, &[QUEUE]).await;
    assert!(claimed.claims.is_empty() && claimed.limited.is_empty());
}

/// Heartbeats name the worker's own queues that have limits, the first one too.
pub async fn a_heartbeat_tells(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    store.limit("other", &at_once(1)).await.expect("limit");
    let worker = worker(&store, &["free", QUEUE], &[], LEASE).await;
    let told = || async { store.heartbeat(worker.id).await.expect("heartbeat").limited };
    assert!(told().await.is_empty());
    limit(&store, at_once(1)).await;
    assert_eq!(told().await, [QUEUE.into()]);
    let newcomer = worker_on(&store).await;
    assert_eq!(store.heartbeat(newcomer.id).await.expect("heartbeat").limited, [QUEUE.into()]);
    limit(&store, QueueLimits::default()).await;
    assert!(told().await.is_empty());
}

/// Limits show with their queue, which need not exist before; new ones take the place of all that were.
pub async fn limits_show(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let rate = RateLimit::new(100, Duration::from_millis(1_500)).with_burst(20);
    let both = at_once(5).with_rate(rate);
    limit(&store, both).await;
    assert_eq!(limits_of(&store).await, both);
    assert_eq!(limits_of(&fixture.open().await).await, both);
    let worker = worker_on(&store).await;
    assert_eq!(ask(&store, worker.id, 0, 1, 1).await.limits, both);
    limit(&store, at_once(QueueLimits::MAX_CONCURRENCY)).await;
    assert_eq!(limits_of(&store).await, at_once(QueueLimits::MAX_CONCURRENCY));
    let most = per(RateLimit::MAX_COUNT, RateLimit::LONGEST);
    limit(&store, most).await;
    limit(&store, most).await;
    assert_eq!(limits_of(&store).await, most);
    limit(&store, QueueLimits::default()).await;
    limit(&store, QueueLimits::default()).await;
    assert!(limits_of(&store).await.is_none());
    assert_eq!(ask(&store, worker.id, 3, 9, 9).await, Share::UNLIMITED);
}

/// What cannot work is refused by name and changes nothing.
pub async fn nonsense_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(3)).await;
    let second = Duration::from_secs(1);
    let burst = |burst| QueueLimits::default().with_rate(RateLimit::new(100, second).with_burst(burst));
    for (bad, named) in [
        (at_once(0), "concurrency"),
        (at_once(QueueLimits::MAX_CONCURRENCY + 1), "concurrency"),
        (at_once(1).with_rate(RateLimit::new(0, second)), "count"),
        (per(1, Duration::from_millis(99)), "period"),
        (per(1, RateLimit::LONGEST + second), "period"),
        (burst(0), "burst"),
        (burst(101), "burst"),
        (burst(9), "burst"),
    ] {
        let error = store.limit(QUEUE, &bad).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    for name in ["", "no spaces", &"x".repeat(129)] {
        let error = store.limit(name, &at_once(1)).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
    }
    assert_eq!(limits_of(&store).await, at_once(3));
}

/// A queue without limits, known or not, gives a worker all it likes; one call covers several queues, in order.
pub async fn a_queue_without_limits_is_free(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(4)).await;
    let worker = worker(&store, &["a", QUEUE], &[], LEASE).await;
    let need = |queue: &str| QueueNeed { queue: queue.into(), running: 0, slots: 9, starts: 9.into() };
    let queues = vec![need("unknown"), need(QUEUE), need("a")];
    let shares =
        store.share(&ShareRequest { worker: worker.id, generation: 0, queues }).await.expect("share");
    let shares: Vec<_> = shares.into_iter().map(|share| share.expect("not locked")).collect();
    assert_eq!(shares.len(), 3);
    assert_eq!((shares[0], shares[2]), (Share::UNLIMITED, Share::UNLIMITED));
    assert_eq!((shares[1].slots, shares[1].starts), (Some(4), None));
    let nothing = ShareRequest { worker: worker.id, generation: 0, queues: vec![] };
    assert!(store.share(&nothing).await.expect("share").is_empty());
}

/// Who lost its lease gets no share.
pub async fn a_dead_worker_gets_none(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    limit(&store, at_once(4)).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let need = QueueNeed { queue: QUEUE.into(), running: 0, slots: 1, starts: 0.into() };
    let request = ShareRequest { worker: dying.id, generation: 0, queues: vec![need] };
    let error = store.share(&request).await.expect_err("dead");
    assert!(error.is_lease_lost(), "{error}");
}

/// Of a paused queue a worker's share is what runs and no start, and says so, so that it hands back what it has not started; when the queue is resumed it
/// gets its share. One without limits says nothing.
pub async fn a_pause_stops_starts(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 1).await;
    let worker = worker_on(&store).await;
    let pause = async |paused| store.pause(QUEUE, paused).await.expect("pause");
    for limits in [at_once(4), per(100, LATER), at_once(4).with_rate(RateLimit::new(100, LATER))] {
        limit(&store, limits).await;
        let before = ask(&store, worker.id, 0, 3, 2).await;
        assert!(!before.paused);
        pause(true).await;
        let share = ask(&store, worker.id, 2, 4, 2).await;
        assert!(share.paused);
        assert_eq!(share.slots, limits.concurrency.map(|_| 2), "what runs has its slots");
        assert_eq!(share.starts, limits.rate.map(|_| 0));
        let share = ask(&store, worker.id, 0, 4, 2).await;
        assert_eq!(share.slots, limits.concurrency.map(|_| 0));
        pause(false).await;
        let after = ask(&store, worker.id, 0, 3, 2).await;
        assert_eq!(after, before, "{limits:?}");
    }
    limit(&store, QueueLimits::default()).await;
    pause(true).await;
    assert_eq!(ask(&store, worker.id, 0, 3, 2).await, Share::UNLIMITED);
}

/// When a queue with limits is paused, and when it is resumed, workers are told to ask for their shares.
pub async fn a_pause_is_told(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 1).await;
    limit(&store, at_once(4)).await;
    for paused in [true, false] {
        // Another process, which hears nothing of what was before.
        let elsewhere = fixture.open().await;
        let (mut wakeup, told) = (elsewhere.wakeup(), Arc::new(Notify::new()));
        let tells = Arc::clone(&told);
        wakeup.on_request(Arc::new(move |_| tells.notify_one()));
        wakeup.arm().await;
        store.pause(QUEUE, paused).await.expect("pause");
        tokio::time::timeout(DEADLINE, told.notified()).await.expect("it is told");
    }
}
