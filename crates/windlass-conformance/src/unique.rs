//! Unique jobs: of jobs with one key only one is there at a time, until its key is free.

use crate::{Fixture, steps::*};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::task::JoinSet;
use windlass_core::{
    Args, Conflict, Disposition, EnqueuedUnique, ErrorKind, JobFilter, JobId, JobState, NewJob, Settings,
    Store, Unique,
};

/// Batches of other sizes may take other ways into a store.
const SIZES: [usize; 4] = [1, 3, 9, 300];

/// A job that is unique by this key.
pub(crate) fn keyed(key: &str) -> NewJob {
    job().with_unique(Unique::by_key(key))
}

/// Enqueues one job.
pub(crate) async fn unique(store: &Arc<dyn Store>, job: NewJob) -> EnqueuedUnique {
    store.enqueue_unique(&[job]).await.expect("enqueue unique")[0]
}

/// Enqueues a job whose key is free. Its id.
pub(crate) async fn free(store: &Arc<dyn Store>, job: NewJob) -> JobId {
    let stored = unique(store, job).await;
    assert_eq!(stored.conflict, None, "the key should be free, job {} has it", stored.id);
    stored.id
}

/// The key of this job is taken by that one.
pub(crate) async fn taken(store: &Arc<dyn Store>, job: NewJob, by: JobId) {
    assert_eq!(unique(store, job).await, EnqueuedUnique { id: by, conflict: Some(Conflict::Kept) });
}

/// Nothing is stored but these jobs.
pub(crate) async fn only(store: &Arc<dyn Store>, ids: &[JobId]) {
    let filter = JobFilter { limit: 1_000, ..JobFilter::default() };
    let mut stored: Vec<_> = store.jobs(&filter).await.expect("list").iter().map(|job| job.id).collect();
    stored.sort_unstable();
    assert_eq!(stored, ids);
}

/// The first job is kept, whatever way the later ones come; other keys are other jobs.
pub async fn the_first_is_kept(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    let mut all = Vec::new();
    for size in SIZES {
        let batch: Vec<_> = (0..size).map(|n| keyed(&format!("{size}/{n}"))).collect();
        let first = store.enqueue_unique(&batch).await.expect("enqueue");
        assert!(first.iter().all(|stored| stored.conflict.is_none()), "{first:?}");
        let ids: Vec<_> = first.iter().map(|stored| stored.id).collect();
        assert!(ids.is_sorted());
        let again = other.enqueue_unique(&batch).await.expect("enqueue");
        let kept = |id: &JobId| EnqueuedUnique { id: *id, conflict: Some(Conflict::Kept) };
        assert_eq!(again, ids.iter().map(kept).collect::<Vec<_>>());
        assert_eq!(store.enqueue(&batch).await.expect("enqueue"), ids, "also by the call for all jobs");
        all.extend(ids);
    }
    only(&store, &all).await;
    assert_eq!(worker_on(&store).await.drain(100).await, all);
}

/// Jobs of a batch that have one key are one job; those that are not unique are stored beside them, each in its place.
pub async fn a_batch_has_each_key_once(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let first = free(&store, keyed("old")).await;
    for size in [4, 40] {
        let job_of = |n: usize| match n % 4 {
            0 => NewJob::new(KIND, args(n)).with_queue(QUEUE),
            1 => keyed("old"),
            2 => keyed(&format!("{size}/{n}")).with_delay(LATER),
            _ => keyed(&format!("{size}/one")),
        };
        let batch: Vec<_> = (0..size).map(job_of).collect();
        let stored = store.enqueue_unique(&batch).await.expect("enqueue");
        for (n, stored) in stored.iter().enumerate() {
            let seen = record(&store, stored.id).await;
            match n % 4 {
                0 => assert_eq!((seen.args, stored.conflict), (args(n), None)),
                1 => assert_eq!((stored.id, stored.conflict), (first, Some(Conflict::Kept))),
                2 => assert_eq!((seen.state, stored.conflict), (JobState::Scheduled, None)),
                _ => assert_eq!(stored.conflict, (n > 3).then_some(Conflict::Kept)),
            }
        }
        let ids: HashSet<_> = stored.iter().map(|stored| stored.id).collect();
        assert_eq!(ids.len(), 1 + size / 4 + size / 4 + 1);
    }
}

