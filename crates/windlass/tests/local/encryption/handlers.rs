//! Every way in, every sort of handler.

use super::*;
use tokio::sync::mpsc;
use windlass::{
    Args, Context, ErrorKind, IntoJob, NewJob, Next, Outcome, RawJob, Worker, WorkerBuilder,
    lend::{HandIn, Lender, LentJob, Room},
};

#[tokio::test]
async fn every_way_of_enqueueing_seals() {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let mut ids = vec![client.enqueue(login()).await.unwrap()];
        let acme = |job: NewJob| job.with_key("acme").with_delay(Duration::ZERO);
        ids.push(client.enqueue_with(login(), acme).await.unwrap());
        ids.push(client.enqueue_once("once", login()).await.unwrap().id);
        assert!(client.enqueue_once("once", login()).await.unwrap().repeated);
        ids.extend(client.enqueue_many([login(), login()]).await.unwrap());
        ids.extend(client.enqueue_many_once("many", [login(), login()]).await.unwrap().ids);
        let own = NewJob::new("own", Args::of(&login()).unwrap()).with_encryption();
        ids.push(client.enqueue(own).await.unwrap());
        for id in &ids {
            check_sealed(&client.job(*id).await.unwrap().unwrap(), "k1");
            assert_eq!(client.args::<Login>(*id).await.unwrap(), Some(login()));
            let error = plain.args::<Login>(*id).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Undecryptable);
            assert!(error.to_string().contains("key k1 is not in the keyring"), "{error}");
        }
        assert_eq!(client.args::<Login>(JobId(999_999)).await.unwrap(), None);
        let error = plain.enqueue(login()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("with_keyring"), "{error}");
        // Whoever goes past the client stores nothing in plain, either.
        let error = plain.store().enqueue(&[login().into_job().unwrap()]).await.unwrap_err();
        assert!(error.to_string().contains("have to be encrypted first"), "{error}");
        client.close().await;
    }
}

#[tokio::test]
async fn every_handler_gets_open_args_and_its_result_is_sealed() {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let (sender, mut seen) = mpsc::unbounded_channel::<String>();
        let (typed, raw, layer) = (sender.clone(), sender.clone(), sender);
        let worker = Worker::builder(&client)
            .handle(move |job: Login, ctx: Context| {
                typed.send(format!("typed {}", job.password)).unwrap();
                async move { Outcome::complete_with(&format!("{} of {:?}", job.password, ctx.key())) }
            })
            .handle_any(move |job: RawJob| {
                raw.send(format!("raw {} {}", job.is_encrypted(), job.json().unwrap())).unwrap();
                async move { Outcome::complete_with(&job.parse::<Login>().unwrap().password) }
            })
            .layer(move |_: Context, next: Next| {
                let (layer, args) = (layer.clone(), String::from_utf8_lossy(next.args()).into_owned());
                async move {
                    let outcome = next.run().await;
                    layer.send(format!("layer {args} {outcome:?}")).unwrap();
                    outcome
                }
            })
            .start()
            .await
            .unwrap();
        let first = client.enqueue_with(login(), |job| job.with_key("acme")).await.unwrap();
        assert_eq!(seen.recv().await.unwrap(), format!("typed {SECRET}"));
        let around = seen.recv().await.unwrap();
        assert!(around.matches("windlass.enc").count() == 2 && !around.contains(SECRET), "{around}");
        let done = until_state(&client, first, JobState::Completed).await;
        check_sealed(&done, "k1");
        assert_eq!(
            client.result::<String>(first).await.unwrap().unwrap(),
            format!("{SECRET} of Some(\"acme\")")
        );
        let error = plain.result::<String>(first).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Undecryptable);

        let own = NewJob::new("own", Args::of(&login()).unwrap());
        for (job, encrypted) in [(own.clone().with_encryption(), true), (own, false)] {
            let id = client.enqueue(job).await.unwrap();
            let json = format!("{{\"password\":\"{SECRET}\"}}");
            assert_eq!(seen.recv().await.unwrap(), format!("raw {encrypted} {json}"));
            seen.recv().await.unwrap();
            let done = until_state(&client, id, JobState::Completed).await;
            assert_eq!(done.result.unwrap().as_str().contains(SECRET), !encrypted);
            assert_eq!(client.result::<String>(id).await.unwrap().unwrap(), SECRET);
        }
        worker.shutdown().await;
        client.close().await;
    }
}

