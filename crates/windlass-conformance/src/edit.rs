//! Changing and deleting jobs that do not run.

use crate::{
    Fixture,
    steps::*,
    unique::{free, keyed, taken},
};
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Args, DeleteReply, Disposition, EditReply, ErrorKind, JobEdit, JobId, JobState, NewJob, RetryReply, Store,
};

/// One job in each state in which it waits: available, scheduled, retryable, and without a handler.
async fn one_of_each(store: &Arc<dyn Store>) -> [JobId; 4] {
    let retryable = enqueue(store, job()).await;
    let without_handler = enqueue(store, job()).await;
    let worker = worker_on(store).await;
    let jobs = worker.take(2).await;
    let retry = Disposition::Retry { delay: LATER, error: "no".into() };
    worker.settle(vec![], vec![jobs[0].exception(retry), jobs[1].exception(Disposition::NoHandler)]).await;
    let available = enqueue(store, job()).await;
    let scheduled = enqueue(store, job().with_delay(LATER)).await;
    [available, scheduled, retryable, without_handler]
}

async fn edit_all(store: &Arc<dyn Store>, ids: &[JobId], edit: &JobEdit) {
    let replies = store.edit(ids, edit).await.expect("edit");
    assert_eq!(replies, vec![EditReply::Edited; ids.len()], "{edit:?}");
}

async fn states(store: &Arc<dyn Store>, ids: &[JobId]) -> Vec<JobState> {
    let mut states = Vec::new();
    for id in ids {
        states.push(state(store, *id).await);
    }
    states
}

/// What waits is changed where it is, and handed out as it was changed.
pub async fn what_waits_is_changed(fixture: &dyn Fixture) {
    use JobState::{Available, Retryable, Scheduled};
    let store = fixture.open().await;
    let ids = one_of_each(&store).await;
    let edit = JobEdit::new().with_queue("other").with_priority(-7).with_max_attempts(3).with_args(args(9));
    for _ in 0..2 {
        edit_all(&store, &ids, &edit).await;
        assert_eq!(states(&store, &ids).await, [Available, Scheduled, Retryable, Available]);
        for id in ids {
            let seen = record(&store, id).await;
            assert_eq!((&*seen.queue, seen.priority, seen.max_attempts), ("other", -7, 3));
            assert_eq!(seen.args, args(9));
        }
    }
    let (old, new) = (queue(&store, QUEUE).await, queue(&store, "other").await);
    assert_eq!((old.available, old.scheduled, old.retryable), (0, 0, 0));
    assert_eq!((new.available, new.scheduled, new.retryable), (2, 1, 1));
    worker_on(&store).await.finds_nothing().await;
    edit_all(&store, &ids, &JobEdit::new().with_no_delay()).await;
    assert_eq!(states(&store, &ids).await, [Available; 4]);
    let worker = worker(&store, &["other"], &[], LEASE).await;
    let mut taken = worker.take(4).await;
    taken.sort_unstable_by_key(|held| ids.iter().position(|id| *id == held.job.id));
    for (held, (id, attempt)) in taken.iter().zip(ids.into_iter().zip([1, 1, 2, 1])) {
        assert_eq!((held.job.id, held.priority, held.job.max_attempts), (id, -7, 3));
        assert_eq!((&*held.job.args, held.job.attempt), (args(9).as_str().as_bytes(), attempt));
        worker.complete(held).await;
    }
    worker.finds_nothing().await;
}

/// A job that is put off is not handed out before its time; one that has failed is still one that has failed.
pub async fn what_waits_can_be_put_off(fixture: &dyn Fixture) {
    use JobState::{Retryable, Scheduled};
    let store = fixture.open().await;
    let ids = one_of_each(&store).await;
    let before = record(&store, ids[1]).await.scheduled_at.expect("a time");
    edit_all(&store, &ids, &JobEdit::new().with_delay(LATER * 2)).await;
    assert_eq!(states(&store, &ids).await, [Scheduled, Scheduled, Retryable, Scheduled]);
    let worker = worker_on(&store).await;
    worker.finds_nothing().await;
    for id in ids {
        assert!(record(&store, id).await.scheduled_at.expect("a time") > before);
    }
    let stats = queue(&store, QUEUE).await;
    assert_eq!((stats.available, stats.scheduled, stats.retryable), (0, 3, 1));
    edit_all(&store, &ids, &JobEdit::new().with_delay(Duration::from_millis(5))).await;
    let mut taken: Vec<_> = worker.take_when_due(4).await.iter().map(|held| held.job.id).collect();
    taken.sort_unstable();
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    assert_eq!(taken, ids);
    worker.finds_nothing().await;
}

