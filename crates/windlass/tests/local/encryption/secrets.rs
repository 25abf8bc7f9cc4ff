//! What is secret shows nowhere.

use super::*;
use crate::log::Log;
use windlass::{Args, IntoJob, NewJob, RawJob, Worker};

/// Args that do not fit: serde's own words would quote them.
#[derive(serde::Serialize, serde::Deserialize, windlass::Job)]
#[job(kind = "login", encrypted, max_attempts = 1)]
struct Number {
    password: u64,
}

#[tokio::test]
async fn nothing_shows_args_results_or_keys() {
    let log = Log::default();
    let _guard = log.keep(tracing::Level::TRACE);
    let key = *b"key-bytes-that-nobody-may-see-ok";
    let plain = memory();
    let client = plain.clone().with_keyring(Keyring::new("k1", key).unwrap());
    let mut seen =
        vec![format!("{client:?} {:?} {:?}", Keyring::new("k1", key), login().into_job().unwrap())];

    // A worker without the key, then one whose types do not fit.
    let misfit = client.enqueue_with(login(), |job| job.with_max_attempts(1)).await.unwrap();
    let keyless = Worker::builder(&plain).handle(|_: Login| async {}).start().await.unwrap();
    seen.push(format!("{:?}", until_state(&client, misfit, JobState::Retryable).await));
    keyless.shutdown().await;
    client.retry(&[misfit]).await.unwrap();
    let worker = Worker::builder(&client)
        .handle(|_: Number| async {})
        .handle_any(|job: RawJob| async move {
            let told = format!("{job:?}");
            job.parse::<u64>().map_err(|error| format!("{told} {error} {error:?}"))?;
            Ok::<_, String>(())
        })
        .start()
        .await
        .unwrap();
    let dead = until_state(&client, misfit, JobState::Discarded).await;
    let told = dead.errors.last().unwrap().error.clone();
    assert!(told.contains("do not fit") && told.contains("line 1 column"), "{told}");
    let raw = NewJob::new("raw", Args::of(&login()).unwrap()).with_encryption().with_max_attempts(1);
    let raw = client.enqueue(raw).await.unwrap();
    let raw = until_state(&client, raw, JobState::Discarded).await;
    assert!(
        raw.errors[0].error.contains("RawJob") && raw.errors[0].error.contains("do not fit u64"),
        "{raw:?}"
    );
    seen.push(format!("{dead:?} {raw:?}"));
    worker.shutdown().await;

    let done = client.enqueue(login()).await.unwrap();
    let worker = Worker::builder(&client)
        .handle(|job: Login| async move { windlass::Outcome::complete_with(&job.password) })
        .start()
        .await
        .unwrap();
    seen.push(format!("{:?}", until_state(&client, done, JobState::Completed).await));
    for error in [client.result::<u64>(done).await.unwrap_err(), client.args::<u64>(done).await.unwrap_err()]
    {
        assert!(error.to_string().contains("cannot be read as u64: at line 1"), "{error}");
        seen.push(format!("{error} {error:?}"));
    }
    worker.shutdown().await;

    let log = log.text();
    assert!(log.contains("a job cannot be decrypted and waits") && log.contains("k1"), "{log}");
    seen.push(log);
    for text in seen {
        for secret in [SECRET, "key-bytes", "[107, 101, 121"] {
            assert!(!text.contains(secret), "{secret} shows in {text}");
        }
    }
}
