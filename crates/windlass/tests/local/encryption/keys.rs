//! Keys come, change and go.

use super::*;
use windlass::{Args, ErrorKind, Job, NewJob, RetryReply, Worker};

fn both() -> Keyring {
    Keyring::new("k2", [2; 32]).unwrap().with_key("k1", [1; 32]).unwrap()
}

async fn worker(client: &Client) -> Worker {
    Worker::builder(client)
        .handle(|job: Login| async move { windlass::Outcome::complete_with(&job.password) })
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_new_key_seals_and_the_old_one_still_opens() {
    for (plain, _dir) in clients().await {
        let old = plain.clone().with_keyring(keyring());
        let before = old.enqueue(login()).await.unwrap();
        let rotated = plain.clone().with_keyring(both());
        let after = rotated.enqueue(login()).await.unwrap();
        check_sealed(&rotated.job(after).await.unwrap().unwrap(), "k2");
        let worker = worker(&rotated).await;
        for (id, key) in [(before, "k1"), (after, "k2")] {
            let done = until_state(&rotated, id, JobState::Completed).await;
            check_sealed(&done, key);
            assert_eq!(windlass::Envelope::describe(&done.result.unwrap()).unwrap(), "[encrypted, key k2]");
            assert_eq!(rotated.result::<String>(id).await.unwrap().unwrap(), SECRET);
        }
        worker.shutdown().await;
        // Once all is done, the old key can go.
        let only_new = plain.clone().with_keyring(Keyring::new("k2", [2; 32]).unwrap());
        assert_eq!(only_new.result::<String>(before).await.unwrap().unwrap(), SECRET);
        assert_eq!(only_new.args::<Login>(before).await.unwrap_err().kind(), ErrorKind::Undecryptable);
        plain.close().await;
    }
}

#[tokio::test]
async fn a_job_without_its_key_waits_and_runs_when_the_key_comes() {
    let lacking = [None, Some(Keyring::new("k2", [2; 32]).unwrap())];
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let mut ids = Vec::new();
        for keys in &lacking {
            let without = keys.clone().map_or(plain.clone(), |keys| plain.clone().with_keyring(keys));
            // One attempt: if waiting used it up, the job would be dead.
            let id = client.enqueue_with(login(), |job| job.with_max_attempts(1)).await.unwrap();
            let worker = worker(&without).await;
            let job = until(&client, id, |job| !job.errors.is_empty()).await;
            assert!(matches!(job.state, JobState::Retryable | JobState::Available | JobState::Running));
            let told = &job.errors[0].error;
            assert!(told.starts_with("undecryptable: key k1 is not in the keyring"), "{told}");
            // It looks again, by and by, and says it once.
            while worker.stats().snoozed < 2 {
                client.retry(&[id]).await.unwrap();
                tokio::task::yield_now().await;
            }
            worker.shutdown().await;
            let job = client.job(id).await.unwrap().unwrap();
            assert_eq!((job.state, job.attempt, job.errors.len()), (JobState::Retryable, 0, 1), "{job:?}");
            check_sealed(&job, "k1");
            ids.push(id);
        }
        let worker = worker(&client).await;
        assert_eq!(client.retry(&ids).await.unwrap(), [RetryReply::Retried; 2]);
        for id in ids {
            let done = until_state(&client, id, JobState::Completed).await;
            assert_eq!(done.attempt, 1);
            assert_eq!(client.result::<String>(id).await.unwrap().unwrap(), SECRET);
        }
        worker.shutdown().await;
        client.close().await;
    }
}

#[tokio::test]
async fn a_waiting_job_comes_by_itself_when_its_time_is_there() {
    let store = Arc::new(MemoryStore::new());
    let plain = Client::from_store(Arc::<MemoryStore>::clone(&store));
    let client = plain.clone().with_keyring(keyring());
    let id = client.enqueue(login()).await.unwrap();
    let without = worker(&plain).await;
    until_state(&client, id, JobState::Retryable).await;
    without.shutdown().await;
    store.clock().advance(Duration::from_secs(2));
    let with = worker(&client).await;
    until_state(&client, id, JobState::Completed).await;
    with.shutdown().await;
}

#[tokio::test]
async fn a_version_to_come_waits_too() {
    let client = memory().with_keyring(keyring());
    let envelope = Args::parse(r#"{"windlass.enc":{"v":2,"key":["a","b"]}}"#).unwrap();
    let id = client.enqueue(NewJob::new(Login::KIND, envelope)).await.unwrap();
    let worker = worker(&client).await;
    let job = until(&client, id, |job| !job.errors.is_empty()).await;
    assert!(job.errors[0].error.contains("envelope version 2 is unknown"), "{job:?}");
    worker.shutdown().await;
    assert_eq!(client.job(id).await.unwrap().unwrap().attempt, 0);
}

#[tokio::test]
async fn plain_args_from_before_are_taken_only_on_request() {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let before = || NewJob::new(Login::KIND, Args::of(&login()).unwrap()).with_max_attempts(1);
        let refused = client.enqueue(before()).await.unwrap();
        let strict = worker(&client).await;
        let job = until_state(&client, refused, JobState::Discarded).await;
        let told = &job.errors[0].error;
        assert!(told.contains("this one's args are plain") && told.contains("accept_plain_args"), "{told}");
        assert!(!told.contains(SECRET));
        strict.shutdown().await;

        let taken = client.enqueue(before()).await.unwrap();
        let lenient = Worker::builder(&client)
            .handle(|job: Login| async move { windlass::Outcome::complete_with(&job.password) })
            .accept_plain_args()
            .start()
            .await
            .unwrap();
        let done = until_state(&client, taken, JobState::Completed).await;
        assert!(!done.result.unwrap().as_str().contains(SECRET), "the result is encrypted all the same");
        assert_eq!(client.result::<String>(taken).await.unwrap().unwrap(), SECRET);
        lenient.shutdown().await;
        let error = Worker::builder(&plain).handle(|_: Login| async {}).accept_plain_args().start().await;
        assert!(error.unwrap_err().to_string().contains("the client has no keys"));
        client.close().await;
    }
}

#[tokio::test]
async fn an_encrypted_job_is_unique_by_a_key_that_is_given() {
    use windlass::{Conflict, ErrorKind, IntoJob, OnConflict, Unique};
    for (plain, _dir) in clients().await {
        let client = plain.with_keyring(keyring());
        let unique = |unique| login().into_job().unwrap().with_unique(unique);
        let first = client.enqueue_unique(unique(Unique::by_key("ada"))).await.unwrap();
        let again = client.enqueue_unique(unique(Unique::by_key("ada"))).await.unwrap();
        assert_eq!((again.id, again.conflict), (first.id, Some(Conflict::Kept)));
        let replacing = Unique::by_key("ada").on_conflict(OnConflict::Replace { max_wait: None });
        for refused in [Unique::by_args(), Unique::by_fields(["password"]), replacing] {
            let error = client.enqueue_unique(unique(refused)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().contains("unique by a key that is given"), "{error}");
        }
        client.close().await;
    }
}
