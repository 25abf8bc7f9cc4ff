//! Events: everything that happens to jobs is told once, in order, from any cursor.

use crate::{Fixture, steps::*};
use EventType::{
    Cancelled, Completed, Deleted, Discarded, Enqueued, Failed, Rescued, Retried, Returned, Snoozed, Started,
};
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};
use windlass_core::{
    Completion, Disposition, ErrorKind, EventCursor, EventRequest, EventType, JobEvent, JobId, JobSet,
    NewJob, Store,
};

/// Reads on page by page until nothing is left.
pub(crate) async fn read(store: &Arc<dyn Store>, cursor: &mut EventCursor, limit: u32) -> Vec<JobEvent> {
    let mut events: Vec<JobEvent> = Vec::new();
    loop {
        let page = store.events(&EventRequest { limit, ..EventRequest::after(cursor.clone()) }).await;
        let page = page.expect("read events");
        assert!(page.events.len() <= limit as usize, "asked for {limit}, got {}", page.events.len());
        assert!(page.more || page.events.is_empty() || page.next != *cursor, "it does not go on");
        events.extend(page.events);
        *cursor = page.next;
        if !page.more {
            return events;
        }
    }
}

pub(crate) async fn now(store: &Arc<dyn Store>) -> EventCursor {
    let mut cursor = EventCursor::now();
    assert_eq!(read(store, &mut cursor, 10).await.len(), 0, "now is behind everything");
    cursor
}

/// What these events say of each job, in order.
pub(crate) fn by_job<T>(events: &[JobEvent], says: impl Fn(&JobEvent) -> T) -> BTreeMap<JobId, Vec<T>> {
    let mut jobs: BTreeMap<JobId, Vec<T>> = BTreeMap::new();
    for event in events {
        jobs.entry(event.job).or_default().push(says(event));
    }
    jobs
}

/// What happened to each job, in order.
fn stories(events: &[JobEvent]) -> BTreeMap<JobId, Vec<EventType>> {
    by_job(events, |event| event.event)
}

/// Whatever can happen to a job is told.
pub async fn each_event_is_told(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut cursor = now(&store).await;
    let ids = enqueue_jobs(&store, 8).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(8).await;
    let later = LATER;
    worker.complete(&jobs[0]).await;
    worker.except(&jobs[1], Disposition::Retry { delay: later, error: "once".into() }).await;
    worker.except(&jobs[2], Disposition::Snooze { delay: later }).await;
    worker.except(&jobs[3], Disposition::Cancel { reason: "no need".into() }).await;
    worker.except(&jobs[4], Disposition::Discard { error: "bad".into(), failed: true }).await;
    worker.except(&jobs[5], Disposition::Discard { error: "worse".into(), failed: false }).await;
    worker.except(&jobs[6], Disposition::Return).await;
    worker.except(&jobs[7], Disposition::NoHandler).await;
    store.retry(&[ids[1], ids[4]]).await.expect("retry");
    store.cancel(&[ids[2]]).await.expect("cancel");
    store.delete(&[ids[5]]).await.expect("delete");
    let scheduled = enqueue(&store, job().with_delay(later)).await;
    store.delete(&[scheduled]).await.expect("delete");

    let events = read(&store, &mut cursor, 1_000).await;
    let mut told = stories(&events);
    let expected: [(JobId, &[EventType]); 9] = [
        (ids[0], &[Enqueued, Started, Completed]),
        (ids[1], &[Enqueued, Started, Failed, Retried]),
        (ids[2], &[Enqueued, Started, Snoozed, Cancelled]),
        (ids[3], &[Enqueued, Started, Cancelled]),
        (ids[4], &[Enqueued, Started, Failed, Discarded, Retried]),
        (ids[5], &[Enqueued, Started, Discarded, Deleted]),
        (ids[6], &[Enqueued, Started, Returned]),
        (ids[7], &[Enqueued, Started, Returned]),
        (scheduled, &[Enqueued, Deleted]),
    ];
    for (id, story) in expected {
        assert_eq!(told.remove(&id).unwrap_or_default(), story, "job {id}");
    }
    assert!(told.is_empty(), "of unknown jobs: {told:?}");
    assert_eq!(read(&store, &mut cursor, 1_000).await, [], "told twice");

    let of = |what, id| events.iter().find(|event| event.event == what && event.job == id).expect("is told");
    let (started, completed) = (of(Started, ids[0]), of(Completed, ids[0]));
    assert_eq!((&*started.queue, &*started.kind, started.attempt), (QUEUE, KIND, 1));
    assert_eq!((started.worker, completed.worker), (Some(worker.id), Some(worker.id)));
    assert_eq!((of(Enqueued, ids[0]).attempt, completed.attempt, of(Failed, ids[1]).attempt), (0, 1, 1));
    assert!(started.at <= completed.at);
    assert_eq!(of(Failed, ids[1]).reason.as_deref(), Some("once"));
    assert_eq!(of(Cancelled, ids[3]).reason.as_deref(), Some("no need"));
    assert_eq!(of(Discarded, ids[4]).reason.as_deref(), Some("bad"));
}

