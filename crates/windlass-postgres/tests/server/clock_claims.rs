//! What a server whose clock was ahead for a while, and then set back, hands out: priorities.

use crate::{
    clock::place,
    keys::{claim, complete},
};
use windlass_conformance::steps::{QUEUE, job, worker_on};
use windlass_core::{KeyLimit, KeyLimitsChange};

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
