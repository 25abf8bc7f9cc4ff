//! Cancelling while workers run, the same over every store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, time::timeout};
use windlass::{
    Args, CancelReply, Client, Context, JobEdit, JobFilter, JobId, JobState, NewJob, Outcome, RawJob, Worker,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn job() -> NewJob {
    NewJob::new("work", Args::parse("{}").unwrap())
}

/// The token of a running job fires by the hint of the store, long before a heartbeat is due. `asking` is another client.
pub(crate) async fn a_running_job_is_told(client: &Client, asking: &Client) {
    let (sender, mut told) = mpsc::unbounded_channel();
    let worker = Worker::builder(client)
        .queue("default", 2)
        .handle_kind("work", move |_: RawJob, ctx: Context| {
            let sender = sender.clone();
            async move {
                sender.send(false).unwrap();
                ctx.cancelled().await;
                sender.send(true).unwrap();
                Outcome::Retry { after: None, error: "stopped".into() }
            }
        })
        .start()
        .await
        .unwrap();
    for _ in 0..3 {
        let id = client.enqueue(job()).await.unwrap();
        let mut next = async || timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
        assert!(!next().await, "it began");
        assert_eq!(asking.cancel(&[id]).await.unwrap(), [CancelReply::Running]);
        assert!(next().await);
        let record = until_over(client, id).await;
        assert_eq!(record, (JobState::Cancelled, Some("cancelled by request: stopped".to_owned())));
    }
    worker.shutdown().await;
}

async fn until_over(client: &Client, id: JobId) -> (JobState, Option<String>) {
    let wait = async {
        loop {
            let job = client.job(id).await.unwrap().unwrap();
            if job.state.is_final() {
                return (job.state, job.reason);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("the job ends")
}

/// Each of many jobs that are cancelled while workers drain them ends once, as completed or as cancelled; what was said to
/// be cancelled never runs.
pub(crate) async fn a_drained_backlog_is_cancelled(client: &Client, jobs: usize) {
    // The worker may have all the others in hand by then.
    let later = job().with_delay(PATIENCE * 60);
    let ids = client.enqueue_many((0..jobs).map(|_| job()).chain([later])).await.unwrap();
    let all = ids.len() as u64;
    let runs: Arc<Mutex<BTreeMap<i64, u32>>> = Arc::default();
    let begun = Arc::new(AtomicU64::new(0));
    let (noted, counted) = (Arc::clone(&runs), Arc::clone(&begun));
    let worker = Worker::builder(client)
        .queue("default", 20)
        .handle_kind("work", move |_: RawJob, ctx: Context| {
            *noted.lock().unwrap().entry(ctx.id().0).or_default() += 1;
            counted.fetch_add(1, Ordering::Relaxed);
            async { tokio::time::sleep(Duration::from_millis(2)).await }
        })
        .start()
        .await
        .unwrap();
    while begun.load(Ordering::Relaxed) < 100 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let filter = JobFilter { kind: Some("work".into()), ..JobFilter::default() };
    let touched = client.select(filter).cancel().await.unwrap();
    assert!(
        touched.done > 0 && touched.selected == touched.done + touched.asked + touched.left,
        "{touched:?}"
    );
    // Who is met waiting and then, taken by the worker meanwhile, running, counts once.
    assert!(touched.selected <= all && touched.done + touched.asked <= all, "of {all}: {touched:?}");
    let mut ended: BTreeMap<JobState, u64> = BTreeMap::new();
    for id in ids {
        let (state, _) = until_over(client, id).await;
        let ran = runs.lock().unwrap().get(&id.0).copied().unwrap_or(0);
        match state {
            JobState::Completed => assert_eq!(ran, 1, "job {id}"),
            state => {
                assert!(state == JobState::Cancelled && ran <= 1, "job {id} is {state} and ran {ran} times");
            }
        }
        *ended.entry(state).or_default() += 1;
    }
    worker.shutdown().await;
    let cancelled = ended.get(&JobState::Cancelled).copied().unwrap_or(0);
    let said = touched.done..=touched.done + touched.asked;
    assert!(said.contains(&cancelled), "{cancelled} were cancelled, the reply was {touched:?}");
    let never_ran = all - runs.lock().unwrap().len() as u64;
    assert!(never_ran >= touched.done, "{never_ran} never ran, the reply was {touched:?}");
}

/// All that a filter selects is edited once while it is worked on: a job runs once, with new args when the reply counts it. What
/// is left is deleted.
pub(crate) async fn a_drained_backlog_is_edited(client: &Client, jobs: usize) {
    let ran: Arc<Mutex<BTreeMap<i64, String>>> = Arc::default();
    let noted = Arc::clone(&ran);
    let worker = Worker::builder(client)
        .queue("edited", 4)
        .handle_kind("work", move |job: RawJob, ctx: Context| {
            let noted = Arc::clone(&noted);
            async move {
                let before = noted.lock().unwrap().insert(ctx.id().0, job.json().unwrap().to_owned());
                assert!(before.is_none(), "it runs once");
                Ok::<_, String>(())
            }
        })
        .start()
        .await
        .unwrap();
    let batch = (0..jobs).map(|n| job().with_queue("edited").with_priority((n % 3) as i16));
    let mut ids = client.enqueue_many(batch).await.unwrap();
    let parked = (0..50).map(|_| job().with_queue("edited").with_delay(PATIENCE * 60));
    ids.extend(client.enqueue_many(parked).await.unwrap());
    let filter = || JobFilter { queue: Some("edited".into()), ..JobFilter::default() };
    let edit = JobEdit::new().with_args(Args::parse("[1]").unwrap()).with_priority(1);
    let edited = client.select(filter()).edit(edit).await.unwrap();
    assert_eq!(edited.selected, edited.done + edited.left, "{edited:?}");
    assert!(edited.done >= 50 && edited.selected <= ids.len() as u64, "{edited:?}");
    for id in &ids[..jobs] {
        assert_eq!(until_over(client, *id).await.0, JobState::Completed);
    }
    worker.shutdown().await;
    let fresh = ran.lock().unwrap().values().filter(|args| *args == "[1]").count() as u64;
    assert_eq!((ran.lock().unwrap().len(), fresh), (jobs, edited.done - 50), "{edited:?}");
    let deleted = client.select(filter()).delete().await.unwrap();
    assert_eq!((deleted.done, deleted.left), (50, 0));
    assert!(client.job(ids[jobs]).await.unwrap().is_none());
}

/// What is retried and fails again at once waits behind where the call is, and is left alone.
pub(crate) async fn what_fails_again_is_retried_once(client: &Client) {
    const JOBS: usize = 30;
    let worker = Worker::builder(client)
        .queue("failing", JOBS)
        .handle_kind("work", |_: RawJob, _: Context| async {
            Outcome::Retry { after: Some(PATIENCE * 60), error: "it rains".into() }
        })
        .start()
        .await
        .unwrap();
    let ids = client.enqueue_many((0..JOBS).map(|_| job().with_queue("failing"))).await.unwrap();
    for id in ids {
        let wait = async {
            while client.job(id).await.unwrap().unwrap().state != JobState::Retryable {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("the job fails");
    }
    let filter =
        JobFilter { queue: Some("failing".into()), state: Some(JobState::Retryable), ..JobFilter::default() };
    // 20, a rest of a second in which they fail again, and 10.
    let retried = client.select(filter).per_second(20.0).at_most(90).retry().await.unwrap();
    worker.shutdown().await;
    assert_eq!((retried.selected, retried.done), (JOBS as u64, JOBS as u64));
}