/// A dead worker's jobs are told as rescued, those of one that left as returned, and their next runs as well.
pub async fn rescues_and_returns_are_told(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut cursor = now(&store).await;
    let id = enqueue(&store, job()).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    dying.take_one().await;
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let leaving = worker_on(&store).await;
    leaving.take_one().await;
    store.deregister(leaving.id).await.expect("deregister");
    let last = worker_on(&store).await;
    last.drain(1).await;
    let story = stories(&read(&store, &mut cursor, 2).await).remove(&id).expect("its story");
    assert_eq!(story, [Enqueued, Started, Rescued, Started, Returned, Started, Completed]);
}

/// Each event has the cursor behind it, so a consumer may stop anywhere, in the midst of a batch too.
pub async fn each_cursor_is_a_place_to_go_on(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let begin = now(&store).await;
    enqueue_jobs(&store, 60).await;
    let worker = worker_on(&store).await;
    let claims = worker.claim(40).await;
    worker.complete_claims(&claims).await;
    for held in worker.take(20).await.iter().step_by(2) {
        worker.complete(held).await;
    }
    let all = read(&store, &mut begin.clone(), 1_000).await;
    assert_eq!(all.len(), 60 + 60 + 50);
    for limit in [1, 7, 59, 60, 61, 170] {
        assert_eq!(read(&store, &mut begin.clone(), limit).await.len(), all.len(), "by {limit}");
    }
    let names =
        |events: &[JobEvent]| -> Vec<_> { events.iter().map(|event| (event.job, event.event)).collect() };
    for (n, event) in all.iter().enumerate().step_by(13) {
        let rest = read(&store, &mut event.cursor.clone(), 9).await;
        assert_eq!(names(&rest), names(&all[n + 1..]), "behind event {n}");
    }
}

