//! Rescue: what a dead worker held comes back, and its ghost writes nothing.

use crate::{Fixture, steps::*};
use windlass_core::{Disposition, JobState, Settings, Settled};

/// A dead worker's jobs are available again, with a crash counted and no attempt used.
pub async fn a_dead_workers_jobs_come_back(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 10).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    let jobs = dying.take(8).await;
    for held in &jobs[..3] {
        assert_eq!(dying.complete(held).await, Settled::Accepted);
    }
    let report = rescue_of(&fixture.open().await, &dying, MAX_CRASHES).await;
    assert_eq!((report.rescued, report.discarded), (5, 0));
    let seen = record(&store, ids[5]).await;
    assert_eq!((seen.state, seen.attempt, seen.crash_count), (JobState::Available, 0, 1));

    let mut back = worker_on(&store).await.take(7).await;
    back.sort_unstable_by_key(|held| held.job.id);
    assert_eq!(back.iter().map(|held| held.job.id).collect::<Vec<_>>(), ids[3..]);
    let crashes: Vec<_> = back.iter().map(|held| held.job.crash_count).collect();
    assert_eq!(crashes, [1, 1, 1, 1, 1, 0, 0]);
    assert!(back.iter().all(|held| held.job.attempt == 1));
}

/// A zombie's every write is refused for good, and changes nothing.
pub async fn a_zombie_writes_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let zombie = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    let held = zombie.take_one().await;
    rescue_of(&store, &zombie, MAX_CRASHES).await;
    assert!(zombie.try_settle(vec![held.completion()], vec![]).await.expect_err("dead").is_lease_lost());
    assert!(zombie.try_claim(1).await.expect_err("dead").is_lease_lost());
    assert!(store.heartbeat(zombie.id).await.expect_err("dead").is_lease_lost());
    assert_eq!(state(&store, id).await, JobState::Available);

    let heir = worker_on(&store).await;
    let inherited = heir.take_one().await;
    assert!(zombie.try_settle(vec![held.completion()], vec![]).await.expect_err("dead").is_lease_lost());
    store.deregister(zombie.id).await.expect("a late farewell is no error");
    assert_eq!(state(&store, id).await, JobState::Running);
    assert_eq!(heir.complete(&inherited).await, Settled::Accepted);
}

/// Until somebody takes its jobs, a worker whose lease ran out may still settle and renew.
pub async fn an_ended_lease_is_kept_until_it_is_taken(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 2).await;
    let slow = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    let jobs = slow.take(2).await;
    eventually("the lease has ended", || async {
        let workers = store.status().await.expect("status").workers;
        workers.iter().all(|worker| worker.id != slow.id || !worker.live).then_some(())
    })
    .await;
    assert_eq!(slow.complete(&jobs[0]).await, Settled::Accepted);
    store.heartbeat(slow.id).await.expect("renew");
    assert_eq!(slow.complete(&jobs[1]).await, Settled::Accepted);
}

/// A live worker is never rescued, whoever dies beside it.
pub async fn a_live_worker_keeps_its_jobs(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let live = worker_on(&store).await;
    let held = live.take_one().await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    dying.take_one().await;
    let report = rescue_of(&store, &dying, MAX_CRASHES).await;
    assert_eq!((report.workers, report.rescued), (vec![dying.id], 1));
    let again = store.rescue(live.id).await.expect("rescue");
    assert_eq!((again.workers.len(), again.rescued, again.discarded), (0, 0, 0));
    assert_eq!(state(&store, ids[0]).await, JobState::Running);
    store.heartbeat(live.id).await.expect("still live");
    assert_eq!(live.complete(&held).await, Settled::Accepted);
}

