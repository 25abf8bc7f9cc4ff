//! Rates of keys: how many jobs of one key of a queue are handed out in a time.

use crate::{
    Fixture,
    keys::story::*,
    steps::{worker as test_worker, *},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{task::JoinSet, time::Instant};
use windlass_core::{
    ClaimRequest, Claimed, Disposition, KeyLimit, KeyLimitsChange, QueueDemand, RateLimit, Store,
};

/// Periods that pass within a test: the longer one is not over before a very busy machine has made a few calls. And one that does not pass.
const SHORT: Duration = Duration::from_millis(150);
const SECONDS: Duration = Duration::from_secs(4);
const HOUR: Duration = Duration::from_secs(3600);

/// So many in a period.
fn per(count: u32, period: Duration) -> KeyLimit {
    KeyLimit::default().with_rate(RateLimit::new(count, period))
}

/// One claim of as many jobs as there are. It is not contended when it is empty.
async fn claim(worker: &TestWorker) -> Claimed {
    let queues = vec![QueueDemand::new(QUEUE, 100)];
    worker.store.claim(&ClaimRequest { worker: worker.id, queues }).await.expect("claim")
}

/// Waits until the store says that something is due, as the runtime does, and promotes.
async fn promote_when_due(store: &Arc<dyn Store>) {
    let due = store.promote(1_000).await.expect("promote").next_due;
    if let Some(due) = due {
        assert!(due <= SECONDS, "due in {due:?}, after more than a period");
        tokio::time::sleep(due).await;
        store.promote(1_000).await.expect("promote");
    }
}

/// In no window of the period more jobs of a key start than its count, whoever asks and however its jobs end.
pub async fn no_window_has_too_many(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(3, SHORT)).await;
    enqueue_of(&store, "a", 13).await;
    let workers = [worker_on(&store).await, worker_on(&fixture.open().await).await];
    let mut starts: Vec<Instant> = Vec::new();
    let deadline = Instant::now() + DEADLINE;
    for worker in workers.iter().cycle() {
        let jobs = worker.claim_all(2).await;
        starts.extend(jobs.iter().map(|_| Instant::now()));
        worker.complete_all(&jobs).await;
        if starts.len() == 13 {
            break;
        }
        assert!(Instant::now() < deadline, "only {} jobs came", starts.len());
        if jobs.is_empty() {
            promote_when_due(&store).await;
        }
    }
    for pair in starts.windows(4) {
        assert!(pair[3] - pair[0] >= SHORT, "four jobs within {:?}", pair[3] - pair[0]);
    }
}

/// A key whose rate allows no more has no work for who asks, until it does, whether somebody promotes or not.
pub async fn a_spent_rate_has_no_work(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    let worker = worker_on(&store).await;
    let any = async || store.any_available(&[QUEUE.to_owned()], &[]).await.expect("asks");
    for (key, period) in [("a", HOUR), ("b", SHORT)] {
        limit(&store, per(1, period)).await;
        enqueue_of(&store, key, 2).await;
        worker.complete_all(&worker.claim_all(1).await).await;
        let claimed = claim(&worker).await;
        if key == "a" {
            assert!(claimed.claims.is_empty() && !any().await);
        } else if claimed.claims.is_empty() {
            tokio::time::sleep(claimed.next_due.expect("the second is due")).await;
            assert!(any().await);
        }
    }
}

