//! What a Rust user does, over SQLite.

use crate::{acting, cancelling, dying, pausing, waiting};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::mpsc;
use windlass::{
    Args, Client, Context, ErrorKind, IntoJob, Job, JobFilter, JobId, JobRecord, JobState, KeyLimit, NewJob,
    Outcome, RateLimit, RawJob, RetryPolicy, Worker,
};

#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl Job for Greet {
    const KIND: &'static str = "greet";
}

/// Fails once, then completes.
#[derive(Serialize, Deserialize)]
struct Stumble;

impl Job for Stumble {
    const KIND: &'static str = "stumble";
    const QUEUE: &'static str = "side";
    const PRIORITY: i16 = 5;
    const MAX_ATTEMPTS: u16 = 2;

    fn retry_policy() -> Option<RetryPolicy> {
        Some(RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() })
    }
}

async fn stumble(_: Stumble, ctx: Context) -> Result<(), anyhow::Error> {
    anyhow::ensure!(ctx.attempt() > 1, "stumbled");
    Ok(())
}

async fn client(dir: &tempfile::TempDir) -> Client {
    let client = Client::connect(&format!("sqlite:{}", dir.path().join("jobs.db").display())).await.unwrap();
    client.migrate().await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_queue_with_limits() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    pausing::what_was_claimed_ahead_goes_back(&client).await;
    client.close().await;
}

/// Waits until a job is in a state.
async fn until(client: &Client, id: JobId, state: JobState) -> JobRecord {
    let wait = async {
        loop {
            match client.job(id).await.unwrap() {
                Some(job) if job.state == state => return job,
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap()
}

#[tokio::test]
async fn typed_and_raw_jobs_find_their_handlers() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let (sender, mut greeted) = mpsc::unbounded_channel();
    let raw = sender.clone();
    let worker = Worker::builder(&client)
        .queue("default", 10)
        .queue("side", 1)
        .handle(stumble)
        .handle(move |job: Greet, ctx: Context| {
            let sender = sender.clone();
            async move { sender.send(format!("{} in {}", job.name, ctx.queue())) }
        })
        .handle_any(move |job: RawJob, ctx: Context| {
            let raw = raw.clone();
            async move { raw.send(format!("{} {}", ctx.kind(), job.json()?)).map_err(anyhow::Error::from) }
        })
        .start()
        .await
        .unwrap();
    client.enqueue(Greet { name: "Ada".into() }).await.unwrap();
    assert_eq!(greeted.recv().await.unwrap(), "Ada in default");
    client.enqueue_with(Greet { name: "Bob".into() }, |job| job.with_queue("side")).await.unwrap();
    assert_eq!(greeted.recv().await.unwrap(), "Bob in side");
    let odd = NewJob::new("odd", windlass::Args::parse("[1, 2]").unwrap());
    client.enqueue(odd).await.unwrap();
    assert_eq!(greeted.recv().await.unwrap(), "odd [1, 2]");

    let stumbled = client.enqueue(Stumble).await.unwrap();
    let job = until(&client, stumbled, JobState::Completed).await;
    assert_eq!((job.attempt, job.queue.as_str(), job.priority), (2, "side", 5));
    assert_eq!(job.errors[0].error, "stumbled");

    let many = client.enqueue_many((0..100).map(|n| Greet { name: n.to_string() })).await.unwrap();
    assert_eq!(many.len(), 100);
    until(&client, many[99], JobState::Completed).await;
    assert!(client.enqueue_many::<Greet>([]).await.unwrap().is_empty());
    worker.shutdown().await;
    assert_eq!(
        client
            .jobs(&JobFilter { state: Some(JobState::Running), ..JobFilter::default() })
            .await
            .unwrap()
            .len(),
        0
    );
    client.close().await;
}

#[tokio::test]
async fn args_that_do_not_fit_the_type_are_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let worker = Worker::builder(&client).handle(|_: Greet| async {}).start().await.unwrap();
    let wrong =
        NewJob::new(Greet::KIND, windlass::Args::parse(r#"{"nome":"Ada"}"#).unwrap()).with_max_attempts(1);
    let id = client.enqueue(wrong).await.unwrap();
    let job = until(&client, id, JobState::Discarded).await;
    let error = &job.errors[0].error;
    assert!(
        error.contains("args of kind \"greet\" do not fit") && error.contains("missing field `name`"),
        "{error}"
    );
    worker.shutdown().await;
}

#[tokio::test]
async fn jobs_of_unknown_kinds_wait_for_a_worker_that_knows_them() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let id = client.enqueue(Greet { name: "Ada".into() }).await.unwrap();
    let marker = client.enqueue(NewJob::new("known", windlass::Args::parse("1").unwrap())).await.unwrap();
    let ignorant = Worker::builder(&client).handle_kind("known", |_: RawJob| async {}).start().await.unwrap();
    until(&client, marker, JobState::Completed).await;
    ignorant.shutdown().await;
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Available);
    let expert =
        Worker::builder(&client).handle(|_: Greet| async { Outcome::Complete(None) }).start().await.unwrap();
    until(&client, id, JobState::Completed).await;
    expert.shutdown().await;
}

/// Workers that each end as soon as they find nothing, as those that cron starts, were never there for as long as the lease of one that was killed.
#[tokio::test]
async fn who_waits_until_idle_takes_back_what_the_dead_hold() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let id = client.enqueue(Greet { name: "Ada".to_owned() }).await.unwrap();
    dying::holds(&client, id).await;
    dying::dies().await;

    let worker = Worker::builder(&client).handle(|_: Greet| async {}).start().await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), worker.until_idle()).await.unwrap().unwrap();
    worker.shutdown().await;
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Completed);
}

