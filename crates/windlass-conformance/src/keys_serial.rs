//! Serial keys: one job after the other, in the order of their ids, each over before the next is handed out.

use crate::{
    Fixture,
    keys::story::*,
    steps::{worker as test_worker, *},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::task::JoinSet;
use windlass_core::{
    CancelReply, Conflict, DeleteReply, Disposition, EditReply, JobEdit, JobId, KeyLimit, KeyLimitsChange,
    NewJob, OnConflict, RetryReply, Store, Unique,
};

const SOON: Duration = Duration::from_millis(2);

async fn serial(store: &Arc<dyn Store>) {
    limit(store, KeyLimit::serial()).await;
}

fn retry(delay: Duration) -> Disposition {
    Disposition::Retry { delay, error: "no".into() }
}

/// Of each key one job at a time is handed out, whoever asks, and in the order of their ids.
pub async fn one_after_the_other(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let (a, b) = (enqueue_of(&store, "a", 5).await, enqueue_of(&store, "b", 5).await);
    let (one, other) = (worker_on(&store).await, worker_on(&fixture.open().await).await);
    for (a, b) in a.iter().zip(&b) {
        let jobs = one.claim_all(100).await;
        let mut got = ids_of(&jobs);
        got.sort_unstable();
        assert_eq!(got, [*a, *b]);
        other.waits().await;
        one.complete_all(&jobs).await;
    }
    one.waits().await;
}

/// A serial key beside others: only its own jobs wait for each other.
pub async fn only_its_own_jobs_wait(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit_key(&store, "a", KeyLimit::serial()).await;
    let a = enqueue_of(&store, "a", 3).await;
    enqueue_of(&store, "b", 3).await;
    enqueue_jobs(&store, 3).await;
    let worker = worker_on(&store).await;
    let jobs = worker.claim_all(100).await;
    assert_eq!(["a", "b", ""].map(|key| count_of(&jobs, key)), [1, 3, 3]);
    worker.complete_all(&jobs).await;
    assert_eq!(worker.work_all(10).await, a[1..]);
}

/// While a job waits for its retry, snoozes, came back or waits for another worker, no other of its key goes, not even one
/// of a better priority. Then it goes first.
pub async fn what_is_not_over_blocks(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    for (n, said) in not_over(SOON).into_iter().enumerate() {
        let key = format!("k{n}");
        let own = test_worker(&store, &[QUEUE], &["known"], LEASE).await;
        let ids = enqueue_of(&store, &key, 2).await;
        let first = own.next().await;
        assert_eq!(first.job.id, ids[0]);
        let urgent = enqueue(&store, job_of(&key).with_priority(-9)).await;
        own.except(&first, said.clone()).await;
        if said == Disposition::NoHandler {
            own.waits().await;
        }
        let worker = worker_on(&store).await;
        let again = eventually("the job comes again", || async {
            store.promote(1_000).await.expect("promote");
            worker.claim_all(10).await.pop()
        });
        let again = again.await;
        assert_eq!(again.job.id, ids[0], "{said:?}");
        worker.waits().await;
        worker.complete(&again).await;
        assert_eq!(worker.work_all(10).await, [urgent, ids[1]], "{said:?}");
    }
}

/// However long its retry is away: the others wait. A retry by hand brings it at once.
pub async fn a_long_retry_blocks(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let ids = enqueue_of(&store, "a", 3).await;
    let worker = worker_on(&store).await;
    for said in [retry(LATER), Disposition::Undecryptable { delay: LATER, error: "no key".into() }] {
        let first = worker.next().await;
        assert_eq!(first.job.id, ids[0]);
        worker.except(&first, said).await;
        worker.waits().await;
        assert_eq!(store.retry(&ids[..1]).await.expect("retry"), [RetryReply::Retried]);
    }
    let first = worker.next().await;
    worker.except(&first, Disposition::Snooze { delay: LATER }).await;
    worker.waits().await;
    assert_eq!(store.cancel(&ids[..1]).await.expect("cancel"), [CancelReply::Cancelled]);
    assert_eq!(worker.work_all(10).await, ids[1..]);
}

/// What ended is not forgotten where housekeeping removed another end of the queue before a claim saw that one, in a better lane or a worse one.
pub async fn an_end_is_kept_beside_a_removed_one(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    limit(&store, KeyLimit::default().with_concurrency(1)).await;
    for (n, priority) in [0, 2].into_iter().enumerate() {
        let key = format!("serial{n}");
        limit_key(&store, &key, KeyLimit::serial()).await;
        let ids = [0, 0].map(|_| job_of(&key).with_priority(priority));
        let ids = store.enqueue(&ids).await.expect("enqueue");
        enqueue(&store, job_of("other").with_priority(1)).await;
        let worker = worker_on(&store).await;
        let jobs = worker.claim_all(10).await;
        let (first, other): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|held| key_of(held) == key);
        assert_eq!((ids_of(&first), other.len()), (ids[..1].to_vec(), 1));
        worker.except(&first[0], retry(LATER)).await;
        worker.waits().await;
        worker.complete_all(&other).await;
        empty_segments(&store).await;
        assert_eq!(store.cancel(&ids[..1]).await.expect("cancel"), [CancelReply::Cancelled]);
        assert_eq!(worker.work_all(10).await, ids[1..], "of priority {priority}");
    }
}

