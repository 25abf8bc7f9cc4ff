use super::jobs::{SendMail, mail, panic_of, send_mail};
use tokio::sync::oneshot;
use windlass::{
    Args, Attempt, Context, Data, ErrorKind, JobId, NewJob, Outcome, RawJob,
    testing::{perform, perform_raw},
};

async fn look(
    mail: SendMail,
    ctx: Context,
    attempt: Attempt,
    name: Data<&'static str>,
    id: JobId,
) -> Outcome {
    let meta = ctx.meta().map(|meta| meta.as_str().to_owned());
    let job = (mail.to, ctx.kind(), ctx.queue(), ctx.priority(), ctx.key(), meta);
    Outcome::complete_with(&(job, attempt.number, attempt.max, attempt.is_last(), *name, id))
}

#[tokio::test]
async fn a_handler_sees_the_job_as_it_is_described() {
    let outcome = perform(mail("ada"), look).data("smtp").await.unwrap();
    let plain = (("ada", "mail.send", "mail", 0, None::<&str>, None::<&str>), 1, 3, false, "smtp", 1);
    assert_eq!(outcome, Outcome::complete_with(&plain));
    let meta = Args::parse(r#"{"request":"r-1"}"#).unwrap();
    let outcome = perform(mail("ada"), look)
        .options(|job| job.with_key("acme").with_meta(meta).with_queue("slow").with_priority(3))
        .options(|job| job.with_max_attempts(4))
        .attempt(4)
        .data("smtp")
        .await
        .unwrap();
    let job = ("ada", "mail.send", "slow", 3, "acme", r#"{"request":"r-1"}"#);
    assert_eq!(outcome, Outcome::complete_with(&(job, 4, 4, true, "smtp", 1)));
}

#[tokio::test]
async fn outcomes_are_the_handlers_own_and_panics_the_tests() {
    let failed = Outcome::Retry { after: None, error: "no such address".into() };
    assert_eq!(perform(mail("nobody"), send_mail).await.unwrap(), failed);
    let panic = panic_of(async {
        let send = |mail: SendMail| async move { assert_eq!(mail.to, "eve") };
        let _ = perform(mail("ada"), send).await;
    });
    assert!(panic.await.contains("\"eve\""));
    // Args that do not fit fail as they would in a worker.
    let raw = NewJob::new("mail.send", Args::of(&7).unwrap());
    let twice = |job: RawJob| async move { Outcome::complete_with(&(job.parse::<u32>().unwrap() * 2)) };
    assert_eq!(perform_raw(raw, twice).await.unwrap(), Outcome::complete_with(&14));
}

#[tokio::test]
async fn what_a_worker_or_a_store_would_refuse_is_refused() {
    let error = perform(mail("ada"), look).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("takes data of type &str"), "{error}");
    let error = perform(mail("ada"), look).data("a").data("b").await.unwrap_err();
    assert!(error.to_string().contains("given twice"), "{error}");
    let error = perform(mail("ada"), send_mail).options(|job| job.with_queue("a b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
}

#[tokio::test]
async fn a_handler_is_told_to_stop_when_the_test_says_so() {
    let (started, has_started) = oneshot::channel();
    let started = std::sync::Mutex::new(Some(started));
    let watch = move |_: SendMail, ctx: Context| {
        assert!(!ctx.is_cancelled());
        started.lock().unwrap().take().unwrap().send(()).unwrap();
        async move {
            ctx.cancelled().await;
            Outcome::Snooze(std::time::Duration::ZERO)
        }
    };
    let stop = async {
        has_started.await.unwrap();
    };
    let outcome = perform(mail("ada"), watch).cancel_when(stop).await.unwrap();
    assert_eq!(outcome, Outcome::Snooze(std::time::Duration::ZERO));
    let at_once = |_: SendMail, ctx: Context| async move { Outcome::complete_with(&ctx.is_cancelled()) };
    assert_eq!(
        perform(mail("ada"), at_once).cancel_when(async {}).await.unwrap(),
        Outcome::complete_with(&true)
    );
}
