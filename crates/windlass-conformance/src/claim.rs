//! Claiming: exactly once, in order, within limits.

use crate::{
    Fixture,
    steps::{worker as test_worker, *},
};
use std::sync::Mutex;
use windlass_core::{
    Args, ClaimRequest, Disposition, ErrorKind, JobState, Limits, NewJob, QueueDemand, WorkerId,
};

/// Every job is handed out exactly once, first in first out within a lane.
pub async fn each_job_once_and_in_order(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut enqueued = enqueue_jobs(&store, 250).await;
    for _ in 0..20 {
        enqueued.push(enqueue(&store, job()).await);
    }
    let worker = worker_on(&store).await;
    let mut seen = Vec::new();
    loop {
        let claims = worker.claim(7).await;
        if claims.is_empty() {
            break;
        }
        seen.extend(ids(&claims));
    }
    assert_eq!(seen, enqueued);
}

/// A job that arrives later is handed out after an empty answer, again and again.
pub async fn later_jobs_are_found_after_an_empty_answer(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    for _ in 0..10 {
        worker.finds_nothing().await;
        let id = enqueue(&store, job()).await;
        assert_eq!(worker.take_one().await.job.id, id);
    }
}

/// The better priority, the lower number, goes first, whatever the order of arrival.
pub async fn lower_priority_numbers_go_first(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let priorities = [0, 5, -5, Limits::PRIORITY_MAX, 5, Limits::PRIORITY_MIN, 0, -5];
    for priority in priorities {
        enqueue(&store, job().with_priority(priority)).await;
    }
    let worker = worker_on(&store).await;
    let mut seen = Vec::new();
    while seen.len() < priorities.len() {
        seen.push(worker.take_one().await.priority);
    }
    let mut sorted = priorities;
    sorted.sort_unstable();
    assert_eq!(seen, sorted);
}

/// One claim of many jobs comes best priority first as well, each lane in order.
pub async fn one_claim_covers_priorities_in_order(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let batch: Vec<_> = (0..30).map(|n| job().with_priority(2 - n % 3)).collect();
    store.enqueue(&batch).await.expect("enqueue");
    let seen = worker_on(&store).await.take(30).await;
    assert!(seen.is_sorted_by_key(|held| (held.priority, held.job.id)), "{seen:?}");
}

/// A limit holds for the queue as a whole, over all its priorities; 0 asks for nothing.
pub async fn the_limit_holds_for_the_whole_queue(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let batch: Vec<_> = (0..30).map(|n| job().with_priority(n % 3)).collect();
    store.enqueue(&batch).await.expect("enqueue");
    let worker = worker_on(&store).await;
    assert!(worker.claim(0).await.is_empty());
    for limit in [1, 12, 5, 12] {
        // `claim` itself checks that no more came.
        assert!(!worker.claim(limit).await.is_empty());
    }
}

/// One request may name several queues; each has its own limit and gives only its own jobs.
pub async fn one_request_covers_several_queues(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for queue in ["a", "b", "c"] {
        let batch: Vec<_> = jobs(5).into_iter().map(|job| job.with_queue(queue)).collect();
        store.enqueue(&batch).await.expect("enqueue");
    }
    let worker = worker(&store, &["a", "b", "c"], &[], LEASE).await;
    let demand = |queue: &str, limit| QueueDemand::new(queue, limit);
    let queues = vec![demand("a", 2), demand("c", 3), demand("b", 0)];
    let claims = store.claim(&ClaimRequest { worker: worker.id, queues }).await.expect("claim").claims;
    let of = |name: &str| claims.iter().filter(|c| &*c.queue == name).map(|c| c.jobs.len()).sum::<usize>();
    assert_eq!((of("a"), of("b"), of("c")), (2, 0, 3));
    assert_eq!(worker.drain(100).await.len(), 10);
}

/// A queue without jobs, or that nobody ever used, gives an empty answer.
pub async fn an_empty_queue_gives_an_empty_answer(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    assert!(worker.claim(10).await.is_empty());
    let queues = vec![QueueDemand::new("never-used", 10)];
    let claims = store.claim(&ClaimRequest { worker: worker.id, queues }).await.expect("claim").claims;
    assert!(claims.is_empty());
    let nothing = ClaimRequest { worker: worker.id, queues: vec![] };
    assert!(store.claim(&nothing).await.expect("claim from no queue").claims.is_empty());
}

