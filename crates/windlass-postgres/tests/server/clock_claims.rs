//! What a server whose clock was ahead for a while, and then set back, hands out and stores: rates of keys, priorities, windows of unique jobs.

use crate::{
    clock::place,
    keys::{claim, complete, of},
};
use std::time::Duration;
use windlass_conformance::steps::{LATER, QUEUE, job, worker_on};
use windlass_core::{Conflict, KeyLimit, KeyLimitsChange, OnConflict, RateLimit, Unique};

/// Claims looked while it was ahead, or nothing had ended before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rates_of_keys_go_on() {
    const PERIOD: Duration = Duration::from_secs(3);
    for looked in [false, true] {
        let (session, store) = place().await;
        let rate = KeyLimit::default().with_rate(RateLimit::new(2, PERIOD));
        store.limit_keys(QUEUE, &KeyLimitsChange::Default(rate)).await.unwrap();
        store.enqueue(&of("a", 4)).await.unwrap();
        let worker = worker_on(&store).await;
        let held = claim(&worker, 10).await;
        complete(&worker, &held).await;
        assert!(claim(&worker, 10).await.is_empty());
        session
            .run(
                "UPDATE windlass.key_ended SET free_at = free_at + interval '1 year';
                 UPDATE windlass.key_turn SET due_at = due_at + interval '1 year';
                 UPDATE windlass.claim SET claimed_at = claimed_at + interval '1 year';
                 UPDATE windlass.settlement SET settled_at = settled_at + interval '1 year'",
            )
            .await;
        if looked {
            session
                .run("INSERT INTO windlass.key_looked (queue, at) VALUES ('q', now() + interval '1 year')")
                .await;
        }
        store.enqueue(&of("new", 3)).await.unwrap();
        let new = claim(&worker, 10).await;
        assert_eq!(new.len(), 2, "those of the other key count still; looked: {looked}");
        complete(&worker, &new).await;
        let mut left = 3;
        for _ in 0..200 {
            store.promote(1_000).await.unwrap();
            let held = claim(&worker, 10).await;
            complete(&worker, &held).await;
            left -= held.len();
            if left == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(left, 0, "looked: {looked}");
    }
}

/// A lane of which something was claimed, or enqueued, at a time to come has waited for nobody knows how long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_priority_starves() {
    for keyed in [false, true] {
        let (session, store) = place().await;
        if keyed {
            let five = KeyLimit::default().with_concurrency(5);
            store.limit_keys(QUEUE, &KeyLimitsChange::Default(five)).await.unwrap();
        }
        let of = |priority: i16| {
            let job = job().with_priority(priority);
            if keyed { job.with_key(format!("p{priority}")) } else { job }
        };
        let worker = worker_on(&store).await;
        let low = store.enqueue(&[of(9), of(9)]).await.unwrap();
        complete(&worker, &claim(&worker, 1).await).await;
        let ahead = "UPDATE windlass.claim k SET claimed_at = now() + interval '1 year' FROM windlass.lane l WHERE l.id = k.lane_id AND l.priority = 9;
             UPDATE windlass.job j SET enqueued_at = now() + interval '1 year' FROM windlass.lane l WHERE l.id = j.lane_id AND l.priority = 9;
             UPDATE windlass.waiting h SET available_at = now() + interval '1 year' FROM windlass.lane l WHERE l.id = h.lane_id AND l.priority = 9";
        let mut came = false;
        for n in 0..400 {
            if n % 40 == 0 {
                session.run(ahead).await;
            }
            store.enqueue(&[of(0), of(0)]).await.unwrap();
            let held = claim(&worker, 1).await;
            complete(&worker, &held).await;
            came |= held.iter().any(|held| held.job.id == low[1]);
            if came {
                break;
            }
        }
        assert!(came, "keyed: {keyed}");
    }
}

/// A window that was taken then is void; a small step lets no second job in.
#[tokio::test]
async fn windows_of_unique_jobs_do_not_last_longer() {
    const WINDOW: Duration = Duration::from_secs(600);
    let replace = OnConflict::Replace { max_wait: None };
    for (rule, conflict) in [
        (OnConflict::Keep, Conflict::Kept),
        (OnConflict::Extend, Conflict::Extended),
        (replace, Conflict::Replaced),
    ] {
        let (session, store) = place().await;
        let set_back = async |by: &str| {
            session
                .run(&format!(
                    "UPDATE windlass.unique_key SET taken_at = taken_at + interval '{by}', expires = expires + interval '{by}',
                         check_at = check_at + interval '{by}'"
                ))
                .await;
        };
        let enqueue = async || {
            let unique = Unique::by_key("k").for_window(WINDOW).on_conflict(rule);
            let job = job().with_delay(LATER).with_unique(unique);
            store.enqueue_unique(&[job]).await.unwrap()[0].conflict
        };
        assert_eq!(enqueue().await, None);
        set_back("5 minutes").await;
        assert_eq!(enqueue().await, Some(conflict));
        set_back("1 year").await;
        assert_eq!(enqueue().await, None, "{rule:?}");
        assert_eq!(enqueue().await, Some(conflict), "it has the key from now on");
    }
}
