//! Waiting for jobs to end.

use crate::{Fixture, steps::*};
use std::time::Duration;
use windlass_core::{Disposition, Ended, JobId, JobState, Wake};

/// Which jobs have ended, in whatever way, and which are unknown.
pub async fn what_ended_is_told(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 7).await;
    let worker = worker_on(&store).await;
    let jobs = worker.take(6).await;
    worker.complete(&jobs[0]).await;
    let says = [
        Disposition::Complete { result: Some(args(7)) },
        Disposition::Discard { error: "bad".into(), failed: true },
        Disposition::Cancel { reason: "unwanted".into() },
        Disposition::Retry { delay: LATER, error: "not yet".into() },
    ];
    let exceptions = jobs[1..].iter().zip(says).map(|(held, says)| held.exception(says)).collect();
    worker.settle(vec![], exceptions).await;
    store.cancel(&[ids[6]]).await.expect("cancel");
    let unknown = JobId(i64::MAX);
    let asked: Vec<_> = ids.iter().copied().chain([unknown]).collect();
    let mut states = Vec::new();
    for id in &asked {
        states.push(store.job(*id).await.expect("job").map(|job| job.state));
    }
    assert_eq!(store.states(&asked).await.expect("states"), states, "of each by itself");
    let Ended { mut jobs, unknown: missing } = store.ended(&asked).await.expect("ended");
    jobs.sort_by_key(|job| job.id);
    let told: Vec<_> = jobs.iter().map(|job| (job.id, job.state)).collect();
    use JobState::{Cancelled, Completed, Discarded};
    let expected = [(0, Completed), (1, Completed), (2, Discarded), (3, Cancelled), (6, Cancelled)]
        .map(|(n, state)| (ids[n], state));
    assert_eq!((told, missing), (expected.to_vec(), vec![unknown]));
    assert_eq!(
        jobs[1].result.as_ref().map(|result| result.as_str().to_owned()),
        Some(args(7).as_str().to_owned())
    );
    assert_eq!(jobs[2].reason.as_deref(), Some("bad"));
}

/// A hint comes when jobs end, where the store gives hints. The first ends may come before somebody listens.
pub async fn an_end_wakes(fixture: &dyn Fixture) {
    let (store, working) = (fixture.open().await, fixture.open().await);
    let Some(mut ends) = store.ends() else {
        return assert!(!fixture.is_whole(), "this store says that it tells of no ends");
    };
    let worker = worker_on(&working).await;
    for _ in 0..1_000 {
        enqueue(&store, job()).await;
        let held = worker.take_one().await;
        worker.complete(&held).await;
        if ends.wait(Duration::from_millis(100)).await == Wake::Hint {
            return;
        }
    }
    panic!("no end gave a hint");
}
