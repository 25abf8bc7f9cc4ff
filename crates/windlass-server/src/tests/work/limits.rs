//! HTTP workers keep to the limits of queues, together with workers of the engine.

use super::{Site, done};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use windlass::{Args, Client, JobId, JobState, NewJob, QueueLimits, RateLimit, RawJob, Worker};

const MS: Duration = Duration::from_millis(1);

/// How many jobs run, and the most that did.
#[derive(Clone, Default)]
struct Running(Arc<(AtomicUsize, AtomicUsize)>);

impl Running {
    fn begin(&self, jobs: usize) {
        let now = self.0.0.fetch_add(jobs, SeqCst) + jobs;
        self.0.1.fetch_max(now, SeqCst);
    }

    fn end(&self, jobs: usize) {
        self.0.0.fetch_sub(jobs, SeqCst);
    }

    fn peak(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

async fn limit(site: &Site, limits: QueueLimits) {
    site.client.limit("mail", &limits).await.unwrap();
}

fn at_once(jobs: u32) -> QueueLimits {
    QueueLimits::default().with_concurrency(jobs)
}

async fn enqueue(site: &Site, count: usize) -> Vec<JobId> {
    let job = |_| NewJob::new("a", Args::parse("{}").unwrap()).with_queue("mail");
    site.client.enqueue_many((0..count).map(job)).await.unwrap()
}

fn jobs_of(turn: &Value) -> Vec<Value> {
    turn["jobs"].as_array().unwrap().clone()
}

/// Works until all jobs of the queue are completed.
async fn work(
    site: &Site,
    worker: &str,
    running: &Running,
    takes: Duration,
    done_in_all: &AtomicUsize,
    all: usize,
) {
    let mut said = Vec::new();
    while done_in_all.load(SeqCst) < all || !said.is_empty() {
        let count = said.len();
        let turn = site.turn(worker, json!({ "done": said, "wait_s": 1 })).await;
        done_in_all.fetch_add(count, SeqCst);
        let jobs = jobs_of(&turn);
        running.begin(jobs.len());
        tokio::time::sleep(takes).await;
        running.end(jobs.len());
        said = jobs.iter().map(|job| done(job, "complete")).collect();
    }
}

async fn engine(client: &Client, running: &Running, completed: &Arc<AtomicUsize>) -> Worker {
    let (running, completed) = (running.clone(), Arc::clone(completed));
    let handler = move |_: RawJob| {
        let (running, completed) = (running.clone(), Arc::clone(&completed));
        async move {
            running.begin(1);
            tokio::time::sleep(7 * MS).await;
            running.end(1);
            completed.fetch_add(1, SeqCst);
        }
    };
    Worker::builder(client).queue("mail", 2).handle_kind("a", handler).start().await.unwrap()
}

#[tokio::test]
async fn no_more_run_than_may() {
    for site in Site::all_stores().await {
        limit(&site, at_once(3)).await;
        let all = enqueue(&site, 60).await.len();
        let (running, completed) = (Running::default(), Arc::new(AtomicUsize::new(0)));
        let engine = engine(&site.client, &running, &completed).await;
        let mut workers = Vec::new();
        for _ in 0..4 {
            workers.push(site.register(json!({ "queues": { "mail": 2 } })).await);
        }
        let working = workers.iter().map(|worker| work(&site, worker, &running, 10 * MS, &completed, all));
        futures_util::future::join_all(working).await;
        engine.shutdown().await;
        // How many overlap depends on the machine, too.
        assert!((2..=3).contains(&running.peak()), "{}: {}", site.name().await, running.peak());
    }
}

#[tokio::test]
async fn no_more_start_in_a_time_than_may() {
    for site in Site::all_stores().await {
        limit(&site, QueueLimits::default().with_rate(RateLimit::new(10, 500 * MS))).await;
        let all = enqueue(&site, 40).await.len();
        let (running, completed, began) = (Running::default(), AtomicUsize::new(0), Instant::now());
        let mut workers = Vec::new();
        for _ in 0..3 {
            workers.push(site.register(json!({ "queues": { "mail": 5 } })).await);
        }
        let working = workers.iter().map(|worker| work(&site, worker, &running, MS, &completed, all));
        futures_util::future::join_all(working).await;
        let took = began.elapsed();
        assert!(took > 1_500 * MS && took < 60_000 * MS, "{}: {took:?}", site.name().await);
    }
}

/// Who does not wait gets what may start with the turn itself.
#[tokio::test]
async fn a_turn_that_does_not_wait_brings_what_may_start() {
    for site in Site::all_stores().await {
        // Of a slow rate one job is held at a time.
        let slow = QueueLimits::default().with_rate(RateLimit::new(2, 60_000 * MS));
        for (limits, expected) in [(at_once(2), [2, 0, 2]), (slow, [1, 1, 0])] {
            limit(&site, limits).await;
            enqueue(&site, 5).await;
            let worker = site.register(json!({ "queues": { "mail": 5 } })).await;
            let mut first = Vec::new();
            // One turn, unless the machine stands still for longer than the server waits for what may start.
            for _ in 0..10 {
                first = jobs_of(&site.turn(&worker, json!({})).await);
                if !first.is_empty() {
                    break;
                }
            }
            let second = jobs_of(&site.turn(&worker, json!({})).await);
            let said: Vec<_> = first.iter().map(|job| done(job, "complete")).collect();
            let third = jobs_of(&site.turn(&worker, json!({ "done": said })).await);
            let seen = [first, second, third].map(|jobs| jobs.len());
            assert_eq!(seen, expected, "{} {limits:?}", site.name().await);
            site.work("DELETE", &format!("/{worker}"), Value::Null).await.is(204);
        }
    }
}

#[tokio::test]
async fn slots_that_nobody_uses_are_others() {
    for site in Site::all_stores().await {
        limit(&site, at_once(1)).await;
        let ids = enqueue(&site, 3).await;
        let first = site.register(json!({ "queues": { "mail": 1 } })).await;
        let job = site.jobs(&first).await.remove(0);
        // It wants no more, and says nothing from then on.
        site.turn(&first, json!({ "done": [done(&job, "complete")], "want": {} })).await;
        // What was handed back because it had to wait comes last.
        let is_one = |job: &Value| ids[1..].iter().any(|id| job["id"] == id.to_string());
        let second = site.register(json!({ "queues": { "mail": 1 }, "lease_s": 1 })).await;
        let job = site.jobs(&second).await.remove(0);
        assert!(is_one(&job), "{}: {job}", site.name().await);
        // It is silent for longer than its lease: its slot is free with its job.
        let job = site.jobs(&first).await.remove(0);
        assert!(is_one(&job), "{}: {job}", site.name().await);
    }
}

#[tokio::test]
async fn a_busy_queue_beside_it_leaves_a_limited_queue_its_turn() {
    for site in Site::all_stores().await {
        for limits in [at_once(1), QueueLimits::default().with_rate(RateLimit::new(100, 1_000 * MS))] {
            limit(&site, limits).await;
            let id = enqueue(&site, 1).await[0];
            let other = |_| NewJob::new("b", Args::parse("{}").unwrap()).with_queue("other");
            site.client.enqueue_many((0..40).map(other)).await.unwrap();
            let worker = site.register(json!({ "queues": { "mail": 1, "other": 2 } })).await;
            let mut said = Vec::new();
            for _ in 0..4 {
                let jobs = jobs_of(&site.turn(&worker, json!({ "done": said })).await);
                said = jobs.iter().map(|job| done(job, "complete")).collect();
                tokio::time::sleep(5 * MS).await;
            }
            site.turn(&worker, json!({ "done": said, "want": {} })).await;
            assert_eq!(site.state(id).await, JobState::Completed, "{} {limits:?}", site.name().await);
            site.work("DELETE", &format!("/{worker}"), Value::Null).await.is(204);
        }
    }
}

#[tokio::test]
async fn limits_that_change_are_kept_at_once() {
    for site in Site::all_stores().await {
        limit(&site, at_once(1)).await;
        enqueue(&site, 4).await;
        let worker = site.register(json!({ "queues": { "mail": 4 } })).await;
        assert_eq!(site.jobs(&worker).await.len(), 1);
        let (turn, ()) = tokio::join!(site.turn(&worker, json!({ "wait_s": 30 })), async {
            tokio::time::sleep(50 * MS).await;
            limit(&site, at_once(2)).await;
        });
        assert_eq!(jobs_of(&turn).len(), 1, "{}", site.name().await);
        let (turn, ()) = tokio::join!(site.turn(&worker, json!({ "wait_s": 30 })), async {
            tokio::time::sleep(50 * MS).await;
            limit(&site, QueueLimits::default()).await;
        });
        assert_eq!(jobs_of(&turn).len(), 2, "{}", site.name().await);
    }
}