/// Where all jobs of a batch have one key, each still has its answer.
pub async fn a_batch_of_one_key_is_one_job(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut all = Vec::new();
    for size in [2, 3, 40] {
        let batch = vec![keyed(&format!("k/{size}")); size];
        let stored = store.enqueue_unique(&batch).await.expect("enqueue");
        let answer = |n: usize| (stored[0].id, (n > 0).then_some(Conflict::Kept));
        let answers: Vec<_> = stored.iter().map(|stored| (stored.id, stored.conflict)).collect();
        assert_eq!(answers, (0..size).map(answer).collect::<Vec<_>>());
        assert_eq!(store.enqueue(&batch).await.expect("enqueue"), vec![stored[0].id; size]);
        all.push(stored[0].id);
    }
    only(&store, &all).await;
}

/// Until it is finished: a job has its key while it waits, runs and waits to be tried again, and no longer.
pub async fn until_finished(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let end = |n: usize| match n {
        0 => Disposition::Cancel { reason: "unwanted".into() },
        1 => Disposition::Discard { error: "bad".into(), failed: true },
        _ => Disposition::Complete { result: None },
    };
    for n in 0..3 {
        let id = free(&store, keyed("k")).await;
        taken(&store, keyed("k"), id).await;
        let back = [
            Disposition::Return,
            Disposition::Snooze { delay: Duration::ZERO },
            Disposition::Retry { delay: Duration::ZERO, error: "no".into() },
        ];
        for disposition in back {
            let held = worker.take_when_due(1).await.remove(0);
            taken(&store, keyed("k"), id).await;
            worker.except(&held, disposition).await;
            taken(&store, keyed("k"), id).await;
        }
        let held = worker.take_when_due(1).await.remove(0);
        worker.except(&held, end(n)).await;
    }
    let ids = store.enqueue_unique(&[keyed("k"), keyed("other")]).await.expect("enqueue");
    assert!(ids.iter().all(|stored| stored.conflict.is_none()), "a whole claim completes below");
    worker.drain(10).await;
    let waiting = free(&store, keyed("k")).await;
    let scheduled = free(&store, keyed("other").with_delay(LATER)).await;
    taken(&store, keyed("other"), scheduled).await;
    store.cancel(&[waiting, scheduled]).await.expect("cancel");
    free(&store, keyed("k")).await;
    free(&store, keyed("other")).await;
}

/// Until it is started: the key is free once a worker has the job, which has it again when it comes back untried and nobody
/// took it.
pub async fn until_started(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let keyed = || job().with_unique(Unique::by_key("k").until_started());
    let first = free(&store, keyed().with_delay(Duration::from_millis(1))).await;
    taken(&store, keyed(), first).await;
    let running = worker.take_when_due(1).await.remove(0);
    let second = free(&store, keyed()).await;
    taken(&store, keyed(), second).await;
    worker.except(&running, Disposition::Return).await;
    taken(&store, keyed(), second).await;
    let both = worker.take(2).await;
    assert_eq!(both.iter().map(|held| held.job.id).collect::<HashSet<_>>(), HashSet::from([first, second]));
    let of = |id| both.iter().find(|held| held.job.id == id).expect("held");
    worker.except(of(second), Disposition::Snooze { delay: LATER }).await;
    taken(&store, keyed(), second).await;
    store.cancel(&[second]).await.expect("cancel");
    worker.complete(of(first)).await;

    let tried = free(&store, keyed()).await;
    let held = worker.take_one().await;
    worker.except(&held, Disposition::Retry { delay: LATER, error: "no".into() }).await;
    store.retry(&[tried]).await.expect("retry");
    worker.except(&worker.take_one().await, Disposition::NoHandler).await;
    assert_ne!(free(&store, keyed()).await, tried);
}

/// For a window: the key is taken for so long, whatever becomes of the job, and free then.
pub async fn for_a_window(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let keyed = |window| job().with_unique(Unique::by_key("k").for_window(window));
    let first = free(&store, keyed(Duration::from_millis(5))).await;
    let second = eventually("the window ends", || async {
        let stored = unique(&store, keyed(LATER)).await;
        assert!(stored.conflict.is_none() || stored.id == first);
        stored.conflict.is_none().then_some(stored.id)
    })
    .await;
    worker_on(&store).await.drain(10).await;
    taken(&store, keyed(LATER), second).await;
    store.maintain().await.expect("maintain");
    taken(&store, keyed(LATER), second).await;
}

