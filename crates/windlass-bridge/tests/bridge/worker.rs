//! A program without an async runtime works jobs: what a binding does.

use crate::opened::opened;
use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use windlass::{Outcome, lend::Room};
use windlass_bridge::{Client, Desk, Told, Worker, WorkerSpec, job_line};

const LONG: Duration = Duration::from_secs(60);

struct Program {
    client: Client,
    _dir: TempDir,
}

impl Program {
    fn new() -> Self {
        let (client, _, dir) = opened();
        client.run("migrate", "{}").unwrap();
        Self { client, _dir: dir }
    }

    fn enqueue(&self, kind: &'static str, args: &str, count: usize) -> Vec<i64> {
        let args = vec![args; count].join(",");
        let payload = format!(r#"{{"job":{{"kind":"{kind}"}},"args":[{args}]}}"#);
        let answer: serde_json::Value =
            serde_json::from_str(&self.client.run("enqueue", &payload).unwrap()).unwrap();
        answer["ids"].as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect()
    }

    fn state(&self, id: i64) -> String {
        let job = self.client.run("job", &format!(r#"{{"id":{id}}}"#)).unwrap();
        let job: serde_json::Value = serde_json::from_str(&job).unwrap();
        job["state"].as_str().unwrap().to_owned()
    }

    fn until(&self, id: i64, state: &str) {
        let began = Instant::now();
        while self.state(id) != state {
            assert!(began.elapsed() < LONG, "job {id} never is {state}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Works at a desk until the worker ends, as an event loop does.
fn work(desk: &Desk, bell: &mpsc::Receiver<()>, run: impl Fn(&windlass::lend::LentJob) -> Outcome) -> usize {
    let (mut done, mut ran) = (Vec::new(), 0);
    loop {
        let exchange = desk.exchange(done.drain(..), Room { jobs: 256, bytes: 256 << 10 });
        ran += exchange.jobs.len();
        done.extend(exchange.jobs.iter().map(|job| (job.ticket.0, run(job))));
        if done.is_empty() {
            if exchange.closed {
                return ran;
            }
            bell.recv_timeout(LONG).expect("nobody rings");
        }
    }
}

#[test]
fn threads_work_jobs_at_a_desk_each_and_end_with_the_worker() {
    let program = Program::new();
    let worker = Worker::start(&program.client, &WorkerSpec::default()).unwrap();
    let threads = [(); 2].map(|()| {
        let (sender, bell) = mpsc::channel();
        let desk = worker.desk(move || sender.send(()).unwrap_or_default()).unwrap();
        thread::spawn(move || work(&desk, &bell, |_| Outcome::Complete(None)))
    });
    let ids = program.enqueue("a", "{}", 1_000);
    worker.wait_until_idle().unwrap();
    worker.stop();
    assert!(worker.wait(LONG).unwrap());
    let ran: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!((ran, worker.stats().settled), (1_000, 1_000));
    assert_eq!((program.state(ids[0]), program.state(ids[999])), ("completed".into(), "completed".into()));
    program.client.close();
}

#[test]
fn jobs_come_in_batches_that_take_one_place() {
    let program = Program::new();
    let spec = r#"{"queues":[["default",1]],"kinds":["a"],"batches":[{"kind":"row","max_size":3,"wait_ms":600000}]}"#;
    let worker = Worker::start(&program.client, &WorkerSpec::parse(spec).unwrap()).unwrap();
    let (sender, bell) = mpsc::channel();
    let desk = worker.desk(move || sender.send(()).unwrap_or_default()).unwrap();
    let first = program.enqueue("row", "{}", 1);
    let began = Instant::now();
    while worker.stats().ready == 0 {
        assert!(began.elapsed() < LONG, "it is not claimed");
        thread::sleep(Duration::from_millis(5));
    }
    let ids = [first, program.enqueue("row", "{}", 2)].concat();
    let jobs = loop {
        let exchange = desk.exchange([], Room { jobs: 1, bytes: 1 });
        if !exchange.jobs.is_empty() {
            break exchange.jobs;
        }
        bell.recv_timeout(LONG).expect("nobody rings");
    };
    assert_eq!(jobs.iter().map(|job| job.context.id().0).collect::<Vec<_>>(), ids);
    assert!(jobs.iter().all(|job| job.batch == jobs[0].ticket));
    desk.exchange(jobs.iter().map(|job| (job.ticket.0, Outcome::Complete(None))), Room::jobs(0));
    ids.iter().for_each(|id| program.until(*id, "completed"));
    worker.stop();
    assert!(worker.wait(LONG).unwrap());
}

#[test]
fn a_job_is_told_as_one_line_and_what_is_said_of_it_is_kept() {
    let program = Program::new();
    let spec = WorkerSpec {
        queues: vec![("default".to_owned(), 1)],
        kinds: vec!["mail.send".to_owned()],
        timeout: Some(Duration::from_millis(50)),
        grace_period: Some(Duration::ZERO),
        ..WorkerSpec::default()
    };
    let worker = Worker::start(&program.client, &spec).unwrap();
    let (sender, bell) = mpsc::channel();
    let desk = worker.desk(move || sender.send(()).unwrap_or_default()).unwrap();
    let id = program.enqueue("mail.send", "{\"to\":\n\"a\u{2028}\u{2029}\"}", 1)[0];
    let other = program.enqueue("unknown", "{}", 1)[0];
    let take = || loop {
        if let Some(job) = desk.exchange([], Room::jobs(1)).jobs.pop() {
            return job;
        }
        bell.recv_timeout(LONG).expect("nobody rings");
    };
    let job = take();
    let line = String::from_utf8(job_line(&job).unwrap()).unwrap();
    assert!(line.ends_with("}\n") && line.trim_end().lines().count() == 1, "{line}");
    assert!(!line.contains(['\u{2028}', '\u{2029}']), "where readers of some languages end a line: {line}");
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&told["type"], &told["id"], &told["args"]["to"]),
        (&"job".into(), &id.into(), &"a\u{2028}\u{2029}".into())
    );
    desk.context(job.ticket.0).unwrap().log("halfway");
    let told = loop {
        let exchange = desk.exchange([], Room::jobs(0));
        if !exchange.told.is_empty() {
            break exchange.told;
        }
        bell.recv_timeout(LONG).expect("nobody rings");
    };
    assert_eq!(told, [Told::Cancel { ticket: job.ticket.0, reason: "timeout" }]);
    let failed = || Outcome::Retry { after: None, error: "too slow".to_owned() };
    let twice = [(job.ticket.0, failed()), (job.ticket.0, failed())];
    assert_eq!(desk.exchange(twice, Room::jobs(0)).refused, 1);
    assert!(desk.context(job.ticket.0).is_none(), "it has it no more");
    program.until(id, "retryable");
    let job = program.client.run("job", &format!(r#"{{"id":{id}}}"#)).unwrap();
    assert!(job.contains("timeout after 50ms: too slow") && job.contains("halfway"), "{job}");
    let began = Instant::now();
    while worker.stats().no_handler == 0 {
        assert!(began.elapsed() < LONG, "nobody looks at the unknown kind");
        thread::sleep(Duration::from_millis(5));
    }
    program.until(other, "available");
    worker.stop();
    assert!(worker.wait(LONG).unwrap());
}

#[test]
fn what_is_said_of_a_kind_holds_for_jobs_that_say_nothing_themselves() {
    let program = Program::new();
    let spec = r#"{"kinds":["slow","other"],"rules":{"slow":{"timeout_ms":50,"retry_policy":{"backoff":"fixed","base_ms":3600000}}}}"#;
    let worker = Worker::start(&program.client, &WorkerSpec::parse(spec).unwrap()).unwrap();
    let (sender, bell) = mpsc::channel();
    let desk = worker.desk(move || sender.send(()).unwrap_or_default()).unwrap();
    let other = program.enqueue("other", "{}", 1)[0];
    let slow = program.enqueue("slow", "{}", 1)[0];
    let (mut jobs, mut told) = (Vec::new(), Vec::new());
    while jobs.len() < 2 || told.is_empty() {
        let exchange = desk.exchange([], Room::jobs(2));
        jobs.extend(exchange.jobs.iter().map(|job| (job.ticket.0, job.context.id().0)));
        told.extend(exchange.told);
        if jobs.len() < 2 || told.is_empty() {
            bell.recv_timeout(LONG).expect("nobody rings");
        }
    }
    let ticket = |id| jobs.iter().find(|job| job.1 == id).unwrap().0;
    assert_eq!(told, [Told::Cancel { ticket: ticket(slow), reason: "timeout" }]);
    let failed = Outcome::Retry { after: None, error: "too slow".to_owned() };
    desk.exchange([(ticket(slow), failed), (ticket(other), Outcome::Complete(None))], Room::jobs(0));
    program.until(other, "completed");
    program.until(slow, "retryable");
    let job = program.client.run("job", &format!(r#"{{"id":{slow}}}"#)).unwrap();
    let job: serde_json::Value = serde_json::from_str(&job).unwrap();
    let at = |field: &str| job[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(at("scheduled_at").duration_since(at("enqueued_at")).as_mins() >= 60, "{job}");
    worker.stop();
    assert!(worker.wait(LONG).unwrap());
    for (spec, words) in [
        (
            r#"{"kinds":["a"],"rules":{"b":{"timeout_ms":1}}}"#,
            "kind \"b\" has a timeout or a retry policy, and no handler",
        ),
        (
            r#"{"kinds":["a"],"rules":{"a":{"timeout_ms":0}}}"#,
            "the handler of kind \"a\" cannot start: a timeout of 0",
        ),
    ] {
        let refused = Worker::start(&program.client, &WorkerSpec::parse(spec).unwrap()).unwrap_err();
        assert!(refused.message.contains(words), "{refused}");
    }
}
