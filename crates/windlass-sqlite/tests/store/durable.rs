//! A program that was killed may have left what is not on the disk yet. Who is told of that waits until it is, and only who writes waits for
//! the disk.

use crate::fixture::{Fixture, job, jobs};
use std::{slice, time::Duration};
use windlass_core::{
    CancelReply, Conflict, ErrorKind, EventCursor, EventRequest, JobStore, OnConflict, Unique,
};

/// So many bytes lie in the file's log: it grows with every write.
fn written(f: &Fixture) -> u64 {
    std::fs::metadata(f.folder.path().join("jobs.db-wal")).unwrap().len()
}

#[tokio::test]
async fn an_answer_that_a_job_is_kept_is_written() {
    let f = Fixture::new();
    let by = |key: &str| Unique::by_key(key);
    let minute = Duration::from_secs(60);
    let again = [
        by("kept"),
        by("window").for_window(minute),
        by("extended").for_window(minute).on_conflict(OnConflict::Extend),
        by("replaced").on_conflict(OnConflict::Replace { max_wait: None }),
    ];
    let first = [by("kept"), again[1].clone(), by("extended"), by("replaced")];
    f.enqueue_unique(&first.map(|unique| job("test").with_unique(unique))).await.unwrap();
    f.take(f.worker().await, 9).await;
    for unique in again {
        let (job, before) = (job("test").with_unique(unique), written(&f));
        let stored = f.enqueue_unique(slice::from_ref(&job)).await.unwrap()[0];
        assert_eq!(stored.conflict, Some(Conflict::Kept));
        assert!(written(&f) > before, "{:?}", job.unique());
    }
}

/// Its window ends when it did before.
#[tokio::test]
async fn an_answer_that_a_window_is_long_enough_is_written() {
    let f = Fixture::new();
    let minutes = |n: u32| {
        let unique = Unique::by_key("k").for_window(n * Duration::from_secs(60));
        job("test").with_unique(unique.on_conflict(OnConflict::Extend))
    };
    f.enqueue_unique(&[minutes(60)]).await.unwrap();
    let before = written(&f);
    let stored = f.enqueue_unique(&[minutes(1)]).await.unwrap()[0];
    assert_eq!(stored.conflict, Some(Conflict::Extended));
    assert!(written(&f) > before);
}

/// A program that was killed may have left more than is on the disk, which the next one finds. What that is told first is there then.
#[tokio::test]
async fn a_first_answer_that_changes_nothing_is_written() {
    let f = Fixture::new();
    let id = f.add(1).await[0];
    for store in [f.another(), f.another()] {
        let before = written(&f);
        store.pause("default", true).await.unwrap();
        assert!(written(&f) > before);
        let before = written(&f);
        store.pause("default", true).await.unwrap();
        assert_eq!(written(&f), before, "all is on the disk");
    }
    f.cancel(&[id]).await.unwrap();
    let (store, before) = (f.another(), written(&f));
    assert_eq!(store.cancel(&[id]).await.unwrap(), [CancelReply::Finished]);
    assert!(written(&f) > before);
}

#[tokio::test]
async fn a_refusal_that_names_a_job_is_written() {
    let f = Fixture::new();
    let job = job("test").with_unique(Unique::by_key("k").on_conflict(OnConflict::Error));
    f.enqueue_unique(slice::from_ref(&job)).await.unwrap();
    let before = written(&f);
    let refused = f.enqueue_unique(&[job]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::UniqueConflict);
    assert!(written(&f) > before);
}

#[tokio::test]
async fn an_answer_that_a_key_was_used_is_written() {
    let f = Fixture::new();
    f.enqueue_once("key", &jobs(2)).await.unwrap();
    let before = written(&f);
    assert!(f.enqueue_once("key", &jobs(2)).await.unwrap().repeated);
    assert!(written(&f) > before);
}

/// After a power cut the numbers of what was seen would be others'.
#[tokio::test]
async fn what_a_cursor_says_was_seen_is_written() {
    let f = Fixture::new();
    f.add(2).await;
    let before = written(&f);
    let page = f.events(&EventRequest::after(EventCursor::start())).await.unwrap();
    assert_eq!(page.events.len(), 2);
    assert!(written(&f) > before);
    let before = written(&f);
    assert!(f.events(&EventRequest::after(page.next)).await.unwrap().events.is_empty());
    assert_eq!(written(&f), before, "nothing new was seen");
}
