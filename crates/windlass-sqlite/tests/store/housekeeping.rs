use crate::fixture::{Fixture, exception};
use std::time::Duration;
use windlass_core::{Disposition, JobState, JobStore, MaintainRequest};

const HOUR: Duration = Duration::from_secs(3_600);

fn keep(retention: Duration, dead_retention: Duration) -> MaintainRequest {
    MaintainRequest { retention, dead_retention, ..MaintainRequest::default() }
}

#[tokio::test]
async fn finished_jobs_go_after_their_retention_and_unfinished_ones_stay() {
    let f = Fixture::new();
    let added = f.add(6).await;
    let worker = f.worker().await;
    let done = f.take(worker, 2).await.remove(0);
    let running = f.take(worker, 1).await.remove(0);
    let dead = f.take_one(worker).await;
    f.complete(worker, &done).await;
    f.except(worker, &dead, Disposition::Discard { error: "x".into(), failed: true }).await;

    assert_eq!(f.maintain(&keep(HOUR, HOUR)).await.unwrap(), Default::default());
    f.advance(HOUR);
    let report = f.maintain(&keep(HOUR, 2 * HOUR)).await.unwrap();
    assert_eq!((report.truncated, report.removed_dead), (2, 0));
    assert!(f.job(added[0]).await.unwrap().is_none());
    assert_eq!(f.state(added[2]).await, JobState::Running);
    assert_eq!(f.state(added[3]).await, JobState::Discarded);
    assert_eq!(f.state(added[5]).await, JobState::Available);
    assert_eq!(f.queues().await.unwrap()[0].completed, 0);
    f.advance(HOUR);
    assert_eq!(f.maintain(&keep(HOUR, 2 * HOUR)).await.unwrap().removed_dead, 1);
    assert!(f.job(added[3]).await.unwrap().is_none());
    // Claiming goes on where it was.
    assert_eq!(crate::fixture::ids(&f.take(worker, 9).await), added[4..]);
    f.complete(worker, &running).await;
}

#[tokio::test]
async fn errors_go_with_their_job() {
    let f = Fixture::new();
    let id = f.add(1).await[0];
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    let retry = Disposition::Retry { delay: Duration::ZERO, error: "x".into() };
    f.settle(&exception(worker, &held, retry)).await.unwrap();
    f.promote(1).await.unwrap();
    let claim = f.take(worker, 1).await.remove(0);
    f.complete(worker, &claim).await;
    assert_eq!(f.job(id).await.unwrap().unwrap().errors.len(), 1);
    f.maintain(&keep(Duration::ZERO, HOUR)).await.unwrap();
    f.close().await;
    let file = rusqlite::Connection::open(f.path()).unwrap();
    let left: i64 = file.query_one("SELECT count(*) FROM attempt_error", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn the_file_reuses_its_room() {
    let f = Fixture::new();
    let worker = f.worker().await;
    let mut sizes = Vec::new();
    for _ in 0..5 {
        f.add(5_000).await;
        for claim in f.take(worker, 5_000).await {
            f.complete(worker, &claim).await;
        }
        f.maintain(&keep(Duration::ZERO, Duration::ZERO)).await.unwrap();
        let status = f.status().await.unwrap();
        assert_eq!(status.queues[0].completed, 0);
        f.close().await;
        sizes.push(std::fs::metadata(f.path()).unwrap().len());
    }
    assert!(sizes[4] <= sizes[0] * 3 / 2, "{sizes:?}");
}
