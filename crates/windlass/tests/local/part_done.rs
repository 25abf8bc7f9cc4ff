//! A call that names several jobs and fails after some of them were done: those are told, counted and noted.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};
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
     settings configure retention set_retention retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history events status wakeup close]

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

/// A store in which somebody holds some jobs.
struct Held {
    store: Arc<dyn Store>,
    held: HashSet<JobId>,
}

wrap_store! {
    impl JobStore for Held, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history events status wakeup close]

    async fn cancel(&self, ids: &[JobId]) -> Result<Vec<CancelReply>> {
        let mut replies = Vec::new();
        for id in ids {
            let free = !self.held.contains(id);
            replies.push(if free { self.store.cancel(&[*id]).await?.pop() } else { None });
        }
        if replies.iter().all(Option::is_some) {
            return Ok(replies.into_iter().flatten().collect());
        }
        let error = Error::new(ErrorKind::Unavailable, "cancel: not done, and nothing was").with_holder("somebody has it");
        Err(error.with_replies(replies))
    }
}

/// What is held is passed over, on whichever of the pages it is, and told at the end.
#[tokio::test]
async fn jobs_that_somebody_holds_end_nothing() {
    let store = Arc::clone(windlass::testing::client().store());
    let job = || NewJob::new("work", Args::parse("{}").unwrap());
    let ids = Client::from_store(Arc::clone(&store)).enqueue_many((0..1_600).map(|_| job())).await.unwrap();
    // One of the first page, and all of the third.
    let held: HashSet<_> = ids[1_000..1_500].iter().chain([&ids[7]]).copied().collect();
    let client =
        Client::from_store(Arc::new(Held { store, held: held.clone() })).acting_as("billing").unwrap();
    let works = JobFilter { kind: Some("work".into()), ..JobFilter::default() };
    let told = Mutex::new(Touched::default());
    let error = client
        .select(works.clone())
        .progress(|touched| *told.lock().unwrap() = *touched)
        .cancel()
        .await
        .unwrap_err();
    let text = "cancel: 501 of 1600 jobs could not be had, 1099 were done: somebody has it";
    assert_eq!((error.to_string().as_str(), error.kind()), (text, ErrorKind::Unavailable));
    let told = told.into_inner().unwrap();
    assert_eq!((told.selected, told.done, told.asked, told.left), (1_600, 1_099, 0, 0));
    let error = client.select_ids(ids.clone()).cancel().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cancel: 501 of 1600 jobs could not be had, nothing was done: somebody has it"
    );
    let error = client.select(works).cancel().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cancel: 501 of 501 jobs could not be had, nothing was done: somebody has it"
    );
    let noted: Vec<_> =
        noted(&client).await.into_iter().map(|(.., count, outcome)| (count, outcome)).collect();
    assert_eq!(noted.last(), Some(&(Some(1_099), "unavailable".to_owned())));
}

#[tokio::test]
async fn where_none_was_done_nothing_is_noted() {
    let (client, ids) = failing(0).await;
    let error = client.cancel(&ids).await.unwrap_err();
    assert_eq!(error.to_string(), "no answer");
    client.select_ids(ids).cancel().await.unwrap_err();
    assert_eq!(noted(&client).await, []);
}
