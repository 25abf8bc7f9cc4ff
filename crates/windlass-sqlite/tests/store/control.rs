use crate::fixture::{Fixture, ids, job};
use std::time::Duration;
use windlass_core::{
    CancelReply, DeleteReply, Disposition, EditReply, ErrorKind, HistoryRequest, JobEdit, JobFilter, JobId,
    JobState, JobStore, RetryReply,
};

#[tokio::test]
async fn cancel_tells_what_it_did() {
    let f = Fixture::new();
    let added = f.add(3).await;
    let later = f.enqueue(&[job("test").with_delay(Duration::from_secs(5))]).await.unwrap()[0];
    let worker = f.worker().await;
    let claim = f.take(worker, 1).await.remove(0);
    use CancelReply::{Cancelled, Finished, NotFound, Running};
    let asked = [added[0], added[1], later, JobId(999), added[1], JobId(-1), JobId(i64::MAX)];
    let replies = f.cancel(&asked).await.unwrap();
    assert_eq!(replies, [Running, Cancelled, Cancelled, NotFound, Finished, NotFound, NotFound]);
    f.complete(worker, &claim).await;
    assert_eq!(f.cancel(&added[..1]).await.unwrap(), [Finished]);
    assert_eq!(ids(&f.take(worker, 9).await), [added[2]], "a cancelled job is never handed out");
    f.advance(Duration::from_secs(9));
    assert_eq!(f.promote(9).await.unwrap().count, 0);
}