/// What a dead worker held comes first, and so does what one handed back at its end.
pub async fn a_rescued_job_goes_first(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let ids = enqueue_of(&store, "a", 3).await;
    let urgent = enqueue(&store, job_of("a").with_priority(1)).await;
    let dying = test_worker(&store, &[QUEUE], &[], TINY_LEASE).await;
    assert_eq!(dying.next().await.job.id, ids[0]);
    let worker = worker_on(&store).await;
    worker.waits().await;
    rescue_of(&store, &dying, MAX_CRASHES).await;
    let leaving = worker_on(&store).await;
    assert_eq!(leaving.next().await.job.id, ids[0]);
    store.deregister(leaving.id).await.expect("deregister");
    assert_eq!(worker.work_all(10).await, [ids[0], ids[1], ids[2], urgent]);
}

/// When a job is over, however it ended, the next goes.
pub async fn an_end_frees_the_key(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let worker = worker_on(&store).await;
    for (n, said) in over().into_iter().enumerate() {
        let ids = enqueue_of(&store, &format!("k{n}"), 2).await;
        let first = worker.next().await;
        assert_eq!(first.job.id, ids[0]);
        worker.except(&first, said.clone()).await;
        assert_eq!(worker.work_all(10).await, ids[1..], "{said:?}");
    }
    let ids = enqueue_of(&store, "asked", 2).await;
    let first = worker.next().await;
    store.cancel(&ids[..1]).await.expect("cancel");
    worker.waits().await;
    worker.except(&first, retry(LATER)).await;
    assert_eq!(worker.work_all(10).await, ids[1..], "a cancelled job is not tried again");
}

/// Cancelling or deleting a job that waits and blocks its key frees that.
pub async fn taking_the_blocker_away_frees_the_key(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let worker = test_worker(&store, &[QUEUE], &["known"], LEASE).await;
    for (n, said) in not_over(LATER).into_iter().enumerate() {
        for deletes in [false, true] {
            let ids = enqueue_of(&store, &format!("k{n} {deletes}"), 2).await;
            let first = worker.next().await;
            worker.except(&first, said.clone()).await;
            match deletes {
                true => assert_eq!(store.delete(&ids[..1]).await.expect("delete"), [DeleteReply::Deleted]),
                false => assert_eq!(store.cancel(&ids[..1]).await.expect("cancel"), [CancelReply::Cancelled]),
            }
            assert_eq!(worker.work_all(10).await, ids[1..], "{said:?}, deleted: {deletes}");
        }
    }
}

