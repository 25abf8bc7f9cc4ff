//! A server whose clock was ahead for a while, and then set back: what was noted meanwhile lies in the future.

use crate::session::Session;
use std::{sync::Arc, time::Duration};
use windlass_conformance::steps::{KEEP_NOTHING, LATER, QUEUE, enqueue, enqueue_jobs, job, state, worker_on};
use windlass_core::{Disposition, JobState, KeyLimit, KeyLimitsChange, RetentionRule, Store, Unique};

const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) async fn place() -> (Session, Arc<dyn Store>) {
    let session = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    (session, store)
}

/// Retention counts from when it is found out, so nothing goes earlier than it may.
#[tokio::test]
async fn segments_closed_in_the_future_are_emptied() {
    let (session, store) = place().await;
    store.configure(&KEEP_NOTHING.with_retention(HOUR)).await.unwrap();
    enqueue_jobs(&store, 10).await;
    worker_on(&store).await.drain(10).await;
    assert!(store.maintain().await.unwrap().rotated);
    session
        .run("UPDATE windlass.ring SET opened_at = now() + interval '1 year', closed_at[1] = now() + interval '1 year'")
        .await;
    assert_eq!(store.maintain().await.unwrap().truncated, 0);
    let ring = "SELECT bool_and(at BETWEEN clock_timestamp() - interval '10 minutes' AND clock_timestamp())
                FROM windlass.ring r, unnest(ARRAY[r.opened_at, r.closed_at[1]]) AS at";
    assert!(session.value::<bool>(ring).await);
    store.configure(&KEEP_NOTHING).await.unwrap();
    let mut truncated = 0;
    for _ in 0..4 {
        truncated += store.maintain().await.unwrap().truncated;
    }
    assert_eq!(truncated, 1);
}

/// What housekeeping does once in a while it does again, although the last time lies in the future.
#[tokio::test]
async fn housekeeping_goes_on() {
    let (session, store) = place().await;
    store.limit_keys(QUEUE, &KeyLimitsChange::Default(KeyLimit::serial())).await.unwrap();
    enqueue(&store, job().with_key("a")).await;
    worker_on(&store).await.take_one().await;
    session
        .run(
            "UPDATE windlass.housekeeping SET lanes_checked_at = now() + interval '1 year', turns_began_at = now() + interval '1 year';
             UPDATE windlass.timing_kept SET minutes = now() + interval '1 year', quarters = now() + interval '1 year';
             INSERT INTO windlass.attempt_error (job_id, checked_at, worker_id, attempt, error)
                 SELECT 4711, now() + n * interval '1 year', 1, 1, 'no' FROM generate_series(1, 3) AS n",
        )
        .await;
    store.maintain().await.unwrap();
    for what in [
        "lanes_checked_at <= now() FROM windlass.housekeeping",
        "turns_began_at <= now() FROM windlass.housekeeping",
        "minutes BETWEEN now() - interval '1 hour' AND now() FROM windlass.timing_kept",
        "quarters BETWEEN now() - interval '7 hours' AND now() - interval '6 hours' FROM windlass.timing_kept",
        "count(*) = 3 AND max(checked_at) <= now() FROM windlass.attempt_error",
    ] {
        assert!(session.value::<bool>(&format!("SELECT {what}")).await, "{what}");
    }
}

/// What ended then is not what ended last, for ever: by count it would be all that is kept.
#[tokio::test]
async fn what_ends_from_then_on_is_kept() {
    let (session, store) = place().await;
    store.set_retention(&[RetentionRule::of_every_queue(JobState::Discarded).with_count(3)]).await.unwrap();
    let ids = enqueue_jobs(&store, 4).await;
    let worker = worker_on(&store).await;
    let discard = async || {
        let held = worker.take_one().await;
        worker.except(&held, Disposition::Discard { error: "no".into(), failed: true }).await;
    };
    for _ in 0..3 {
        discard().await;
    }
    session.run("UPDATE windlass.dead SET finished_at = finished_at + interval '1 year'").await;
    discard().await;
    for removed in [1, 0] {
        assert_eq!(store.maintain().await.unwrap().removed_dead, removed);
        assert_eq!(state(&store, ids[3]).await, JobState::Discarded);
    }
    let past = "SELECT count(*) = 3 AND max(finished_at) <= clock_timestamp() FROM windlass.dead";
    assert!(session.value::<bool>(past).await);
}