#[tokio::test]
async fn what_foreign_code_runs_is_open_to_it_and_to_nobody_else() {
    what_is_lent_is_open(|builder, lender| builder.lend(["login"], lender)).await;
}

#[tokio::test]
async fn so_it_is_in_batches() {
    what_is_lent_is_open(|builder, lender| builder.lend_batch("login", 1, Duration::ZERO, lender)).await;
}

async fn what_is_lent_is_open(lend: fn(WorkerBuilder, &Lender) -> WorkerBuilder) {
    for (plain, _dir) in clients().await {
        let client = plain.clone().with_keyring(keyring());
        let (sender, mut around) = mpsc::unbounded_channel();
        let (bell, lender) = (Arc::new(tokio::sync::Notify::new()), Lender::new());
        let ring = Arc::clone(&bell);
        let borrower = lender.borrower(move || ring.notify_one());
        let layer = move |_: Context, next: Next| {
            let (sender, args) = (sender.clone(), String::from_utf8_lossy(next.args()).into_owned());
            async move {
                let outcome = next.run().await;
                sender.send(format!("{args} {outcome:?}")).unwrap();
                outcome
            }
        };
        let worker = lend(Worker::builder(&client), &lender).layer(layer).start().await.unwrap();
        let id = client.enqueue(login()).await.unwrap();
        let mut lent = Vec::new();
        while lent.is_empty() {
            borrower.exchange(&mut Vec::new(), Room::jobs(1), &mut lent);
            if lent.is_empty() {
                bell.notified().await;
            }
        }
        let LentJob { ticket, args, .. } = lent.remove(0);
        assert_eq!(args, format!("{{\"password\":\"{SECRET}\"}}"));
        let mut done = vec![HandIn { ticket, outcome: Outcome::complete_with(SECRET) }];
        assert_eq!(borrower.exchange(&mut done, Room::jobs(0), &mut lent).refused, 0);
        let job = until_state(&client, id, JobState::Completed).await;
        check_sealed(&job, "k1");
        assert_eq!(client.result::<String>(id).await.unwrap().unwrap(), SECRET);
        let around = around.recv().await.unwrap();
        assert!(around.matches("windlass.enc").count() == 2 && !around.contains(SECRET), "{around}");
        worker.until_idle().await.unwrap();
        worker.shutdown().await;
        client.close().await;
    }
}

#[tokio::test]
async fn meta_is_kept_beside_the_binding() {
    let client = memory().with_keyring(keyring());
    let with = |meta: &str| login().into_job().unwrap().with_meta(Args::parse(meta).unwrap());
    for (meta, end) in [("{}", r#"""#), (r#" { "n": 1.50,"t":"ü" } "#, r#"", "n": 1.50,"t":"ü" "#)] {
        let id = client.enqueue(with(meta)).await.unwrap();
        let stored = client.job(id).await.unwrap().unwrap().meta.unwrap();
        assert!(stored.as_str().starts_with(r#"{"windlass.enc":""#), "{}", stored.as_str());
        assert!(stored.as_str().ends_with(&format!("{end}}}")), "{}", stored.as_str());
        assert_eq!(client.args::<Login>(id).await.unwrap(), Some(login()));
    }
    for (meta, words) in [(r#"{"windlass.enc":"x"}"#, "reserved"), ("[1]", "must be a JSON object")] {
        let error = client.enqueue(with(meta)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgs);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_once_sealed_discards_the_job() {
    let client = memory().with_keyring(keyring());
    let worker = Worker::builder(&client)
        .handle(|_: Login| async { Outcome::complete_with(&"x".repeat(900_000)) })
        .start()
        .await
        .unwrap();
    let id = client.enqueue(login()).await.unwrap();
    let job = until_state(&client, id, JobState::Discarded).await;
    assert!(job.reason.as_ref().unwrap().contains("the limit is 1048576"), "{job:?}");
    let large = Login { password: "x".repeat(800_000) };
    let error = client.enqueue(large).await.unwrap_err();
    assert!(error.to_string().contains("bytes, the limit is 1048576"), "{error}");
    worker.shutdown().await;
}