/// A job that blocks its key and is edited goes on blocking it, unless it goes to another queue: there it comes by its id as
/// one that was never handed out.
pub async fn an_edited_blocker(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    store.limit_keys("elsewhere", &KeyLimitsChange::Default(KeyLimit::serial())).await.expect("limit keys");
    let edit = async |id: JobId, edit: JobEdit| {
        assert_eq!(store.edit(&[id], &edit).await.expect("edit"), [EditReply::Edited]);
    };
    let there = enqueue(&store, job_of("a").with_queue("elsewhere")).await;
    let ids = enqueue_of(&store, "a", 3).await;
    let worker = worker_on(&store).await;
    let first = worker.next().await;
    worker.except(&first, retry(LATER)).await;
    edit(ids[0], JobEdit::new().with_max_attempts(9)).await;
    worker.waits().await;
    edit(ids[0], JobEdit::new().with_no_delay()).await;
    let first = worker.next().await;
    assert_eq!(first.job.id, ids[0]);
    worker.except(&first, Disposition::Return).await;
    edit(ids[0], JobEdit::new().with_priority(9)).await;
    let first = worker.next().await;
    assert_eq!(first.job.id, ids[0], "available, and of a worse priority");
    worker.except(&first, Disposition::Return).await;
    edit(ids[0], JobEdit::new().with_delay(LATER)).await;
    worker.waits().await;
    edit(ids[0], JobEdit::new().with_no_delay().with_queue("elsewhere").with_priority(0)).await;
    assert_eq!(worker.work_all(10).await, ids[1..]);
    let worker = test_worker(&store, &["elsewhere"], &[], LEASE).await;
    let first = worker.take_one().await;
    worker.finds_nothing().await;
    worker.complete(&first).await;
    let second = worker.take_one().await;
    assert_eq!([first.job.id, second.job.id], [there, ids[0]]);
}

/// A unique job, of this name, that replaces the one before.
fn replacing(name: &str, job: NewJob) -> NewJob {
    job.with_unique(Unique::by_key(name).on_conflict(OnConflict::Replace { max_wait: None }))
}

/// Enqueues one, which replaces another or does not.
async fn enqueue_replacing(store: &Arc<dyn Store>, name: &str, job: NewJob, replaces: bool) -> JobId {
    let stored = store.enqueue_unique(&[replacing(name, job)]).await.expect("enqueue")[0];
    assert_eq!(stored.conflict, replaces.then_some(Conflict::Replaced));
    stored.id
}

/// A job that blocks its key and is replaced by one of the same queue and key goes on blocking it; by another it frees the key.
pub async fn a_replaced_blocker(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let later = || job_of("a").with_delay(LATER);
    let first = enqueue_replacing(&store, "u", job_of("a"), false).await;
    let others = enqueue_of(&store, "a", 2).await;
    let worker = worker_on(&store).await;
    let held = worker.next().await;
    assert_eq!(held.job.id, first);
    worker.except(&held, Disposition::Snooze { delay: LATER }).await;
    // The second is of a priority that the queue never had.
    for job in [later(), later().with_priority(9)] {
        assert_eq!(enqueue_replacing(&store, "u", job, true).await, first);
        worker.waits().await;
    }
    let of_another = job_of("b").with_delay(LATER).with_priority(7);
    assert_eq!(enqueue_replacing(&store, "u", of_another, true).await, first);
    assert_eq!(worker.work_all(10).await, others, "it is of another key now");
}

/// A job that blocks its key, was replaced, and is cancelled or deleted then frees the key.
pub async fn taking_a_replaced_blocker_away(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let worker = worker_on(&store).await;
    for key in ["cancelled", "deleted"] {
        let first = enqueue_replacing(&store, key, job_of(key), false).await;
        let other = enqueue_of(&store, key, 1).await;
        let held = worker.next().await;
        worker.except(&held, Disposition::Snooze { delay: LATER }).await;
        enqueue_replacing(&store, key, job_of(key).with_delay(LATER), true).await;
        worker.waits().await;
        match key {
            "cancelled" => {
                assert_eq!(store.cancel(&[first]).await.expect("cancel"), [CancelReply::Cancelled]);
            }
            _ => assert_eq!(store.delete(&[first]).await.expect("delete"), [DeleteReply::Deleted]),
        }
        assert_eq!(worker.work_all(10).await, other, "what blocked it is gone");
    }
}

/// Of the jobs that are there the one with the lowest id goes first, however late it became available.
pub async fn the_lowest_id_goes_first(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let late = enqueue(&store, job_of("a").with_delay(LATER)).await;
    let ids = enqueue_of(&store, "a", 3).await;
    let worker = worker_on(&store).await;
    let first = worker.next().await;
    assert_eq!(first.job.id, ids[0], "what is not due blocks nobody");
    store.edit(&[late], &JobEdit::new().with_no_delay()).await.expect("edit");
    worker.waits().await;
    worker.complete(&first).await;
    assert_eq!(worker.work_all(10).await, [late, ids[1], ids[2]]);
}