/// Unique keys that nobody has any more; a long window is looked at when it ends, as before.
#[tokio::test]
async fn unique_keys_are_forgotten() {
    let (session, store) = place().await;
    let window = |key: &str, length| job().with_unique(Unique::by_key(key).for_window(length));
    let over = enqueue(&store, job().with_unique(Unique::by_key("over"))).await;
    store.cancel(&[over]).await.unwrap();
    enqueue(&store, window("window", HOUR)).await;
    session
        .run(
            "UPDATE windlass.unique_key SET taken_at = taken_at + interval '1 year', expires = expires + interval '1 year',
                 check_at = check_at + interval '1 year'",
        )
        .await;
    // It was looked at while the clock was ahead, and has it still.
    let waits = enqueue(&store, job().with_delay(LATER).with_unique(Unique::by_key("waits"))).await;
    session
        .run(&format!(
            "UPDATE windlass.unique_key SET check_at = now() + interval '1 year' WHERE id = {waits}"
        ))
        .await;
    let long = enqueue(&store, window("long", 4_000 * HOUR)).await;
    // Each round looks at some, from any place on.
    for _ in 0..3 {
        store.maintain().await.unwrap();
    }
    let left = "SELECT array_agg(id ORDER BY id) FROM windlass.unique_key";
    assert_eq!(session.value::<Vec<i64>>(left).await, [waits.0, long.0]);
    let checks = "SELECT bool_and(check_at = coalesce(expires, check_at)) AND min(check_at) < now() + interval '5 minutes' FROM windlass.unique_key";
    assert!(session.value::<bool>(checks).await);
}

/// Starts of a queue with a rate count on, and their rows go when that is over.
#[tokio::test]
async fn starts_count_for_their_window() {
    let (session, _) = place().await;
    let worker = session.register("'{q}'").await;
    let give = format!("SELECT starts FROM windlass.share({worker}, '{{q}}', '{{0}}', '{{9}}', '{{1}}')");
    session.run("SELECT windlass.limit_queue('q', rate => 4, period => '10 minutes')").await;
    for year in ["1 year", "2 years"] {
        assert_eq!(session.value::<i32>(&give).await, 1);
        let ahead = "UPDATE windlass.started SET at = at + interval '{}', clock = clock + interval '{}', expires_at = expires_at + interval '{}'";
        session.run(&ahead.replace("{}", year)).await;
        assert_eq!(session.value::<i32>(&give).await, 1);
    }
    assert_eq!(session.value::<i32>(&give).await, 0, "all of them count");
    let last = "SELECT max(expires_at) FROM windlass.started";
    let within = async |period: &str| {
        session.value::<bool>(&format!("SELECT ({last}) < clock_timestamp() + interval '{period}'")).await
    };
    assert!(within("11 minutes").await);
    session.run("SELECT windlass.limit_queue('q', rate => 4, period => '1 hour')").await;
    assert!(!within("11 minutes").await && within("61 minutes").await, "they are kept for the longer window");
}

/// Who has been in touch since a time to come would rescue nobody until then.
#[tokio::test]
async fn the_living_rescue() {
    let (session, _) = place().await;
    let rescuer: i32 = session.value("SELECT windlass.register('a', '{}', '{}', 2)").await;
    let dead: i32 = session.value("SELECT windlass.register('b', '{}', '{}', 2)").await;
    session
        .run("UPDATE windlass.worker SET heartbeat_at = now() + interval '1 day', in_touch_since = now() + interval '1 day'")
        .await;
    let rescue = format!("SELECT worker FROM windlass.rescue({rescuer})");
    assert_eq!(session.value::<Option<i32>>(&rescue).await, None, "leases begin anew");
    for _ in 0..300 {
        session.run(&format!("SELECT windlass.heartbeat({rescuer}, 1, '{{}}', '{{}}')")).await;
        if session.value::<Option<i32>>(&rescue).await == Some(dead) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the other one is not rescued");
}