/// A key is of a kind or of a queue; by args it is their value that counts, by fields that of these.
pub async fn keys_are_made_of_what_is_said(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let job = |kind: &'static str, queue: &'static str, args: &str, unique| {
        NewJob::new(kind, Args::parse(args).expect("args")).with_queue(queue).with_unique(unique)
    };
    let (key, args) = (|| Unique::by_key("k"), Unique::by_args);
    let fields = || Unique::by_fields(["user", "day"]);
    let a = free(&store, job("a", "one", "1", key())).await;
    taken(&store, job("a", "two", "2", key()), a).await;
    free(&store, job("b", "one", "1", key())).await;
    let in_one = free(&store, job("a", "one", "1", key().in_queue())).await;
    taken(&store, job("b", "one", "1", key().in_queue()), in_one).await;
    free(&store, job("a", "two", "1", key().in_queue())).await;

    let by_args = free(&store, job("a", "one", r#"{"x": 1, "y": [1.0, "ä"]}"#, args())).await;
    taken(&store, job("a", "one", r#"{"y":[1,"\u00e4"],"x":1e0}"#, args()), by_args).await;
    free(&store, job("a", "one", r#"{"x": 2, "y": [1, "ä"]}"#, args())).await;
    let by_fields = free(&store, job("a", "one", r#"{"user": 7, "day": 1, "n": 1}"#, fields())).await;
    taken(&store, job("a", "one", r#"{"n": 2, "day": 1, "user": 7}"#, fields()), by_fields).await;
    free(&store, job("a", "one", r#"{"n": 1, "day": 2, "user": 7}"#, fields())).await;
}

/// A key that cannot be made refuses the whole call; a unique job has no idempotency key beside its own.
pub async fn a_bad_key_stores_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let bad = [
        Unique::by_key(""),
        Unique::by_fields(["missing"]),
        Unique::by_fields(Vec::<String>::new()),
        Unique::by_key("k").for_window(Duration::ZERO),
    ];
    for unique in bad {
        for size in [1, 20] {
            let mut batch = jobs(size);
            batch[size - 1] = job().with_unique(unique.clone());
            let error = store.enqueue_unique(&batch).await.expect_err("a bad key");
            assert!(error.is_invalid_input(), "{error}");
            assert!(store.enqueue(&batch).await.is_err());
        }
    }
    let error = store.enqueue_once("once", &[keyed("k")]).await.expect_err("two keys");
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    only(&store, &[]).await;
    assert_eq!(store.enqueue_unique(&[]).await.expect("nothing"), []);
}

/// A job keeps its key when its worker dies.
pub async fn a_rescued_job_keeps_its_key(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let finished = free(&store, keyed("k")).await;
    let started = || job().with_unique(Unique::by_key("s").until_started());
    let id = free(&store, started()).await;
    let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    dying.take(2).await;
    rescue_of(&store, &dying, MAX_CRASHES).await;
    taken(&store, keyed("k"), finished).await;
    taken(&store, started(), id).await;
    worker_on(&store).await.drain(10).await;
    free(&store, keyed("k")).await;
    free(&store, started()).await;
}

/// A job that was cancelled, and that housekeeping took out of the way, has no key: nothing that others do later gives it back.
pub async fn what_was_cancelled_leaves_its_key(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let rotate =
        Settings::DEFAULT.with_retention(Duration::ZERO).with_dead_retention(LATER).with_segment_bytes(1);
    let key = |n| format!("k/{n}");
    let old: Vec<_> = (0..3).map(|n| keyed(&key(n))).collect();
    let old = store.enqueue_unique(&old).await.expect("enqueue");
    store.cancel(&old.iter().map(|stored| stored.id).collect::<Vec<_>>()).await.expect("cancel");
    enqueue_jobs(&store, 2).await;
    for round in 0..6 {
        maintain_with(&store, rotate).await;
        if round == 3 {
            worker.take(1).await;
        }
    }
    for n in 0..3 {
        free(&store, keyed(&key(n))).await;
    }
}

/// Keys are kept by the store, not by the process, and as long as their jobs are there: not for the retention of anything.
pub async fn keys_last_as_long_as_their_jobs(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let forget = Settings::DEFAULT
        .with_retention(Duration::ZERO)
        .with_dead_retention(Duration::ZERO)
        .with_segment_bytes(1);
    let scheduled = free(&store, keyed("later").with_delay(LATER)).await;
    let running = free(&store, keyed("running")).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    let waiting = free(&store, keyed("waiting")).await;
    let keys = ["later", "running", "waiting"];
    for _ in 0..6 {
        free(&store, keyed("done").with_queue("other")).await;
        let others = crate::steps::worker(&store, &["other"], &[], LEASE).await;
        assert_eq!(others.drain(10).await.len(), 1);
        maintain_with(&store, forget).await;
        for (key, id) in keys.into_iter().zip([scheduled, running, waiting]) {
            taken(&store, keyed(key), id).await;
        }
    }
    worker.complete(&held).await;
    store.close().await;
    drop((store, worker));
    let store = fixture.open().await;
    taken(&store, keyed("later"), scheduled).await;
    taken(&store, keyed("waiting"), waiting).await;
    free(&store, keyed("running")).await;
}

/// Many callers race for few keys, and workers for their jobs: each key has one job at every instant, and each job that was
/// stored runs once.
pub async fn races_are_won_by_one(fixture: &dyn Fixture) {
    let (callers, rounds, keys, mut random) = (4, 60, 12, random());
    let live: Arc<Mutex<HashMap<String, JobId>>> = Arc::default();
    let (mut enqueuing, mut working) = (JoinSet::new(), JoinSet::new());
    let done = Arc::new(Mutex::new(HashSet::new()));
    let finished = Arc::new(std::sync::atomic::AtomicBool::new(false));
    for _ in 0..callers {
        let (store, mut random) = (fixture.open().await, random.fork());
        enqueuing.spawn(async move {
            let mut stored = Vec::new();
            for round in 0..rounds {
                let size = if round % 2 == 0 { 1 } else { random.usize(1..=20) };
                let batch: Vec<_> = (0..size)
                    .map(|_| {
                        let key = format!("k{}", random.usize(..keys));
                        NewJob::new(KIND, Args::of(&key).expect("args"))
                            .with_queue(QUEUE)
                            .with_unique(Unique::by_key(key))
                    })
                    .collect();
                let replies = store.enqueue_unique(&batch).await.expect("enqueue");
                stored.extend(replies.iter().filter(|reply| reply.conflict.is_none()).map(|reply| reply.id));
            }
            stored
        });
    }
    for _ in 0..2 {
        let worker = worker_on(&fixture.open().await).await;
        let (live, done, finished) = (Arc::clone(&live), Arc::clone(&done), Arc::clone(&finished));
        let mut random = random.fork();
        working.spawn(async move {
            loop {
                let last = finished.load(std::sync::atomic::Ordering::SeqCst);
                let claims = worker.claim(random.u32(1..=30)).await;
                for held in held(&claims) {
                    let key = String::from_utf8(held.job.args.to_vec()).expect("text");
                    let other = live.lock().expect("lock").insert(key.clone(), held.job.id);
                    assert_eq!(other, None, "{key} has two jobs at once, {} is one", held.job.id);
                    assert!(done.lock().expect("lock").insert(held.job.id), "twice: {}", held.job.id);
                    live.lock().expect("lock").remove(&key);
                    worker.complete(&held).await;
                }
                match claims.is_empty() {
                    true if last => return,
                    true => tokio::task::yield_now().await,
                    false => {}
                }
            }
        });
    }
    let stored: Vec<_> = enqueuing.join_all().await.concat();
    finished.store(true, std::sync::atomic::Ordering::SeqCst);
    working.join_all().await;
    let stored_once: HashSet<_> = stored.iter().copied().collect();
    assert_eq!(stored.len(), stored_once.len(), "one caller is told that it stored a job");
    assert!(*done.lock().expect("lock") == stored_once, "each job that was stored ran");
}