#[tokio::test]
async fn a_cancel_and_a_claim_never_both_get_the_job() {
    let f = std::sync::Arc::new(Fixture::new());
    let worker = f.worker().await;
    for _ in 0..50 {
        let added = f.add(20).await;
        let (g, asked) = (std::sync::Arc::clone(&f), added.clone());
        let cancelling = tokio::spawn(async move { g.cancel(&asked).await.unwrap() });
        let mut taken = ids(&f.take(worker, 10).await);
        let replies = cancelling.await.unwrap();
        taken.extend(ids(&f.take(worker, 20).await));
        for (id, reply) in added.iter().zip(replies) {
            assert_eq!(reply == CancelReply::Running, taken.contains(id), "{id}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn retry_gives_a_dead_job_its_attempts_anew() {
    let f = Fixture::new();
    let added = f.add(5).await;
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    f.except(worker, &held, Disposition::Discard { error: "x".into(), failed: true }).await;
    let held = f.take_one(worker).await;
    let delay = Duration::from_secs(60);
    f.except(worker, &held, Disposition::Retry { delay, error: "y".into() }).await;
    let done = f.take(worker, 1).await.remove(0);
    f.complete(worker, &done).await;
    f.take_one(worker).await;
    let asked: Vec<JobId> = added.iter().copied().chain([JobId(999)]).collect();
    use RetryReply::{Completed, NotFound, Pending, Retried};
    let replies = f.retry(&asked).await.unwrap();
    assert_eq!(replies, [Retried, Retried, Completed, Pending, Pending, NotFound]);
    let claims = f.take(worker, 9).await;
    let seen: Vec<_> = claims.iter().flat_map(|claim| &claim.jobs).map(|job| (job.id, job.attempt)).collect();
    assert_eq!(seen, [(added[4], 1), (added[0], 1), (added[1], 2)]);
}

#[tokio::test]
async fn a_paused_queue_hands_out_nothing() {
    let f = Fixture::new();
    assert_eq!(f.pause("default", true).await.unwrap_err().kind(), ErrorKind::NotFound);
    f.add(1).await;
    f.pause("default", true).await.unwrap();
    let worker = f.worker().await;
    assert!(f.take(worker, 1).await.is_empty());
    assert!(f.queues().await.unwrap()[0].paused);
    f.pause("default", false).await.unwrap();
    assert_eq!(f.take(worker, 1).await.len(), 1);
}

#[tokio::test]
async fn lists_are_newest_first_filtered_and_paged() {
    let f = Fixture::new();
    let mut batch = crate::fixture::jobs(4);
    batch.push(job("other").with_queue("mail").with_priority(3));
    batch.push(job("test").with_delay(Duration::from_secs(5)));
    let added = f.enqueue(&batch).await.unwrap();
    let worker = f.worker().await;
    let held = f.take_one(worker).await;
    f.except(worker, &held, Disposition::Return).await;
    let done = f.take(worker, 1).await.remove(0);
    f.complete(worker, &done).await;
    f.take_one(worker).await;
    f.cancel(&[added[3]]).await.unwrap();
    // Now: 0 available (moved), 1 completed, 2 running, 3 cancelled, 4 available elsewhere, 5 scheduled.
    let list = async |filter: JobFilter| {
        let found = f.jobs(&filter).await.unwrap();
        found
            .jobs
            .into_iter()
            .map(|record| added.iter().position(|id| *id == record.id).unwrap())
            .collect::<Vec<_>>()
    };
    let all = JobFilter::default();
    assert_eq!(list(all.clone()).await, [2, 0, 4, 5, 3, 1]);
    let after = f.jobs(&JobFilter { limit: 3, ..all.clone() }).await.unwrap().next;
    assert_eq!(list(JobFilter { limit: 2, after, ..all.clone() }).await, [5, 3]);
    assert_eq!(list(JobFilter { queue: Some("mail".into()), ..all.clone() }).await, [4]);
    assert_eq!(list(JobFilter { kind: Some("other".into()), ..all.clone() }).await, [4]);
    for (state, expected) in [
        (JobState::Available, vec![0, 4]),
        (JobState::Completed, vec![1]),
        (JobState::Running, vec![2]),
        (JobState::Cancelled, vec![3]),
        (JobState::Scheduled, vec![5]),
        (JobState::Retryable, vec![]),
        (JobState::Discarded, vec![]),
    ] {
        assert_eq!(list(JobFilter { state: Some(state), ..all.clone() }).await, expected, "{state}");
    }
    assert!(f.jobs(&JobFilter { limit: 0, ..all }).await.is_err());
}

/// Where nothing was counted so far: until now, or until what is to be counted first. It was 1970.
#[tokio::test]
async fn until_when_all_is_counted_is_said_before_anything_is() {
    let f = Fixture::new();
    let until =
        async || f.history(&HistoryRequest::last(Duration::from_secs(60))).await.unwrap().counted_until;
    let first = until().await;
    assert!(first.as_microsecond() > 0, "{first}");
    f.advance(Duration::from_secs(60));
    assert!(until().await > first);
    let ended = f.add(1).await;
    f.cancel(&ended).await.unwrap();
    let then = until().await;
    f.advance(Duration::from_secs(60));
    assert_eq!(until().await, then);
}

/// Nobody can do anything until a transaction with all of them is over.
#[tokio::test]
async fn many_that_are_named_are_changed_in_parts() {
    let f = Fixture::new();
    let mut ids = f.add(1_100).await;
    ids.push(ids[0]);
    let ticking = f.ticking();
    let replies = ticking.cancel(&ids).await.unwrap();
    assert!(replies[..1_100].iter().all(|reply| *reply == CancelReply::Cancelled));
    assert_eq!(replies[1_100..], [CancelReply::Finished]);
    let parts = "SELECT count(DISTINCT finished_at) FROM dead";
    let parts: i64 = crate::idle_lanes::sql(&f).query_one(parts, [], |row| row.get(0)).unwrap();
    assert!(parts >= 3, "{parts} transactions");
    assert_eq!(ticking.retry(&ids).await.unwrap()[1_099], RetryReply::Retried);
    let edit = JobEdit::new().with_priority(3);
    assert_eq!(ticking.edit(&ids, &edit).await.unwrap(), vec![EditReply::Edited; 1_101]);
    assert_eq!(ticking.delete(&ids).await.unwrap()[1_099..], [DeleteReply::Deleted, DeleteReply::NotFound]);
    assert!(ticking.cancel(&[]).await.unwrap().is_empty());
}

/// What they do is committed some at a time: what was, stays, and the error tells it.
#[tokio::test]
async fn a_call_that_fails_after_some_jobs_tells_what_became_of_these() {
    let f = Fixture::new();
    let added = f.add(1_200).await;
    let file = rusqlite::Connection::open(f.folder.path().join("jobs.db")).unwrap();
    let refuse = format!(
        "CREATE TRIGGER refuse BEFORE INSERT ON dead WHEN NEW.id = {} BEGIN SELECT RAISE(ABORT, 'refused'); END",
        added[1_100].0
    );
    file.execute_batch(&refuse).unwrap();
    let error = f.cancel(&added).await.unwrap_err();
    let replies = error.replies();
    let done = replies.iter().take_while(|reply| **reply == Some(CancelReply::Cancelled)).count();
    assert!((1..1_100).contains(&done) && replies[done..].iter().all(Option::is_none), "{replies:?}");
    assert_eq!(replies.len(), 1_200);
    assert!(error.to_string().ends_with(&format!("; {done} of 1200 were done")), "{error}");
    let states = f.states(&added).await.unwrap();
    let cancelled = states.iter().filter(|state| **state == Some(JobState::Cancelled)).count();
    assert_eq!(cancelled, done);
}
