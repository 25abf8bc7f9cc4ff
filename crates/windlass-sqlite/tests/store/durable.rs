//! A program that was killed may have left what is not on the disk yet. Who is told of that waits until it is, and only who writes waits for
//! the disk.

use crate::fixture::{Fixture, job, jobs};
use std::{slice, time::Duration};
use windlass_core::{Conflict, ErrorKind, EventCursor, EventRequest, JobStore, OnConflict, Unique};

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
