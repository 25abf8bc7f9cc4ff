//! What handlers take, what runs around them, and how long they may take.

use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use windlass::{
    Args, Attempt, Client, Context, Data, DataSet, ErrorKind, Extract, IntoJob, Job, JobId, JobState,
    Middleware, NewJob, Next, Outcome, RawJob, RetryPolicy, Worker, WorkerBuilder,
};

#[derive(Serialize, Deserialize, Job)]
struct Greet {
    name: String,
}

/// Fails in the way that it says.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "fail", max_attempts = 1)]
enum Fail {
    Error,
    Panic,
    PanicAtOnce,
}

/// Never ends by itself.
#[derive(Serialize, Deserialize, Job)]
#[job(max_attempts = 1, timeout = "50ms")]
struct Hang {
    listens: bool,
}

type Words = UnboundedSender<String>;

struct Salutation(&'static str);

/// An extractor of the user's own.
struct Shouted(String);

impl Extract for Shouted {
    type Prepared = Data<Salutation>;

    fn prepare(data: &DataSet) -> windlass::Result<Data<Salutation>> {
        data.get()
    }

    fn extract(salutation: &Data<Salutation>, context: &Context) -> Self {
        Self(format!("{}! {}", salutation.0.0.to_uppercase(), context.kind()))
    }
}

async fn client(dir: &tempfile::TempDir) -> Client {
    let client = Client::connect(&format!("sqlite:{}", dir.path().join("jobs.db").display())).await.unwrap();
    client.migrate().await.unwrap();
    client
}

async fn heard(words: &mut UnboundedReceiver<String>) -> String {
    tokio::time::timeout(Duration::from_secs(30), words.recv()).await.unwrap().unwrap()
}

/// The error that a job died of.
async fn death(client: &Client, id: JobId) -> String {
    let wait = async {
        loop {
            match client.job(id).await.unwrap() {
                Some(job) if !job.errors.is_empty() => return job.errors[0].error.clone(),
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap()
}

async fn job_alone(job: Greet) -> Result<(), anyhow::Error> {
    anyhow::ensure!(job.name == "Ada");
    Ok(())
}

async fn job_and_context(job: Greet, ctx: Context) -> Result<(), anyhow::Error> {
    anyhow::ensure!(job.name == "Ada" && ctx.attempt() == 1);
    Ok(())
}

async fn four(job: Greet, ctx: Context, Data(words): Data<Words>, attempt: Attempt, id: JobId) {
    assert_eq!((ctx.id(), ctx.attempt(), ctx.max_attempts()), (id, attempt.number, attempt.max));
    let _ = words.send(format!("{} {}", job.name, attempt.is_last()));
}

async fn own_first(
    _: RawJob,
    shouted: Shouted,
    salutation: Data<Salutation>,
    words: Data<Words>,
    ctx: Context,
) {
    let _ = words.send(format!("{} {} {}", shouted.0, salutation.0.0, ctx.queue()));
}

#[tokio::test]
async fn handlers_take_what_they_ask_for_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let (sender, mut words) = mpsc::unbounded_channel::<String>();
    // All of these compile: the functions of before, and closures that say what they take.
    let _ = Worker::builder(&client).handle(job_alone);
    let _ = Worker::builder(&client).handle(job_and_context);
    let _ = Worker::builder(&client).handle(|_: Greet, _: Data<Words>, _: Attempt| async {});
    let worker = Worker::builder(&client)
        .handle(four)
        .handle_kind("raw", own_first)
        .data(sender)
        .data(Salutation("hey"))
        .start()
        .await
        .unwrap();
    client.enqueue(Greet { name: "Ada".into() }).await.unwrap();
    assert_eq!(heard(&mut words).await, "Ada false");
    let args = windlass::Args::parse("{}").unwrap();
    client.enqueue(windlass::NewJob::new("raw", args)).await.unwrap();
    assert_eq!(heard(&mut words).await, "HEY! raw hey default");
    worker.shutdown().await;
}

#[tokio::test]
async fn missing_and_doubled_data_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let refused = async |builder: WorkerBuilder| {
        let error = builder.start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        error.to_string()
    };
    let error = refused(Worker::builder(&client).handle(four)).await;
    for words in ["handler of kind \"greet\"", "UnboundedSender<", "add it with .data(", "there is none"] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let error = refused(Worker::builder(&client).data(7_u8).handle_any(own_first)).await;
    assert!(error.contains("handlers::Salutation") && error.contains("there is u8"), "{error}");
    let twice = Worker::builder(&client).handle(job_alone).data(Salutation("a")).data(Salutation("b"));
    let error = refused(twice).await;
    assert!(error.contains("handlers::Salutation was given twice"), "{error}");
}

#[derive(Serialize, Deserialize)]
struct Hasty;

impl Job for Hasty {
    const KIND: &'static str = "hasty";
    const TIMEOUT: Option<Duration> = Some(Duration::ZERO);
}

#[derive(Serialize, Deserialize)]
struct Stubborn;

impl Job for Stubborn {
    const KIND: &'static str = "stubborn";

    fn retry_policy() -> Option<RetryPolicy> {
        Some(RetryPolicy { factor: f64::NAN, ..RetryPolicy::default() })
    }
}

/// Each attempt would end as it begins, and nobody would know why.
#[tokio::test]
async fn times_that_leave_none_are_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    for (builder, says) in [
        (
            Worker::builder(&client).handle(|_: Hasty| async {}),
            "kind \"hasty\" cannot start: a timeout of 0 leaves no time",
        ),
        (Worker::builder(&client).handle(|_: Stubborn| async {}), "factor of a retry policy must be 1 to"),
        (
            Worker::builder(&client).handle_any(|_: RawJob| async {}).timeout(Duration::ZERO),
            "a timeout of 0 leaves no time",
        ),
    ] {
        let error = builder.start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// What holds for single kinds of those that one handler runs.
#[tokio::test]
async fn a_handler_of_any_kind_has_rules_for_some() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let raw = |kind: &'static str| NewJob::new(kind, Args::parse("{}").unwrap());
    let slow = client.enqueue(raw("slow")).await.unwrap();
    let other = client.enqueue(raw("other")).await.unwrap();
    let stop_when_told = |_: RawJob, ctx: Context| async move {
        if ctx.kind() == "other" {
            return Ok(());
        }
        ctx.cancelled().await;
        Err("stopped")
    };
    let build = || Worker::builder(&client).handle_any(stop_when_told);
    let hourly = RetryPolicy::fixed(Duration::from_secs(3_600));
    let limit = Duration::from_millis(20);
    let worker = build().timeout_of("slow", limit).retry_policy_of("slow", hourly).start().await.unwrap();
    worker.until_idle().await.unwrap();
    worker.shutdown().await;
    let [slow, other] = [client.job(slow).await.unwrap().unwrap(), client.job(other).await.unwrap().unwrap()];
    assert_eq!((slow.state, other.state), (JobState::Retryable, JobState::Completed));
    assert!(slow.errors[0].error.starts_with("timeout after 20ms"), "{:?}", slow.errors);
    assert!(slow.scheduled_at.unwrap().duration_since(slow.enqueued_at).as_mins() >= 40, "{slow:?}");
    let error = build().timeout_of("slow", Duration::ZERO).start().await.unwrap_err();
    assert!(
        error.to_string().contains("kind \"slow\" cannot start: a timeout of 0 leaves no time"),
        "{error}"
    );
}

#[tokio::test]
async fn a_kind_that_no_job_can_have_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    for kind in ["", "a b", "a\n"] {
        let of_it = Worker::builder(&client).handle_kind(kind, |_: RawJob| async {});
        let any = Worker::builder(&client)
            .handle_any(|_: RawJob| async {})
            .timeout_of(kind, Duration::from_secs(1));
        for builder in [of_it, any] {
            let error = builder.start().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
        }
    }
}

/// Notes what it sees.
struct Notes(&'static str, Arc<Mutex<Vec<String>>>);

impl Middleware for Notes {
    async fn handle(&self, job: &Context, next: Next) -> Outcome {
        let note = |text: String| self.1.lock().unwrap().push(format!("{} {text}", self.0));
        note(format!("before {} {}", job.kind(), String::from_utf8_lossy(next.args())));
        let outcome = next.run().await;
        note(match &outcome {
            Outcome::Retry { error, .. } => error.clone(),
            other => format!("{other:?}"),
        });
        outcome
    }
}

#[tokio::test]
async fn layers_run_around_every_handler_the_first_one_outermost() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let (notes, (sender, mut words)) = (Arc::default(), mpsc::unbounded_channel::<String>());
    let outermost = move |job: Context, next: Next| {
        let sender = sender.clone();
        async move {
            let outcome = next.run().await;
            let _ = sender.send(job.kind().to_owned());
            outcome
        }
    };
    let worker = Worker::builder(&client)
        .layer(outermost)
        .layer(Notes("outer", Arc::clone(&notes)))
        .handle(|_: Greet| async { Outcome::Cancel("unwanted".into()) })
        .layer(Notes("inner", Arc::clone(&notes)))
        .start()
        .await
        .unwrap();
    client.enqueue(Greet { name: "Ada".into() }).await.unwrap();
    assert_eq!(heard(&mut words).await, "greet");
    worker.shutdown().await;
    let before = r#"before greet {"name":"Ada"}"#;
    let after = r#"Cancel("unwanted")"#;
    assert_eq!(
        *notes.lock().unwrap(),
        [
            format!("outer {before}"),
            format!("inner {before}"),
            format!("inner {after}"),
            format!("outer {after}")
        ]
    );
}

fn fail(how: Fail) -> impl Future<Output = anyhow::Result<()>> {
    assert!(!matches!(how, Fail::PanicAtOnce), "before the future");
    async move {
        match how {
            Fail::Error => Err(anyhow::anyhow!("no route").context("cannot send")),
            _ => panic!("in the future"),
        }
    }
}

async fn hang(job: Hang, ctx: Context) -> Result<(), &'static str> {
    if job.listens {
        ctx.cancelled().await;
        return Err("gave up");
    }
    std::future::pending().await
}