/// However often a part of a claim is settled again: what is left of it comes back when the worker dies.
pub async fn a_repeated_settlement_hides_no_job(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 6).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    let held = dying.take(6).await;
    for _ in 0..4 {
        dying.complete(&held[0]).await;
        dying.except(&held[1], Disposition::Snooze { delay: LATER }).await;
    }
    store.heartbeat(dying.id).await.expect("heartbeat");
    assert_eq!(queue(&store, QUEUE).await.running, 4);
    assert_eq!(rescue_of(&store, &dying, MAX_CRASHES).await.rescued, 4);
}

/// A worker that dies while it holds nothing is declared dead as well.
pub async fn an_idle_worker_can_die(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let idle = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    let report = rescue_of(&store, &idle, MAX_CRASHES).await;
    assert_eq!((report.rescued, report.discarded), (0, 0));
    assert!(store.heartbeat(idle.id).await.expect_err("dead").is_lease_lost());
}

/// Jobs survive one death after another, and complete exactly once in the end.
pub async fn jobs_survive_many_deaths(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 5).await;
    for _ in 0..6 {
        let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
        dying.take(5).await;
        assert_eq!(rescue_of(&store, &dying, MAX_CRASHES).await.rescued, 5);
    }
    let mut done = worker_on(&store).await.drain(10).await;
    done.sort_unstable();
    assert_eq!(done, ids);
    assert_eq!(queue(&store, QUEUE).await.completed, 5);
}

/// Jobs that were retried, or found no handler, before die and come back like others, with their attempts.
pub async fn a_retried_job_keeps_its_attempts_through_a_crash(fixture: &dyn Fixture) {
    use windlass_core::Disposition;
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let first = worker_on(&store).await;
    let held = first.take_one().await;
    first.except(&held, Disposition::Retry { delay: std::time::Duration::ZERO, error: "no".into() }).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    assert_eq!(dying.take_when_due(1).await[0].job.attempt, 2);
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let back = first.take_one().await;
    assert_eq!((back.job.id, back.job.attempt, back.job.crash_count), (id, 2, 1));
    assert_eq!(errors_of(&store, id).await, [(1, "no".to_owned())]);
}

/// Neighbours of a killer are never discarded for it, however few crashes the policy allows.
pub async fn a_small_crash_limit_discards_no_neighbours(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 2).await;
    for _ in 0..4 {
        let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
        dying.take(2).await;
        let report = rescue_of(&store, &dying, Settings::LEAST_CRASHES).await;
        assert_eq!((report.rescued, report.discarded), (2, 0));
    }
}

/// Who has not been in touch with the store for a lease takes nobody's jobs: after an outage the living renew first.
pub async fn a_newcomer_rescues_nobody(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 2).await;
    let lease = std::time::Duration::from_millis(400);
    let silent = worker(&store, &[QUEUE], &[], lease).await;
    silent.take(2).await;
    eventually("the lease has ended", || async {
        let workers = store.status().await.expect("status").workers;
        workers.iter().all(|worker| worker.id != silent.id || !worker.live).then_some(())
    })
    .await;
    let (arrived, newcomer) = (std::time::Instant::now(), worker_on(&store).await);
    let dead = eventually("the newcomer is no newcomer any more", || async {
        let report = store.rescue(newcomer.id).await.expect("rescue");
        (!report.workers.is_empty()).then_some(report.workers)
    })
    .await;
    assert_eq!(dead, [silent.id]);
    assert!(arrived.elapsed() >= lease, "after {:?}", arrived.elapsed());
}

/// A worker whose own heartbeats stopped takes nobody's jobs, however late its call arrives.
pub async fn the_silent_rescue_nobody(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let silent = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    eventually("the leases have ended", || async {
        let workers = store.status().await.expect("status").workers;
        workers.iter().all(|worker| !worker.live).then_some(())
    })
    .await;
    assert_eq!(store.rescue(silent.id).await.expect("rescue").workers, []);
    rescue_of(&store, &silent, MAX_CRASHES).await;
    assert_eq!(store.rescue(silent.id).await.expect("rescue").workers, [], "nor do the dead");
}