/// An available job that is changed comes once, as it was changed last; those around it come in order.
pub async fn a_changed_job_comes_once(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 30).await;
    let worker = worker_on(&store).await;
    let first = worker.drain_some(4).await;
    assert_eq!(first, ids[..4]);
    let changed: Vec<_> = ids[4..].iter().copied().step_by(3).collect();
    for n in [100, 101, 102] {
        edit_all(&store, &changed, &JobEdit::new().with_args(args(n))).await;
        assert_eq!(queue(&store, QUEUE).await.available, 26);
    }
    edit_all(&store, &changed[..1], &JobEdit::new().with_priority(-1)).await;
    let (mut plain, mut others) = (Vec::new(), Vec::new());
    for held in worker.take(26).await {
        worker.complete(&held).await;
        let n = ids.iter().position(|id| *id == held.job.id).expect("one of them");
        let is_changed = changed.contains(&held.job.id);
        let expected = args(if is_changed { 102 } else { n });
        assert_eq!(&*held.job.args, expected.as_str().as_bytes());
        if is_changed { others.push(held) } else { plain.push(held.job.id) }
    }
    assert_eq!(others[0].job.id, changed[0]);
    assert!(plain.is_sorted() && plain.len() + others.len() == 26);
    worker.finds_nothing().await;
    assert_eq!(queue(&store, QUEUE).await.completed, 30);
}

/// A changed job is like any other: it can be cancelled, come back, be handed back by its worker, and be deleted.
pub async fn a_changed_job_lives_on(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    edit_all(&store, &ids[1..], &JobEdit::new().with_args(args(7))).await;
    store.cancel(&ids[1..]).await.expect("cancel");
    assert_eq!(states(&store, &ids[1..]).await, [JobState::Cancelled; 2]);
    let says = EditReply::Finished;
    let now = JobEdit::new().with_no_delay();
    assert_eq!(store.edit(&ids[1..], &now).await.expect("edit"), [says; 2], "that is a retry");
    edit_all(&store, &ids[1..], &JobEdit::new().with_args(args(8))).await;
    assert_eq!(states(&store, &ids[1..]).await, [JobState::Cancelled; 2]);
    assert_eq!(store.retry(&ids[1..]).await.expect("retry"), [RetryReply::Retried; 2]);
    edit_all(&store, &ids[2..], &JobEdit::new().with_delay(LATER)).await;
    edit_all(&store, &ids[2..], &JobEdit::new().with_no_delay().with_args(args(9))).await;
    let worker = worker_on(&store).await;
    for _ in 0..2 {
        for held in worker.take(3).await {
            let n = ids.iter().position(|id| *id == held.job.id).expect("one of them");
            assert_eq!(&*held.job.args, args([0, 8, 9][n]).as_str().as_bytes());
            worker.except(&held, Disposition::Return).await;
        }
    }
    assert_eq!(store.delete(&ids).await.expect("delete"), [DeleteReply::Deleted; 3]);
    worker.finds_nothing().await;
    assert_eq!(queue(&store, QUEUE).await.available, 0);
}

/// Running, finished and unknown jobs are named as such, and stay as they are. A dead one is changed and stays dead.
pub async fn the_rest_is_left_alone(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 3).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(3).await;
    worker.complete(&jobs[1]).await;
    worker.except(&jobs[2], Disposition::Discard { error: "bad".into(), failed: true }).await;
    let asked = [ids[0], ids[1], ids[2], JobId(i64::MAX), JobId(-1)];
    let edit = JobEdit::new().with_args(args(9)).with_priority(3);
    use EditReply::{Edited, Finished, NotFound, Running};
    let replies = store.edit(&asked, &edit.clone().with_delay(LATER)).await.expect("edit");
    assert_eq!(replies, [Running, Finished, Finished, NotFound, NotFound]);
    let replies = store.edit(&asked, &edit).await.expect("edit");
    assert_eq!(replies, [Running, Finished, Edited, NotFound, NotFound]);
    for (n, id) in ids[..2].iter().enumerate() {
        let seen = record(&store, *id).await;
        assert_eq!((seen.args, seen.priority), (args(n), 0));
    }
    let dead = record(&store, ids[2]).await;
    assert_eq!((dead.state, dead.args, dead.priority), (JobState::Discarded, args(9), 3));
    assert_eq!(dead.errors.len(), 1);
    worker.complete(&jobs[0]).await;
    store.retry(&ids[2..]).await.expect("retry");
    let held = worker.take_one().await;
    assert_eq!((held.priority, &*held.job.args), (3, args(9).as_str().as_bytes()));
}