#[tokio::test]
async fn layers_see_errors_panics_and_timeouts_as_the_failures_that_they_become() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let worker = Worker::builder(&client)
        .layer(Notes("saw", Arc::clone(&notes)))
        .handle(fail)
        .handle(hang)
        .configure(|config| config.timeout_grace = Duration::from_millis(20))
        .start()
        .await
        .unwrap();
    let last = async |job: windlass::NewJob| {
        let id = client.enqueue(job).await.unwrap();
        let error = death(&client, id).await;
        (error, notes.lock().unwrap().pop().unwrap())
    };
    let failing = |how: Fail| how.into_job().unwrap();
    let same = |error: &str| (error.to_owned(), format!("saw {error}"));
    assert_eq!(last(failing(Fail::Error)).await, same("cannot send: no route"));
    assert_eq!(last(failing(Fail::Panic)).await, same("handler panicked: in the future"));
    assert_eq!(last(failing(Fail::PanicAtOnce)).await, same("handler panicked: before the future"));
    let dropped = "timeout after 50ms: the handler went on for 20ms more and was dropped";
    let hang = |listens| Hang { listens }.into_job().unwrap();
    assert_eq!(last(hang(false)).await, same(dropped));
    let (error, seen) = last(hang(true)).await;
    assert_eq!((&*error, &*seen), ("timeout after 50ms: gave up", "saw gave up"));
    worker.shutdown().await;
}

#[tokio::test]
async fn the_timeout_of_a_type_and_of_the_worker_end_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let worker = Worker::builder(&client)
        .handle(|_: Hang| std::future::pending::<()>())
        .handle(|_: Greet| std::future::pending::<()>())
        .timeout(Duration::from_millis(30))
        .configure(|config| config.timeout_grace = Duration::ZERO)
        .start()
        .await
        .unwrap();
    let hang = client.enqueue(Hang { listens: false }).await.unwrap();
    let greet = client.enqueue(Greet { name: "Ada".into() }).await.unwrap();
    assert!(death(&client, hang).await.starts_with("timeout after 50ms"));
    assert!(death(&client, greet).await.starts_with("timeout after 30ms"));
    worker.shutdown().await;
}