/// Jobs that were enqueued for later together are told of one by one, from any cursor among them and by any filter.
pub async fn jobs_for_later_are_told_one_by_one(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let begin = now(&store).await;
    let new = |n: usize| {
        let (kind, queue) = if n < 30 { ("a", "x") } else { (["a", "b"][n % 2], ["x", "y"][n / 5 % 2]) };
        let job = NewJob::new(kind, args(n)).with_queue(queue);
        if n < 50 || n.is_multiple_of(3) { job.with_delay(LATER) } else { job }
    };
    let ids = store.enqueue(&(0..60).map(new).collect::<Vec<_>>()).await.expect("enqueue");
    store.cancel(&ids[..2]).await.expect("cancel");
    let all = read(&store, &mut begin.clone(), 1_000).await;
    let enqueued: Vec<_> =
        all.iter().filter(|event| event.event == Enqueued).map(|event| event.job).collect();
    let sorted = |mut ids: Vec<JobId>| {
        ids.sort_unstable();
        ids
    };
    assert_eq!(sorted(enqueued), sorted(ids.clone()));
    assert_eq!(stories(&all)[&ids[1]], [Enqueued, Cancelled]);
    let names =
        |events: &[JobEvent]| -> Vec<_> { events.iter().map(|event| (event.job, event.event)).collect() };
    for limit in [1, 7, 29, 30, 31] {
        assert_eq!(names(&read(&store, &mut begin.clone(), limit).await), names(&all), "by {limit}");
    }
    for (n, event) in all.iter().enumerate().step_by(7) {
        assert_eq!(
            names(&read(&store, &mut event.cursor.clone(), 4).await),
            names(&all[n + 1..]),
            "behind {n}"
        );
    }
    let mut request = EventRequest {
        queues: vec!["y".into()],
        kinds: vec!["b".into()],
        limit: 4,
        ..EventRequest::after(begin)
    };
    let mut told = Vec::new();
    loop {
        let page = store.events(&request).await.expect("read");
        told.extend(page.events.iter().map(|event| event.job));
        request.cursor = page.next;
        if !page.more {
            break;
        }
    }
    let expected = (30..60).filter(|n| n % 2 == 1 && n / 5 % 2 == 1).map(|n| ids[n]).collect();
    assert_eq!(sorted(told), sorted(expected));
}

/// `start` is before all that is kept, `now` behind it.
pub async fn start_and_now(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let mut start = EventCursor::start();
    let told = read(&store, &mut start, 10).await;
    assert_eq!(stories(&told), BTreeMap::from([(id, vec![Enqueued])]));
    now(&store).await;
}

/// Filters are applied by the store, and what they leave out does not stop the reader.
pub async fn filters_leave_out(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let begin = now(&store).await;
    let new = |n: usize| NewJob::new(["a", "b"][n % 2], args(n)).with_queue(["x", "y"][n / 2 % 2]);
    store.enqueue(&(0..40).map(new).collect::<Vec<_>>()).await.expect("enqueue");
    let worker = worker(&store, &["x", "y"], &[], LEASE).await;
    worker.drain(15).await;
    let count = async |request: EventRequest| {
        let (mut request, mut count) = (EventRequest { limit: 3, ..request }, 0);
        loop {
            let page = store.events(&request).await.expect("read");
            for event in &page.events {
                assert!(request.matches(&event.queue, &event.kind, event.event), "{event:?}");
            }
            count += page.events.len();
            request.cursor = page.next;
            if !page.more {
                return count;
            }
        }
    };
    let all = EventRequest::after(begin);
    let (x, a) = (vec!["x".to_owned()], vec!["a".to_owned()]);
    assert_eq!(count(EventRequest { queues: x.clone(), ..all.clone() }).await, 60);
    assert_eq!(count(EventRequest { kinds: a.clone(), ..all.clone() }).await, 60);
    assert_eq!(count(EventRequest { types: vec![Started], ..all.clone() }).await, 40);
    assert_eq!(
        count(EventRequest { types: vec![Completed, Enqueued], queues: x, kinds: a, ..all.clone() }).await,
        20
    );
    assert_eq!(count(EventRequest { queues: vec!["none".to_owned()], ..all }).await, 0);
}

/// What is no cursor, or asks for no page, is refused.
pub async fn nonsense_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for text in ["", "yesterday", "1/2", "1/x/y/z", "m1/zz/1", "s1/a/b", "1/a/b/4:4:/4:4:/e/1"] {
        let refused = store.events(&EventRequest::after(text.into())).await.expect_err("no cursor");
        assert_eq!(refused.kind(), ErrorKind::InvalidOption, "{text:?}: {refused}");
    }
    for limit in [0, EventRequest::MOST + 1] {
        let request = EventRequest { limit, ..EventRequest::after(EventCursor::start()) };
        let refused = store.events(&request).await.expect_err("no limit");
        assert_eq!(refused.kind(), ErrorKind::InvalidOption);
    }
}

