//! Fair keys: those of a lane that have jobs share its claims by their weights.

use crate::{Fixture, keys::story::*, steps::*};
use std::sync::Arc;
use windlass_core::{JobId, KeyLimit, Store};

/// More jobs than a key gets done in a rule.
const MANY: usize = 2_000;

async fn fair(fixture: &dyn Fixture) -> Option<Arc<dyn Store>> {
    let store = keyed(fixture).await?;
    limit(&store, KeyLimit::default()).await;
    Some(store)
}

/// Works so many rounds of so many jobs; how many jobs of each of these keys were done.
async fn work(worker: &TestWorker, rounds: usize, most: usize, keys: [&str; 2]) -> [usize; 2] {
    let mut sum = [0, 0];
    for _ in 0..rounds {
        let jobs = worker.work(most).await;
        assert_eq!(jobs.len(), most, "there are enough jobs");
        keys.iter().zip(&mut sum).for_each(|(key, sum)| *sum += count_of(&jobs, key));
    }
    sum
}

fn is_about(count: usize, expected: usize) -> bool {
    count.abs_diff(expected) * 20 <= expected
}

/// Few jobs of one key behind many of another are in the next claims.
pub async fn a_noisy_key_hides_no_other(fixture: &dyn Fixture) {
    let Some(store) = fair(fixture).await else { return };
    enqueue_of(&store, "noisy", MANY).await;
    let worker = worker_on(&store).await;
    work(&worker, 3, 20, ["noisy", "quiet"]).await;
    enqueue_of(&store, "quiet", 10).await;
    let [_, quiet] = work(&worker, 2, 20, ["noisy", "quiet"]).await;
    assert!(quiet >= 5, "{quiet} jobs of the quiet key in two claims of 20");
    let [_, more] = work(&worker, 2, 20, ["noisy", "quiet"]).await;
    assert_eq!(quiet + more, 10, "all of them in four claims of 20");
}

/// The same where all of them came in one call, and where the limit came after the jobs.
pub async fn order_of_arrival_does_not_count(fixture: &dyn Fixture) {
    let Some(store) = keyed(fixture).await else { return };
    let of = |key: &'static str| move |_| job_of(key);
    let batch: Vec<_> = (0..MANY).map(of("noisy")).chain((0..10).map(of("quiet"))).collect();
    store.enqueue(&batch).await.expect("enqueue");
    limit(&store, KeyLimit::default()).await;
    let worker = worker_on(&store).await;
    let [_, quiet] = work(&worker, 6, 20, ["noisy", "quiet"]).await;
    assert_eq!(quiet, 10, "all of them in six claims of 20");
}

/// Over many claims the keys get jobs done by their weights, whatever the size of a claim.
pub async fn weights_divide(fixture: &dyn Fixture) {
    let Some(store) = fair(fixture).await else { return };
    limit_key(&store, "heavy", KeyLimit::default().with_weight(3)).await;
    for key in ["light", "heavy"] {
        enqueue_of(&store, key, MANY).await;
    }
    let worker = worker_on(&store).await;
    for (rounds, most) in [(20, 20), (57, 7), (4, 100), (400, 1)] {
        let [light, heavy] = work(&worker, rounds, most, ["light", "heavy"]).await;
        let all = rounds * most;
        assert!(
            is_about(light, all / 4) && is_about(heavy, all * 3 / 4),
            "{light}:{heavy} in claims of {most}"
        );
    }
    limit_key(&store, "heavy", KeyLimit::default()).await;
    work(&worker, 1, 20, ["light", "heavy"]).await;
    let [light, heavy] = work(&worker, 20, 20, ["light", "heavy"]).await;
    assert!(is_about(light, 200) && is_about(heavy, 200), "{light}:{heavy} of equal weight");
}

