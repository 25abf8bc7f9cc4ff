use super::jobs::{CleanUp, Number, SendMail, mail, panic_of, sqlite};
use std::time::Duration;
use windlass::{
    Args, ErrorKind, JobState, NewJob,
    testing::{self, assert_enqueued, assert_not_enqueued, enqueued},
};

#[tokio::test]
async fn types_and_patterns_find_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    for client in [testing::client(), sqlite(&dir).await] {
        assert_not_enqueued!(client, SendMail);
        client.enqueue(mail("ada")).await.unwrap();
        client.enqueue_with(mail("bob"), |job| job.with_delay(Duration::from_secs(60))).await.unwrap();
        client.enqueue(CleanUp::Older { days: 7 }).await.unwrap();
        client.enqueue(Number(3)).await.unwrap();
        let (ada, by_reference) = ("ada".to_owned(), &client);
        assert_enqueued!(by_reference, super::jobs::SendMail);
        assert_enqueued!(client, SendMail { to } if *to == ada);
        assert_enqueued!(client, Number(3 | 4),);
        assert_enqueued!(client, CleanUp, CleanUp::Older { days: 1.. });
        assert_not_enqueued!(client, CleanUp, CleanUp::All);
        assert_not_enqueued!(client, SendMail { to } if to == "eve");
        assert_not_enqueued!(client, Number(5..));
        assert_eq!(assert_enqueued!(client, SendMail).len(), 2);
        let bob = &assert_enqueued!(client, SendMail { to } if to == "bob")[0].record;
        assert_eq!((bob.state, &*bob.queue), (JobState::Scheduled, "mail"));
        assert_eq!(enqueued::<SendMail>(&client).await.unwrap()[0].args.to, "ada");
    }
}

#[tokio::test]
async fn what_ended_is_not_enqueued_any_more() {
    let client = testing::client();
    client.enqueue(mail("ada")).await.unwrap();
    let worker = windlass::Worker::builder(&client).queue("mail", 1).handle(super::jobs::send_mail);
    testing::drain(worker).await.unwrap().assert_completed();
    assert_not_enqueued!(client, SendMail);
}

#[tokio::test]
async fn messages_list_what_is_enqueued() {
    let client = testing::client();
    let empty = client.clone();
    let message = panic_of(async move {
        assert_enqueued!(empty, SendMail);
    });
    assert_eq!(message.await, "no job SendMail of kind \"mail.send\" is enqueued; no job is");
    client.enqueue(mail("ada")).await.unwrap();
    client.enqueue_many((0..60).map(Number)).await.unwrap();
    let full = client.clone();
    let message = panic_of(async move {
        assert_enqueued!(full, SendMail { to } if to == "bob");
    });
    let message = message.await;
    assert!(
        message.starts_with("no job SendMail { to } if to == \"bob\" of kind \"mail.send\""),
        "{message}"
    );
    assert!(
        message.contains("1 mail.send {\"to\":\"ada\"}: available in queue \"mail\"\n  2 number 0:"),
        "{message}"
    );
    assert!(message.ends_with("and 11 more"), "{message}");
    let message = panic_of(async move {
        assert_not_enqueued!(client, SendMail);
    });
    let message = message.await;
    assert!(
        message.starts_with("no job SendMail should be enqueued, but these are:\n  1 mail.send"),
        "{message}"
    );
}

#[tokio::test]
async fn args_that_do_not_fit_are_said() {
    let client = testing::client();
    client.enqueue(NewJob::new("mail.send", Args::of(&"x".repeat(300)).unwrap())).await.unwrap();
    let error = enqueued::<SendMail>(&client).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgs);
    assert!(error.to_string().starts_with("the args of job 1 cannot be read as"), "{error}");
    let message = panic_of(async move {
        assert_not_enqueued!(client, SendMail);
    });
    assert!(message.await.starts_with("cannot tell what is enqueued: the args of job 1"));
}

#[tokio::test]
async fn too_many_jobs_are_refused_rather_than_overlooked() {
    let client = testing::client();
    client.enqueue_many((0..10_000).map(Number)).await.unwrap();
    assert_eq!(enqueued::<Number>(&client).await.unwrap().len(), 10_000);
    client.enqueue(Number(0)).await.unwrap();
    assert_eq!(enqueued::<Number>(&client).await.unwrap_err().kind(), ErrorKind::Unsupported);
}
