//! Schedules as a program declares them: at the start of its worker, each instance the same.

use std::time::Duration;
use tokio::sync::mpsc;
use windlass::{Client, Context, Job, Keyring, LastRun, Schedule, ScheduleFilter, Worker};

const LONG: Duration = Duration::from_secs(60);

#[derive(serde::Serialize, serde::Deserialize)]
struct Tick {
    n: u32,
}

impl Job for Tick {
    const KIND: &'static str = "tick";
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Secret {
    word: String,
}

impl Job for Secret {
    const KIND: &'static str = "secret";
    const ENCRYPTED: bool = true;
}

async fn client(dir: &tempfile::TempDir) -> Client {
    let client = Client::connect(&format!("sqlite:{}/jobs.db", dir.path().display())).await.unwrap();
    client.migrate().await.unwrap();
    client
}

async fn names(client: &Client) -> Vec<String> {
    let listed = client.schedules().list(&ScheduleFilter::default()).await.unwrap();
    listed.into_iter().map(|listed| listed.record.name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_declares_and_fires() {
    let dir = tempfile::tempdir().unwrap();
    let keyring = Keyring::new("k1", [7; 32]).unwrap();
    let client = client(&dir).await.with_keyring(keyring);
    let (sender, mut ran) = mpsc::unbounded_channel();
    let of_tick = sender.clone();
    let tick = move |tick: Tick, ctx: Context| {
        let (sender, meta) = (of_tick.clone(), ctx.meta().expect("says its tick").as_str().to_owned());
        async move { drop(sender.send((tick.n.to_string(), meta))) }
    };
    let secret = move |secret: Secret, ctx: Context| {
        let (sender, meta) = (sender.clone(), ctx.meta().expect("says its tick").as_str().to_owned());
        async move { drop(sender.send((secret.word, meta))) }
    };
    let worker = Worker::builder(&client)
        .handle(tick)
        .handle(secret)
        .schedule("ticks", "* * * * * *", Tick { n: 7 })
        .schedule("secrets", "every 1s", Secret { word: "sesame".into() })
        .schedules_of("app")
        .start()
        .await
        .unwrap();
    let (mut ticks, mut secrets) = (0, 0);
    while ticks < 2 || secrets < 2 {
        let (said, meta) = tokio::time::timeout(LONG, ran.recv()).await.expect("fires").unwrap();
        assert!(meta.contains("windlass.tick"), "{meta}");
        match said.as_str() {
            "7" => ticks += 1,
            "sesame" => secrets += 1,
            other => panic!("{other}"),
        }
    }
    let stored = client.schedules().get("secrets").await.unwrap().unwrap();
    assert!(!stored.record.definition.contains("sesame"), "{}", stored.record.definition);
    worker.shutdown().await;

    // The next version of the program knows one of them no more.
    let worker = Worker::builder(&client)
        .handle_any(|_: windlass::RawJob| async {})
        .schedule("ticks", "0 0 1 1 *", Tick { n: 7 })
        .schedules_of("app")
        .start()
        .await
        .unwrap();
    assert_eq!(names(&client).await, ["ticks"]);
    let id = client.schedules().run("ticks").await.unwrap();
    client.wait(id, LONG).await.unwrap().expect("it ends");
    let listed = client.schedules().get("ticks").await.unwrap().unwrap();
    assert_eq!(listed.record.last_job, Some(id));
    assert_eq!(listed.last_run, Some(LastRun::Ended(windlass::JobState::Completed)));
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_none_starts_no_worker_and_declares_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let client = client(&dir).await;
    let builder =
        || Worker::builder(&client).handle(|_: Tick| async {}).schedule("fine", "@daily", Tick { n: 1 });
    for (started, says) in [
        (builder().schedule("s", "61 * * * *", Tick { n: 1 }).start().await, "the minute field"),
        (builder().schedule("fine", "@daily", Tick { n: 1 }).start().await, "declared twice"),
        (builder().schedule("s", "@daily", Secret { word: "x".into() }).start().await, "keys"),
    ] {
        let error = started.map(drop).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    assert!(names(&client).await.is_empty());
    let late: Schedule =
        windlass::schedule("s", "@daily", Tick { n: 1 }).unwrap().with_zone("Europe/Berlinn");
    let error = client.schedules().put([late]).await.unwrap_err();
    assert!(error.to_string().contains("did you mean Europe/Berlin"), "{error}");
    let error = client.schedules().run("nobody").await.unwrap_err();
    assert!(error.to_string().contains("\"nobody\" does not exist"), "{error}");
}
