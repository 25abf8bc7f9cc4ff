//! A call that names several jobs and fails after some of them were done: those are told, counted and noted.

use std::sync::{Arc, Mutex};
use windlass::{Args, AuditFilter, Client, ErrorKind, JobFilter, JobId, NewJob, Touched};
use windlass_core::{CancelReply, Error, Result, Store, wrap_store};

/// A store that cancels the first jobs that are named, and then fails.
struct Failing {
    store: Arc<dyn Store>,
    after: usize,
}

wrap_store! {
    impl JobStore for Failing, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available queues_by history events status wakeup close]

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        let replies = self.store.cancel(&ids[..self.after.min(ids.len())]).await?;
        if replies.len() == ids.len() {
            return Ok(replies);
        }
        let left = (self.after..ids.len()).map(|_| None);
        let error = Error::new(ErrorKind::Unavailable, "no answer");
        Err(error.with_replies(replies.into_iter().map(Some).chain(left).collect()))
    }
}

/// A client for somebody over a store that fails after so many jobs, and three jobs.
async fn failing(after: usize) -> (Client, Vec<JobId>) {
    let store = Arc::clone(windlass::testing::client().store());
    let client = Client::from_store(Arc::new(Failing { store, after })).acting_as("billing").unwrap();
    let job = || NewJob::new("work", Args::parse("{}").unwrap());
    let ids = client.enqueue_many((0..3).map(|_| job())).await.unwrap();
    (client, ids)
}

/// What the audit log has: action, target, count and outcome.
async fn noted(client: &Client) -> Vec<(String, String, Option<u64>, String)> {
    let page = client.audit(&AuditFilter::default()).await.unwrap();
    let entries = page.entries.into_iter().map(|record| record.entry);
    entries.map(|entry| (entry.action, entry.target, entry.count, entry.outcome)).collect()
}

#[tokio::test]
async fn jobs_that_were_named() {
    let (client, ids) = failing(2).await;
    let error = client.cancel(&ids).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer; 2 of 3 were done");
    assert_eq!(error.replies(), [Some(CancelReply::Cancelled), Some(CancelReply::Cancelled), None]);
    let entry = ("jobs.cancel".to_owned(), "3 jobs".to_owned(), Some(2), "unavailable".to_owned());
    assert_eq!(noted(&client).await, [entry]);
}

#[tokio::test]
async fn jobs_that_a_filter_selects() {
    let (client, _) = failing(2).await;
    let told = Mutex::new(Touched::default());
    let works = JobFilter { kind: Some("work".into()), ..JobFilter::default() };
    let selection = client.select(works).progress(|touched| *told.lock().unwrap() = *touched);
    let error = selection.cancel().await.unwrap_err();
    assert_eq!(error.to_string(), "no answer; 2 of 3 were done");
    let told = told.into_inner().unwrap();
    assert_eq!((told.selected, told.done, told.asked, told.left), (3, 2, 0, 0));
    let entry = ("jobs.cancel".to_owned(), "jobs".to_owned(), Some(2), "unavailable".to_owned());
    assert_eq!(noted(&client).await, [entry]);
}

#[tokio::test]
async fn where_none_was_done_nothing_is_noted() {
    let (client, ids) = failing(0).await;
    let error = client.cancel(&ids).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer");
    client.select_ids(ids).cancel().await.unwrap_err();
    assert_eq!(noted(&client).await, []);
}
