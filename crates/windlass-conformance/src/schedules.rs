//! Schedules: declared by name from anywhere, and each step taken once, whoever decides.

use crate::{Fixture, steps::*};
use jiff::{SignedDuration, Timestamp};
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Args, DueSchedules, JobId, JobState, Limits, Missed, NewJob, Overlap, Schedule, ScheduleFilter,
    SchedulePut, ScheduleRecord, ScheduleStep, Store,
};

fn daily(name: &str) -> Schedule {
    Schedule::new(name, "@daily", job())
}

async fn put(store: &Arc<dyn Store>, schedules: &[Schedule]) -> Vec<SchedulePut> {
    store.put_schedules(schedules, None).await.expect("put_schedules").puts
}

async fn find(store: &Arc<dyn Store>, name: &str) -> Option<ScheduleRecord> {
    let filter = ScheduleFilter { name: Some(name.to_owned()), ..ScheduleFilter::default() };
    store.schedules(&filter).await.expect("schedules").pop()
}

async fn get(store: &Arc<dyn Store>, name: &str) -> ScheduleRecord {
    find(store, name).await.expect("the schedule is there")
}

async fn due(store: &Arc<dyn Store>) -> DueSchedules {
    store.due_schedules(100).await.expect("due_schedules")
}

async fn advance(store: &Arc<dyn Store>, steps: &[ScheduleStep]) -> Vec<Option<Vec<JobId>>> {
    store.advance_schedules(steps).await.expect("advance_schedules")
}

/// A step that fires the tick of right now, and is next due in so many seconds.
fn fire(record: &ScheduleRecord, now: Timestamp, next_seconds: i64) -> ScheduleStep {
    let mut step = ScheduleStep::of(record);
    let next = now + SignedDuration::from_secs(next_seconds);
    (step.decided, step.last_tick) = (now, Some(now));
    (step.next_tick, step.due_at) = (Some(next), Some(next));
    step.jobs = vec![record.schedule().expect("it can be read").job_at(Some(now))];
    step
}

fn names(records: &[ScheduleRecord]) -> Vec<&str> {
    records.iter().map(|record| &*record.name).collect()
}

