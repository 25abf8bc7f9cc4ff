//! Lanes and queues that nobody uses any more are removed, their numbers are used again, and no job is lost with them.

use crate::{
    fixture::{Fixture, Held, LEASE, completion, exception, jobs},
    keys::at_once,
};
use rusqlite::Connection;
use std::{collections::BTreeSet, time::Duration};
use windlass_core::{
    Args, ClaimRequest, Disposition, ErrorKind, EventCursor, EventRequest, JobId, JobSet, JobState, JobStore,
    KeyLimitsChange, NewJob, QueueDemand, QueueLimits, RetentionRule, Schedule, ScheduleStore, Settings,
    WorkerId, WorkerSpec,
};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3_600);

pub(crate) fn job_of(queue: &str) -> NewJob {
    NewJob::new("test", Args::parse("{}").unwrap()).with_queue(queue.to_owned())
}

pub(crate) async fn add_to(store: &impl JobStore, queue: &str) -> JobId {
    store.enqueue(&[job_of(queue)]).await.unwrap()[0]
}

pub(crate) async fn worker_of(store: &impl JobStore, queues: &[String]) -> WorkerId {
    let spec = WorkerSpec {
        name: "test".into(),
        queues: queues.to_vec(),
        kinds: vec![],
        lease: LEASE,
        program: Default::default(),
    };
    store.register(&spec).await.unwrap().worker
}

/// Runs what these queues have. The ids.
pub(crate) async fn run(store: &impl JobStore, queues: &[String]) -> Vec<JobId> {
    let worker = worker_of(store, queues).await;
    let mut ran = Vec::new();
    for queue in queues {
        let demand = ClaimRequest { worker, queues: vec![QueueDemand::new(queue.clone(), 100)] };
        for claim in store.claim(&demand).await.unwrap().claims {
            store.settle(&completion(worker, &claim, JobSet::Rest)).await.unwrap();
            ran.extend(claim.jobs.iter().map(|job| job.id));
        }
    }
    store.deregister(worker).await.unwrap();
    ran
}

/// Lets so much time pass, with a look at its end.
pub(crate) async fn later(f: &Fixture, time: Duration) {
    f.advance(time);
    f.maintain().await.unwrap();
}

/// All that is done goes at once.
pub(crate) async fn keep_nothing(f: &Fixture) {
    let nothing = Settings::DEFAULT.with_retention(Duration::ZERO).with_dead_retention(Duration::ZERO);
    f.configure(&nothing).await.unwrap();
}

pub(crate) fn sql(f: &Fixture) -> Connection {
    Connection::open(f.path()).unwrap()
}

