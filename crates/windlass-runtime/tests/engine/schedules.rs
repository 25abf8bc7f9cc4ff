//! Ticks of schedules fire once, on time, whoever leads and whatever dies.

use crate::fake::{Call, FakeStore, Fault, Handlers, config};
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};
use windlass_core::{
    Args, ErrorKind, JobFilter, JobRecord, JobState, JobStore, Missed, NewJob, Overlap, Schedule,
    ScheduleFilter, ScheduleRecord, ScheduleStore,
};
use windlass_runtime::{Context, EngineHandle, WorkerConfig, WorkerEngine};

const LONG: Duration = Duration::from_secs(10_000);

fn schedule(name: &str, cron: &str) -> Schedule {
    Schedule::new(name, cron, NewJob::new("k", Args::parse("{}").unwrap()).with_queue("q"))
}

async fn declare(store: &FakeStore, schedules: &[Schedule]) {
    store.put_schedules(schedules, None).await.unwrap();
}

async fn start(store: &FakeStore, handlers: Handlers) -> EngineHandle {
    start_with(store, config(50), handlers).await
}

async fn start_with(store: &FakeStore, config: WorkerConfig, handlers: Handlers) -> EngineHandle {
    WorkerEngine::start(store.shared(), config, Arc::new(handlers)).await.unwrap()
}

fn quick() -> Handlers {
    Handlers::default().on("k", |_| async {})
}

async fn record(store: &FakeStore, name: &str) -> ScheduleRecord {
    let filter = ScheduleFilter { name: Some(name.to_owned()), ..ScheduleFilter::default() };
    store.schedules(&filter).await.unwrap().remove(0)
}

/// Every job, and of which schedule and tick it is.
async fn fired(store: &FakeStore) -> Vec<(JobRecord, String, Timestamp)> {
    let mut fired = Vec::new();
    let mut filter = JobFilter::default();
    loop {
        let page = store.jobs(&filter).await.unwrap();
        for job in page.jobs {
            let meta: BTreeMap<String, String> =
                serde_json::from_str(job.meta.as_ref().expect("says its tick").as_str()).unwrap();
            let tick = meta["windlass.tick"].parse().unwrap();
            fired.push((job, meta["windlass.schedule"].clone(), tick));
        }
        match page.next {
            Some(next) => filter.after = Some(next),
            None => break,
        }
    }
    fired.sort_by_key(|(_, name, tick)| (name.clone(), *tick));
    fired
}