/// A claimed job is running, held by its claimer, and its attempt has begun.
pub async fn a_claimed_job_is_running(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    assert_eq!((held.job.attempt, held.job.crash_count), (1, 0));
    let seen = record(&store, id).await;
    assert_eq!((seen.state, seen.attempt, seen.claimed_by), (JobState::Running, 1, Some(worker.id)));
    assert!(seen.claimed_at.expect("claimed") >= seen.enqueued_at);
}

/// Nothing is claimed from a paused queue until it is resumed; other queues go on.
pub async fn a_paused_queue_gives_nothing(fixture: &dyn Fixture) {
    let (store, other_process) = (fixture.open().await, fixture.open().await);
    enqueue_jobs(&store, 3).await;
    enqueue(&store, job().with_queue("other")).await;
    let worker = worker(&store, &[QUEUE, "other"], &[], LEASE).await;
    other_process.pause(QUEUE, true).await.expect("pause");
    assert_eq!(worker.drain(10).await.len(), 1, "the other queue's job only");
    assert!(queue(&store, QUEUE).await.paused);
    enqueue(&store, job()).await;
    worker.finds_nothing().await;
    other_process.pause(QUEUE, false).await.expect("resume");
    assert!(!queue(&store, QUEUE).await.paused);
    assert_eq!(worker.drain(10).await.len(), 4);
}

/// Pausing or resuming twice is no error; an unknown queue is not found.
pub async fn pausing_knows_its_queues(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue(&store, job()).await;
    for paused in [true, true, false, false] {
        store.pause(QUEUE, paused).await.expect("pause");
    }
    for paused in [true, false] {
        let error = store.pause("never-used", paused).await.expect_err("an unknown queue");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let says = "queue \"never-used\" does not exist; a queue exists once a job or a worker named it";
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// A worker that never registered may not claim.
pub async fn a_stranger_may_not_claim(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue(&store, job()).await;
    let queues = vec![QueueDemand::new(QUEUE, 1)];
    let error = store.claim(&ClaimRequest { worker: WorkerId(i32::MAX), queues }).await;
    assert!(error.expect_err("a stranger").is_lease_lost());
    worker_on(&store).await.take_one().await;
}

/// A claim hands out no more bytes of args than asked for, but always one job, and says that there is more.
pub async fn a_claim_is_bounded_by_bytes(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let large = Args::of(&"x".repeat(100_000)).expect("args");
    let batch = vec![NewJob::new(KIND, large).with_queue(QUEUE); 20];
    let enqueued = store.enqueue(&batch).await.expect("enqueue");
    let worker = worker_on(&store).await;
    let mut seen = Vec::new();
    for (max_bytes, most) in [(1, 1), (350_000, 3), (550_000, 5), (10_000_000, 20)] {
        let demand = QueueDemand { max_bytes, ..QueueDemand::new(QUEUE, 1_000) };
        let request = ClaimRequest { worker: worker.id, queues: vec![demand] };
        let claimed = store.claim(&request).await.expect("claim");
        let got = ids(&claimed.claims);
        assert!((1..=most).contains(&got.len()), "{} jobs of 100 kB for {max_bytes} bytes", got.len());
        seen.extend(got);
        assert!(claimed.contended || seen.len() == 20, "after {max_bytes} bytes");
    }
    assert_eq!(seen, enqueued);
}

/// A job of a low priority is not passed over for ever, however much better work there is; nor is one that waits for a handler.
pub async fn no_priority_starves(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let of_b = enqueue(&store, NewJob::new("b", args(0)).with_queue(QUEUE).with_priority(2)).await;
    let knows_a = test_worker(&store, &[QUEUE], &["a"], LEASE).await;
    knows_a.except(&knows_a.take_one().await, Disposition::NoHandler).await;
    let worker = worker_on(&store).await;
    let low = Mutex::new(vec![enqueue(&store, job().with_priority(1)).await, of_b]);
    eventually("the jobs of the low priorities come", || async {
        rest().await;
        enqueue_jobs(&store, 2).await;
        let held = worker.take(2).await;
        for held in &held {
            worker.complete(held).await;
        }
        let mut low = low.lock().expect("no panic");
        low.retain(|id| held.iter().all(|held| held.job.id != *id));
        low.is_empty().then_some(())
    })
    .await;
}
