use super::{Login, SECRET, clients, keyring, login, until_state};
use tokio::sync::mpsc;
use windlass::{Client, Context, ErrorKind, JobState, Outcome, RawJob, Worker};

/// What an encrypted job keeps for its next attempt is sealed where it is stored, and open for its handler and whoever has the key.
#[tokio::test]
async fn checkpoints_of_encrypted_jobs_are_sealed() {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let worker = Worker::builder(&client)
            .handle(|job: Login, ctx: Context| async move {
                match ctx.last_checkpoint::<String>().await? {
                    None => {
                        ctx.log("in the open");
                        ctx.checkpoint(&job.password).await?;
                        Ok::<_, windlass::Error>(Outcome::Snooze(std::time::Duration::ZERO))
                    }
                    Some(found) => Ok(Outcome::complete_with(&found)),
                }
            })
            .start()
            .await
            .unwrap();
        let id = client.enqueue(login()).await.unwrap();
        let done = until_state(&client, id, JobState::Completed).await;
        assert_eq!(client.result::<String>(id).await.unwrap().unwrap(), SECRET);
        let report = done.report.unwrap();
        let stored = report.checkpoint.unwrap();
        assert!(
            stored.as_str().starts_with("{\"windlass.enc\":") && !stored.as_str().contains(SECRET),
            "{stored:?}"
        );
        assert_eq!(report.log[0].text, "in the open");
        assert_eq!(client.checkpoint::<String>(id).await.unwrap().unwrap(), SECRET);
        let error = plain.checkpoint::<String>(id).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Undecryptable);
        let error = client.checkpoint::<u32>(id).await.unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidArgs && !error.to_string().contains(SECRET), "{error}");
        worker.shutdown().await;
    }
}

/// The envelope of one job does not open for another, and a plain value in its place is refused.
#[tokio::test]
async fn checkpoints_are_bound_to_their_job() {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let first = client.enqueue(login()).await.unwrap();
        let keep = |_: Login, ctx: Context| async move { ctx.checkpoint("of another job").await };
        let worker = Worker::builder(&client).handle(keep).start().await.unwrap();
        let stolen =
            until_state(&client, first, JobState::Completed).await.report.unwrap().checkpoint.unwrap();
        worker.shutdown().await;

        for left in [stolen.as_str(), "\"made up\""] {
            let id = client.enqueue(login()).await.unwrap();
            leave(&plain, left).await;
            let (sender, mut errors) = mpsc::unbounded_channel();
            let look = move |_: Login, ctx: Context| {
                let sender = sender.clone();
                async move { sender.send(ctx.last_checkpoint::<String>().await.unwrap_err()).unwrap() }
            };
            let worker = Worker::builder(&client).handle(look).start().await.unwrap();
            let error = errors.recv().await.unwrap();
            assert_eq!(error.kind(), ErrorKind::Undecryptable, "{error}");
            assert_eq!(client.checkpoint::<String>(id).await.unwrap_err().kind(), ErrorKind::Undecryptable);
            until_state(&client, id, JobState::Completed).await;
            worker.shutdown().await;
        }
    }
}

/// Whoever can write to the store leaves a checkpoint with the job that is available: as a worker would.
async fn leave(client: &Client, checkpoint: &str) {
    use windlass_core::{
        Args, ClaimRequest, Disposition, Exception, JobReport, QueueDemand, ReportRequest, SettleRequest,
        WorkerSpec,
    };
    let store = client.store();
    let spec = WorkerSpec {
        name: "forger".into(),
        queues: vec!["default".into()],
        kinds: vec![],
        lease: std::time::Duration::from_secs(60),
        program: Default::default(),
    };
    let worker = store.register(&spec).await.unwrap().worker;
    let queues = vec![QueueDemand::new("default", 1)];
    let claim = store.claim(&ClaimRequest { worker, queues }).await.unwrap().claims.remove(0);
    let job = &claim.jobs[0];
    let report = JobReport {
        claim: claim.reference,
        job: job.id,
        position: job.position,
        attempt: 1,
        number: 1,
        progress: None,
        checkpoint: Some(Args::parse(checkpoint).unwrap()),
        log: vec![],
        dropped: 0,
    };
    store.report(&ReportRequest { worker, reports: vec![report] }).await.unwrap();
    let back = Exception {
        claim: claim.reference,
        job: job.id,
        position: job.position,
        disposition: Disposition::Return,
    };
    store.settle(&SettleRequest { worker, completions: vec![], exceptions: vec![back] }).await.unwrap();
    store.deregister(worker).await.unwrap();
}

/// A job whose args are plain keeps plain checkpoints, whatever they look like.
#[tokio::test]
async fn plain_jobs_keep_plain_checkpoints() {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let keep = |_: RawJob, ctx: Context| async move { ctx.checkpoint(&[1, 2]).await };
        let worker = Worker::builder(&client).handle_any(keep).start().await.unwrap();
        let job = windlass::NewJob::new("plain", windlass::Args::of(&1).unwrap());
        let id = client.enqueue(job).await.unwrap();
        let done = until_state(&client, id, JobState::Completed).await;
        assert_eq!(done.report.unwrap().checkpoint.unwrap().as_str(), "[1,2]");
        assert_eq!(plain.checkpoint::<Vec<u32>>(id).await.unwrap().unwrap(), [1, 2]);
        worker.shutdown().await;
    }
}
