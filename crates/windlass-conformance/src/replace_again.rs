//! A unique job that was handed out and waits for its time again is replaced like one that never ran.

use crate::{
    Fixture,
    steps::*,
    unique::{free, unique},
};
use std::time::Duration;
use windlass_core::{
    Args, Conflict, Disposition, EnqueuedUnique, JobReport, JobState, NewJob, OnConflict, Progress,
    ReportRequest, Reported, Unique,
};

/// Nothing that the old job left behind is the new one's: no checkpoint, report, error or crash.
pub async fn a_replaced_job_starts_anew(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    for (key, delay) in [("waits", LATER), ("goes on at once", Duration::ZERO)] {
        let replacing = |n| {
            let unique = Unique::by_key(key).on_conflict(OnConflict::Replace { max_wait: None });
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