/// A job that runs for longer than the others of its claim are kept is told of like any other, to whoever was told of those.
pub async fn what_outlives_the_others_of_its_claim_is_told(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 4).await;
    let worker = worker_on(&store).await;
    let held = worker.take(4).await;
    for early in &held[..2] {
        worker.complete(early).await;
    }
    is_removed(&store, ids[0]).await;
    let mut cursor = now(&store).await;
    worker.except(&held[2], Disposition::Discard { error: "bad".into(), failed: false }).await;
    worker.complete(&held[3]).await;
    let told = stories(&read(&store, &mut cursor, 10).await);
    assert_eq!(told, BTreeMap::from([(ids[2], vec![Discarded]), (ids[3], vec![Completed])]));
    let told = stories(&read(&store, &mut EventCursor::start(), 10).await);
    let last = |id| told.get(&id).and_then(|story| story.last()).copied();
    assert_eq!((last(ids[2]), last(ids[3])), (Some(Discarded), Some(Completed)), "from start");
}

/// Who comes after the history was removed is told so, and never misses anything silently.
pub async fn a_removed_history_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let old = now(&store).await;
    enqueue_jobs(&store, 5).await;
    let worker = worker_on(&store).await;
    worker.drain(5).await;
    let mut read_up = old.clone();
    read(&store, &mut read_up, 3).await;
    let refused = eventually("the history is removed", || async {
        maintain_with(&store, KEEP_NOTHING).await;
        store.events(&EventRequest::after(old.clone())).await.err()
    })
    .await;
    assert_eq!(refused.kind(), ErrorKind::EventsExpired, "{refused}");
    let id = enqueue(&store, job()).await;
    // With no retention at all, whoever had read everything may be told as well; but never reads on with a gap.
    match store.events(&EventRequest::after(read_up.clone())).await {
        Ok(_) => {
            let told = stories(&read(&store, &mut read_up, 10).await);
            assert_eq!(told, BTreeMap::from([(id, vec![Enqueued])]));
        }
        Err(refused) => assert_eq!(refused.kind(), ErrorKind::EventsExpired, "{refused}"),
    }
    assert_eq!(
        stories(&read(&store, &mut EventCursor::start(), 10).await),
        BTreeMap::from([(id, vec![Enqueued])])
    );
}

