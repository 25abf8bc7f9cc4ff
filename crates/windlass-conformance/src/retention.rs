//! Retention by queue and outcome: what the rules say, and what housekeeping makes of it.

use crate::{Fixture, steps::*};
use std::{sync::Arc, time::Duration};
use windlass_core::{Disposition, ErrorKind, JobId, JobState, RetentionRule, Settings, Settled, Store};

const CANCELLED: JobState = JobState::Cancelled;
const DISCARDED: JobState = JobState::Discarded;

fn rule(queue: &str, outcome: JobState) -> RetentionRule {
    RetentionRule::of(queue, outcome)
}

async fn set(store: &Arc<dyn Store>, rules: &[RetentionRule]) {
    store.set_retention(rules).await.expect("set retention");
}

/// Which of these jobs are there.
async fn left(store: &Arc<dyn Store>, ids: &[JobId]) -> Vec<JobId> {
    let mut left = Vec::new();
    for &id in ids {
        if store.job(id).await.expect("look up").is_some() {
            left.push(id);
        }
    }
    left
}

/// So many jobs of the queue that were cancelled one after the other, at two priorities in turns.
async fn cancelled(store: &Arc<dyn Store>, queue: &'static str, count: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for n in 0..count {
        let id = enqueue(store, job().with_queue(queue).with_priority((n % 2) as i16)).await;
        store.cancel(&[id]).await.expect("cancel");
        ids.push(id);
    }
    ids
}

/// So many jobs of the queue that were discarded one after the other.
async fn discarded(store: &Arc<dyn Store>, queue: &'static str, count: usize) -> Vec<JobId> {
    let worker = worker(store, &[queue], &[], LEASE).await;
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(enqueue(store, job().with_queue(queue)).await);
        let held = worker.take_one().await;
        let discard = Disposition::Discard { error: "bad".into(), failed: true };
        assert_eq!(worker.except(&held, discard).await, Settled::Accepted);
    }
    ids
}

/// Rules are kept as they were given, for everybody; one takes the place of another, and goes when it says nothing.
pub async fn rules_are_kept(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    assert_eq!(other.retention().await.expect("retention"), []);
    let every = RetentionRule::of_every_queue(CANCELLED).with_count(0);
    let short = rule("b", JobState::Completed).with_age(Duration::from_millis(1_500));
    let both = rule("a", DISCARDED).with_age(Settings::LONGEST).with_count(RetentionRule::MAX_COUNT);
    set(&store, &[short.clone(), both.clone(), every.clone()]).await;
    assert_eq!(other.retention().await.expect("retention"), [every.clone(), both, short.clone()]);
    let changed = rule("a", DISCARDED).with_count(7);
    set(&other, &[changed.clone(), rule("b", JobState::Completed)]).await;
    assert_eq!(store.retention().await.expect("retention"), [every, changed]);
    set(&store, &[rule("never there", CANCELLED)][..0]).await;
    set(&store, &[rule("never-there", CANCELLED)]).await;
    assert_eq!(store.retention().await.expect("retention").len(), 2);
}

