//! What is done to many jobs while they move on.

use std::{sync::Arc, time::Duration};
use windlass::{Args, Client, JobEdit, JobFilter, JobId, JobState, NewJob, Touched, Worker};
use windlass_core::{ClaimRequest, JobPage, QueueDemand, Result, Store, WorkerId, WorkerSpec, wrap_store};

/// A store whose worker takes the jobs as soon as they are listed.
struct Taking {
    store: Arc<dyn Store>,
    worker: WorkerId,
}

wrap_store! {
    impl JobStore for Taking, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job any_available coming queues_by history events status wakeup close]

    async fn jobs(&self, filter: &JobFilter) -> Result<JobPage> {
        let page = self.store.jobs(filter).await?;
        if filter.state == Some(JobState::Available) {
            let demand = QueueDemand::new("default", 100);
            self.store.claim(&ClaimRequest { worker: self.worker, queues: vec![demand] }).await?;
        }
        Ok(page)
    }
}

#[tokio::test]
async fn a_job_that_begins_while_it_is_cancelled_counts_once() {
    let store = Arc::clone(windlass::testing::client().store());
    let spec = WorkerSpec {
        name: "w".into(),
        queues: vec!["default".into()],
        kinds: vec![],
        lease: Duration::from_secs(60),
        program: Default::default(),
    };
    let worker = store.register(&spec).await.unwrap().worker;
    let client = Client::from_store(Arc::new(Taking { store, worker }));
    let job = || NewJob::new("work", Args::parse("{}").unwrap());
    client.enqueue_many((0..10).map(|_| job())).await.unwrap();
    let touched = client
        .select(JobFilter { kind: Some("work".into()), ..JobFilter::default() })
        .cancel()
        .await
        .unwrap();
    assert_eq!((touched.selected, touched.done, touched.asked, touched.left), (10, 0, 10, 0));
}

#[tokio::test]
async fn one_that_is_stopped_tells_all_that_it_touched() {
    let client = windlass::testing::client();
    let job = || NewJob::new("work", Args::parse("{}").unwrap());
    let ids = client.enqueue_many((0..3_000).map(|_| job())).await.unwrap();
    let by_filter = || client.select(JobFilter { kind: Some("work".into()), ..JobFilter::default() });
    let by_ids = || client.select_ids(ids[2_000..].to_vec());
    for (nth, selection) in [by_filter(), by_ids()].into_iter().enumerate() {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let mut stop = Some(stop);
        let first_call = move |_: &windlass::Touched| drop(stop.take());
        let selection = selection.progress(first_call).until(async { stopped.await.unwrap_or(()) });
        assert_eq!(selection.cancel().await.unwrap().done, 500, "{nth}");
    }
    assert_eq!(by_filter().until(async {}).cancel().await.unwrap().selected, 0);
    assert_eq!(client.queues().await.unwrap()[0].available, 2_000);
}

#[tokio::test]
async fn a_dry_run_of_named_jobs_says_what_the_call_would() {
    let client = windlass::testing::client();
    let job = || NewJob::new("work", Args::parse("{}").unwrap());
    let ids = client.enqueue_many((0..3).map(|_| job())).await.unwrap();
    client.cancel(&ids[..1]).await.unwrap();
    // One of them twice: it is touched once.
    let named = [&ids[..], &[JobId(4711)], &ids[2..]].concat();
    let select = |dry_run| client.select_ids(named.clone()).dry_run(dry_run);
    let (later, first) =
        (JobEdit::new().with_delay(Duration::from_secs(60)), JobEdit::new().with_priority(-5));
    for dry_run in [true, false] {
        let count = |touched: Touched| (touched.selected, touched.done, touched.left);
        assert_eq!(count(select(dry_run).edit(later.clone()).await.unwrap()), (4, 2, 2), "dry: {dry_run}");
        assert_eq!(count(select(dry_run).edit(first.clone()).await.unwrap()), (4, 3, 1), "dry: {dry_run}");
        assert_eq!(count(select(dry_run).retry().await.unwrap()), (4, 1, 3), "dry: {dry_run}");
    }
    for (dry_run, done) in [(true, 3), (false, 3), (true, 0)] {
        assert_eq!(select(dry_run).cancel().await.unwrap().done, done, "dry: {dry_run}");
    }
    for (dry_run, done) in [(true, 3), (false, 3), (true, 0)] {
        assert_eq!(select(dry_run).delete().await.unwrap().done, done, "dry: {dry_run}");
    }
}

/// Cancelling a job that runs asks its worker to: a dry run says how many those are, by filter and by ids, as the call does.
#[tokio::test]
async fn a_dry_run_of_a_cancel_tells_those_that_run() {
    let client = windlass::testing::client();
    let handler = |_: windlass::RawJob, context: windlass::Context| async move { context.cancelled().await };
    let worker =
        Worker::builder(&client).queue("default", 1).handle_kind("work", handler).start().await.unwrap();
    let ids =
        client.enqueue_many((0..3).map(|_| NewJob::new("work", Args::parse("{}").unwrap()))).await.unwrap();
    while client.queues().await.unwrap()[0].running == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let works = || JobFilter { kind: Some("work".into()), ..JobFilter::default() };
    let counts = |touched: Touched| (touched.selected, touched.done, touched.asked, touched.left);
    assert_eq!(counts(client.select(works()).dry_run(true).cancel().await.unwrap()), (3, 2, 1, 0));
    assert_eq!(counts(client.select_ids(ids).dry_run(true).cancel().await.unwrap()), (3, 2, 1, 0));
    assert_eq!(counts(client.select(works()).cancel().await.unwrap()), (3, 2, 1, 0));
    worker.shutdown().await;
}

/// Args that are encrypted are not edited: a dry run by filter says so, as one by ids, and as the call.
#[tokio::test]
async fn a_dry_run_says_which_args_are_encrypted() {
    let client = windlass::testing::client();
    let sealed = r#"{"windlass.enc":{"v":1,"key":"k1","nonce":"bm9uY2U","data":"ZGF0YQ"}}"#;
    let job = |args: &str| NewJob::new("work", Args::parse(args).unwrap());
    // By the store: clients without keys refuse it.
    let ids = client.store().enqueue(&[job("1"), job(sealed), job("2")]).await.unwrap();
    let edits =
        [(JobEdit::new().with_args(Args::parse("3").unwrap()), 2), (JobEdit::new().with_priority(1), 3)];
    for (edit, done) in edits {
        for dry_run in [true, false] {
            let by_filter = client.select(JobFilter { kind: Some("work".into()), ..JobFilter::default() });
            for selection in [by_filter, client.select_ids(ids.clone())] {
                let touched = selection.dry_run(dry_run).edit(edit.clone()).await.unwrap();
                let counts = (touched.selected, touched.done, touched.encrypted, touched.left);
                assert_eq!(counts, (3, done, 3 - done, 0), "dry: {dry_run}");
            }
        }
    }
}