/// A dead job that is retried is as one that was never handed out: it goes in by its id and blocks nobody.
pub async fn a_dead_job_starts_anew(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let ids = enqueue_of(&store, "a", 4).await;
    let worker = worker_on(&store).await;
    let first = worker.next().await;
    worker.except(&first, Disposition::Discard { error: "bad".into(), failed: true }).await;
    let second = worker.next().await;
    assert_eq!(second.job.id, ids[1]);
    assert_eq!(store.retry(&ids[..1]).await.expect("retry"), [RetryReply::Retried]);
    worker.waits().await;
    worker.except(&second, retry(SOON)).await;
    let again = eventually("the second job comes again", || async {
        store.promote(1_000).await.expect("promote");
        worker.claim_all(10).await.pop()
    });
    let again = again.await;
    assert_eq!(again.job.id, ids[1], "it is not over");
    worker.complete(&again).await;
    assert_eq!(worker.work_all(10).await, [ids[0], ids[2], ids[3]]);
    assert_eq!(store.cancel(&ids[..1]).await.expect("cancel"), [CancelReply::Finished]);
}

/// A key that becomes serial: what is held counts, nothing else goes until all of that is over.
pub async fn a_key_becomes_serial(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    for keyed_before in [false, true] {
        let key = format!("keyed before: {keyed_before}");
        let ids = enqueue_of(&store, &key, 6).await;
        let worker = worker_on(&store).await;
        let held = worker.claim_all(3).await;
        limit_key(&store, &key, KeyLimit::serial()).await;
        worker.waits().await;
        worker.complete(&held[1]).await;
        worker.waits().await;
        worker.except(&held[2], retry(LATER)).await;
        worker.complete(&held[0]).await;
        worker.waits().await;
        assert_eq!(store.retry(&ids[2..3]).await.expect("retry"), [RetryReply::Retried]);
        assert_eq!(worker.work_all(10).await, ids[2..], "{key}");
    }
}

/// A key that is serial no more: what waits goes, though one of its jobs waits for its retry.
pub async fn a_key_is_serial_no_more(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let ids = enqueue_of(&store, "a", 4).await;
    let worker = worker_on(&store).await;
    let first = worker.next().await;
    worker.except(&first, retry(LATER)).await;
    worker.waits().await;
    limit(&store, at_once(2)).await;
    let jobs = worker.claim_all(10).await;
    assert_eq!(ids_of(&jobs), ids[1..3]);
    worker.complete_all(&jobs).await;
    assert_eq!(worker.work_all(10).await, ids[3..]);
}

/// Jobs of how many keys race, and how many of each.
const KEYS: usize = 5;
const EACH: usize = 30;

/// Workers of several processes that race, retry and hand back: the jobs of each key are done one at a time, in the order of
/// their ids.
pub async fn order_survives_races(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    serial(&store).await;
    let mut expected = HashMap::new();
    for key in 0..KEYS {
        let key = format!("k{key}");
        expected.insert(key.clone(), enqueue_of(&store, &key, EACH).await);
    }
    let done: Arc<Mutex<HashMap<String, Vec<JobId>>>> = Arc::default();
    let mut tasks = JoinSet::new();
    for seed in 0..4 {
        let (store, done) = (fixture.open().await, Arc::clone(&done));
        tasks.spawn(async move { compete(store, seed, &done).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no worker fails");
    }
    assert_eq!(*done.lock().expect("no panic"), expected);
}

async fn compete(store: Arc<dyn Store>, seed: u64, done: &Mutex<HashMap<String, Vec<JobId>>>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let worker = worker_on(&store).await;
    let deadline = tokio::time::Instant::now() + DEADLINE;
    let count = || done.lock().expect("no panic").values().map(Vec::len).sum::<usize>();
    while count() < KEYS * EACH {
        assert!(tokio::time::Instant::now() < deadline, "the jobs are done in time");
        store.promote(100).await.expect("promote");
        for held in held(&worker.claim(rng.u32(1..4)).await) {
            if rng.u32(..4) == 0 {
                let said = not_over(SOON).into_iter().nth(rng.usize(..5)).expect("one of them");
                worker.except(&held, said).await;
                continue;
            }
            done.lock().expect("no panic").entry(key_of(&held).to_owned()).or_default().push(held.job.id);
            worker.complete(&held).await;
        }
    }
}
