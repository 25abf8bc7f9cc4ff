//! Counters: each end of an attempt is counted once, in the minute, queue, kind and outcome that the events tell of.

use crate::{Fixture, steps::*};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use windlass_core::{
    Completion, Count, Disposition, ErrorKind, EventCursor, EventRequest, EventType, History, HistoryRequest,
    JobId, JobSet, Settings, Store,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Minute, queue, kind, outcome.
type Of = (i64, Option<String>, Option<String>, EventType);

/// What housekeeping has counted by now.
async fn counted(store: &Arc<dyn Store>) -> BTreeMap<Of, u64> {
    store.maintain().await.expect("maintain");
    table(&read(store, HistoryRequest::last(HOUR)).await)
}

async fn read(store: &Arc<dyn Store>, request: HistoryRequest) -> History {
    store.history(&request).await.expect("history")
}

fn table(history: &History) -> BTreeMap<Of, u64> {
    let of = |count: &Count| (count.at.as_second(), count.queue.clone(), count.kind.clone(), count.outcome);
    let table: BTreeMap<Of, u64> = history.counts.iter().map(|count| (of(count), count.count)).collect();
    assert_eq!(table.len(), history.counts.len(), "each once");
    table
}

/// What the events say.
async fn told(store: &Arc<dyn Store>) -> BTreeMap<Of, u64> {
    let mut request = EventRequest {
        cursor: EventCursor::start(),
        limit: 10_000,
        queues: vec![],
        kinds: vec![],
        types: vec![],
    };
    request.types = HistoryRequest::OUTCOMES.to_vec();
    let mut table = BTreeMap::new();
    loop {
        let page = store.events(&request).await.expect("events");
        for event in &page.events {
            let minute = event.at.as_second().div_euclid(60) * 60;
            *table
                .entry((minute, Some(event.queue.to_string()), Some(event.kind.to_string()), event.event))
                .or_default() += 1;
        }
        request.cursor = page.next;
        if !page.more {
            return table;
        }
    }
}

/// The counts without their minutes.
fn sums(table: &BTreeMap<Of, u64>) -> BTreeMap<(String, String, EventType), u64> {
    let mut sums = BTreeMap::new();
    for ((_, queue, kind, outcome), count) in table {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| Count::ANY.to_owned());
        *sums.entry((name(queue), name(kind), *outcome)).or_default() += count;
    }
    sums
}

async fn enqueue_kinds(store: &Arc<dyn Store>, queue: &'static str, count: usize) -> Vec<JobId> {
    let jobs: Vec<_> = (0..count)
        .map(|n| windlass_core::NewJob::new(["a", "b", "c"][n % 3], args(n)).with_queue(queue))
        .collect();
    store.enqueue(&jobs).await.expect("enqueue")
}

/// Every way in which an attempt ends is counted as the events tell it.
pub async fn each_end_is_counted(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    assert_eq!(counted(&store).await, BTreeMap::new());
    let worker = worker(&store, &["q", "r"], &[], LEASE).await;
    enqueue_kinds(&store, "q", 30).await;
    let ids = enqueue_kinds(&store, "r", 6).await;
    store.cancel(&ids[..2]).await.expect("cancel");
    store.delete(&ids[2..3]).await.expect("delete");
    for (n, held) in worker.take(33).await.iter().enumerate() {
        let retry = Disposition::Retry { delay: Duration::ZERO, error: "no".into() };
        match n % 6 {
            0 => drop(worker.except(held, retry).await),
            1 => drop(worker.except(held, Disposition::Snooze { delay: LATER }).await),
            2 => drop(worker.except(held, Disposition::Discard { error: "bad".into(), failed: true }).await),
            3 => drop(worker.except(held, Disposition::Return).await),
            _ => drop(worker.complete(held).await),
        }
    }
    let first = counted(&store).await;
    assert_eq!(first, told(&store).await);
    let of = |queue: &str, kind: &str, outcome| (queue.to_owned(), kind.to_owned(), outcome);
    let sums = sums(&first);
    assert_eq!(sums[&of("r", "a", EventType::Cancelled)] + sums[&of("r", "b", EventType::Cancelled)], 2);
    assert_eq!(sums[&of("r", "c", EventType::Deleted)], 1);
    assert_eq!(counted(&store).await, first, "once");
    worker.drain(100).await;
    assert_eq!(counted(&store).await, told(&store).await);
}

/// However a claim is settled, whole, in ranges and one by one, and whenever it is counted meanwhile, each job counts once, by its kind.
pub async fn claims_are_counted_in_parts(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    for round in 0..8usize {
        enqueue_kinds(&store, QUEUE, 60).await;
        let claims = worker.claim(60).await;
        let held = held(&claims);
        let discarded = 5 + round;
        let range = |from: usize, to: usize, besides: &[usize]| Completion {
            claim: claims[0].reference,
            jobs: JobSet::Ranges(vec![(held[from].job.id.0, held[to].job.id.0)]),
            count: (from..=to).filter(|n| *n != discarded && !besides.contains(n)).count() as u32,
        };
        worker.except(&held[discarded], Disposition::Discard { error: "bad".into(), failed: false }).await;
        if round % 4 > 0 {
            worker
                .settle(
                    vec![range(2, 9, &[]), range(20, 30, &[25])],
                    vec![held[25].exception(Disposition::Return)],
                )
                .await;
            worker.complete(&held[40]).await;
        }
        if round % 2 > 0 {
            counted(&store).await;
            worker.settle(vec![range(10, 12, &[]), range(13, 13, &[]), range(31, 45, &[40])], vec![]).await;
        }
        worker.complete_claims(&claims).await;
        if round % 3 > 0 {
            counted(&store).await;
        }
        worker.drain(100).await;
    }
    assert_eq!(counted(&store).await, told(&store).await);
    let of = |kind: &str| (QUEUE.to_owned(), kind.to_owned(), EventType::Completed);
    let sums = sums(&counted(&store).await);
    assert_eq!(["a", "b", "c"].map(|kind| sums[&of(kind)]).iter().sum::<u64>(), 8 * 59);
}

