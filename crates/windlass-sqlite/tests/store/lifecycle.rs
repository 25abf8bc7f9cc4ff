use crate::fixture::{Fixture, completion, ids, job, jobs};
use windlass_core::{ErrorKind, JobSet, JobState, JobStore, NewJob, Settled};

#[tokio::test]
async fn a_job_goes_from_enqueue_to_completed() {
    let f = Fixture::new();
    let added = f.add(3).await;
    assert_eq!(f.state(added[0]).await, JobState::Available);
    let worker = f.worker().await;
    let claims = f.take(worker, 10).await;
    assert_eq!(ids(&claims), added);
    assert_eq!(claims[0].jobs[2].args, "2");
    assert_eq!((claims[0].jobs[0].attempt, claims[0].jobs[0].max_attempts), (1, 20));
    assert_eq!(f.state(added[1]).await, JobState::Running);
    assert!(f.take(worker, 10).await.is_empty());

    assert_eq!(f.complete(worker, &claims[0]).await.completions, [Settled::Accepted]);
    let record = f.job(added[2]).await.unwrap().unwrap();
    assert_eq!((record.state, record.attempt, record.claimed_by), (JobState::Completed, 1, Some(worker)));
    assert!(record.finished_at.is_some());
    let queue = &f.queues().await.unwrap()[0];
    assert_eq!((queue.available, queue.running, queue.completed), (0, 0, 3));
}

#[tokio::test]
async fn settling_twice_changes_nothing() {
    let f = Fixture::new();
    f.add(10).await;
    let worker = f.worker().await;
    let claim = f.take(worker, 10).await.remove(0);
    let first = claim.jobs[0].id.0;
    let some = JobSet::Ranges(vec![(first, first + 1), (first + 4, first + 4)]);
    for expected in [Settled::Accepted, Settled::Already] {
        let reply = f.settle(&completion(worker, &claim, some.clone())).await.unwrap();
        assert_eq!(reply.completions, [expected]);
    }
    // Overlapping what is settled already: only the new jobs count.
    let wider = JobSet::Ranges(vec![(first - 1, first + 4)]);
    assert_eq!(f.settle(&completion(worker, &claim, wider)).await.unwrap().completions, [Settled::Accepted]);
    let queue = &f.queues().await.unwrap()[0];
    assert_eq!((queue.running, queue.completed), (5, 5));
    for expected in [Settled::Accepted, Settled::Already] {
        assert_eq!(f.complete(worker, &claim).await.completions, [expected]);
    }
    assert_eq!(f.queues().await.unwrap()[0].completed, 10);
}

#[tokio::test]
async fn ranges_leave_the_rest_running() {
    let f = Fixture::new();
    let added = f.add(5).await;
    let worker = f.worker().await;
    let claim = f.take(worker, 5).await.remove(0);
    f.settle(&completion(worker, &claim, JobSet::Ranges(vec![(added[1].0, added[2].0)]))).await.unwrap();
    let mut states = Vec::new();
    for &id in &added {
        states.push(f.state(id).await);
    }
    use JobState::{Completed as C, Running as R};
    assert_eq!(states, [R, C, C, R, R]);
}

#[tokio::test]
async fn better_priorities_come_first() {
    let f = Fixture::new();
    let batch: Vec<NewJob> = [5, -1, 0, -1].into_iter().map(|p| job("test").with_priority(p)).collect();
    let added = f.enqueue(&batch).await.unwrap();
    let worker = f.worker().await;
    let claims = f.take(worker, 3).await;
    assert_eq!(ids(&claims), [added[1], added[3], added[2]]);
    assert_eq!(claims.iter().map(|claim| claim.priority).collect::<Vec<_>>(), [-1, 0]);
}

#[tokio::test]
async fn a_batch_is_stored_whole_or_not_at_all() {
    let f = Fixture::new();
    let mut batch = jobs(100);
    batch.push(job("bad kind"));
    assert_eq!(f.enqueue(&batch).await.unwrap_err().kind(), ErrorKind::InvalidName);
    assert!(f.queues().await.unwrap().is_empty());
    assert!(f.enqueue(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_reopened_file_has_everything() {
    let f = Fixture::new();
    let added = f.add(4).await;
    let worker = f.worker().await;
    let claims = f.take(worker, 2).await;
    f.close().await;
    let again = f.another();
    assert_eq!(again.queues().await.unwrap()[0].running, 2);
    // The closed handle opens again by itself, and the lease still runs.
    assert_eq!(f.complete(worker, &claims[0]).await.completions, [Settled::Accepted]);
    assert_eq!(ids(&f.take(worker, 9).await), added[2..]);
}

/// Many times, because it was a race of the two connections that close.
#[tokio::test]
async fn a_clean_close_leaves_one_file() {
    let f = Fixture::new();
    for _ in 0..100 {
        f.add(1).await;
        f.close().await;
        let files: Vec<_> =
            f.folder.path().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files, ["jobs.db"]);
    }
}