/// Encrypted args are sealed for their job: they stay, and so does the whole job. All else of it can be changed.
pub async fn encrypted_args_stay(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let sealed = r#"{"windlass.enc":{"v":1,"key":"k1","nonce":"bm9uY2U","data":"ZGF0YQ"}}"#;
    let sealed = Args::parse(sealed).expect("args");
    let new = || NewJob::new(KIND, sealed.clone()).with_queue(QUEUE);
    let ids = store.enqueue(&[new(), new().with_delay(LATER), new()]).await.expect("enqueue");
    store.cancel(&ids[2..]).await.expect("cancel");
    let edit = JobEdit::new().with_args(args(1)).with_priority(5);
    assert_eq!(store.edit(&ids, &edit).await.expect("edit"), [EditReply::Encrypted; 3]);
    for id in &ids {
        assert_eq!(record(&store, *id).await.priority, 0);
    }
    edit_all(&store, &ids, &JobEdit::new().with_priority(5)).await;
    for id in &ids {
        let seen = record(&store, *id).await;
        assert_eq!((seen.priority, &seen.args), (5, &sealed));
    }
}

/// A job that would expire before it is due stays as it is, as none is enqueued so; wherever it waits.
pub async fn no_job_is_put_off_beyond_its_expiry(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let expiring = || job().with_expiry(LATER);
    let ids = store.enqueue(&[expiring(), expiring().with_delay(LATER / 2), job()]).await.expect("enqueue");
    let before = [record(&store, ids[0]).await, record(&store, ids[1]).await];
    let at = before[0].expires_at.expect("an expiry");
    let edit = || JobEdit::new().with_args(args(1)).with_priority(5);
    use EditReply::{Edited, Expires};
    for late in [edit().with_delay(LATER * 2), edit().with_scheduled_at(at + LATER)] {
        assert_eq!(store.edit(&ids, &late).await.expect("edit"), [Expires, Expires, Edited]);
        for (id, before) in ids.iter().zip(&before) {
            let seen = record(&store, *id).await;
            assert_eq!((seen.state, seen.scheduled_at), (before.state, before.scheduled_at));
            assert_eq!((seen.args, seen.priority), (args(0), 0));
        }
    }
    edit_all(&store, &ids, &edit().with_delay(LATER / 4)).await;
    edit_all(&store, &ids, &edit().with_no_delay()).await;
    assert_eq!(worker_on(&store).await.drain(10).await.len(), 3);
    // One that has expired may be hastened, to its end.
    let expired = enqueue(&store, job().with_expires_at(jiff::Timestamp::UNIX_EPOCH)).await;
    edit_all(&store, &[expired], &JobEdit::new().with_no_delay()).await;
    let replies = store.edit(&[expired], &JobEdit::new().with_delay(LATER)).await.expect("edit");
    assert_eq!(replies, [Expires]);
}

/// No edit gives a job fewer attempts than it has used, or as many: it would run once more, as attempt 2 of 1. A dead job gets them anew.
pub async fn attempts_that_were_used_stay(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 4).await;
    let worker = worker_on(&store).await;
    let held = worker.take(3).await;
    let retry = |delay| Disposition::Retry { delay, error: "no".into() };
    worker.except(&held[0], retry(LATER)).await;
    worker.except(&held[1], retry(Duration::ZERO)).await;
    worker.except(&held[2], Disposition::Discard { error: "bad".into(), failed: true }).await;
    let once = JobEdit::new().with_max_attempts(1).with_priority(5);
    use EditReply::{AttemptsUsed, Edited};
    let replies = store.edit(&ids, &once).await.expect("edit");
    assert_eq!(replies, [AttemptsUsed, AttemptsUsed, Edited, Edited]);
    for id in &ids[..2] {
        let seen = record(&store, *id).await;
        assert_eq!((seen.attempt, seen.max_attempts, seen.priority), (1, 20, 0));
    }
    store.retry(&ids[..1]).await.expect("retry"); // available, with one attempt behind it
    assert_eq!(store.edit(&ids[..1], &once).await.expect("edit"), [AttemptsUsed]);
    edit_all(&store, &ids, &JobEdit::new().with_max_attempts(2)).await;
    store.retry(&ids[2..3]).await.expect("retry");
    assert_eq!(worker.take_when_due(4).await.len(), 4);
}

/// An edit is checked as a job is, before anything is changed.
pub async fn a_senseless_edit_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let good = JobEdit::new().with_args(args(1));
    for (edit, kind) in [
        (JobEdit::new(), ErrorKind::InvalidOption),
        (good.clone().with_priority(101), ErrorKind::InvalidOption),
        (good.clone().with_max_attempts(0), ErrorKind::InvalidOption),
        (good.clone().with_queue("a b"), ErrorKind::InvalidName),
    ] {
        assert_eq!(store.edit(&[id], &edit).await.expect_err("senseless").kind(), kind, "{edit:?}");
    }
    assert_eq!(record(&store, id).await.args, args(0));
    assert!(store.edit(&[], &good).await.expect("edit nothing").is_empty());
}