/// Fails unless the ticks of each schedule are a second apart, without a gap and without a double.
async fn assert_each_second_once(store: &FakeStore, schedules: usize, at_least: usize) {
    let mut by_name: BTreeMap<String, Vec<Timestamp>> = BTreeMap::new();
    for (_, name, tick) in fired(store).await {
        by_name.entry(name).or_default().push(tick);
    }
    assert_eq!(by_name.len(), schedules);
    for (name, ticks) in by_name {
        assert!(ticks.len() >= at_least, "{name}: {} ticks", ticks.len());
        for pair in ticks.windows(2) {
            assert_eq!(pair[1].duration_since(pair[0]).as_millis(), 1_000, "{name}: {pair:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ticks_fire_on_time() {
    let store = FakeStore::new();
    declare(&store, &[schedule("s", "* * * * * *")]).await;
    let engine = start(&store, quick()).await;
    sleep(Duration::from_secs(30)).await;
    engine.shutdown().await;
    assert_each_second_once(&store, 1, 27).await;
    for (job, _, tick) in fired(&store).await.into_iter().skip(1) {
        let late = job.enqueued_at.duration_since(tick).as_millis();
        assert!((0..50).contains(&late), "{late} ms late");
    }
}

/// The leader dies every few seconds without a word, and answers get lost; each tick fires once all the same.
#[tokio::test(start_paused = true)]
async fn each_tick_fires_once_over_deaths_of_leaders() {
    for seed in 0..20 {
        let store = FakeStore::new();
        fastrand::seed(seed);
        let ticking = |n| schedule(&format!("s{n}"), "every 1s").with_missed(Missed::All(1_000));
        declare(&store, &(0..5).map(ticking).collect::<Vec<_>>()).await;
        let random = std::sync::Mutex::new(fastrand::Rng::with_seed(seed));
        store.plan(move |call| match call {
            Call::Schedules => match random.lock().unwrap().u32(0..10) {
                0 => Fault::LoseReply,
                1 => Fault::Fail(ErrorKind::Unavailable),
                2 => Fault::Slow(Duration::from_millis(700)),
                _ => Fault::None,
            },
            _ => Fault::None,
        });
        let mut engines = Vec::new();
        for client in 1..12_usize {
            let config = WorkerConfig { lease: Duration::from_secs(5), ..config(50) };
            engines.push(start_with(&store.seen_by(client), config, quick()).await);
            sleep(Duration::from_millis(fastrand::u64(3_000..9_000))).await;
            if let Some(dies) = client.checked_sub(2).filter(|dies| *dies > 0) {
                store.kill(dies);
            }
        }
        // A dead leader's term has to end.
        sleep(Duration::from_secs(100)).await;
        assert_each_second_once(&store, 5, 120).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_heard_at_once() {
    let store = FakeStore::new();
    let engine = start(&store, quick()).await;
    sleep(Duration::from_secs(15)).await;
    declare(&store, &[schedule("s", "0 0 1 1 *")]).await;
    sleep(Duration::from_millis(100)).await;
    let planned = record(&store, "s").await;
    assert!(planned.next_tick.is_some(), "{planned:?}");
    let names = ["s".to_owned()];
    store.pause_schedules(&names, true).await.unwrap();
    declare(&store, &[schedule("s", "* * * * * *")]).await;
    sleep(Duration::from_secs(30)).await;
    assert!(fired(&store).await.is_empty());
    store.pause_schedules(&names, false).await.unwrap();
    // The clock begins anywhere in a second, so these 1.9 s hold one whole second or two.
    sleep(Duration::from_millis(1_900)).await;
    let fired = fired(&store).await;
    assert!((1..=2).contains(&fired.len()), "{fired:?}");
    assert!(fired.windows(2).all(|pair| pair[0].2 < pair[1].2), "{fired:?}");
    for (job, _, tick) in fired {
        let late = job.enqueued_at.duration_since(tick).as_millis();
        assert!((0..50).contains(&late), "{late} ms late");
    }
    engine.shutdown().await;
}

/// How many ticks of a minute fire, and how many jobs run at most at once, where each job takes 2.5 ticks.
async fn with_long_jobs(overlap: Overlap) -> (usize, usize) {
    let store = FakeStore::new();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let handlers = Handlers::default().on("k", {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        move |_: Context| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(25_000)).await;
                running.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
    declare(&store, &[schedule("s", "every 10s").with_overlap(overlap)]).await;
    let engine = start(&store, handlers).await;
    sleep(Duration::from_secs(301)).await;
    let count = fired(&store).await.len();
    engine.abort_now();
    engine.wait().await;
    (count, most.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn overlap_is_what_the_schedule_says() {
    let (fired, most) = with_long_jobs(Overlap::Allow).await;
    assert!((29..=31).contains(&fired) && most == 3, "{fired} fired, {most} at once");
    let (fired, most) = with_long_jobs(Overlap::Skip).await;
    assert!((10..=11).contains(&fired) && most == 1, "{fired} fired, {most} at once");
    let (fired, most) = with_long_jobs(Overlap::QueueOne).await;
    assert!((11..=13).contains(&fired) && most == 1, "{fired} fired, {most} at once");
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_schedule_is_marked_and_holds_up_nobody() {
    let store = FakeStore::new();
    let refused = schedule("b", "* * * * * *");
    declare(&store, &[schedule("a", "61 * * * *"), schedule("c", "* * * * * *"), refused]).await;
    let engine = start(&store, quick()).await;
    sleep(Duration::from_secs(20)).await;
    let marked = record(&store, "a").await;
    assert!(marked.error.as_deref().is_some_and(|error| error.contains("the minute field")), "{marked:?}");
    assert_eq!(marked.due_at, None);
    assert!(fired(&store).await.len() >= 30);
    declare(&store, &[schedule("a", "* * * * * *")]).await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(record(&store, "a").await.error, None);
    engine.shutdown().await;
}

/// Without schedules the leader looks once in ten seconds, and the others never.
#[tokio::test(start_paused = true)]
async fn a_store_without_schedules_is_asked_once_in_ten_seconds() {
    let store = FakeStore::new();
    let asked = Arc::new(AtomicUsize::new(0));
    store.plan({
        let asked = Arc::clone(&asked);
        move |call| {
            asked.fetch_add(usize::from(call == Call::Schedules), Ordering::SeqCst);
            Fault::None
        }
    });
    let mut engines = Vec::new();
    for client in 1..6 {
        engines.push(start(&store.seen_by(client), quick()).await);
    }
    sleep(Duration::from_secs(1_000)).await;
    let asked = asked.load(Ordering::SeqCst);
    assert!((80..=130).contains(&asked), "{asked} looks in 1,000 seconds");
}

/// One that somebody has locked for minutes is asked for about once in a second, and holds up no other; when it is free it goes on.
#[tokio::test(start_paused = true)]
async fn a_locked_schedule_is_not_polled() {
    let store = FakeStore::new();
    let asked = Arc::new(AtomicUsize::new(0));
    store.plan({
        let asked = Arc::clone(&asked);
        move |call| {
            asked.fetch_add(usize::from(call == Call::Schedules), Ordering::SeqCst);
            Fault::None
        }
    });
    declare(&store, &[schedule("locked", "* * * * * *"), schedule("other", "every 10s")]).await;
    store.model().locked_schedule = Some("locked".to_owned());
    let engine = start(&store, quick()).await;
    sleep(Duration::from_secs(200)).await;
    let before = fired(&store).await;
    assert!(before.len() >= 18 && before.iter().all(|(_, name, _)| name == "other"), "{before:?}");
    for (job, _, tick) in &before[1..] {
        let late = job.enqueued_at.duration_since(*tick).as_millis();
        assert!((0..50).contains(&late), "{late} ms late");
    }
    // A look and a step that is refused, for each.
    let asked = asked.load(Ordering::SeqCst);
    assert!((300..=600).contains(&asked), "{asked} calls in 200 seconds");
    store.model().locked_schedule = None;
    sleep(Duration::from_secs(10)).await;
    let locked = fired(&store).await.into_iter().filter(|(_, name, _)| name == "locked").count();
    assert!((9..=11).contains(&locked), "{locked} ticks");
    engine.shutdown().await;
}

/// Who has more schedules locked than a look brings holds up no other: a transaction that declares hundreds anew, and stays open.
#[tokio::test(start_paused = true)]
async fn many_locked_schedules_hold_up_no_other() {
    let store = FakeStore::new();
    let mut schedules: Vec<_> = (0..600).map(|n| schedule(&format!("locked{n}"), "* * * * * *")).collect();
    schedules.push(schedule("other", "every 10s"));
    declare(&store, &schedules).await;
    store.model().locked_schedule = Some("locked".to_owned());
    let engine = start(&store, quick()).await;
    sleep(Duration::from_secs(60)).await;
    let before = fired(&store).await;
    assert!(before.len() >= 4 && before.iter().all(|(_, name, _)| name == "other"), "{} ticks", before.len());
    // Those that come first are found by looks that grow.
    for (job, _, tick) in &before[1..] {
        let late = job.enqueued_at.duration_since(*tick).as_millis();
        assert!((0..50).contains(&late), "{late} ms late");
    }
    store.model().locked_schedule = None;
    sleep(Duration::from_secs(5)).await;
    let names: std::collections::HashSet<_> =
        fired(&store).await.into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(names.len(), 601);
    engine.shutdown().await;
}

/// A clock that is set forward misses ticks, one that is set back fires none again.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_fires_nothing_twice() {
    let store = FakeStore::new();
    declare(
        &store,
        &[schedule("last", "every 1s"), schedule("all", "every 1s").with_missed(Missed::All(100))],
    )
    .await;
    let engine = start(&store, quick()).await;
    sleep(Duration::from_secs(10)).await;
    let before = fired(&store).await.len();
    store.clock().advance(Duration::from_secs(60));
    sleep(Duration::from_secs(11)).await;
    let after = fired(&store).await;
    // The last of the minute, and all of it; then 11 seconds of both, of which the look may have come late.
    let caught_up = after.len() - before;
    assert!((60 + 1..=60 + 26).contains(&caught_up), "{caught_up}");
    let mut ticks: Vec<_> = after.iter().map(|(_, name, tick)| (name, tick)).collect();
    let count = ticks.len();
    ticks.dedup();
    assert_eq!(ticks.len(), count);
    let began = Instant::now();
    engine.shutdown().await;
    assert!(began.elapsed() < LONG);
    assert!(fired(&store).await.iter().all(|(job, ..)| job.state != JobState::Discarded));
}
