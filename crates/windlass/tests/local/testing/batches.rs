//! Handlers that take several jobs at once.

use super::jobs::{CleanUp, SendMail, mail, panic_of, sqlite};
use serde::{Deserialize, Serialize};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use windlass::{
    Args, Batch, Client, Data, ErrorKind, Job, JobState, NewJob, Outcome, Outcomes, QueueLimits, RawJob,
    Worker, WorkerBuilder, testing,
};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Serialize, Deserialize, Job, Debug, Clone)]
#[job(kind = "row", max_attempts = 2, backoff = "linear:1m:1h")]
struct Row(u32);

/// Which rows came together.
type Seen = Arc<Mutex<Vec<Vec<u32>>>>;

/// Notes what it gets; numbers of 100 and more are refused, 1,000 fails the batch, 10,000 panics.
async fn insert(rows: Batch<Row>, seen: Data<Seen>) -> Result<Vec<Result<Outcome, String>>, String> {
    let numbers: Vec<_> = rows.iter().map(|row| row.args.0).collect();
    seen.lock().unwrap().push(numbers.clone());
    assert!(!numbers.contains(&10_000), "no route");
    if numbers.contains(&1_000) {
        return Err("the table is gone".into());
    }
    let each = |number| match number {
        0..100 => Ok(Outcome::complete_with(&number)),
        number => Err(format!("{number} is too much")),
    };
    Ok(numbers.into_iter().map(each).collect())
}

fn worker(client: &Client, most: usize) -> (WorkerBuilder, Seen) {
    let seen = Seen::default();
    let worker = Worker::builder(client).handle_batch(most, SECOND, insert).data(Arc::clone(&seen));
    (worker, seen)
}

fn seen(seen: &Seen) -> Vec<Vec<u32>> {
    std::mem::take(&mut *seen.lock().unwrap())
}

#[tokio::test]
async fn a_drain_runs_full_batches_and_then_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    for client in [testing::client(), sqlite(&dir).await] {
        client.enqueue_many((1..=7).map(Row)).await.unwrap();
        let (worker, rows) = worker(&client, 3);
        let report = testing::drain(worker).await.unwrap();
        assert_eq!(seen(&rows), [vec![1, 2, 3], vec![4, 5, 6], vec![7]]);
        assert_eq!(report.assert_completed().attempts.len(), 7);
        assert_eq!(report.attempts[4].result, Some(Args::of(&5).unwrap()));
    }
}

#[tokio::test]
async fn other_kinds_go_on_meanwhile_and_a_drain_stops_where_it_is_told() {
    let client = testing::client();
    for number in [1, 2, 3] {
        client.enqueue(Row(number)).await.unwrap();
        client.enqueue(CleanUp::Older { days: number }).await.unwrap();
    }
    let (builder, rows) = worker(&client, 10);
    let order = Arc::clone(&rows);
    let clean = move |clean: CleanUp| {
        let CleanUp::Older { days } = clean else { panic!("all") };
        order.lock().unwrap().push(vec![days * 10]);
        async {}
    };
    let report = testing::drain(builder.handle(clean)).at_most(5).await.unwrap();
    assert_eq!(seen(&rows), [vec![10], vec![20], vec![1, 2, 3]], "no more than five jobs");
    assert_eq!((report.attempts.len(), report.left.len()), (5, 1));
}

#[tokio::test]
async fn each_job_ends_in_its_own_way() {
    let client = testing::client();
    client.enqueue_many([Row(1), Row(100), Row(3)]).await.unwrap();
    let misfit = NewJob::new("row", Args::of("text").unwrap()).with_max_attempts(1);
    client.enqueue(misfit).await.unwrap();
    let (builder, rows) = worker(&client, 4);
    let report = testing::drain(builder).await.unwrap();
    assert_eq!(seen(&rows), [[1, 3 + 97, 3]], "the misfit is not among them");
    use JobState::{Completed, Discarded, Retryable};
    let states: Vec<_> = report.attempts.iter().map(|job| job.state).collect();
    assert_eq!(states, [Completed, Retryable, Completed, Discarded]);
    assert_eq!(report.attempts[1].errors[0].error, "100 is too much");
    let misfit = &report.attempts[3].errors[0].error;
    assert!(misfit.starts_with("args of kind \"row\" do not fit"), "{misfit}");
}

#[tokio::test(start_paused = true)]
async fn an_error_and_a_panic_fail_all_each_by_its_own_policy() {
    for (number, error) in [(1_000, "the table is gone"), (10_000, "handler panicked: no route")] {
        let client = testing::client();
        client.enqueue_many([Row(1), Row(number)]).await.unwrap();
        client.enqueue_with(Row(3), |job| job.with_max_attempts(1)).await.unwrap();
        let (builder, rows) = worker(&client, 10);
        let report = testing::drain(builder).advancing(59 * SECOND).await.unwrap();
        assert_eq!(seen(&rows).len(), 1, "again in a minute");
        assert_eq!((report.count(JobState::Retryable), report.count(JobState::Discarded)), (2, 1));
        assert!(report.attempts.iter().all(|job| job.errors[0].error == error), "{report}");
        let (builder, rows) = worker(&client, 10);
        testing::drain(builder).until_done().await.unwrap();
        assert_eq!(seen(&rows), [[1, number]], "together again");
    }
}

