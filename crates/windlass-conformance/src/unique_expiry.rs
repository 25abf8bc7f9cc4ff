//! Unique jobs that expire: one that no worker will start any more has no key, though it is there until a worker meets it.

use crate::{
    Fixture,
    steps::*,
    unique::{free, keyed, taken},
};
use jiff::Timestamp;
use std::time::Duration;
use windlass_core::{Conflict, Disposition, NewJob, OnConflict, Unique};

const REPLACE: OnConflict = OnConflict::Replace { max_wait: None };

fn over(job: NewJob) -> NewJob {
    job.with_expires_at(Timestamp::UNIX_EPOCH)
}

/// Wherever it waits, and whatever the rule of the one that finds it there. Its window goes on.
pub async fn who_expired_leaves_its_key(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let with = |key: &str, rule| job().with_unique(Unique::by_key(key).on_conflict(rule));
    let started = || job().with_unique(Unique::by_key("started").until_started());
    let window = || job().with_unique(Unique::by_key("window").for_window(LATER));
    let held = free(&store, over(window())).await;
    taken(&store, window(), held).await;
    for alone in [true, false] {
        for (nth, rule) in [OnConflict::Keep, REPLACE, OnConflict::Error].into_iter().enumerate() {
            let key = format!("{nth}/{alone}");
            free(&store, over(keyed(&key))).await;
            let new = with(&key, rule);
            let batch = if alone { vec![new] } else { vec![new, job()] };
            let stored = store.enqueue_unique(&batch).await.expect("enqueue unique")[0];
            assert_eq!(stored.conflict, None, "the key of one that expired is free");
            taken(&store, keyed(&key), stored.id).await;
        }
    }
    let first = free(&store, over(started())).await;
    let second = free(&store, started()).await;
    assert!(first < second);
    taken(&store, started(), second).await;
    worker.drain(30).await;
    // What waits for its next attempt.
    free(&store, over(keyed("tried"))).await;
    worker.except(&worker.take_one().await, Disposition::Retry { delay: LATER, error: "no".into() }).await;
    let anew = free(&store, keyed("tried")).await;
    taken(&store, keyed("tried"), anew).await;
}

/// The worker that has it cancels it. However many such claims there are.
pub async fn who_was_claimed_too_late_leaves_its_key(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let keys: Vec<_> = (0..20).map(|n| format!("k/{n}")).collect();
    for key in &keys {
        free(&store, over(keyed(key))).await;
        worker.take_one().await;
        free(&store, keyed(key).with_queue("beside")).await;
    }
    for key in &keys {
        free(&store, over(keyed(&format!("other/{key}")))).await;
        worker.take_one().await;
    }
    let all: Vec<_> = keys.iter().map(|key| keyed(&format!("other/{key}")).with_queue("beside")).collect();
    let stored = store.enqueue_unique(&all).await.expect("enqueue unique");
    assert!(stored.iter().all(|stored| stored.conflict.is_none()), "{stored:?}");
}

/// It may run for as long as it likes.
pub async fn who_began_in_time_keeps_its_key(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let mut after = Duration::from_millis(50);
    let held = loop {
        free(&store, keyed("k").with_expiry(after)).await;
        let held = worker.take_one().await;
        let seen = record(&store, held.job.id).await;
        if seen.claimed_at < seen.expires_at {
            break held;
        }
        worker.except(&held, Disposition::expired(Timestamp::UNIX_EPOCH)).await;
        after *= 2;
    };
    let probe = || keyed("probe").with_queue("beside").with_expiry(after);
    free(&store, probe()).await;
    eventually("a job that expires later has expired", || async {
        let stored = store.enqueue_unique(&[probe().with_queue("beside")]).await.expect("enqueue unique")[0];
        stored.conflict.is_none().then_some(())
    })
    .await;
    taken(&store, keyed("k"), held.job.id).await;
}

/// After a time by the store's clock, whatever way it comes.
pub async fn a_unique_job_expires_after_a_time(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let new = |key: &str| keyed(key).with_expiry(LATER);
    let replacing =
        |key: &str| job().with_unique(Unique::by_key(key).on_conflict(REPLACE)).with_expiry(LATER);
    let mut ids = vec![free(&store, new("alone")).await];
    ids.push(free(&store, new("later").with_delay(LATER / 2)).await);
    let many: Vec<_> = (0..20).map(|n| new(&format!("many/{n}"))).collect();
    ids.extend(store.enqueue_unique(&many).await.expect("enqueue").iter().map(|stored| stored.id));
    for delay in [Duration::ZERO, LATER / 2] {
        let key = format!("replaced/{delay:?}");
        free(&store, keyed(&key).with_delay(delay)).await;
        let stored = store.enqueue_unique(&[replacing(&key).with_delay(delay)]).await.expect("enqueue")[0];
        assert_eq!(stored.conflict, Some(Conflict::Replaced));
        ids.push(stored.id);
    }
    for id in ids {
        let job = record(&store, id).await;
        let left = job.expires_at.expect("it expires").duration_since(job.enqueued_at);
        let left = Duration::try_from(left).expect("after its enqueue");
        assert!(left >= LATER && left < LATER + DEADLINE, "{left:?}");
    }
}
