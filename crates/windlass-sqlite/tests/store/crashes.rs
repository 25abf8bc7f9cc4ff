use crate::{
    fixture::{Fixture, LEASE},
    idle_lanes::sql,
};
use std::time::Duration;
use windlass_core::{JobState, JobStore};

const PAST_LEASE: Duration = Duration::from_secs(31);

#[tokio::test]
async fn a_living_worker_keeps_its_jobs() {
    let f = Fixture::new();
    let rescuer = f.rescuer().await;
    f.add(1).await;
    let worker = f.worker().await;
    f.take_one(worker).await;
    f.advance(LEASE);
    f.heartbeat(worker).await.unwrap();
    f.advance(LEASE);
    assert!(f.rescue(rescuer).await.unwrap().workers.is_empty());
    assert_eq!(f.queues().await.unwrap()[0].running, 1);
}

#[tokio::test]
async fn sharing_workers_with_a_killer_never_kills_the_innocent() {
    let f = Fixture::new();
    let rescuer = f.rescuer().await;
    f.add(2).await;
    for round in 1..=6_u16 {
        let worker = f.worker().await;
        let claims = f.take(worker, 2).await;
        assert_eq!(claims[0].jobs.len(), 2);
        assert!(claims[0].jobs.iter().all(|job| job.crash_count == (round - 1).min(2) && job.attempt == 1));
        f.advance(PAST_LEASE);
        let report = f.rescue(rescuer).await.unwrap();
        assert_eq!((report.workers, report.rescued, report.discarded), (vec![worker], 2, 0));
    }
}

#[tokio::test]
async fn a_suspect_answers_for_itself_alone() {
    let f = Fixture::new();
    let rescuer = f.rescuer().await;
    f.configure(&windlass_core::Settings::DEFAULT.with_max_crashes(3)).await.unwrap();
    let added = f.add(2).await;
    for round in 1..=3_u16 {
        let worker = f.worker().await;
        f.take(worker, 2).await;
        f.suspect(worker, Some(added[0])).await.unwrap();
        f.advance(PAST_LEASE);
        let report = f.rescue(rescuer).await.unwrap();
        let dies = u64::from(round == 3);
        assert_eq!((report.rescued, report.discarded), (2 - dies, dies));
    }
    let killer = f.job(added[0]).await.unwrap().unwrap();
    assert_eq!((killer.state, killer.crash_count, killer.attempt), (JobState::Discarded, 3, 1));
    assert_eq!(killer.reason.as_deref(), Some("crash_loop: 3 workers died while they held this job"));
    let innocent = f.job(added[1]).await.unwrap().unwrap();
    assert_eq!((innocent.state, innocent.crash_count), (JobState::Available, 0));
}

#[tokio::test]
async fn a_suspicion_that_is_over_does_not_count() {
    let f = Fixture::new();
    let rescuer = f.rescuer().await;
    let id = f.add(1).await[0];
    let worker = f.worker().await;
    f.take(worker, 1).await;
    f.suspect(worker, Some(id)).await.unwrap();
    f.suspect(worker, None).await.unwrap();
    f.advance(PAST_LEASE);
    assert_eq!(f.rescue(rescuer).await.unwrap().discarded, 0);
    assert_eq!(f.job(id).await.unwrap().unwrap().crash_count, 1);
}

#[tokio::test]
async fn completed_jobs_of_a_dead_worker_stay_completed() {
    let f = Fixture::new();
    let rescuer = f.rescuer().await;
    let added = f.add(4).await;
    let worker = f.worker().await;
    let claim = f.take(worker, 4).await.remove(0);
    let some = windlass_core::JobSet::Ranges(vec![(added[0].0, added[1].0)]);
    f.settle(&crate::fixture::completion(worker, &claim, some)).await.unwrap();
    f.advance(PAST_LEASE);
    assert_eq!(f.rescue(rescuer).await.unwrap().rescued, 2);
    assert_eq!(f.state(added[1]).await, JobState::Completed);
    assert_eq!(f.state(added[2]).await, JobState::Available);
}

/// Others need not wait until the jobs of all dead workers are rescued.
#[tokio::test]
async fn each_dead_worker_has_a_transaction_of_its_own() {
    let f = Fixture::new();
    let rescuer = f.rescuer().await;
    f.add(6).await;
    let mut dead = Vec::new();
    for _ in 0..3 {
        let worker = f.worker().await;
        f.take(worker, 2).await;
        dead.push(worker);
    }
    f.advance(PAST_LEASE);
    let report = f.ticking().rescue(rescuer).await.unwrap();
    assert_eq!((report.workers, report.rescued, report.discarded), (dead, 6, 0));
    assert!(report.next_end > Some(LEASE));
    let times: i64 =
        sql(&f).query_one("SELECT count(DISTINCT ended_at) FROM worker", [], |row| row.get(0)).unwrap();
    assert_eq!(times, 3);
}

/// A fast worker holds a hundred thousand: nobody can do anything until a transaction with all of them is over.
#[tokio::test]
async fn what_a_dead_worker_held_comes_back_in_parts() {
    let f = Fixture::new();
    let rescuer = f.rescuer().await;
    let added = f.add(5_000).await;
    let worker = f.worker().await;
    assert_eq!(f.take(worker, 3_000).await.len() + f.take(worker, 3_000).await.len(), 2);
    f.advance(PAST_LEASE);
    let report = f.ticking().rescue(rescuer).await.unwrap();
    assert_eq!((report.workers, report.rescued, report.discarded), (vec![worker], 5_000, 0));
    let times: i64 =
        sql(&f).query_one("SELECT count(DISTINCT available_at) FROM job", [], |row| row.get(0)).unwrap();
    assert_eq!(times, 3);
    let heir = f.worker().await;
    let again = crate::fixture::ids(&f.take(heir, 5_000).await);
    assert!(again == added, "all of them, in their order");
}

/// Who rescues may die between two parts.
#[tokio::test]
async fn a_rescue_that_was_begun_is_finished_by_others() {
    let f = Fixture::new();
    let rescuer = f.rescuer().await;
    let added = f.add(3).await;
    let worker = f.worker().await;
    f.take(worker, 3).await;
    f.cancel(&added[..1]).await.unwrap();
    f.suspect(worker, Some(added[1])).await.unwrap();
    sql(&f).execute("UPDATE worker SET ended_at = heartbeat_at WHERE id = ?1", [worker.0]).unwrap();
    let report = f.rescue(rescuer).await.unwrap();
    assert_eq!((report.workers.len(), report.rescued, report.discarded), (0, 2, 0));
    assert_eq!(f.state(added[0]).await, JobState::Cancelled);
    assert_eq!(f.job(added[1]).await.unwrap().unwrap().crash_count, 1);
    assert_eq!(f.rescue(rescuer).await.unwrap().rescued, 0);
}