/// As those of a queue's rate are.
#[tokio::test]
async fn who_waits_until_idle_works_what_waits_for_the_rate_of_its_key() {
    let dir = tempfile::tempdir().unwrap();
    for client in [client(&dir).await, windlass::testing::client()] {
        let rate = RateLimit::new(2, Duration::from_millis(1_200));
        client.limit_keys("default", KeyLimit::default().with_rate(rate)).await.unwrap();
        let job = || Greet { name: "Ada".to_owned() }.into_job().unwrap().with_key("a");
        let ids = client.enqueue_many((0..5).map(|_| job())).await.unwrap();
        let worker = Worker::builder(&client).handle(|_: Greet| async {}).start().await.unwrap();
        tokio::time::timeout(Duration::from_secs(30), worker.until_idle()).await.unwrap().unwrap();
        worker.shutdown().await;
        for id in ids {
            assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Completed);
        }
    }
}

#[tokio::test]
async fn a_key_enqueues_once() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let ada = || Greet { name: "Ada".into() };
    let first = client.enqueue_once("greet/ada", ada()).await.unwrap();
    let again = client.enqueue_once("greet/ada", ada()).await.unwrap();
    assert_eq!((again.id, first.repeated, again.repeated), (first.id, false, true));
    let side = ada().into_job().unwrap().with_queue("side");
    assert_ne!(client.enqueue_once("greet/ada/side", side).await.unwrap().id, first.id);
    let all = client.enqueue_many_once("all", (0..20).map(|_| ada())).await.unwrap();
    let again = client.enqueue_many_once("all", (0..20).map(|_| ada())).await.unwrap();
    assert_eq!((again.ids, all.repeated, again.repeated), (all.ids, false, true));
    assert_eq!(client.jobs(&JobFilter { limit: 100, ..JobFilter::default() }).await.unwrap().len(), 22);
    let error = client.enqueue_many_once("all", (0..21).map(|_| ada())).await.unwrap_err();
    assert!(error.is_invalid_input() && error.to_string().contains("20 jobs"), "{error}");
    let error = client.enqueue_once("", ada()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

#[tokio::test]
async fn mistakes_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let none = Worker::builder(&client).queue("default", 1).start().await.unwrap_err();
    assert!(none.is_invalid_input() && none.to_string().contains("no handler"), "{none}");
    let twice = Worker::builder(&client).handle(stumble).handle(stumble).start().await.unwrap_err();
    assert!(twice.to_string().contains("\"stumble\" has two handlers"), "{twice}");
    let zero = Worker::builder(&client).queue("a", 0).handle(stumble).start().await.unwrap_err();
    assert!(zero.to_string().contains("concurrency of queue \"a\""), "{zero}");
    let url = Client::connect("mysql://me:secret@host/app").await.unwrap_err();
    assert!(url.to_string().contains("sqlite:FILE") && !url.to_string().contains("secret"), "{url}");
    assert_eq!(client.pause("nowhere").await.unwrap_err().kind(), ErrorKind::NotFound);
    let job = Greet { name: "Ada".into() }.into_job().unwrap();
    assert_eq!((job.kind(), job.queue(), job.priority(), job.max_attempts()), ("greet", "default", 0, 20));
}