/// What waits for the rate of its key is coming: not what runs, nothing of other queues and of paused ones, and nothing of a key that has no more jobs.
pub async fn what_a_rate_keeps_back_is_coming(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    let due_of =
        async |queue: &str| store.coming(&["none".to_owned(), queue.to_owned()]).await.expect("asks").key_due;
    limit(&store, per(2, HOUR)).await;
    let ids = enqueue_of(&store, "a", 4).await;
    let worker = worker_on(&store).await;
    let held = worker.claim_all(10).await;
    assert_eq!(ids_of(&held), ids[..2]);
    worker.waits().await;
    worker.complete_all(&held).await;
    worker.waits().await;
    let due = due_of(QUEUE).await.expect("two wait");
    assert!(due > HOUR / 2 && due <= HOUR, "{due:?}");
    assert_eq!(due_of("b").await, None);
    store.pause(QUEUE, true).await.expect("pause");
    assert_eq!(due_of(QUEUE).await, None);
    store.pause(QUEUE, false).await.expect("resume");
    assert!(due_of(QUEUE).await.is_some());
    store.cancel(&ids[2..]).await.expect("cancel");
    worker.waits().await;
    assert_eq!(due_of(QUEUE).await, None);
}

/// A job counts while it is held, and on from its end.
pub async fn a_job_counts_from_its_end(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(2, SECONDS)).await;
    let ids = enqueue_of(&store, "a", 4).await;
    let worker = worker_on(&store).await;
    let first = worker.claim_all(10).await;
    assert_eq!(ids_of(&first), ids[..2]);
    assert_eq!(claim(&worker).await.next_due, None, "what is held ends when it ends");
    tokio::time::sleep(SECONDS * 2).await;
    worker.waits().await;
    let ended = Instant::now();
    worker.complete(&first[0]).await;
    let claimed = claim(&worker).await;
    assert!(claimed.claims.is_empty() && !claimed.contended, "{claimed:?}");
    assert!(claimed.next_due.is_some_and(|due| due <= SECONDS), "{:?}", claimed.next_due);
    let next = eventually("a period after the end another comes", || async {
        promote_when_due(&store).await;
        worker.claim_all(10).await.pop()
    });
    assert_eq!(next.await.job.id, ids[2]);
    assert!(ended.elapsed() >= SECONDS, "it came after {:?}", ended.elapsed());
    worker.waits().await;
}

/// However a job ends, it counts on: what comes again counts twice.
pub async fn every_settlement_counts(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(2, HOUR)).await;
    let worker = worker_on(&store).await;
    for (n, said) in not_over(Duration::ZERO).into_iter().chain(over()).enumerate() {
        enqueue_of(&store, &format!("k{n}"), 4).await;
        for _ in 0..2 {
            let held = worker.next().await;
            worker.except(&held, said.clone()).await;
            store.promote(1_000).await.expect("promote");
        }
        worker.waits().await;
    }
}

/// What a worker held that ended, died, or was told to cancel it, counts on.
pub async fn the_end_of_a_worker_counts(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(5, HOUR)).await;
    let ids = enqueue_of(&store, "a", 9).await;
    let worker = worker_on(&store).await;
    let leaving = worker_on(&store).await;
    assert_eq!(leaving.claim_all(2).await.len(), 2);
    store.deregister(leaving.id).await.expect("deregister");
    let dying = test_worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    assert_eq!(dying.claim_all(2).await.len(), 2);
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let last = worker.claim_all(10).await;
    assert_eq!(last.len(), 1, "four counted");
    store.cancel(&ids_of(&last)).await.expect("cancel");
    worker.waits().await;
    worker.except(&last[0], Disposition::Return).await;
    worker.waits().await;
    store.cancel(&ids).await.expect("cancel");
    enqueue_of(&store, "b", 1).await;
    assert_eq!(worker.work_all(10).await.len(), 1, "another key");
    worker.waits().await;
}

