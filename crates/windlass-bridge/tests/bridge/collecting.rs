//! Threads that run one job after the other: what became of short ones is handed in together, and always.

use crate::opened::opened;
use std::{
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use windlass::{Outcome, lend::LentJob};
use windlass_bridge::{Client, CollectingDesk, Exchange, Told, Worker, WorkerSpec};

const LONG: Duration = Duration::from_secs(60);

struct Program {
    client: Client,
    worker: Worker,
    _dir: TempDir,
}

impl Program {
    /// With so many jobs that are there before the worker.
    fn new(jobs: usize) -> Self {
        let (client, _, dir) = opened();
        client.run("migrate", "{}").unwrap();
        let args = vec!["{}"; jobs].join(",");
        client.run("enqueue", &format!(r#"{{"job":{{"kind":"a"}},"args":[{args}]}}"#)).unwrap();
        let spec = r#"{"queues":[["default",100]],"blocking_kinds":["a"]}"#;
        let worker = Worker::start(&client, &WorkerSpec::parse(spec).unwrap()).unwrap();
        Self { client, worker, _dir: dir }
    }

    fn desk(&self) -> (CollectingDesk, Receiver<()>) {
        let (sender, bell) = mpsc::channel();
        let desk = self.worker.blocking_desk(move || sender.send(()).unwrap_or_default()).unwrap();
        (self.worker.collecting(desk), bell)
    }

    /// The second of two jobs at this desk, the first of which is done; waits until both are there.
    fn second(&self, desk: &CollectingDesk, bell: &Receiver<()>) -> (LentJob, LentJob) {
        let began = Instant::now();
        while self.worker.stats().running < 2 {
            assert!(began.elapsed() < LONG, "they are not offered");
            thread::sleep(Duration::from_millis(5));
        }
        let first = next(desk, bell, None).jobs.remove(0);
        let second = next(desk, bell, Some(done(&first))).jobs.remove(0);
        (first, second)
    }

    fn until(&self, job: &LentJob, state: &str) {
        let began = Instant::now();
        let question = format!(r#"{{"id":{}}}"#, job.context.id().0);
        let wanted = format!(r#""state":"{state}""#);
        while !self.client.run("job", &question).unwrap().contains(&wanted) {
            assert!(began.elapsed() < LONG, "the job never is {state}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn done(job: &LentJob) -> (u64, Outcome) {
    (job.ticket.0, Outcome::Complete(None))
}

/// As a thread does: hands in, and waits for the next job or the end.
fn next(desk: &CollectingDesk, bell: &Receiver<()>, mut done: Option<(u64, Outcome)>) -> Exchange {
    loop {
        let exchange = desk.next(done.take());
        assert_eq!(exchange.refused, 0);
        if exchange.closed || !exchange.jobs.is_empty() {
            return exchange;
        }
        bell.recv_timeout(LONG).expect("nobody rings");
    }
}

#[test]
fn each_of_many_short_jobs_is_handed_in_once() {
    let program = Program::new(5_000);
    let threads = [(); 3].map(|()| {
        let (desk, bell) = program.desk();
        thread::spawn(move || {
            let (mut ran, mut last) = (0, None);
            while let Some(job) = next(&desk, &bell, last.take()).jobs.first() {
                ran += 1;
                last = Some(done(job));
            }
            ran
        })
    });
    program.worker.wait_until_idle().unwrap();
    program.worker.stop();
    assert!(program.worker.wait(LONG).unwrap());
    let ran: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    let stats = program.worker.stats();
    assert_eq!((ran, stats.completed, stats.settled, stats.returned), (5_000, 5_000, 5_000, 0));
}

#[test]
fn what_is_done_is_handed_in_though_the_next_job_takes_long() {
    let program = Program::new(2);
    let (desk, bell) = program.desk();
    let (first, second) = program.second(&desk, &bell);
    program.until(&first, "completed");
    assert_eq!(desk.next(Some(done(&first))).refused, 1, "it was handed in before");
    program.until(&second, "running");
}

#[test]
fn a_thread_that_ends_fails_no_job_but_the_one_at_hand() {
    let program = Program::new(2);
    let (desk, bell) = program.desk();
    let (first, second) = program.second(&desk, &bell);
    drop(desk);
    program.until(&first, "completed");
    program.until(&second, "retryable");
}

#[test]
fn what_is_told_meanwhile_reaches_the_thread() {
    let program = Program::new(2);
    let (desk, bell) = program.desk();
    let (first, second) = program.second(&desk, &bell);
    program.client.run("cancel", &format!(r#"{{"ids":[{}]}}"#, second.context.id().0)).unwrap();
    program.until(&first, "completed");
    let began = Instant::now();
    let meant = Told::Cancel { ticket: second.ticket.0, reason: "cancelled" };
    while !desk.look().told.contains(&meant) {
        assert!(began.elapsed() < LONG, "nobody tells it");
        thread::sleep(Duration::from_millis(5));
    }
    desk.next(Some((second.ticket.0, Outcome::Retry { after: None, error: "stopped".to_owned() })));
    program.until(&second, "cancelled");
}
