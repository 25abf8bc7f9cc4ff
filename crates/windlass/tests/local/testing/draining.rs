use super::jobs::{CleanUp, Number, SendMail, mail, panic_of, send_mail, sqlite};
use std::{
    cell::Cell,
    sync::{Arc, Mutex},
    time::Duration,
};
use windlass::{
    Args, Client, Context, Data, ErrorKind, JobId, JobState, NewJob, Next, Outcome, QueueLimits, RateLimit,
    RawJob, Worker, WorkerBuilder, testing,
};

const HOUR: Duration = Duration::from_secs(3600);

fn mailer(client: &Client) -> WorkerBuilder {
    Worker::builder(client).queue("mail", 1).handle(send_mail)
}

/// The numbers in the order in which they ran. Number 1 enqueues three others.
fn counter(client: &Client) -> (WorkerBuilder, Arc<Mutex<Vec<u32>>>) {
    let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
    let count = |number: Number, client: Data<Client>, seen: Data<Arc<Mutex<Vec<u32>>>>| async move {
        seen.lock().unwrap().push(number.0);
        if number.0 == 1 {
            client.enqueue_with(Number(11), |job| job.with_priority(5)).await?;
            client.enqueue_with(Number(12), |job| job.with_queue("urgent")).await?;
            client.enqueue(Number(13)).await?;
        }
        Ok::<_, windlass::Error>(())
    };
    let worker = Worker::builder(client).queue("urgent", 5).queue("default", 5).handle(count);
    (worker.data(client.clone()).data(Arc::clone(&seen)), seen)
}

#[tokio::test]
async fn everything_is_worked_one_by_one_and_what_handlers_enqueue_as_well() {
    let dir = tempfile::tempdir().unwrap();
    for client in [testing::client(), sqlite(&dir).await] {
        client.enqueue_many([Number(1), Number(2)]).await.unwrap();
        client.enqueue_with(Number(0), |job| job.with_priority(-1)).await.unwrap();
        let (worker, seen) = counter(&client);
        let report = testing::drain(worker).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [0, 1, 12, 2, 13, 11]);
        assert_eq!((report.attempts.len(), report.left.len()), (6, 0));
        assert_eq!(report.assert_completed().of::<Number>().count(), 6);
        let again = testing::drain(counter(&client).0).await.unwrap();
        assert!(again.attempts.is_empty(), "{again}");
        let workers = client.status().await.unwrap().workers;
        assert!(workers.iter().all(|worker| !worker.live), "{workers:?}");
    }
}

#[tokio::test]
async fn a_drain_keeps_to_a_rate_and_what_jobs_cost() {
    let client = testing::client();
    let rate = RateLimit::new(10, HOUR);
    client.limit("default", &QueueLimits::default().with_rate(rate)).await.unwrap();
    for (number, cost) in [(3, 4), (4, 4), (5, 4), (6, 99)] {
        client.enqueue_with(Number(number), |job| job.with_cost(cost)).await.unwrap();
    }
    let mut done = Vec::new();
    for left in [2, 1, 0, 0] {
        let (worker, seen) = counter(&client);
        testing::drain(worker).await.unwrap();
        done.extend(seen.lock().unwrap().iter().copied());
        let queues = client.queues().await.unwrap();
        let default = queues.iter().find(|queue| queue.name == "default").unwrap();
        assert_eq!((default.available, default.running), (left, 0));
        testing::clock(&client).advance(2 * HOUR);
    }
    // What was handed back is behind the others.
    assert_eq!(done, [3, 4, 6, 5]);
}

