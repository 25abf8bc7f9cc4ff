//! Envelopes open where they belong.

use super::*;
use windlass::{Args, ErrorKind, JobRecord, NewJob, RawJob, Worker};
use windlass_core::{ClaimRequest, Disposition, Exception, QueueDemand, SettleRequest, WorkerSpec};

/// A job with what was stored of others, as somebody with access to the store can make one.
fn forged(kind: &'static str, args: &JobRecord, meta: &JobRecord) -> NewJob {
    NewJob::new(kind, args.args.clone()).with_meta(meta.meta.clone().unwrap())
}

#[tokio::test]
async fn a_changed_or_moved_envelope_is_dead_and_stays_readable() {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let mut jobs = Vec::new();
        for _ in 0..2 {
            let id =
                client.enqueue_with(login(), |job| job.with_delay(Duration::from_secs(3600))).await.unwrap();
            jobs.push(client.job(id).await.unwrap().unwrap());
        }
        let [one, other] = &jobs[..] else { panic!("{jobs:?}") };
        let changed = one.args.as_str().replace(r#""data":""#, r#""data":"AAAA"#);
        let changed = Args::parse(&changed).unwrap();
        let cut = Args::parse(&one.args.as_str().replace("nonce", "once")).unwrap();
        let no_binding = NewJob::new("login", one.args.clone());
        let forgeries = [
            ("changed", NewJob::new("login", changed).with_meta(one.meta.clone().unwrap()), "was changed"),
            ("cut", NewJob::new("login", cut).with_meta(one.meta.clone().unwrap()), "malformed"),
            ("of another job", forged("login", one, other), "belongs to another job"),
            ("of another kind", forged("pay", one, one), "belongs to another job"),
            ("without binding", no_binding, "belongs to another job"),
            ("with a key", forged("login", one, one).with_key("acme"), "belongs to another job"),
        ];
        let worker = Worker::builder(&client)
            .handle(|_: Login| async {})
            .handle_any(|_: RawJob| async {})
            .start()
            .await
            .unwrap();
        for (name, job, words) in forgeries {
            let id = client.enqueue(job).await.unwrap();
            let job = until_state(&client, id, JobState::Discarded).await;
            let reason = job.reason.as_ref().unwrap();
            assert!(reason.starts_with("undecryptable: ") && reason.contains(words), "{name}: {reason}");
            assert_eq!(
                client.args::<Login>(id).await.unwrap_err().kind(),
                ErrorKind::Undecryptable,
                "{name}"
            );
            check_sealed(&job, "k1");
        }
        worker.shutdown().await;
        client.close().await;
    }
}

/// The wrong bytes under the right id look like a change. Nothing is lost: with the right key they run.
#[tokio::test]
async fn a_wrong_key_of_this_id_discards_and_the_right_one_revives() {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let id = client.enqueue(login()).await.unwrap();
        let wrong = plain.clone().with_keyring(Keyring::new("k1", [9; 32]).unwrap());
        let worker = Worker::builder(&wrong).handle(|_: Login| async {}).start().await.unwrap();
        let job = until_state(&client, id, JobState::Discarded).await;
        assert!(job.reason.unwrap().contains("sealed with another key than the one that is called k1 here"));
        worker.shutdown().await;
        client.retry(&[id]).await.unwrap();
        let worker = Worker::builder(&client).handle(|_: Login| async {}).start().await.unwrap();
        until_state(&client, id, JobState::Completed).await;
        worker.shutdown().await;
        client.close().await;
    }
}

#[tokio::test]
async fn a_result_opens_for_its_job_alone() {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let first = client.enqueue(login()).await.unwrap();
        let worker = Worker::builder(&client)
            .handle(|_: Login| async { windlass::Outcome::complete_with(&1) })
            .start()
            .await
            .unwrap();
        let sealed = until_state(&client, first, JobState::Completed).await.result.unwrap();
        worker.shutdown().await;
        for (result, words) in [(sealed, "belongs to another job"), (Args::of(&1).unwrap(), "is plain")] {
            let id = client.enqueue(login()).await.unwrap();
            complete(&client, result).await;
            let error = client.result::<u64>(id).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Undecryptable);
            assert!(error.to_string().contains(words), "{error}");
        }
        assert_eq!(client.result::<u64>(first).await.unwrap(), Some(1));
        client.close().await;
    }
}

/// Completes the one job that there is, past all handlers.
async fn complete(client: &Client, result: Args) {
    let store = client.store();
    let spec = WorkerSpec {
        name: "forger".into(),
        queues: vec!["default".into()],
        kinds: vec![],
        lease: Duration::from_secs(60),
        program: Default::default(),
    };
    let worker = store.register(&spec).await.unwrap().worker;
    let request = ClaimRequest { worker, queues: vec![QueueDemand::new("default", 1)] };
    let claimed = store.claim(&request).await.unwrap();
    let (claim, job) = (claimed.claims[0].reference, &claimed.claims[0].jobs[0]);
    let disposition = Disposition::Complete { result: Some(result) };
    let exceptions = vec![Exception { claim, job: job.id, position: job.position, disposition }];
    store.settle(&SettleRequest { worker, completions: vec![], exceptions }).await.unwrap();
    store.deregister(worker).await.unwrap();
}