/// Each key has its own rate, over all priorities; jobs without a key, and other queues, have none.
pub async fn each_key_has_its_own_rate(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(2, HOUR)).await;
    limit_key(&store, "b", per(3, HOUR)).await;
    limit_key(&store, "c", KeyLimit::default()).await;
    for key in ["a", "b", "c", "ä'\"\\"] {
        enqueue_of(&store, key, 3).await;
        enqueue(&store, job_of(key).with_priority(-3)).await;
        enqueue(&store, job_of(key).with_queue("elsewhere")).await;
    }
    enqueue_jobs(&store, 4).await;
    let worker = worker_on(&store).await;
    let mut done = Vec::new();
    for _ in 0..10 {
        done.extend(worker.work(3).await);
    }
    assert_eq!(["a", "b", "c", "ä'\"\\", ""].map(|key| count_of(&done, key)), [2, 3, 4, 2, 4]);
    let elsewhere = test_worker(&store, &["elsewhere"], &[], LEASE).await;
    assert_eq!(elsewhere.take(4).await.len(), 4);
}

/// A rate holds beside the other limits of the key.
pub async fn other_limits_hold_too(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(5, HOUR).with_concurrency(2)).await;
    let serial = KeyLimit::serial().with_rate(RateLimit::new(3, HOUR));
    limit_key(&store, "s", serial).await;
    let (a, s) = (enqueue_of(&store, "a", 9).await, enqueue_of(&store, "s", 9).await);
    let worker = worker_on(&store).await;
    for (of_a, of_s) in [(2, 1), (2, 1), (1, 1)] {
        let jobs = worker.claim_all(100).await;
        assert_eq!(["a", "s"].map(|key| count_of(&jobs, key)), [of_a, of_s]);
        worker.waits().await;
        worker.complete_all(&jobs).await;
    }
    worker.waits().await;
    limit_key(&store, "s", serial.with_rate(RateLimit::new(5, HOUR))).await;
    let first = worker.next().await;
    assert_eq!(first.job.id, s[3]);
    worker.except(&first, Disposition::Return).await;
    let again = worker.next().await;
    assert_eq!(again.job.id, s[3], "it is not over");
    worker.complete(&again).await;
    worker.waits().await;
    assert_eq!(store.cancel(&a[5..]).await.expect("cancel").len(), 4);
}

/// A new rate counts what counts already; a new period holds for what ends from then on; a key whose rate is taken away forgets it.
pub async fn limits_change(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, at_once(9)).await;
    enqueue_of(&store, "a", 40).await;
    let worker = worker_on(&store).await;
    worker.work(3).await;
    let held = worker.claim_all(2).await;
    limit(&store, per(4, HOUR)).await;
    worker.complete_all(&held).await;
    assert_eq!(worker.work(10).await.len(), 2, "what is held counts, what ended before does not");
    worker.waits().await;
    limit(&store, per(6, HOUR)).await;
    assert_eq!(worker.work(10).await.len(), 2);
    for lower in [per(3, HOUR), per(6, SHORT)] {
        limit(&store, lower).await;
        worker.waits().await;
    }
    limit(&store, per(8, SHORT)).await;
    assert_eq!(worker.work(10).await.len(), 2);
    let again = eventually("two more come", || async {
        let jobs = worker.work(10).await;
        if jobs.is_empty() {
            promote_when_due(&store).await;
        }
        (!jobs.is_empty()).then_some(jobs.len())
    });
    assert!(again.await <= 2, "six count for an hour");
    limit_key(&store, "a", KeyLimit::default()).await;
    assert_eq!(worker.work(4).await.len(), 4, "no rate");
    limit_key(&store, "a", per(1, HOUR)).await;
    assert_eq!(worker.work(10).await.len(), 1, "what counted is forgotten");
    limit_key(&store, "a", None).await;
    assert_eq!(worker.work(2).await.len(), 2, "the rate of all, of which one counts");
}

/// Without limits nothing counts any more.
pub async fn limits_end(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(2, HOUR)).await;
    enqueue_of(&store, "a", 9).await;
    let worker = worker_on(&store).await;
    worker.work(10).await;
    worker.waits().await;
    change(&store, KeyLimitsChange::Off).await;
    assert_eq!(worker.work(3).await.len(), 3);
    limit(&store, per(2, HOUR)).await;
    assert_eq!(worker.work_all(10).await.len(), 2);
    worker.waits().await;
    assert_eq!(store.promote(1_000).await.expect("promote").count, 0);
}