#[tokio::test]
async fn the_report_tells_how_each_attempt_ended() {
    let dir = tempfile::tempdir().unwrap();
    for client in [testing::client(), sqlite(&dir).await] {
        let ids = client.enqueue_many(["ada", "nobody", "panic", "never"].map(mail)).await.unwrap();
        let report = testing::drain(mailer(&client)).await.unwrap();
        assert_eq!(report.attempts.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
        let states: Vec<JobState> = report.attempts.iter().map(|job| job.state).collect();
        let again = JobState::Retryable;
        assert_eq!(states, [JobState::Completed, again, again, JobState::Cancelled]);
        let [ada, nobody, panicked, never] = &report.attempts[..] else { panic!("{report}") };
        assert_eq!(ada.result.as_ref().map(Args::as_str), Some("\"ada\""));
        assert_eq!(nobody.errors[0].error, "no such address");
        assert_eq!(panicked.errors[0].error, "handler panicked: no route");
        assert_eq!(never.reason.as_deref(), Some("unwanted"));
        assert_eq!((report.count(again), report.left.len()), (2, 2));
        let failed = panic_of(async move {
            report.assert_completed();
        });
        let failed = failed.await;
        for words in
            ["not every job completed", "mail.send {\"to\":\"nobody\"}: retryable", "no such address"]
        {
            assert!(failed.contains(words), "{words}: {failed}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_jobs_are_tried_again_when_their_policy_says_until_they_are_dead() {
    let client = testing::client();
    let clock = testing::clock(&client);
    let (began, second) = (clock.now(), Duration::from_secs(1));
    let passed = || clock.now().duration_since(began).as_millis();
    let id = client.enqueue(mail("nobody")).await.unwrap();
    // 15 s and 30 s after the failures before, so the third attempt comes after 45 s.
    let report = testing::drain(mailer(&client)).advancing(44 * second).await.unwrap();
    assert_eq!((report.attempts.len(), report.left[0].id, passed()), (2, id, 44_000));
    let report = testing::drain(mailer(&client)).until_done().await.unwrap();
    assert_eq!((report.attempts[0].attempt, report.count(JobState::Discarded)), (3, 1));
    assert_eq!((report.left.len(), passed()), (0, 45_000));
    client.enqueue(mail("nobody")).await.unwrap();
    let report = testing::drain(mailer(&client)).advancing(45 * second).await.unwrap();
    assert_eq!((report.attempts.len(), passed()), (3, 90_000), "what is due at the end runs");
}

#[tokio::test]
async fn scheduled_jobs_run_in_the_order_of_their_time() {
    let client = testing::client();
    for (to, hours) in [("c", 3), ("a", 1), ("b", 2), ("d", 100)] {
        client.enqueue_with(mail(to), |job| job.with_delay(HOUR * hours)).await.unwrap();
    }
    assert!(testing::drain(mailer(&client)).await.unwrap().attempts.is_empty());
    let report = testing::drain(mailer(&client)).advancing(HOUR * 4).await.unwrap();
    let ran: Vec<_> = report.attempts.iter().map(|job| job.args.as_str()).collect();
    assert_eq!(ran, [r#"{"to":"a"}"#, r#"{"to":"b"}"#, r#"{"to":"c"}"#]);
    testing::clock(&client).advance(HOUR * 96);
    testing::drain(mailer(&client)).at_most(1).await.unwrap().assert_completed();
    testing::drain(mailer(&client)).until_done().await.unwrap().assert_completed();
    assert_eq!(client.queues().await.unwrap()[0].completed, 4);
}

#[tokio::test(start_paused = true)]
async fn a_time_between_two_ticks_of_the_clock_comes() {
    let client = testing::client();
    let clock = testing::clock(&client);
    clock.advance(Duration::from_micros(1)); // from here on it has whole ticks
    let soon = clock.now() + Duration::from_nanos(1_500);
    client.enqueue_with(mail("ada"), |job| job.with_scheduled_at(soon)).await.unwrap();
    let report = testing::drain(mailer(&client)).advancing(Duration::from_micros(10)).await.unwrap();
    assert_eq!(report.assert_completed().attempts.len(), 1);
}

#[tokio::test]
async fn only_clocks_in_memory_can_be_moved() {
    let dir = tempfile::tempdir().unwrap();
    let client = sqlite(&dir).await;
    let id = client.enqueue(mail("nobody")).await.unwrap();
    let error = testing::drain(mailer(&client)).advancing(HOUR).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    for attempt in 1..=3 {
        let report = testing::drain(mailer(&client)).await.unwrap();
        assert_eq!(report.attempts[0].attempt, attempt);
        client.retry(&[id]).await.unwrap();
    }
    let panic = panic_of(async move {
        testing::clock(&client);
    });
    assert!(panic.await.contains("made by windlass::testing"));
}

#[tokio::test]
async fn a_drain_without_an_end_ends() {
    let client = testing::client();
    client.enqueue(mail("later")).await.unwrap();
    let error = testing::drain(mailer(&client)).await.unwrap_err();
    assert!(error.is_invalid_input() && error.to_string().contains("kind \"mail.send\""), "{error}");
    let report = testing::drain(mailer(&client)).at_most(7).await.unwrap();
    assert_eq!((report.attempts.len(), report.left.len()), (7, 1));
    assert_eq!(report.count(JobState::Scheduled), 7, "a snoozed job is scheduled");
}

#[tokio::test]
async fn what_the_worker_does_not_take_is_left_and_said() {
    let client = testing::client();
    client.enqueue(NewJob::new("unknown", Args::of(&1).unwrap()).with_queue("mail")).await.unwrap();
    client.enqueue(CleanUp::All).await.unwrap();
    client.enqueue(mail("ada")).await.unwrap();
    let report = testing::drain(mailer(&client)).await.unwrap();
    assert_eq!((report.attempts.len(), report.left.len()), (1, 2));
    let failed = panic_of(async move {
        report.assert_completed();
    });
    let failed = failed.await;
    for words in
        ["unknown 1: available in queue \"mail\", waits for a worker", "clean_up", "queue \"default\""]
    {
        assert!(failed.contains(words), "{words}: {failed}");
    }
    let knows =
        Worker::builder(&client).queue("mail", 1).queue("default", 1).handle_any(|_: RawJob| async {});
    assert_eq!(testing::drain(knows).await.unwrap().assert_completed().attempts.len(), 2);
}

tokio::task_local! {
    static OF_THE_TEST: Cell<u32>;
}

#[tokio::test(start_paused = true)]
async fn jobs_run_in_the_task_of_the_test_with_layers_timeouts_and_waiting() {
    let client = testing::client();
    client.enqueue_many((1..=4).map(Number)).await.unwrap();
    let layer = |_: Context, next: Next| async {
        OF_THE_TEST.with(|calls| calls.set(calls.get() + 1));
        next.run().await
    };
    let wait = |number: Number| async move {
        match number.0 {
            4 => std::future::pending().await,
            number => tokio::time::sleep(HOUR * number).await,
        }
    };
    let worker = Worker::builder(&client).layer(layer).handle(wait).timeout(HOUR * 10);
    OF_THE_TEST
        .scope(Cell::new(0), async {
            let report = testing::drain(worker).await.unwrap();
            assert_eq!((report.count(JobState::Completed), report.count(JobState::Retryable)), (3, 1));
            let error = &report.attempts[3].errors[0].error;
            assert!(error.starts_with("timeout after 36000s"), "{error}");
            assert_eq!(OF_THE_TEST.with(Cell::get), 4);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_long_job_keeps_its_lease() {
    let client = testing::client();
    client.enqueue(Number(1)).await.unwrap();
    let long = |_: Number, client: Data<Client>| async move {
        tokio::time::sleep(HOUR).await;
        Outcome::complete_with(&client.status().await.unwrap().workers[0].live)
    };
    let report = testing::drain(Worker::builder(&client).data(client.clone()).handle(long)).await.unwrap();
    assert_eq!(report.attempts[0].result, Some(Args::of(&true).unwrap()));
}

#[tokio::test]
async fn a_suspect_runs_too_and_a_worker_that_cannot_start_is_refused() {
    let store = testing::MemoryStore::new();
    let client = testing::client_of(&store);
    let id = client.enqueue(mail("ada")).await.unwrap();
    assert!(store.set_counts(id, 1, 2));
    let report = testing::drain(mailer(&client)).await.unwrap();
    assert_eq!((report.attempts[0].crash_count, report.attempts[0].attempt), (2, 2));
    report.assert_completed();
    let needs_data = Worker::builder(&client).handle(|_: SendMail, _: Data<String>| async {});
    assert!(testing::drain(needs_data).await.unwrap_err().to_string().contains("String"));
}

#[tokio::test]
async fn a_job_whose_claim_is_lost_while_it_runs_is_an_error() {
    let store = testing::MemoryStore::new();
    let client = testing::client_of(&store);
    let id = client.enqueue(Number(1)).await.unwrap();
    let forgets = store.clone();
    let forget = move |_: Number, id: JobId| {
        let store = forgets.clone();
        async move {
            store.forget_claim(id).map_or(Outcome::Cancel("not held".into()), |_| Outcome::Complete(None))
        }
    };
    let error = testing::drain(Worker::builder(&client).handle(forget)).await.unwrap_err();
    assert!(error.is_lease_lost() && error.to_string().contains("took a job away"), "{error}");
    assert_eq!(client.job(id).await.unwrap().unwrap().state, JobState::Available);
}