/// Not "as fast as it goes", which is what leaving it out says.
#[tokio::test]
async fn a_pace_that_is_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let id = client.enqueue(NewJob::new("k", Args::parse("{}").unwrap())).await.unwrap();
    let of_kind = || JobFilter { kind: Some("k".into()), ..JobFilter::default() };
    for pace in [0.0, -1.0, f64::NAN] {
        for selection in [client.select(of_kind()), client.select_ids(vec![id])] {
            let error = selection.per_second(pace).cancel().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().contains("must be more than 0"), "{error}");
        }
    }
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Available);
    assert_eq!(client.select(of_kind()).per_second(f64::INFINITY).cancel().await.unwrap().done, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_while_workers_run() {
    let dir = tempfile::tempdir().unwrap();
    let (worker, asking) = (client(&dir).await, client(&dir).await);
    cancelling::a_running_job_is_told(&worker, &asking).await;
    cancelling::a_drained_backlog_is_cancelled(&worker, 10_000).await;
    cancelling::a_drained_backlog_is_edited(&worker, 2_000).await;
    cancelling::what_fails_again_is_retried_once(&worker).await;
}

/// A program that blocks on runtimes of its own, one after the other.
#[test]
fn waiting_goes_on_in_another_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let first = runtime();
    let (client, id) = first.block_on(async {
        let client = client(&dir).await;
        let id = client.enqueue(NewJob::new("a", Args::parse("1").unwrap())).await.unwrap();
        assert!(client.wait(id, Duration::from_millis(1)).await.unwrap().is_none());
        (client, id)
    });
    drop(first);
    runtime().block_on(async {
        client.cancel(&[id]).await.unwrap();
        assert!(client.wait(id, Duration::from_secs(60)).await.unwrap().is_some());
    });
}

/// It went on for as long as it might wait, and its looks opened the store again.
#[tokio::test]
async fn who_waits_is_told_that_the_client_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let id = client.enqueue(NewJob::new("a", Args::parse("1").unwrap())).await.unwrap();
    assert!(client.wait(id, Duration::from_millis(1)).await.unwrap().is_none());
    assert_eq!(tasks(), before + 1, "it goes on looking for a while");
    let closing = async {
        tokio::task::yield_now().await;
        client.close().await;
    };
    let (waited, ()) = tokio::join!(client.wait(id, Duration::from_secs(3_600)), closing);
    let error = waited.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Unavailable, "wait: the client was closed"));
    assert_eq!(tasks(), before);
    // Who uses it all the same opens it again.
    client.cancel(&[id]).await.unwrap();
    assert!(client.wait(id, Duration::from_secs(60)).await.unwrap().is_some());
    client.close().await;
}

#[tokio::test]
async fn what_is_done_for_somebody_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    acting::what_is_done_for_somebody_is_noted(&client(&dir).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_jobs() {
    let dir = tempfile::tempdir().unwrap();
    waiting::many_wait(&client(&dir).await, &client(&dir).await, 1_000).await;
}