/// A thousand steps in any order: each is told once, whatever the consumer forgets and reads again.
pub async fn whatever_happens_is_told_once(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cursor = now(&store).await;
    let worker = worker_on(&store).await;
    let mut expected: BTreeMap<JobId, Vec<EventType>> = BTreeMap::new();
    let mut told: Vec<JobEvent> = Vec::new();
    let (mut held, mut dead): (Vec<Held>, Vec<JobId>) = (Vec::new(), Vec::new());
    for _ in 0..1_000 {
        match random.u8(0..12) {
            0 | 1 => {
                let new = (0..random.usize(1..6)).map(|n| match random.u8(0..4) {
                    0 => job().with_delay(Duration::from_millis(1)),
                    1 => job().with_priority(random.i16(0..3)),
                    _ => NewJob::new(KIND, args(n)).with_queue(QUEUE),
                });
                let new: Vec<_> = new.collect();
                for id in store.enqueue(&new).await.expect("enqueue") {
                    expected.entry(id).or_default().push(Enqueued);
                }
            }
            2 | 3 => {
                let claims = worker.claim(random.u32(1..8)).await;
                for taken in crate::steps::held(&claims) {
                    expected.entry(taken.job.id).or_default().push(Started);
                    held.push(taken);
                }
            }
            4 | 5 if !held.is_empty() => {
                let claim = random.choice(&held).map(|held| held.claim).expect("one");
                let (of_claim, others): (Vec<_>, Vec<_>) =
                    held.drain(..).partition(|held| held.claim == claim);
                held = others;
                let count = of_claim.len() as u32;
                worker.settle(vec![Completion { claim, jobs: JobSet::Rest, count }], vec![]).await;
                for done in of_claim {
                    expected.entry(done.job.id).or_default().push(Completed);
                }
            }
            6..=8 if !held.is_empty() => {
                let one = held.swap_remove(random.usize(..held.len()));
                let delay = Duration::ZERO;
                let story = expected.entry(one.job.id).or_default();
                let disposition = match random.u8(0..7) {
                    0 => {
                        story.push(Completed);
                        worker.complete(&one).await;
                        continue;
                    }
                    1 => (Disposition::Retry { delay, error: "again".into() }, vec![Failed]),
                    2 => (Disposition::Snooze { delay }, vec![Snoozed]),
                    3 => (Disposition::Return, vec![Returned]),
                    4 => (Disposition::Cancel { reason: "no".into() }, vec![Cancelled]),
                    5 => {
                        (Disposition::Discard { error: "bad".into(), failed: true }, vec![Failed, Discarded])
                    }
                    _ => (Disposition::Complete { result: Some(args(1)) }, vec![Completed]),
                };
                if story.len() < usize::MAX && matches!(disposition.1.last(), Some(Cancelled | Discarded)) {
                    dead.push(one.job.id);
                }
                story.extend(disposition.1);
                worker.except(&one, disposition.0).await;
            }
            9 => {
                let ids: Vec<_> = expected.keys().copied().collect();
                let Some(id) = random.choice(&ids).copied() else { continue };
                if held.iter().any(|held| held.job.id == id) {
                    continue;
                }
                if store.cancel(&[id]).await.expect("cancel")[0] == windlass_core::CancelReply::Cancelled {
                    expected.entry(id).or_default().push(Cancelled);
                    dead.push(id);
                }
            }
            10 => {
                store.promote(100).await.expect("promote");
                if let Some(id) = dead.pop()
                    && store.retry(&[id]).await.expect("retry")[0] == windlass_core::RetryReply::Retried
                {
                    expected.entry(id).or_default().push(Retried);
                }
            }
            _ => {
                // It forgets what it did with some, and reads them again from the cursor that it kept.
                if !told.is_empty() && random.u8(0..4) == 0 {
                    told.truncate(random.usize(1..=told.len()));
                    cursor = told[told.len() - 1].cursor.clone();
                }
                told.extend(read(&store, &mut cursor, random.u32(3..90)).await);
            }
        }
    }
    told.extend(read(&store, &mut cursor, 100).await);
    let told = stories(&told);
    for (id, story) in &expected {
        assert_eq!(told.get(id), Some(story), "job {id}, seed {seed}");
    }
    assert_eq!(told.len(), expected.len(), "seed {seed}");
}

/// Many write while one reads: nothing is lost, nothing comes twice, and of each job everything in order.
pub async fn a_crowd_is_told_of(fixture: &dyn Fixture) {
    const ACTORS: usize = 4;
    const ROUNDS: usize = 40;
    let reader = fixture.open().await;
    let mut cursor = now(&reader).await;
    let mut tasks = Vec::new();
    for _ in 0..ACTORS {
        let store = fixture.open().await;
        tasks.push(tokio::spawn(async move {
            let worker = worker(&store, &["a", "b", "c"], &[], LEASE).await;
            let mut enqueued = Vec::new();
            for round in 0..ROUNDS {
                let queue = ["a", "b", "c"][round % 3];
                let new: Vec<_> = jobs(round % 7).into_iter().map(|job| job.with_queue(queue)).collect();
                enqueued.extend(store.enqueue(&new).await.expect("enqueue"));
                let claims = worker.claim(4).await;
                worker.complete_claims(&claims).await;
            }
            enqueued
        }));
    }
    let mut told = Vec::new();
    while tasks.iter().any(|task| !task.is_finished()) {
        told.extend(read(&reader, &mut cursor, 17).await);
    }
    let mut ids = HashSet::new();
    for task in tasks {
        ids.extend(task.await.expect("an actor"));
    }
    worker(&reader, &["a", "b", "c"], &[], LEASE).await.drain(50).await;
    told.extend(read(&reader, &mut cursor, 1_000).await);
    let told = stories(&told);
    assert_eq!(told.keys().copied().collect::<HashSet<_>>(), ids);
    for (id, story) in told {
        assert_eq!(story, [Enqueued, Started, Completed], "job {id}");
    }
}