/// What cannot work is refused by name, and nothing of the call is kept.
pub async fn nonsense_changes_nothing(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let fine = rule("fine", CANCELLED).with_count(1);
    for (bad, kind, says) in [
        (rule("a", JobState::Running).with_count(1), ErrorKind::InvalidOption, "running"),
        (rule("a", JobState::Completed).with_count(1), ErrorKind::InvalidOption, "by count"),
        (rule("a", DISCARDED).with_age(Duration::MAX), ErrorKind::InvalidOption, "100 years"),
        (rule("a", DISCARDED).with_count(u64::MAX), ErrorKind::InvalidOption, "18446744073709551615"),
        (rule("no name", DISCARDED).with_count(1), ErrorKind::InvalidName, "no name"),
        (fine.clone(), ErrorKind::InvalidOption, "two retention rules"),
    ] {
        let error = store.set_retention(&[fine.clone(), bad]).await.expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let many = |from: usize, to: usize| -> Vec<_> {
        (from..to).map(|n| rule(&format!("q{n}"), CANCELLED).with_count(1)).collect()
    };
    let error = store.set_retention(&many(0, RetentionRule::MAX_RULES + 1)).await.expect_err("too many");
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    set(&store, &many(0, RetentionRule::MAX_RULES)).await;
    let error = store.set_retention(&many(2_000, 2_001)).await.expect_err("one more");
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    let kept = store.retention().await.expect("retention");
    assert_eq!(kept.len(), RetentionRule::MAX_RULES);
    // Where one goes another may come, in whatever order.
    set(&store, &[many(2_000, 2_001).remove(0), rule("q0", CANCELLED)]).await;
}

/// By count the jobs that ended last stay, over all priorities of the queue; other queues and outcomes are left alone, and so is what did
/// not end.
pub async fn the_last_are_kept_by_count(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (a, b) = (cancelled(&store, "a", 7).await, cancelled(&store, "b", 5).await);
    let (da, db) = (discarded(&store, "a", 4).await, discarded(&store, "b", 4).await);
    let waits = enqueue(&store, job().with_queue("a")).await;
    set(&store, &[rule("a", CANCELLED).with_count(3), rule("b", DISCARDED).with_count(0)]).await;
    let report = store.maintain().await.expect("maintain");
    assert_eq!(report.removed_dead, 4 + 4);
    assert_eq!(left(&store, &a).await, a[4..]);
    assert_eq!(
        (left(&store, &b).await, left(&store, &da).await, left(&store, &db).await),
        (b.clone(), da.clone(), vec![])
    );
    assert_eq!(state(&store, waits).await, JobState::Available);
    let (a_now, b_now) = (queue(&store, "a").await, queue(&store, "b").await);
    assert_eq!((a_now.cancelled, a_now.discarded, b_now.cancelled, b_now.discarded), (3, 4, 5, 0));
    assert_eq!(store.maintain().await.expect("maintain").removed_dead, 0);

    // A rule for every queue holds where there is none of its own.
    set(&store, &[RetentionRule::of_every_queue(CANCELLED).with_count(2)]).await;
    let more = cancelled(&store, "a", 2).await;
    assert_eq!(store.maintain().await.expect("maintain").removed_dead, 2 + 3);
    assert_eq!(left(&store, &a).await, a[6..]);
    assert_eq!(left(&store, &more).await, more);
    assert_eq!(left(&store, &b).await, b[3..]);
}

/// By age each queue goes by its own rule, then by that for every queue, then by the settings; a rule that goes is forgotten.
pub async fn each_queue_by_its_own_age(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let long = cancelled(&store, "long", 2).await;
    let (short, short_discarded) = (cancelled(&store, "short", 2).await, discarded(&store, "short", 2).await);
    let other = cancelled(&store, "other", 2).await;
    set(
        &store,
        &[
            rule("long", CANCELLED).with_age(LATER),
            rule("short", CANCELLED).with_age(Duration::ZERO).with_count(100),
            RetentionRule::of_every_queue(CANCELLED).with_age(2 * LATER),
        ],
    )
    .await;
    let nothing = Settings::DEFAULT.with_dead_retention(Duration::ZERO);
    eventually("what is old goes", || async {
        maintain_with(&store, nothing).await;
        (left(&store, &short).await.is_empty() && left(&store, &short_discarded).await.is_empty())
            .then_some(())
    })
    .await;
    assert_eq!((left(&store, &long).await, left(&store, &other).await), (long.clone(), other.clone()));
    set(&store, &[rule("long", CANCELLED), rule("short", CANCELLED)]).await;
    maintain_with(&store, nothing).await;
    assert_eq!((left(&store, &long).await, left(&store, &other).await), (long.clone(), other.clone()));
    set(&store, &[RetentionRule::of_every_queue(CANCELLED)]).await;
    eventually("the settings hold again", || async {
        maintain_with(&store, nothing).await;
        (left(&store, &long).await.is_empty() && left(&store, &other).await.is_empty()).then_some(())
    })
    .await;
}

/// What came back or was deleted leaves room for older ones that are still there.
pub async fn whatever_is_removed_by_hand_counts_no_more(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = cancelled(&store, QUEUE, 8).await;
    store.retry(&[ids[7]]).await.expect("retry");
    store.delete(&[ids[6]]).await.expect("delete");
    set(&store, &[rule(QUEUE, CANCELLED).with_count(4)]).await;
    store.maintain().await.expect("maintain");
    assert_eq!(left(&store, &ids).await, [ids[2], ids[3], ids[4], ids[5], ids[7]]);
    store.cancel(&[ids[7]]).await.expect("cancel");
    store.maintain().await.expect("maintain");
    assert_eq!(left(&store, &ids).await, [ids[3], ids[4], ids[5], ids[7]]);
}

/// Completed jobs stay for the longest time that is said of any queue, whatever their own.
pub async fn completed_jobs_stay_for_the_longest_time(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = [enqueue(&store, job().with_queue("a")).await, enqueue(&store, job().with_queue("b")).await];
    let worker = worker(&store, &["a", "b"], &[], LEASE).await;
    for held in worker.take(2).await {
        assert_eq!(worker.complete(&held).await, Settled::Accepted);
    }
    set(&store, &[rule("a", JobState::Completed).with_age(LATER)]).await;
    empty_segments(&store).await;
    assert_eq!(left(&store, &ids).await, ids);
    set(&store, &[rule("a", JobState::Completed).with_age(Duration::ZERO)]).await;
    eventually("the completed jobs are removed", || async {
        maintain_with(&store, KEEP_NOTHING).await;
        left(&store, &ids).await.is_empty().then_some(())
    })
    .await;
}

/// More than one step removes goes as well, the oldest of it first, in one call.
pub async fn many_go_in_steps(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 6_000).await;
    store.cancel(&ids[..5_500]).await.expect("cancel");
    store.cancel(&ids[5_500..]).await.expect("cancel");
    set(&store, &[rule(QUEUE, CANCELLED).with_count(500)]).await;
    assert_eq!(store.maintain().await.expect("maintain").removed_dead, 5_500);
    assert_eq!(left(&store, &[ids[0], ids[5_499], ids[5_500], ids[5_999]]).await, [ids[5_500], ids[5_999]]);
    assert_eq!(queue(&store, QUEUE).await.cancelled, 500);
}

/// Several who keep house at once remove each job once, and none that is to stay.
pub async fn housekeepers_race(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    set(&store, &[rule(QUEUE, CANCELLED).with_count(5)]).await;
    let mut ids = Vec::new();
    let mut removed = 0;
    for _ in 0..20 {
        let more = enqueue_jobs(&store, 20).await;
        store.cancel(&more).await.expect("cancel");
        ids.extend(more);
        let mut at_once = Vec::new();
        for _ in 0..3 {
            let store = fixture.open().await;
            at_once.push(tokio::spawn(async move { store.maintain().await }));
        }
        for maintain in at_once {
            removed += maintain.await.expect("no panic").expect("maintain").removed_dead;
        }
    }
    assert_eq!(removed, ids.len() as u64 - 5);
    assert_eq!(queue(&store, QUEUE).await.cancelled, 5);
}