/// Who waits for work is told when the rate of a key allows more, without asking.
pub async fn the_end_of_a_period_tells(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(1, SECONDS)).await;
    let worker = worker_on(&store).await;
    for key in ["a", "b"] {
        enqueue_of(&store, key, 2).await;
        let done = worker.work_all(10).await;
        assert_eq!(done.len(), 1);
        let waiting = fixture.open().await;
        let (idle, mut wakeup) = (worker_on(&waiting).await, waiting.wakeup());
        wakeup.arm().await;
        idle.waits().await;
        let promoter = fixture.open().await;
        let promoting = tokio::spawn(async move {
            loop {
                promote_when_due(&promoter).await;
                tokio::task::yield_now().await;
            }
        });
        let told = loop {
            hinted(&mut *wakeup, "the end of a period").await;
            wakeup.arm().await;
            if let Some(job) = idle.claim_all(1).await.pop() {
                break job;
            }
        };
        idle.complete(&told).await;
        promoting.abort();
        wakeup.disarm();
        waiting.deregister(idle.id).await.expect("deregister");
    }
}

/// Nothing is due where nothing waits, or where what waits does not wait for a time.
pub async fn nothing_is_due_without_need(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(2, HOUR)).await;
    let worker = worker_on(&store).await;
    let due = async || store.promote(1_000).await.expect("promote").next_due;
    enqueue_of(&store, "a", 2).await;
    worker.work_all(10).await;
    worker.waits().await;
    assert_eq!(due().await, None, "the key has no more jobs");
    enqueue_of(&store, "b", 3).await;
    let held = worker.claim_all(10).await;
    worker.waits().await;
    assert_eq!(due().await, None, "all that counts is held");
    worker.complete(&held[0]).await;
    worker.waits().await;
    assert!(due().await.is_some_and(|due| due <= HOUR && due > HOUR / 2));
    limit(&store, at_once(1)).await;
    worker.waits().await;
    assert_eq!(due().await, None, "no rate any more");
}

/// Housekeeping forgets nothing that counts.
pub async fn housekeeping_keeps_what_counts(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(3, HOUR)).await;
    enqueue_of(&store, "a", 3).await;
    let worker = worker_on(&store).await;
    let held = worker.claim_all(10).await;
    worker.complete(&held[0]).await;
    for round in 0..12 {
        maintain_with(&store, KEEP_NOTHING).await;
        if round == 5 {
            worker.complete(&held[1]).await;
        }
    }
    worker.complete(&held[2]).await;
    enqueue_of(&store, "a", 2).await;
    worker.waits().await;
}

/// Workers of several processes that race and hand back: no more is handed out than the rate allows, each time counts.
pub async fn claims_race(fixture: &dyn Fixture) {
    const COUNT: usize = 40;
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, per(COUNT as u32, HOUR)).await;
    enqueue_of(&store, "a", COUNT * 2).await;
    let taken = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for seed in 0..4 {
        let (store, taken) = (fixture.open().await, Arc::clone(&taken));
        tasks.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed);
            let worker = worker_on(&store).await;
            let deadline = Instant::now() + DEADLINE;
            while taken.load(Ordering::SeqCst) < COUNT {
                assert!(Instant::now() < deadline, "the jobs come in time");
                let jobs = held(&worker.claim(rng.u32(1..5)).await);
                taken.fetch_add(jobs.len(), Ordering::SeqCst);
                let (back, done) = jobs.split_at(jobs.len().min(rng.usize(..3)));
                let exceptions = back.iter().map(|held| held.exception(Disposition::Return)).collect();
                worker.settle(done.iter().map(Held::completion).collect(), exceptions).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no worker fails");
    }
    worker_on(&store).await.waits().await;
    assert_eq!(taken.load(Ordering::SeqCst), COUNT);
}
