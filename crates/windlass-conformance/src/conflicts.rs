//! What becomes of a unique job that finds its key taken, and of a finished one that is to run again.

use crate::{
    Fixture,
    steps::*,
    unique::{free, keyed, only, taken, unique},
};
use std::time::Duration;
use windlass_core::{
    Conflict, Disposition, EditReply, EnqueuedUnique, ErrorKind, JobEdit, JobId, JobState, NewJob,
    OnConflict, RetryReply, Unique,
};

fn by(rule: OnConflict) -> Unique {
    Unique::by_key("k").until_started().on_conflict(rule)
}

fn replacing(n: usize) -> NewJob {
    NewJob::new(KIND, args(n)).with_queue(QUEUE).with_unique(by(OnConflict::Replace { max_wait: None }))
}

fn replaced(id: JobId) -> EnqueuedUnique {
    EnqueuedUnique { id, conflict: Some(Conflict::Replaced) }
}

/// A job that waits for its time becomes the new one, and keeps its id.
pub async fn replace_while_scheduled(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = free(&store, replacing(0).with_delay(LATER)).await;
    let before = record(&store, id).await;
    let other = replacing(1).with_delay(LATER * 2).with_priority(7).with_max_attempts(3).with_key("whom");
    assert_eq!(unique(&store, other).await, replaced(id));
    let seen = record(&store, id).await;
    assert_eq!((seen.args, seen.priority, seen.max_attempts), (args(1), 7, 3));
    assert_eq!((seen.state, seen.enqueued_at), (JobState::Scheduled, before.enqueued_at));
    assert!(seen.scheduled_at > before.scheduled_at, "put off: debounced");
    only(&store, &[id]).await;

    assert_eq!(unique(&store, replacing(2).with_queue("other")).await, replaced(id));
    let other = worker(&store, &["other"], &[], LEASE).await;
    let held = other.take_when_due(1).await.remove(0);
    assert_eq!((held.job.id, &*held.job.args), (id, args(2).as_str().as_bytes()));
    worker_on(&store).await.finds_nothing().await;
    other.complete(&held).await;
    assert_eq!(queue(&store, QUEUE).await.scheduled, 0);
}

/// One that is available already is cancelled, and the new one stored.
pub async fn replace_while_available(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let mut all = vec![free(&store, replacing(0)).await];
    for n in 1..4 {
        let stored = unique(&store, replacing(n)).await;
        assert!(stored.conflict == Some(Conflict::Replaced) && !all.contains(&stored.id), "{stored:?}");
        let old = record(&store, all[n - 1]).await;
        let reason = format!("replaced by job {}", stored.id);
        assert_eq!((old.state, old.reason.as_deref()), (JobState::Cancelled, Some(&*reason)));
        all.push(stored.id);
    }
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    assert_eq!((held.job.id, &*held.job.args), (all[3], args(3).as_str().as_bytes()));
    worker.finds_nothing().await;
    worker.complete(&held).await;
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.completed, stats.cancelled, stats.available), (1, 3, 0));
}

/// A job that was edited is replaced like any other, wherever it stands since. One claim goes past all that it left behind.
pub async fn replace_what_was_edited(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let edits = [(JobEdit::new().with_args(args(9)), false), (JobEdit::new().with_delay(LATER), true)];
    for (edit, keeps_id) in edits {
        for delay in [Duration::ZERO, Duration::from_millis(5)] {
            let id = free(&store, replacing(0)).await;
            assert_eq!(store.edit(&[id], &edit).await.expect("edit"), [EditReply::Edited]);
            let stored = unique(&store, replacing(1).with_delay(delay)).await;
            let fate = (stored.conflict, stored.id == id);
            assert_eq!(fate, (Some(Conflict::Replaced), keeps_id), "{edit:?} {delay:?}");
            eventually("it is available", || async {
                store.promote(10).await.expect("promote");
                (state(&store, stored.id).await == JobState::Available).then_some(())
            })
            .await;
            enqueue_jobs(&store, 3).await;
            let mut taken = worker.take(4).await;
            taken.sort_by_key(|held| held.job.id != stored.id);
            assert_eq!((taken[0].job.id, &*taken[0].job.args), (stored.id, args(1).as_str().as_bytes()));
            for held in taken {
                worker.complete(&held).await;
            }
            worker.finds_nothing().await;
        }
    }
}