fn lanes(f: &Fixture) -> BTreeSet<i64> {
    let conn = sql(f);
    let mut find = conn.prepare("SELECT id FROM lane").unwrap();
    find.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

async fn queues(f: &Fixture) -> Vec<String> {
    f.queues().await.unwrap().into_iter().map(|queue| queue.name).collect()
}

fn named(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{name}.{n:03}")).collect()
}

#[tokio::test]
async fn queues_vanish_and_their_numbers_come_again() {
    let f = Fixture::new();
    keep_nothing(&f).await;
    let first = named("first", 200);
    for queue in &first {
        add_to(&f.store, queue).await;
    }
    assert_eq!(run(&f.store, &first).await.len(), 200);
    f.maintain().await.unwrap();
    let numbers = lanes(&f);
    assert_eq!(numbers.len(), 200);
    later(&f, 2 * DAY - HOUR).await;
    assert_eq!(queues(&f).await, first, "not yet");
    later(&f, HOUR).await;
    assert!(queues(&f).await.is_empty() && lanes(&f).is_empty());

    let again = named("again", 200);
    let mut added = Vec::new();
    for queue in &again {
        added.push(add_to(&f.store, queue).await);
    }
    assert_eq!(lanes(&f), numbers);
    assert_eq!(run(&f.store, &again).await, added);
}

#[tokio::test]
async fn a_handle_that_remembers_a_removed_lane_writes_into_a_new_one() {
    let f = Fixture::new();
    keep_nothing(&f).await;
    let (other, a, b) = (f.another(), ["a".to_owned()], ["b".to_owned()]);
    add_to(&other, "a").await;
    run(&f.store, &a).await;
    f.maintain().await.unwrap();
    later(&f, 2 * DAY).await;
    assert!(queues(&f).await.is_empty());
    // Once with nothing in its place, once with another queue's lane.
    let id = add_to(&other, "a").await;
    assert_eq!(run(&f.store, &a).await, [id]);
    later(&f, HOUR).await;
    later(&f, 2 * DAY).await;
    assert!(queues(&f).await.is_empty());
    let (of_b, of_a) = (add_to(&f.store, "b").await, add_to(&other, "a").await);
    assert_eq!(run(&other, &b).await, [of_b]);
    assert_eq!(run(&f.store, &a).await, [of_a]);
}

/// In one group with the look that removes the lane, too: the writer's own memory.
#[tokio::test]
async fn jobs_that_come_with_the_removal_are_not_lost() {
    let f = Fixture::new();
    keep_nothing(&f).await;
    let a = ["a".to_owned()];
    for _ in 0..20 {
        add_to(&f.store, "a").await;
        run(&f.store, &a).await;
        later(&f, HOUR).await;
        f.advance(2 * DAY);
        let (removed, id) = tokio::join!(f.maintain(), add_to(&f.store, "a"));
        removed.unwrap();
        assert_eq!(run(&f.store, &a).await, [id]);
    }
}

async fn except(f: &Fixture, queue: &str, disposition: Disposition) {
    let worker = worker_of(&f.store, &[queue.to_owned()]).await;
    let demand = ClaimRequest { worker, queues: vec![QueueDemand::new(queue.to_owned(), 1)] };
    let claim = f.claim(&demand).await.unwrap().claims.remove(0);
    let held = Held { claim: claim.reference, job: claim.jobs.into_iter().next().unwrap() };
    f.settle(&exception(worker, &held, disposition)).await.unwrap();
    f.deregister(worker).await.unwrap();
}

#[tokio::test]
async fn a_queue_with_a_job_in_any_state_stays() {
    let f = Fixture::new();
    // Events are told of for three days.
    f.configure(&Settings::DEFAULT.with_retention(3 * DAY).with_dead_retention(100 * DAY)).await.unwrap();
    add_to(&f.store, "gone").await;
    run(&f.store, &["gone".into()]).await;
    later(&f, 3 * DAY).await;
    let states = ["available", "cancelled", "completed", "discarded", "no_handler", "retryable", "running"];
    for queue in states {
        add_to(&f.store, queue).await;
    }
    let scheduled = job_of("scheduled").with_delay(100 * DAY);
    f.enqueue(&[scheduled]).await.unwrap();
    except(&f, "cancelled", Disposition::Cancel { reason: "x".into() }).await;
    except(&f, "discarded", Disposition::Discard { error: "x".into(), failed: true }).await;
    except(&f, "retryable", Disposition::Retry { delay: 100 * DAY, error: "x".into() }).await;
    except(&f, "no_handler", Disposition::NoHandler).await;
    run(&f.store, &["completed".into()]).await;
    let running = worker_of(&f.store, &["running".into()]).await;
    let demand = ClaimRequest { worker: running, queues: vec![QueueDemand::new("running", 1)] };
    let claim = f.claim(&demand).await.unwrap().claims.remove(0);
    later(&f, Duration::ZERO).await;
    assert!(queues(&f).await.contains(&"gone".to_owned()));
    later(&f, 60 * HOUR).await;
    let mut stay: Vec<_> = states.iter().map(|queue| (*queue).to_owned()).collect();
    stay.push("scheduled".to_owned());
    assert_eq!(queues(&f).await, stay);
    assert_eq!(lanes(&f).len(), 8);
    // When nothing is told of them any more it is the jobs that keep them.
    later(&f, 4 * DAY).await;
    assert_eq!((queues(&f).await, lanes(&f).len()), (stay, 8));
    f.settle(&completion(running, &claim, JobSet::Rest)).await.unwrap();
    assert_eq!(run(&f.store, &["available".into()]).await.len(), 1);
}

#[tokio::test]
async fn a_queue_with_a_setting_a_schedule_or_a_worker_stays() {
    let f = Fixture::new();
    keep_nothing(&f).await;
    let all = ["gone", "keyed", "limited", "paused", "rule", "schedule", "worker"].map(str::to_owned);
    for queue in &all {
        add_to(&f.store, queue).await;
    }
    run(&f.store, &all).await;
    f.pause("paused", true).await.unwrap();
    f.limit("limited", &QueueLimits::default().with_concurrency(3)).await.unwrap();
    f.limit_keys("keyed", &KeyLimitsChange::Default(at_once(2))).await.unwrap();
    let rule = RetentionRule::of("rule", JobState::Completed).with_age(Duration::ZERO);
    f.set_retention(&[rule]).await.unwrap();
    f.put_schedules(&[Schedule::new("s", "@daily", job_of("schedule"))], None).await.unwrap();
    let worker = worker_of(&f.store, &["worker".into()]).await;
    for _ in 0..5 {
        later(&f, DAY).await;
    }
    assert_eq!(queues(&f).await, all[1..]);
    // Without all that they go, two days later; the lane of a keyed queue stayed for its keys alone.
    f.pause("paused", false).await.unwrap();
    f.limit("limited", &QueueLimits::default()).await.unwrap();
    f.limit_keys("keyed", &KeyLimitsChange::Off).await.unwrap();
    f.set_retention(&[RetentionRule::of("rule", JobState::Completed)]).await.unwrap();
    f.remove_schedules(&["s".into()]).await.unwrap();
    f.deregister(worker).await.unwrap();
    later(&f, DAY).await;
    assert_eq!(queues(&f).await, all[2..]);
    later(&f, 2 * DAY).await;
    assert!(queues(&f).await.is_empty(), "{:?}", queues(&f).await);
}

#[tokio::test]
async fn use_between_two_looks_counts() {
    let f = Fixture::new();
    keep_nothing(&f).await;
    add_to(&f.store, "a").await;
    run(&f.store, &["a".into()]).await;
    f.maintain().await.unwrap();
    f.advance(DAY);
    let id = add_to(&f.store, "a").await;
    f.delete(&[id]).await.unwrap();
    later(&f, DAY).await;
    assert_eq!(lanes(&f).len(), 1);
    later(&f, 2 * DAY).await;
    assert_eq!(lanes(&f).len(), 0);
}

#[tokio::test]
async fn a_lane_stays_while_events_tell_of_it() {
    let f = Fixture::new();
    let keep = Settings::DEFAULT.with_retention(5 * DAY).with_dead_retention(5 * DAY);
    f.configure(&keep).await.unwrap();
    let id = add_to(&f.store, "a").await;
    f.delete(&[id]).await.unwrap();
    f.maintain().await.unwrap();
    later(&f, 3 * DAY).await;
    let page = f.events(&EventRequest::after(EventCursor::start())).await.unwrap();
    assert!(page.events.len() == 2 && page.events.iter().all(|event| &*event.queue == "a"), "{page:?}");
    later(&f, 3 * DAY).await;
    assert!(queues(&f).await.is_empty());
    f.events(&EventRequest::after(EventCursor::start())).await.unwrap();
}

#[tokio::test]
async fn the_most_lanes_are_no_end_where_some_are_idle() {
    let f = Fixture::new();
    keep_nothing(&f).await;
    // All but the first thousand have a job, as far as anyone can tell.
    sql(&f)
        .execute_batch(
            "BEGIN;
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 132)
                INSERT INTO queue (id, name) SELECT n, 'q' || n FROM n;
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 131071)
                INSERT INTO lane (id, queue, priority, cursor, scheduled) SELECT 2 * n, 1 + n / 1000, n % 1000, (2 * n) << 45, n > 1000 FROM n;
            COMMIT",
        )
        .unwrap();
    let error = f.enqueue(&jobs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("131071 queues and priorities"), "{error}");
    f.maintain().await.unwrap();
    later(&f, 2 * DAY).await;
    let many = named("new", 1_000);
    let added = f.enqueue(&many.iter().map(|queue| job_of(queue)).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(lanes(&f).len(), 131_071);
    assert_eq!(run(&f.store, &many).await, added);
    assert_eq!(f.enqueue(&jobs(1)).await.unwrap_err().kind(), ErrorKind::InvalidOption);
}
