//! What somebody has in a transaction that stays open keeps a call that names several jobs from that job alone.

use crate::cluster::Fixture;
use std::time::{Duration, Instant};
use tokio_postgres::Client;
use windlass_conformance::steps::{job, jobs};
use windlass_core::{
    CancelReply, DeleteReply, EditReply, Error, ErrorKind, JobEdit, JobId, JobState, JobStore, RetryReply,
};
use windlass_postgres::PostgresStore;

const PATIENCE: Duration = Duration::from_secs(1);

/// A store whose calls wait for a second, and somebody who did this and has not committed.
async fn beside(fixture: &mut Fixture, calls: &str) -> (PostgresStore, Client) {
    fixture.options.call_timeout = PATIENCE;
    let holder = fixture.sql().await;
    holder.batch_execute(&fixture.text(&format!("BEGIN; SELECT {calls}"))).await.unwrap();
    (fixture.store().await, holder)
}

/// Says what was done, and not that nothing was.
fn says(error: &Error, done: &str) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains("not all done within 1s: a transaction that is still open"), "{text}");
    assert!(text.ends_with(&format!("; {done} were done")), "{text}");
    assert!(!text.contains("nothing was"), "{text}");
}

#[tokio::test]
async fn the_others_are_done_and_told() {
    let mut fixture = Fixture::fresh().await;
    let store = fixture.store().await;
    let first = store.enqueue(&jobs(1)).await.unwrap()[0];
    let had = store.enqueue(&[job().with_queue("other"), job().with_queue("other")]).await.unwrap();
    let last = store.enqueue(&jobs(1)).await.unwrap()[0];
    let dead = store.enqueue(&[job().with_queue("third")]).await.unwrap()[0];
    store.cancel(&[dead]).await.unwrap();
    let calls = format!("windlass.cancel({}), windlass.retry({dead})", had[1]);
    let (store, holder) = beside(&mut fixture, &calls).await;
    let three = [first, had[0], last];

    let edit = JobEdit::new().with_max_attempts(7);
    let error = store.edit(&three, &edit).await.unwrap_err();
    says(&error, "2 of 3");
    assert_eq!(error.replies(), [Some(EditReply::Edited), None, Some(EditReply::Edited)]);
    let error = store.cancel(&three).await.unwrap_err();
    says(&error, "2 of 3");
    assert_eq!(error.replies(), [Some(CancelReply::Cancelled), None, Some(CancelReply::Cancelled)]);
    let states = [Some(JobState::Cancelled), Some(JobState::Available), Some(JobState::Cancelled)];
    assert_eq!(store.states(&three).await.unwrap(), states);
    let error = store.retry(&[first, dead, last]).await.unwrap_err();
    says(&error, "2 of 3");
    assert_eq!(error.replies(), [Some(RetryReply::Retried), None, Some(RetryReply::Retried)]);
    let error = store.delete(&three).await.unwrap_err();
    says(&error, "2 of 3");
    assert_eq!(error.replies(), [Some(DeleteReply::Deleted), None, Some(DeleteReply::Deleted)]);

    let error = store.cancel(&had).await.unwrap_err();
    assert!(error.to_string().contains("cancel: not done within 1s, and nothing was:"), "{error}");
    assert!(error.replies::<CancelReply>().is_empty());
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.cancel(&three[1..2]).await.unwrap(), [CancelReply::Cancelled]);
}

/// The call takes no longer the more of its jobs somebody has, and is done as soon as they are free.
#[tokio::test]
async fn many_that_somebody_has_are_waited_for_together() {
    let mut fixture = Fixture::fresh().await;
    let store = fixture.store().await;
    let had = store.enqueue(&(0..150).map(|_| job().with_queue("other")).collect::<Vec<_>>()).await.unwrap();
    let last = store.enqueue(&jobs(1)).await.unwrap()[0];
    let (store, holder) = beside(&mut fixture, &format!("windlass.cancel({})", had[0])).await;
    let all: Vec<JobId> = had[1..].iter().copied().chain([last]).collect();
    let began = Instant::now();
    let error = store.cancel(&all).await.unwrap_err();
    assert!(began.elapsed() < 10 * PATIENCE, "{:?}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    fixture.options.call_timeout = Duration::from_secs(60);
    let store = fixture.store().await;
    let cancelling = tokio::spawn(async move { store.cancel(&all).await });
    tokio::time::sleep(PATIENCE).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
    let replies = cancelling.await.unwrap().unwrap();
    assert_eq!(replies.len(), 150);
    assert!(replies[..149].iter().all(|reply| *reply == CancelReply::Cancelled));
}

/// However many somebody has, and wherever these are among the others: those are done in the same call.
#[tokio::test]
async fn those_that_are_free_are_done_behind_many_that_are_not() {
    let mut fixture = Fixture::fresh().await;
    let store = fixture.store().await;
    let of = |queue: &'static str, count| (0..count).map(|_| job().with_queue(queue)).collect::<Vec<_>>();
    let had = store.enqueue(&of("other", 700)).await.unwrap();
    let free = store.enqueue(&of("free", 200)).await.unwrap();
    let (store, holder) = beside(&mut fixture, &format!("windlass.cancel({})", had[0])).await;
    // Some of them in a chunk with others that are not to be had.
    let all: Vec<JobId> = had[1..].iter().chain(&free).copied().collect();
    let error = store.cancel(&all).await.unwrap_err();
    says(&error, "200 of 899");
    assert!(error.holder().is_some_and(|holder| holder.contains("pg_prepared_xacts")), "{error}");
    let replies = error.replies::<CancelReply>();
    assert!(replies[..699].iter().all(Option::is_none));
    assert!(replies[699..].iter().all(|reply| *reply == Some(CancelReply::Cancelled)));
    holder.batch_execute("ROLLBACK").await.unwrap();
}