/// A job that was started is not replaced: it is kept where it still has its key.
pub async fn a_started_job_is_not_replaced(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let replacing = |n| {
        let rule = OnConflict::Replace { max_wait: None };
        NewJob::new(KIND, args(n)).with_queue(QUEUE).with_unique(Unique::by_key("k").on_conflict(rule))
    };
    let id = free(&store, replacing(0)).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    taken(&store, replacing(1), id).await;
    worker.except(&held, Disposition::Retry { delay: LATER, error: "no".into() }).await;
    taken(&store, replacing(2), id).await;
    // Nor while it is there to be taken again, or waits for a worker that knows it.
    store.retry(&[id]).await.expect("retry");
    taken(&store, replacing(3), id).await;
    worker.except(&worker.take_one().await, Disposition::NoHandler).await;
    taken(&store, replacing(4), id).await;
    assert_eq!(record(&store, id).await.args, args(0));
    only(&store, &[id]).await;
}

/// A job is not put off for longer than the longest wait since the first of them.
pub async fn a_replaced_job_waits_no_longer_than_it_may(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let soon = Duration::from_millis(20);
    let debounced = |n, wait| {
        let unique = by(OnConflict::Replace { max_wait: Some(wait) });
        NewJob::new(KIND, args(n)).with_queue(QUEUE).with_delay(LATER).with_unique(unique)
    };
    let id = free(&store, debounced(0, LATER)).await;
    let due = record(&store, id).await.scheduled_at;
    assert_eq!(unique(&store, debounced(1, LATER * 3)).await, replaced(id));
    assert!(record(&store, id).await.scheduled_at >= due, "put off");
    let before = record(&store, id).await;
    assert_eq!(unique(&store, debounced(2, soon)).await, replaced(id));
    let after = record(&store, id).await;
    assert!(after.scheduled_at < due && after.enqueued_at == before.enqueued_at, "{after:?}");
    let held = worker_on(&store).await.take_when_due(1).await.remove(0);
    assert_eq!((held.job.id, &*held.job.args), (id, args(2).as_str().as_bytes()));
}

/// Of jobs of one batch that replace each other the last is stored.
pub async fn the_last_of_a_batch_replaces(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let batch: Vec<_> = (0..12).map(replacing).collect();
    let stored = store.enqueue_unique(&batch).await.expect("enqueue");
    assert!(stored[0].conflict.is_none() && stored[1..].iter().all(|stored| stored.conflict.is_some()));
    only(&store, &[stored[0].id]).await;
    assert_eq!(record(&store, stored[0].id).await.args, args(11));
}

/// Of jobs of one batch whose key another job has each is told what became of itself, and each follows its own rule.
pub async fn each_of_a_batch_is_told_its_own_fate(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let (replaces, keeps) = (OnConflict::Replace { max_wait: None }, OnConflict::Keep);
    let ruled =
        |n: usize, rule| NewJob::new(KIND, args(n)).with_queue(QUEUE).with_delay(LATER).with_unique(by(rule));
    let id = free(&store, ruled(0, keeps)).await;
    let fates = async |batch: &[NewJob]| {
        let stored = store.enqueue_unique(batch).await.expect("enqueue");
        assert!(stored.iter().all(|stored| stored.id == id), "{stored:?}");
        stored.iter().map(|stored| stored.conflict.expect("the key is taken")).collect::<Vec<_>>()
    };
    let (kept, replaced) = (Conflict::Kept, Conflict::Replaced);
    assert_eq!(fates(&[ruled(1, replaces), ruled(2, keeps)]).await, [replaced, kept]);
    assert_eq!(record(&store, id).await.args, args(1));
    assert_eq!(
        fates(&[ruled(3, keeps), ruled(4, replaces), ruled(5, replaces)]).await,
        [kept, replaced, replaced]
    );
    assert_eq!(record(&store, id).await.args, args(5));
    let refusing = [ruled(6, OnConflict::Error), ruled(7, replaces)];
    let error = store.enqueue_unique(&refusing).await.expect_err("job 0 refuses");
    assert!(error.to_string().contains("job 0 of 2"), "{error}");
    assert_eq!(record(&store, id).await.args, args(5), "nothing of the call is stored");

    let window = |key: &str, rule| job().with_unique(Unique::by_key(key).for_window(LATER).on_conflict(rule));
    free(&store, window("w", keeps)).await;
    for (rules, expected) in [
        ([OnConflict::Extend, keeps], [Conflict::Extended, kept]),
        ([keeps, OnConflict::Extend], [kept, Conflict::Extended]),
    ] {
        let batch = rules.map(|rule| window("w", rule));
        let stored = store.enqueue_unique(&batch).await.expect("enqueue");
        assert_eq!(stored.iter().map(|stored| stored.conflict).collect::<Vec<_>>(), expected.map(Some));
    }
}