/// What is removed at once was counted before.
pub async fn nothing_is_removed_uncounted(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let keep_nothing = Settings::DEFAULT
        .with_retention(Duration::ZERO)
        .with_dead_retention(Duration::ZERO)
        .with_segment_bytes(1);
    let worker = worker_on(&store).await;
    for round in 1..=20u64 {
        enqueue_kinds(&store, QUEUE, 30).await;
        let held = worker.take_one().await;
        worker.except(&held, Disposition::Discard { error: "bad".into(), failed: true }).await;
        assert_eq!(worker.drain(20).await.len(), 29);
        maintain_with(&store, keep_nothing).await;
        let all = sums(&counted(&store).await);
        let of = |wanted| {
            all.iter().filter(|((_, _, outcome), _)| *outcome == wanted).map(|(_, count)| count).sum::<u64>()
        };
        let counts = (of(EventType::Completed), of(EventType::Discarded), of(EventType::Failed));
        assert_eq!(counts, (29 * round, round, round));
    }
}

/// However many keep house at once, and die in the midst of it, everything is counted once.
pub async fn housekeepers_race(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    for round in 0..25u64 {
        enqueue_kinds(&store, QUEUE, 60).await;
        let mut at_once = Vec::new();
        for n in 0..4 {
            let store = fixture.open().await;
            at_once.push(tokio::spawn(async move { store.maintain().await }));
            let held = worker.take(7).await;
            worker.except(&held[0], Disposition::Discard { error: "bad".into(), failed: false }).await;
            for held in &held[1..] {
                worker.complete(held).await;
            }
            if (round + n) % 3 == 0 {
                at_once.pop().expect("one").abort();
            }
        }
        worker.drain(16).await;
        for maintain in at_once {
            maintain.await.expect("no panic").expect("maintain");
        }
    }
    // What was given up may still hold up others for a moment.
    let expected = told(&store).await;
    eventually("everything is counted", || async { (counted(&store).await == expected).then_some(()) }).await;
    assert_eq!(counted(&store).await, expected, "once");
    assert_eq!(expected.values().sum::<u64>(), 25 * 60);
}

/// An answer has what was asked for, in steps of that length.
pub async fn filters_and_steps(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker(&store, &["q", "r"], &[], LEASE).await;
    enqueue_kinds(&store, "q", 30).await;
    enqueue_kinds(&store, "r", 3).await;
    let held = worker.take(33).await;
    worker.except(&held[0], Disposition::Discard { error: "bad".into(), failed: false }).await;
    for held in &held[1..] {
        worker.complete(held).await;
    }
    counted(&store).await;
    let all = read(&store, HistoryRequest::last(HistoryRequest::LONGEST)).await;
    assert_eq!(all.counts.iter().map(|count| count.count).sum::<u64>(), 33);
    assert!(all.counts.iter().all(|count| count.at.as_second() % 60 == 0 && count.at <= all.counted_until));
    let mut request = HistoryRequest::last(HOUR);
    (request.queue, request.step) = (Some("q".to_owned()), 24 * HOUR);
    let days = read(&store, request.clone()).await;
    assert!(
        days.counts
            .iter()
            .all(|count| count.at.as_second() % 86_400 == 0 && count.queue.as_deref() == Some("q"))
    );
    assert_eq!(days.counts.iter().map(|count| count.count).sum::<u64>(), 30);
    (request.kind, request.outcome) = (Some("b".to_owned()), Some(EventType::Completed));
    let only = read(&store, request.clone()).await;
    assert!(
        only.counts
            .iter()
            .all(|count| (count.kind.as_deref(), count.outcome) == (Some("b"), EventType::Completed))
    );
    assert_eq!(only.counts.iter().map(|count| count.count).sum::<u64>(), 10);
    request.outcome = Some(EventType::Rescued);
    assert_eq!(read(&store, request).await.counts, []);
}

/// What cannot be answered is refused by name.
pub async fn nonsense_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut started = HistoryRequest::last(HOUR);
    started.outcome = Some(EventType::Started);
    let mut odd = HistoryRequest::last(HOUR);
    odd.step = Duration::from_secs(90);
    for request in [HistoryRequest::last(Duration::MAX), HistoryRequest::last(Duration::ZERO), started, odd] {
        let error = store.history(&request).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    }
}

/// One minute has a bounded number of counters: what is beyond is counted together.
pub async fn a_minute_is_bounded(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let many = HistoryRequest::MOST_IN_A_MINUTE * 2 + 500;
    let jobs: Vec<_> = (0..many)
        .map(|n| windlass_core::NewJob::new(format!("kind{n}"), args(n)).with_queue(QUEUE))
        .collect();
    store.enqueue(&jobs).await.expect("enqueue");
    assert_eq!(worker.drain(400).await.len(), many);
    let counted = counted(&store).await;
    assert_eq!(counted.values().sum::<u64>(), many as u64);
    let mut minutes: BTreeMap<i64, usize> = BTreeMap::new();
    for (minute, ..) in counted.keys() {
        *minutes.entry(*minute).or_default() += 1;
    }
    // One more for what is beyond; the minute may have ended meanwhile.
    assert!(minutes.values().all(|rows| *rows <= HistoryRequest::MOST_IN_A_MINUTE + 1), "{minutes:?}");
    assert!(minutes.len() > 2 || counted.keys().any(|(_, queue, kind, _)| queue.is_none() && kind.is_none()));
}