/// What was declared is listed by name, page by page, as it was declared.
pub async fn what_is_declared_is_listed(fixture: &dyn Fixture) {
    let (store, reader) = (fixture.open().await, fixture.open().await);
    let mail = NewJob::new("mail", Args::parse(r#"{"b":1, "a":[1.50,"ä\"é"]}"#).expect("valid JSON"))
        .with_queue("mail")
        .with_priority(-3)
        .with_max_attempts(7)
        .with_key("acme")
        .with_expiry(Duration::from_secs(90));
    let whole = Schedule::new("b", "*/5 9-17 * * MON-FRI", mail)
        .with_zone("Europe/Berlin")
        .with_start("2026-01-01T00:00:00Z".parse().expect("a time"))
        .with_end("2036-01-01T00:00:00Z".parse().expect("a time"))
        .with_jitter(Duration::from_secs(30))
        .with_overlap(Overlap::QueueOne)
        .with_missed(Missed::All(7))
        .with_source("app");
    let all = [daily("é"), whole.clone(), daily("a"), daily("Z").with_source("app")];
    assert_eq!(put(&store, &all).await, [SchedulePut::Created; 4]);

    let mut listed = Vec::new();
    let mut filter = ScheduleFilter { limit: 3, ..ScheduleFilter::default() };
    loop {
        let page = reader.schedules(&filter).await.expect("schedules");
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        filter.after = Some(last.name.clone());
        listed.extend(page);
    }
    assert_eq!(names(&listed), ["Z", "a", "b", "é"], "in the order of bytes");
    let of_source = ScheduleFilter { source: Some("app".to_owned()), ..ScheduleFilter::default() };
    assert_eq!(names(&reader.schedules(&of_source).await.expect("schedules")), ["Z", "b"]);
    let again = listed[2].schedule().expect("it can be read");
    assert_eq!((again.to_json(), again.source()), (whole.to_json(), "app"));
    assert!(
        listed.iter().all(|record| !record.paused && record.last_job.is_none() && record.error.is_none())
    );
    assert!(find(&reader, "nobody").await.is_none());
}

/// Declaring the same again changes nothing; another definition takes its place, and keeps what was decided.
pub async fn declaring_again_changes_what_is_another(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    put(&store, &[daily("s")]).await;
    let now = due(&store).await;
    let step = fire(&now.due[0], now.now, 3_600);
    assert!(advance(&store, &[step]).await[0].is_some());
    let before = get(&store, "s").await;
    assert_eq!(put(&other, &[daily("s")]).await, [SchedulePut::Unchanged]);
    let after = get(&store, "s").await;
    assert_eq!(
        (after.version, after.next_tick, after.due_at),
        (before.version, before.next_tick, before.due_at)
    );

    let louder = daily("s").with_job(job().with_priority(-1));
    assert_eq!(put(&other, std::slice::from_ref(&louder)).await, [SchedulePut::Changed]);
    let changed = get(&store, "s").await;
    assert_ne!(changed.version, before.version);
    assert_eq!(
        (changed.decided, changed.last_job),
        (before.decided, before.last_job),
        "the ticks are the same"
    );
    assert_eq!(names(&due(&store).await.due), ["s"], "to be decided anew");

    let hourly = Schedule::new("s", "@hourly", louder.job().clone());
    assert_eq!(put(&other, std::slice::from_ref(&hourly)).await, [SchedulePut::Changed]);
    let moved = get(&store, "s").await;
    assert!(moved.decided > before.decided, "other ticks count from now");
    assert_eq!(moved.next_tick, None);
    assert_eq!(put(&other, &[hourly.with_source("app")]).await, [SchedulePut::Changed]);
    assert_eq!(get(&store, "s").await.source, "app");
}

/// A call with one bad schedule declares none.
pub async fn a_bad_one_declares_none(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for bad in [
        daily("a b"),
        daily(""),
        daily("a"),
        daily("b").with_missed(Missed::All(0)),
        daily("b").with_job(job().with_delay(LATER)),
        daily("b").with_job(job().with_queue("a b")),
        daily(&"n".repeat(201)),
    ] {
        let error = store.put_schedules(&[daily("a"), bad], None).await.expect_err("a bad one");
        assert!(error.is_invalid_input(), "{error}");
        assert!(find(&store, "a").await.is_none());
    }
    assert!(put(&store, &[]).await.is_empty());
}

/// What a source declares no longer is removed when it says so, and nothing else.
pub async fn pruning_removes_what_its_source_declares_no_longer(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let app = |name: &str| daily(name).with_source("app");
    put(&store, &[app("a"), app("b"), app("c"), daily("d"), daily("e").with_source("other")]).await;
    let put = store.put_schedules(&[app("b"), app("f")], Some("app")).await.expect("put_schedules");
    assert_eq!(put.puts, [SchedulePut::Unchanged, SchedulePut::Created]);
    assert_eq!(put.pruned, ["a", "c"]);
    let left = store.schedules(&ScheduleFilter::default()).await.expect("schedules");
    assert_eq!(names(&left), ["b", "d", "e", "f"]);
    let put = store.put_schedules(&[], Some("app")).await.expect("put_schedules");
    assert_eq!(put.pruned, ["b", "f"]);
    let put = store.put_schedules(&[], Some("")).await.expect("put_schedules");
    assert!(put.pruned.is_empty(), "those of nobody are nobody's to prune");
    let removed = store.remove_schedules(&["d".to_owned(), "d".to_owned(), "x".to_owned()]).await;
    assert_eq!(removed.expect("remove_schedules"), [true, false, false]);
    assert_eq!(names(&store.schedules(&ScheduleFilter::default()).await.expect("schedules")), ["e"]);
}

/// Many processes that declare the same when they start make each schedule once, whatever their order.
pub async fn many_declare_at_once(fixture: &dyn Fixture) {
    let mut tasks = Vec::new();
    for n in 0..8 {
        let store = fixture.open().await;
        tasks.push(tokio::spawn(async move {
            let mut schedules: Vec<_> = (0..20).map(|i| daily(&format!("s{i}"))).collect();
            schedules.rotate_left(n * 2);
            store.put_schedules(&schedules, Some("app")).await.expect("put_schedules").puts
        }));
    }
    let mut created = 0;
    for task in tasks {
        let puts = task.await.expect("declares");
        created += puts.iter().filter(|put| **put == SchedulePut::Created).count();
        assert!(!puts.contains(&SchedulePut::Changed), "{puts:?}");
    }
    assert_eq!(created, 20);
}

/// Of programs that declare all of one source differently at once what one of them declared is left.
pub async fn who_prunes_does_so_alone(fixture: &dyn Fixture) {
    let of = |n: usize| (0..12).map(move |i| format!("s{:02}", (n * 5 + i) % 20));
    let mut tasks = Vec::new();
    for n in 0..8 {
        let store = fixture.open().await;
        tasks.push(tokio::spawn(async move {
            let schedules: Vec<_> = of(n).map(|name| daily(&name).with_source("app")).collect();
            store.put_schedules(&schedules, Some("app")).await.expect("put_schedules");
        }));
    }
    for task in tasks {
        task.await.expect("declares");
    }
    let listed = fixture.open().await.schedules(&ScheduleFilter::default()).await.expect("schedules");
    let is_left = |n| {
        let mut declared: Vec<_> = of(n).collect();
        declared.sort();
        names(&listed) == declared
    };
    assert!((0..8).any(is_left), "{:?}", names(&listed));
}

/// A step enqueues its jobs and notes what was decided, once: taken again it does nothing.
pub async fn a_step_is_taken_once(fixture: &dyn Fixture) {
    let (store, reader) = (fixture.open().await, fixture.open().await);
    let late = job().with_key("acme").with_expiry(LATER);
    put(&store, &[Schedule::new("s", "@daily", late)]).await;
    let asked = due(&store).await;
    assert_eq!(names(&asked.due), ["s"], "a new one is to be decided");
    assert!(asked.due[0].decided <= asked.now);
    let step = fire(&asked.due[0], asked.now, 3_600);
    let ids = advance(&store, std::slice::from_ref(&step)).await.remove(0).expect("taken");
    assert_eq!(ids.len(), 1);

    let stored = record(&reader, ids[0]).await;
    assert_eq!(
        (stored.state, stored.kind.as_str(), stored.queue.as_str()),
        (JobState::Available, KIND, QUEUE)
    );
    assert_eq!(stored.key.as_deref(), Some("acme"));
    assert!(stored.expires_at.is_some_and(|at| at > asked.now), "counted from when it was enqueued");
    let meta = stored.meta.expect("says of which tick it is");
    assert!(meta.as_str().contains(r#""windlass.schedule":"s""#), "{meta:?}");

    let after = get(&reader, "s").await;
    assert_eq!((after.decided, after.last_tick), (asked.now, Some(asked.now)));
    assert_eq!((after.next_tick, after.due_at), (step.next_tick, step.due_at));
    assert_eq!(after.last_job, Some(ids[0]));
    assert!(after.last_enqueued_at.is_some());
    assert_ne!(after.version, step.version);
    assert!(due(&store).await.due.is_empty());
    assert_eq!(advance(&store, &[step]).await, [None]);
    let mut broken = ScheduleStep::of(&after);
    (broken.error, broken.due_at) = (Some("no \"such\" field".to_owned()), None);
    assert_eq!(advance(&store, &[broken]).await, [Some(vec![])]);
    let broken = get(&reader, "s").await;
    assert_eq!(broken.error.as_deref(), Some("no \"such\" field"));
    assert_eq!(broken.last_job, Some(ids[0]), "a step without a job leaves the last one");
    assert_eq!(worker_on(&store).await.drain(10).await.len(), 1);
}

/// Of many who decide the same at once, one takes the step.
pub async fn many_decide_and_one_fires(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let schedules: Vec<_> = (0..20).map(|i| daily(&format!("s{i}"))).collect();
    put(&store, &schedules).await;
    let mut tasks = Vec::new();
    for n in 0..6 {
        let store = fixture.open().await;
        tasks.push(tokio::spawn(async move {
            let asked = due(&store).await;
            let mut steps: Vec<_> = asked.due.iter().map(|record| fire(record, asked.now, 3_600)).collect();
            if n % 2 == 1 {
                steps.reverse();
            }
            advance(&store, &steps).await.into_iter().flatten().flatten().count()
        }));
    }
    let mut fired = 0;
    for task in tasks {
        fired += task.await.expect("decides");
    }
    assert_eq!(fired, 20);
    assert_eq!(worker_on(&store).await.drain(100).await.len(), 20);
}

/// A step that was decided before the schedule was changed, paused, or removed and made again is not taken.
pub async fn a_changed_schedule_takes_no_old_step(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let name = ["s".to_owned()];
    put(&store, &[daily("s")]).await;
    for change in 0..4 {
        let asked = due(&store).await;
        let step = fire(&asked.due[0], asked.now, 3_600);
        match change {
            0 => drop(put(&store, &[daily("s").with_job(job().with_priority(5))]).await),
            1 => {
                store.pause_schedules(&name, true).await.expect("pause_schedules");
                store.pause_schedules(&name, false).await.expect("pause_schedules");
            }
            2 => {
                store.remove_schedules(&name).await.expect("remove_schedules");
                put(&store, &[daily("s")]).await;
            }
            _ => drop(store.remove_schedules(&name).await.expect("remove_schedules")),
        }
        assert_eq!(advance(&store, &[step]).await, [None], "change {change}");
    }
    assert!(worker_on(&store).await.drain(10).await.is_empty());
}

/// A paused schedule is never due; it goes on with what comes after the pause. A pause outlasts a declaration.
pub async fn a_paused_schedule_is_never_due(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    let pause = async |paused| {
        let names = ["s".to_owned(), "nobody".to_owned()];
        other.pause_schedules(&names, paused).await.expect("pause_schedules")
    };
    put(&store, &[daily("s")]).await;
    assert_eq!(pause(true).await, [true, false]);
    assert!(due(&store).await.due.is_empty());
    let before = get(&store, "s").await;
    assert!(before.paused);
    assert_eq!(pause(true).await, [true, false]);
    assert_eq!(get(&store, "s").await.version, before.version, "it was paused already");
    assert_eq!(put(&store, &[daily("s")]).await, [SchedulePut::Unchanged]);
    assert_eq!(put(&store, &[Schedule::new("s", "@hourly", job())]).await, [SchedulePut::Changed]);
    assert!(get(&store, "s").await.paused && due(&store).await.due.is_empty());
    assert_eq!(pause(false).await, [true, false]);
    let after = get(&store, "s").await;
    assert!(!after.paused && after.decided > before.decided, "what fell into the pause is over");
    assert_eq!(names(&due(&store).await.due), ["s"]);
}

/// A tick that waits for the job before it was due before the pause: it waits on, and is decided when the schedule goes on.
pub async fn a_pause_keeps_the_queued_tick(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    put(&store, &[daily("s").with_overlap(Overlap::QueueOne)]).await;
    let asked = due(&store).await;
    let mut step = fire(&asked.due[0], asked.now, 3_600);
    step.queued_tick = Some(asked.now);
    assert!(advance(&store, &[step]).await[0].is_some());
    for paused in [true, false] {
        store.pause_schedules(&["s".to_owned()], paused).await.expect("pause_schedules");
        assert_eq!(get(&store, "s").await.queued_tick, Some(asked.now), "paused: {paused}");
        assert_eq!(due(&store).await.due.is_empty(), paused);
    }
}

/// The longest due comes first, at most as many as were asked for, and who asks is told when the next is due.
pub async fn the_longest_due_comes_first(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    assert_eq!(due(&store).await.next_due, None);
    put(&store, &[daily("a"), daily("b"), daily("c"), daily("d"), daily("e")]).await;
    let asked = due(&store).await;
    assert_eq!(asked.due.len(), 5);
    let seconds = [("a", -10), ("b", -30), ("c", -20), ("d", 3_000), ("e", 7_000)];
    let put_off = |record: &ScheduleRecord| {
        let found = seconds.iter().find(|(name, _)| *name == record.name).expect("known");
        let mut step = ScheduleStep::of(record);
        step.due_at = Some(asked.now + SignedDuration::from_secs(found.1));
        step
    };
    let steps: Vec<_> = asked.due.iter().map(put_off).collect();
    assert!(advance(&store, &steps).await.iter().all(Option::is_some));
    let asked = due(&store).await;
    assert_eq!(names(&asked.due), ["b", "c", "a"]);
    let next = asked.next_due.expect("two wait");
    assert!(next <= Duration::from_secs(3_000) && next > Duration::from_secs(2_900), "{next:?}");
    let two = store.due_schedules(2).await.expect("due_schedules");
    assert_eq!(names(&two.due), ["b", "c"]);
}

/// One bad job, and no step of the call is taken.
pub async fn a_bad_job_takes_no_step(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    put(&store, &[daily("a"), daily("b")]).await;
    let asked = due(&store).await;
    let mut steps: Vec<_> = asked.due.iter().map(|record| fire(record, asked.now, 3_600)).collect();
    steps[1].jobs[0] = job().with_priority(Limits::PRIORITY_MAX + 1);
    let error = store.advance_schedules(&steps).await.expect_err("a bad job");
    assert!(error.is_invalid_input(), "{error}");
    assert_eq!(due(&store).await.due.len(), 2);
    assert!(worker_on(&store).await.drain(10).await.is_empty());
}

/// A step may fire several ticks, and a call may take steps of many schedules and queues: each job in its place.
pub async fn many_steps_in_one_call(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let on =
        |n: usize| NewJob::new(KIND, args(n)).with_queue(format!("q{}", n % 3)).with_priority((n % 2) as i16);
    let schedules: Vec<_> = (0..50).map(|n| Schedule::new(format!("s{n:02}"), "@daily", on(n))).collect();
    put(&store, &schedules).await;
    let asked = due(&store).await;
    assert_eq!(asked.due.len(), 50);
    let several = |(n, record): (usize, &ScheduleRecord)| {
        let mut step = fire(record, asked.now, 3_600);
        step.jobs = vec![step.jobs[0].clone(); n % 4];
        step
    };
    let steps: Vec<_> = asked.due.iter().enumerate().map(several).collect();
    let taken = advance(&store, &steps).await;
    for (step, ids) in steps.iter().zip(&taken) {
        let ids = ids.as_ref().expect("taken");
        assert_eq!(ids.len(), step.jobs.len());
        assert_eq!(get(&store, &step.name).await.last_job, ids.last().copied());
        for id in ids {
            let stored = record(&store, *id).await;
            assert_eq!(stored.args, *step.jobs[0].args());
            assert_eq!(
                (stored.queue.as_str(), stored.priority),
                (step.jobs[0].queue(), step.jobs[0].priority())
            );
        }
    }
}

/// Who listens is told of every change.
pub async fn changes_are_told(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    let told = Arc::new(tokio::sync::Notify::new());
    let mut wakeup = store.wakeup();
    wakeup.on_request(Arc::new(|_| {}));
    wakeup.on_schedules(Arc::new({
        let told = Arc::clone(&told);
        move || told.notify_one()
    }));
    let name = ["s".to_owned()];
    // From when on a store listens is its own affair.
    eventually("somebody is told", || async {
        other.remove_schedules(&name).await.expect("remove_schedules");
        put(&other, &[daily("s")]).await;
        tokio::time::timeout(Duration::from_millis(50), told.notified()).await.ok()
    })
    .await;
    for change in 0..4 {
        // What was told of the change before may come late, so this only asks that something is told.
        match change {
            0 => drop(put(&other, &[Schedule::new("s", "@hourly", job())]).await),
            1 => drop(other.pause_schedules(&name, true).await.expect("pause_schedules")),
            2 => drop(other.pause_schedules(&name, false).await.expect("pause_schedules")),
            _ => drop(other.remove_schedules(&name).await.expect("remove_schedules")),
        }
        tokio::time::timeout(DEADLINE, told.notified()).await.expect("told");
    }
}