/// An extended window begins anew; what is no window stays as it is.
pub async fn extend(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let keyed_for = |key: &str, window| {
        job().with_unique(Unique::by_key(key).for_window(window).on_conflict(OnConflict::Extend))
    };
    let short = Duration::from_millis(200);
    let id = free(&store, keyed_for("k", short)).await;
    let extended = EnqueuedUnique { id, conflict: Some(Conflict::Extended) };
    let stored = unique(&store, keyed_for("k", LATER)).await;
    if stored.conflict.is_none() {
        return; // the machine was busy for as long as the window
    }
    assert_eq!(stored, extended);
    assert_eq!(unique(&store, keyed_for("k", short)).await, extended);
    let other = free(&store, keyed_for("other", short)).await;
    let again = eventually("a window that began later ends", || async {
        let keep = job().with_unique(Unique::by_key("other").for_window(short));
        let stored = unique(&store, keep).await;
        stored.conflict.is_none().then_some(stored.id)
    })
    .await;
    assert_eq!(unique(&store, keyed_for("k", short)).await, extended, "not cut short");
    let id = [id, other, again];
    only(&store, &id).await;
    let id = free(&store, keyed("finished")).await;
    taken(&store, keyed_for("finished", LATER), id).await;
}

/// A conflict that is an error stores nothing of the call, and takes no key.
pub async fn error(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let refusing = || job().with_unique(Unique::by_key("k").on_conflict(OnConflict::Error));
    let id = free(&store, refusing()).await;
    for size in [1, 2, 40] {
        let mut batch: Vec<_> = (1..size).map(|n| keyed(&format!("other/{n}"))).collect();
        batch.insert(size / 2, refusing());
        let error = store.enqueue_unique(&batch).await.expect_err("a conflict");
        assert_eq!(error.kind(), ErrorKind::UniqueConflict);
        assert!(error.to_string().contains(&format!("job {id} has its unique key")), "{error}");
        if size > 1 {
            assert!(error.to_string().contains(&format!("job {} of {size}", size / 2)), "{error}");
        }
    }
    only(&store, &[id]).await;
    free(&store, keyed("other/1")).await;
    worker_on(&store).await.drain(10).await;
    free(&store, refusing()).await;
}

/// A finished job that is to run again takes its key; one whose key another job has is left alone.
pub async fn a_retry_takes_the_key_again(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    let started = || job().with_unique(Unique::by_key("s").until_started());
    let first = [free(&store, keyed("k")).await, free(&store, started()).await];
    for held in worker.take(2).await {
        worker.except(&held, Disposition::Discard { error: "bad".into(), failed: true }).await;
    }
    assert_eq!(store.retry(&first).await.expect("retry"), [RetryReply::Retried; 2]);
    taken(&store, keyed("k"), first[0]).await;
    taken(&store, started(), first[1]).await;
    store.cancel(&first).await.expect("cancel");
    let second = [free(&store, keyed("k")).await, free(&store, started()).await];
    assert_eq!(store.retry(&first).await.expect("retry"), [RetryReply::KeyTaken; 2]);
    for id in first {
        assert_eq!(state(&store, id).await, JobState::Cancelled);
    }
    let mut done = worker.drain(10).await;
    done.sort_unstable();
    assert_eq!(done, second);
    assert_eq!(store.retry(&first).await.expect("retry"), [RetryReply::Retried; 2]);
    taken(&store, keyed("k"), first[0]).await;
    assert_eq!(worker.drain(10).await.len(), 2);
    free(&store, keyed("k")).await;
}

/// Retries race with enqueues: one job at a time has the key.
pub async fn retries_race_with_enqueues(fixture: &dyn Fixture) {
    let (store, other) = (fixture.open().await, fixture.open().await);
    for _ in 0..30 {
        let id = free(&store, keyed("k")).await;
        store.cancel(&[id]).await.expect("cancel");
        let asked = [id];
        let batch = [keyed("k")];
        let (retried, stored) = tokio::join!(store.retry(&asked), other.enqueue_unique(&batch));
        let (retried, stored) = (retried.expect("retry")[0], stored.expect("enqueue")[0]);
        match retried {
            RetryReply::Retried => {
                assert_eq!(stored, EnqueuedUnique { id, conflict: Some(Conflict::Kept) });
            }
            reply => {
                assert!(reply == RetryReply::KeyTaken && stored.conflict.is_none(), "{reply:?} {stored:?}");
            }
        }
        assert_eq!(worker_on(&store).await.drain(10).await, [stored.id]);
    }
}
