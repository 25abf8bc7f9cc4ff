//! Fencing: nobody settles what is not theirs, and a worker without its lease writes nothing.

use crate::{Fixture, steps::*};
use windlass_core::{ClaimRef, Completion, Disposition, JobSet, JobState, SettleRequest, Settled, WorkerId};

/// A claim with another token, number or lane is unknown: refused, nothing changes.
pub async fn an_unknown_claim_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let mine = worker.take_one().await;
    let forgeries = [
        ClaimRef(mine.claim.0 ^ 1, mine.claim.1),
        ClaimRef(mine.claim.0, mine.claim.1 + 1_000),
        ClaimRef(!mine.claim.0, mine.claim.1),
    ];
    for claim in forgeries {
        let forged = Held { claim, ..mine.clone() };
        assert_eq!(worker.complete(&forged).await, Settled::Refused, "{claim:?}");
        assert_eq!(worker.except(&forged, Disposition::Return).await, Settled::Refused, "{claim:?}");
        let rest = Completion { claim, jobs: JobSet::Rest, count: 1 };
        assert_eq!(worker.settle(vec![rest], vec![]).await.completions, [Settled::Refused]);
        assert_eq!(state(&store, id).await, JobState::Running);
    }
    assert_eq!(worker.complete(&mine).await, Settled::Accepted);
}

/// Another worker's claim is refused, with its true token too.
pub async fn another_workers_claim_is_refused(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let id = enqueue(&store, job()).await;
    let (owner, thief) = (worker_on(&store).await, worker_on(&fixture.open().await).await);
    let held = owner.take_one().await;
    assert_eq!(thief.complete(&held).await, Settled::Refused);
    let discard = Disposition::Discard { error: "mine now".into(), failed: true };
    assert_eq!(thief.except(&held, discard).await, Settled::Refused);
    assert_eq!(state(&store, id).await, JobState::Running);
    assert_eq!(owner.complete(&held).await, Settled::Accepted);
}

/// One refused entry does not spoil the others of its call.
pub async fn a_refused_entry_spoils_no_other(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue_jobs(&store, 4).await;
    let worker = worker_on(&store).await;
    let mut jobs = worker.take(4).await;
    jobs[1].claim.0 ^= 1;
    jobs[2].claim.0 ^= 1;
    let completions = jobs[..2].iter().map(Held::completion).collect();
    let exceptions = jobs[2..].iter().map(|held| held.exception(Disposition::Return)).collect();
    let reply = worker.settle(completions, exceptions).await;
    assert_eq!(reply.completions, [Settled::Accepted, Settled::Refused]);
    assert_eq!(reply.exceptions, [Settled::Refused, Settled::Accepted]);
}

/// A job that its worker returned belongs to the next claimer: the old claim never reaches it again.
pub async fn a_returned_job_is_out_of_reach(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 2).await;
    let (first, second) = (worker_on(&store).await, worker_on(&fixture.open().await).await);
    let claim = first.claim(2).await.remove(0);
    assert_eq!(claim.jobs.len(), 2);
    let jobs = held(std::slice::from_ref(&claim));
    first.except(&jobs[0], Disposition::Return).await;
    let taken = second.take_one().await;
    assert_eq!(taken.job.id, ids[0]);

    assert_eq!(first.complete(&jobs[0]).await, Settled::Already);
    let rest = Completion { claim: claim.reference, jobs: JobSet::Rest, count: 1 };
    assert_eq!(first.settle(vec![rest], vec![]).await.completions, [Settled::Accepted]);
    assert_eq!(state(&store, ids[0]).await, JobState::Running);
    assert_eq!(state(&store, ids[1]).await, JobState::Completed);
    assert_eq!(second.complete(&taken).await, Settled::Accepted);
}

/// A worker that never registered, or that deregistered, may not write.
pub async fn only_live_workers_write(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    enqueue(&store, job()).await;
    let worker = worker_on(&store).await;
    let held = worker.take_one().await;
    store.deregister(worker.id).await.expect("deregister");
    for id in [worker.id, WorkerId(i32::MAX)] {
        let completions = vec![held.completion()];
        let request = SettleRequest { worker: id, completions, exceptions: vec![] };
        assert!(store.settle(&request).await.expect_err("not live").is_lease_lost());
        assert!(store.heartbeat(id).await.expect_err("not live").is_lease_lost());
    }
    assert!(worker.try_claim(1).await.expect_err("not live").is_lease_lost());
    assert_eq!(state(&store, held.job.id).await, JobState::Available);
}

/// A worker that ends hands everything back at once, without counting anything; ending twice is fine.
pub async fn deregistering_hands_everything_back(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let ids = enqueue_jobs(&store, 10).await;
    let (leaving, staying) = (worker_on(&store).await, worker_on(&fixture.open().await).await);
    let jobs = leaving.take(10).await;
    for held in &jobs[..4] {
        leaving.complete(held).await;
    }
    for _ in 0..2 {
        store.deregister(leaving.id).await.expect("deregister");
    }
    let back = staying.take(6).await;
    assert!(back.iter().all(|held| held.job.attempt == 1 && held.job.crash_count == 0), "{back:?}");
    let mut returned: Vec<_> = back.iter().map(|held| held.job.id).collect();
    returned.sort_unstable();
    assert_eq!(returned, ids[4..]);
    staying.finds_nothing().await;
    assert_eq!(queue(&store, QUEUE).await.completed, 4);
}