#[tokio::test]
async fn outcomes_are_said_by_job_and_what_does_not_fit_fails() {
    let client = testing::client();
    let ids = client.enqueue_many([Row(1), Row(2), Row(3)]).await.unwrap();
    let say = |rows: Batch<Row>| async move {
        let mut outcomes = Outcomes::default();
        outcomes.set(rows[1].id(), Outcome::Cancel("unwanted".into()));
        outcomes
    };
    let report = testing::drain(Worker::builder(&client).handle_batch(5, SECOND, say)).await.unwrap();
    assert_eq!((report.count(JobState::Completed), report.attempts[1].id), (2, ids[1]));
    assert_eq!(report.attempts[1].reason.as_deref(), Some("unwanted"));
    client.enqueue_many([Row(1), Row(2)]).await.unwrap();
    let short = |_: Batch<Row>| async { vec![()] };
    let report = testing::drain(Worker::builder(&client).handle_batch(5, SECOND, short)).await.unwrap();
    let error = &report.attempts[0].errors[0].error;
    assert!(error.contains("1 outcomes for a batch of 2 jobs"), "{error}");
}

#[tokio::test]
async fn kinds_with_raw_args_are_batched_too() {
    let client = testing::client();
    client.enqueue_many(["ada", "bob"].map(mail)).await.unwrap();
    let print = |mails: Batch<RawJob>| async move {
        let all: Vec<_> = mails.iter().map(|mail| mail.args.json().unwrap()).collect();
        Outcome::complete_with(&all.join(" "))
    };
    let builder = Worker::builder(&client).queue("mail", 1).handle_batch_kind("mail.send", 9, SECOND, print);
    let report = testing::drain(builder).await.unwrap();
    let result = Args::of(r#"{"to":"ada"} {"to":"bob"}"#).unwrap();
    assert!(report.of::<SendMail>().all(|job| job.result == Some(result.clone())), "{report}");
}

#[tokio::test]
async fn a_drain_keeps_to_limits_with_batches() {
    let client = testing::client();
    client.limit("default", &QueueLimits::default().with_concurrency(2)).await.unwrap();
    client.enqueue_many((1..=5).map(Row)).await.unwrap();
    let (builder, rows) = worker(&client, 10);
    testing::drain(builder).await.unwrap().assert_completed();
    assert!(seen(&rows).iter().all(|batch| batch.len() <= 2));
}

#[tokio::test]
async fn what_cannot_be_a_batch_is_refused_at_start() {
    let client = testing::client();
    let start = |most, wait| {
        let builder = Worker::builder(&client).handle_batch(most, wait, |_: Batch<Row>| async {});
        async { builder.start().await.map(|_| ()).unwrap_err() }
    };
    let hours = Duration::from_secs(7200);
    for (most, wait, words) in [
        (0, SECOND, "the batches of kind \"row\" cannot be: a batch has 1 to 10000 jobs, got 0"),
        (10_001, SECOND, "got 10001"),
        (5, hours, "a batch waits for 600s at most, got 7200s"),
    ] {
        let error = start(most, wait).await;
        assert!(error.kind() == ErrorKind::InvalidOption && error.to_string().contains(words), "{error}");
    }
    let needs = Worker::builder(&client).handle_batch(5, SECOND, |_: Batch<Row>, _: Data<String>| async {});
    let error = needs.start().await.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("kind \"row\"") && error.contains("String"), "{error}");
    let twice =
        Worker::builder(&client).handle(|_: Row| async {}).handle_batch(5, SECOND, |_: Batch<Row>| async {});
    let error = twice.start().await.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("two handlers"), "{error}");
}

#[tokio::test]
async fn one_handler_by_itself() {
    let outcomes = testing::perform_batch([Row(1), Row(200)], insert).data(Seen::default()).await.unwrap();
    let refused = Outcome::Retry { after: None, error: "200 is too much".into() };
    assert_eq!(outcomes, [Outcome::complete_with(&1), refused]);
    let keys = |rows: Batch<Row>| async move {
        rows.iter().map(|row| Outcome::complete_with(&(row.id().0, row.ctx.key()))).collect::<Vec<_>>()
    };
    let outcomes =
        testing::perform_batch([Row(1), Row(2)], keys).options(|job| job.with_key("acme")).await.unwrap();
    assert_eq!(outcomes[1], Outcome::complete_with(&(2, "acme")));
    let error = testing::perform_batch([Row(1)], insert).await.unwrap_err();
    assert!(error.to_string().contains("takes data of type"), "{error}");
    assert!(testing::perform_batch([], insert).data(Seen::default()).await.unwrap_err().is_invalid_input());
    let panic = panic_of(async {
        let _ = testing::perform_batch([Row(10_000)], insert).data(Seen::default()).await;
    });
    assert!(panic.await.contains("no route"));
}

/// A worker that runs, with jobs that come one by one.
#[tokio::test(start_paused = true)]
async fn a_worker_lets_jobs_meet() {
    let client = testing::client();
    let (builder, rows) = worker(&client, 4);
    let worker = builder.start().await.unwrap();
    let mut ids = Vec::new();
    for number in 1..=6 {
        ids.push(client.enqueue(Row(number)).await.unwrap());
        tokio::time::sleep(SECOND / 100).await;
    }
    for (id, number) in ids.into_iter().zip(1..) {
        client.wait(id, 60 * SECOND).await.unwrap();
        assert_eq!(client.result::<u32>(id).await.unwrap(), Some(number));
    }
    worker.shutdown().await;
    assert_eq!(seen(&rows), [vec![1, 2, 3, 4], vec![5, 6]]);
}