/// Who comes late, or again, begins like the others: nothing is made up for its absence.
pub async fn absence_is_no_credit(fixture: &dyn Fixture) {
    let Some(store) = fair(fixture).await else { return };
    enqueue_of(&store, "steady", MANY).await;
    let worker = worker_on(&store).await;
    work(&worker, 20, 20, ["steady", "late"]).await;
    for _ in 0..2 {
        let late = enqueue_of(&store, "late", 200).await;
        let [steady, of_late] = work(&worker, 10, 20, ["steady", "late"]).await;
        assert!((85..=115).contains(&steady), "{steady}:{of_late} after an absence");
        store.cancel(&late).await.expect("cancel");
        work(&worker, 5, 20, ["steady", "late"]).await;
    }
}

/// While others have jobs, no key has a claim for itself.
pub async fn no_claim_is_one_keys(fixture: &dyn Fixture) {
    let Some(store) = fair(fixture).await else { return };
    for key in ["a", "b", "c"] {
        enqueue_of(&store, key, 100).await;
    }
    let worker = worker_on(&store).await;
    for round in 0..20 {
        let jobs = worker.work(12).await;
        let counts = ["a", "b", "c"].map(|key| count_of(&jobs, key));
        assert!(counts.iter().all(|count| (1..=8).contains(count)), "round {round}: {counts:?} of 12");
    }
}

/// However many keys there are, each gets its turn before one gets many.
pub async fn many_keys_take_turns(fixture: &dyn Fixture) {
    let Some(store) = fair(fixture).await else { return };
    let names: Vec<String> = (0..60).map(|n| format!("key {n}")).collect();
    for name in &names {
        enqueue_of(&store, name, 20).await;
    }
    let worker = worker_on(&store).await;
    let mut done = Vec::new();
    for _ in 0..30 {
        done.extend(worker.work(20).await);
    }
    for name in &names {
        let count = count_of(&done, name);
        assert!((8..=12).contains(&count), "{count} of {name} in 600 of 60 keys");
    }
    let rest = worker.work_all(100).await;
    let mut all: Vec<JobId> = ids_of(&done).into_iter().chain(rest).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 1_200, "and all of them are done");
}

/// Jobs without a key neither starve nor are they starved.
pub async fn those_without_a_key_take_part(fixture: &dyn Fixture) {
    let Some(store) = fair(fixture).await else { return };
    enqueue_jobs(&store, 500).await;
    for key in ["a", "b"] {
        enqueue_of(&store, key, 250).await;
    }
    let worker = worker_on(&store).await;
    let [without, of_a] = work(&worker, 20, 10, ["", "a"]).await;
    assert!(without >= 40 && of_a >= 40, "{without} without a key, {of_a} of a in 200");
}

/// A key at its limit leaves its part of a claim to the others, and gets none of it back later.
pub async fn a_full_key_leaves_room(fixture: &dyn Fixture) {
    let Some(store) = fair(fixture).await else { return };
    limit_key(&store, "full", at_once(1)).await;
    for key in ["full", "free"] {
        enqueue_of(&store, key, 300).await;
    }
    let worker = worker_on(&store).await;
    let jobs = worker.claim_all(10).await;
    assert_eq!(["full", "free"].map(|key| count_of(&jobs, key)), [1, 9]);
    let more = worker.claim_all(50).await;
    assert_eq!(count_of(&more, "free"), 50);
    worker.complete_all(&jobs).await;
    limit_key(&store, "full", None).await;
    let [full, free] = work(&worker, 5, 20, ["full", "free"]).await;
    assert!((35..=65).contains(&full), "{full}:{free} after a while at its limit");
}

/// No priority of a keyed queue starves, however much there is of a better one.
pub async fn no_priority_starves(fixture: &dyn Fixture) {
    let Some(store) = fair(fixture).await else { return };
    limit_key(&store, "full", at_once(1)).await;
    let worker = worker_on(&store).await;
    let full = enqueue(&store, job_of("full")).await;
    assert_eq!(worker.next().await.job.id, full);
    // It waits longer than the other, and may not go.
    enqueue(&store, job_of("full").with_priority(2)).await;
    let low = enqueue(&store, job_of("a").with_priority(1)).await;
    eventually("the job of the low priority comes", || async {
        rest().await;
        enqueue_of(&store, "a", 2).await;
        let jobs = worker.work(2).await;
        jobs.iter().any(|held| held.job.id == low).then_some(())
    })
    .await;
}
