//! What a unique job that took the place of another has of that one: nothing that it did, and not its terms.

use crate::{
    Fixture,
    steps::*,
    unique::{free, keyed, taken, unique},
};
use std::{sync::Arc, time::Duration};
use windlass_core::{
    Args, Conflict, Disposition, EnqueuedUnique, JobId, JobReport, JobState, NewJob, OnConflict, Progress,
    ReportRequest, Reported, Store, Unique,
};

const REPLACE: OnConflict = OnConflict::Replace { max_wait: None };

/// Each way into a store: by itself, and with another job.
async fn replace(store: &Arc<dyn Store>, new: NewJob, alone: bool) -> JobId {
    let batch = if alone { vec![new] } else { vec![new, job().with_queue("beside")] };
    let stored = store.enqueue_unique(&batch).await.expect("enqueue unique")[0];
    assert_eq!(stored.conflict, Some(Conflict::Replaced));
    stored.id
}

/// From then on the key is the new job's, for as long as that says.
pub async fn a_replaced_key_is_as_the_new_job_has_it(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let worker = worker_on(&store).await;
    for (nth, delay) in [Duration::ZERO, LATER].into_iter().enumerate() {
        for alone in [true, false] {
            let key = |of: &str| Unique::by_key(format!("{of}/{nth}/{alone}")).on_conflict(REPLACE);
            let put = |unique: Unique| job().with_unique(unique);
            let keep = |of: &str| keyed(&format!("{of}/{nth}/{alone}"));
            // Until it is started, then until it is finished; and the other way round.
            free(&store, put(key("longer").until_started()).with_delay(delay)).await;
            let longer = replace(&store, put(key("longer")), alone).await;
            let held = worker.take_one().await;
            assert_eq!(held.job.id, longer);
            taken(&store, keep("longer"), longer).await;
            worker.complete(&held).await;
            free(&store, put(key("shorter")).with_delay(delay)).await;
            let shorter = replace(&store, put(key("shorter").until_started()), alone).await;
            let held = worker.take_one().await;
            assert_eq!(held.job.id, shorter);
            let beside = free(&store, keep("shorter").with_queue("beside")).await;
            taken(&store, keep("shorter"), beside).await;
            worker.complete(&held).await;
            // A window, then until it is finished; and the other way round.
            free(&store, put(key("job").for_window(LATER)).with_delay(delay)).await;
            replace(&store, put(key("job")), alone).await;
            worker.complete(&worker.take_one().await).await;
            free(&store, keep("job").with_queue("beside")).await;
            free(&store, put(key("window")).with_delay(delay)).await;
            let window = replace(&store, put(key("window").for_window(LATER)), alone).await;
            worker.complete(&worker.take_one().await).await;
            taken(&store, keep("window"), window).await;
            // A shorter window.
            free(&store, put(key("short").for_window(LATER)).with_delay(delay)).await;
            let brief = put(key("short").for_window(Duration::from_millis(1))).with_delay(LATER);
            replace(&store, brief, alone).await;
            eventually("the short window ends", || async {
                let stored = unique(&store, keep("short").with_queue("beside")).await;
                stored.conflict.is_none().then_some(())
            })
            .await;
        }
    }
}

/// A window that runs counts on from when it began: replacements do not put its end off.
pub async fn a_window_ends_however_often_its_job_is_replaced(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let window = Duration::from_millis(300);
    let put =
        || job().with_delay(LATER).with_unique(Unique::by_key("k").for_window(window).on_conflict(REPLACE));
    let first = free(&store, put()).await;
    let second = eventually("the window ends", || async {
        let stored = unique(&store, put()).await;
        stored.conflict.is_none().then_some(stored.id)
    })
    .await;
    let between =
        record(&store, second).await.enqueued_at.duration_since(record(&store, first).await.enqueued_at);
    assert!(between >= jiff::SignedDuration::from_millis(290), "{between:?}");
}

/// Nothing that the old job left behind is the new one's: no checkpoint, report, error or crash.
pub async fn a_replaced_job_starts_anew(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for (key, delay) in [("waits", LATER), ("goes on at once", Duration::ZERO)] {
        let replacing = |n| {
            let unique = Unique::by_key(key).on_conflict(REPLACE);
            NewJob::new(KIND, args(n)).with_queue(QUEUE).with_unique(unique)
        };
        let id = free(&store, replacing(0)).await;
        let dying = worker(&store, &[QUEUE], &[], TINY_LEASE).await;
        dying.take_one().await;
        rescue_of(&store, &dying, MAX_CRASHES).await;
        let worker = worker_on(&store).await;
        let unreadable = Disposition::Undecryptable { delay: Duration::ZERO, error: "no key".into() };
        worker.except(&worker.take_one().await, unreadable).await;
        let held = worker.take_when_due(1).await.remove(0);
        let report = JobReport {
            claim: held.claim,
            job: id,
            position: held.job.position,
            attempt: held.job.attempt,
            number: 1,
            progress: Some(Progress::from(50.0)),
            checkpoint: Some(Args::of("page 7").expect("a text")),
            log: vec![],
            dropped: 0,
        };
        let request = ReportRequest { worker: worker.id, reports: vec![report] };
        assert_eq!(store.report(&request).await.expect("report"), [Reported::Accepted]);
        worker.except(&held, Disposition::Snooze { delay: LATER }).await;
        let old = record(&store, id).await;
        assert_eq!((old.state, old.attempt), (JobState::Scheduled, 0));
        assert_eq!((old.crash_count, old.errors.len(), old.report.is_some()), (1, 1, true));

        let stored = unique(&store, replacing(1).with_delay(delay)).await;
        assert_eq!(stored, EnqueuedUnique { id, conflict: Some(Conflict::Replaced) });
        let new = record(&store, id).await;
        assert_eq!((new.args, new.enqueued_at, new.attempt), (args(1), old.enqueued_at, 0));
        assert_eq!((new.crash_count, new.errors.len(), new.report), (0, 0, None), "{key}");
        assert_eq!(store.checkpoints(&[id]).await.expect("checkpoints"), [None]);
        if delay == Duration::ZERO {
            let held = worker.take_one().await;
            assert_eq!((held.job.id, held.job.attempt, held.job.crash_count), (id, 1, 0));
        }
    }
}