/// What waits or is dead can be deleted, with the errors of its attempts; running and completed jobs are named as such.
pub async fn what_does_not_run_is_deleted(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let waiting = one_of_each(&store).await;
    let last = enqueue_jobs(&store, 4).await;
    store.cancel(&last[3..]).await.expect("cancel");
    let worker = worker(&store, &[QUEUE], &["unknown"], LEASE).await;
    let mut held = worker.take(4).await;
    assert_eq!(held.remove(0).job.id, waiting[0]);
    worker.complete(&held[0]).await;
    worker.except(&held[1], Disposition::Discard { error: "bad".into(), failed: true }).await;
    // held: last[0] completed, last[1] discarded, last[2] running; the first is running, too
    let unknown = [JobId(i64::MAX), JobId(-1)];
    let asked = [&waiting[..], &last[..], &unknown[..]].concat();
    use DeleteReply::{Completed, Deleted, NotFound, Running};
    let replies = store.delete(&asked).await.expect("delete");
    let expected =
        [Running, Deleted, Deleted, Deleted, Completed, Deleted, Running, Deleted, NotFound, NotFound];
    assert_eq!(replies, expected);
    for (id, reply) in asked.iter().zip(expected) {
        assert_eq!(
            store.job(*id).await.expect("look up").is_some(),
            matches!(reply, Running | Completed),
            "{id}"
        );
    }
    let stats = queue(&store, QUEUE).await;
    let counts = (stats.available, stats.scheduled, stats.retryable, stats.discarded, stats.cancelled);
    assert_eq!((counts, stats.running, stats.completed), ((0, 0, 0, 0, 0), 2, 1));
    assert_eq!(store.promote(10).await.expect("promote").next_due, None);
    worker.complete(&held[2]).await;
    worker_on(&store).await.finds_nothing().await;
}

/// A deleted job leaves no gap, also when it is deleted from the midst of what is available.
pub async fn a_deleted_job_is_skipped(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 20).await;
    let deleted: Vec<_> = ids.iter().copied().step_by(3).collect();
    assert_eq!(store.delete(&deleted).await.expect("delete"), vec![DeleteReply::Deleted; deleted.len()]);
    let again = store.delete(&deleted).await.expect("delete again");
    assert_eq!(again, vec![DeleteReply::NotFound; deleted.len()]);
    assert_eq!(store.retry(&deleted[..1]).await.expect("retry"), [RetryReply::NotFound]);
    let expected: Vec<_> = ids.into_iter().filter(|id| !deleted.contains(id)).collect();
    assert_eq!(queue(&store, QUEUE).await.available, expected.len() as u64);
    assert_eq!(worker_on(&store).await.drain(4).await, expected);
}

/// Changed and deleted jobs survive housekeeping as what they are.
pub async fn housekeeping_knows_them(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 40).await;
    let worker = worker_on(&store).await;
    worker.drain_some(1).await;
    edit_all(&store, &ids[10..20], &JobEdit::new().with_args(args(100))).await;
    edit_all(&store, &ids[15..25], &JobEdit::new().with_delay(LATER)).await;
    store.delete(&ids[30..]).await.expect("delete");
    for round in 0..12 {
        maintain_with(&store, KEEP_NOTHING).await;
        if round % 4 == 1 {
            edit_all(&store, &ids[10..15], &JobEdit::new().with_args(args(100 + round))).await;
        }
    }
    edit_all(&store, &ids[15..25], &JobEdit::new().with_no_delay()).await;
    let taken = worker.take(29).await;
    worker.finds_nothing().await;
    let mut seen: Vec<_> = taken.iter().map(|held| held.job.id).collect();
    seen.sort_unstable();
    assert_eq!(seen, ids[1..30]);
    let args_of = |id: JobId| &*taken.iter().find(|held| held.job.id == id).expect("taken").job.args;
    for (n, id) in ids.iter().enumerate().take(30).skip(1) {
        let expected = match n {
            10..15 => args(109),
            15..20 => args(100),
            _ => args(n),
        };
        assert_eq!(args_of(*id), expected.as_str().as_bytes(), "job {n}");
    }
}

/// An edited unique job keeps its key, wherever it stands from then on.
pub async fn an_edited_job_keeps_its_key(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = free(&store, keyed("one")).await;
    for edit in [JobEdit::new().with_priority(7), JobEdit::new().with_args(args(9))] {
        edit_all(&store, &[id], &edit).await;
        taken(&store, keyed("one"), id).await;
    }
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    assert_eq!(held.job.id, id);
    taken(&store, keyed("one"), id).await;
    worker.complete(&held).await;
    let next = free(&store, keyed("one")).await;
    edit_all(&store, &[next], &JobEdit::new().with_priority(-7)).await;
    store.delete(&[next]).await.expect("delete");
    free(&store, keyed("one")).await;
}
