use crate::fixture::{Fixture, LEASE, completion, demand, exception, ids, jobs, url};
use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};
use tokio::time::{sleep, timeout};
use windlass_core::{
    ClaimRef, Disposition, ErrorKind, JobSet, JobState, JobStore, Leader, Settled, WorkerId, WorkerSpec,
};
use windlass_sqlite::{SqliteOptions, SqliteStore};

#[tokio::test]
async fn everything_a_dead_worker_writes_is_refused() {
    let f = Fixture::new();
    let (id, rescuer) = (f.add(1).await[0], f.rescuer().await);
    let (zombie, live) = (f.worker().await, f.worker().await);
    let claim = f.take(zombie, 1).await.remove(0);
    f.advance(LEASE + Duration::from_micros(1));
    f.heartbeat(live).await.unwrap();
    assert_eq!(f.rescue(rescuer).await.unwrap().workers, [zombie]);

    let held = crate::fixture::Held { claim: claim.reference, job: claim.jobs[0].clone() };
    assert!(f.settle(&completion(zombie, &claim, JobSet::Rest)).await.unwrap_err().is_lease_lost());
    assert!(f.settle(&exception(zombie, &held, Disposition::Return)).await.unwrap_err().is_lease_lost());
    assert!(f.heartbeat(zombie).await.unwrap_err().is_lease_lost());
    assert!(f.claim(&demand(zombie, 1)).await.unwrap_err().is_lease_lost());
    assert!(f.suspect(zombie, None).await.unwrap_err().is_lease_lost());
    assert!(f.lead(zombie, LEASE).await.is_err());
    f.deregister(zombie).await.unwrap();
    assert_eq!(f.state(id).await, JobState::Available);
    assert_eq!(ids(&f.take(live, 1).await), [id]);
}

#[tokio::test]
async fn a_claim_of_somebody_else_or_with_another_token_is_refused() {
    let f = Fixture::new();
    f.add(2).await;
    let (one, other) = (f.worker().await, f.worker().await);
    let claim = f.take(one, 2).await.remove(0);
    let reply = f.settle(&completion(other, &claim, JobSet::Rest)).await.unwrap();
    assert_eq!(reply.completions, [Settled::Refused]);
    let mut forged = claim.clone();
    forged.reference = ClaimRef(claim.reference.0 ^ 1, claim.reference.1);
    let reply = f.settle(&completion(one, &forged, JobSet::Rest)).await.unwrap();
    assert_eq!(reply.completions, [Settled::Refused]);
    let mut held = crate::fixture::Held { claim: claim.reference, job: claim.jobs[0].clone() };
    held.job.id = claim.jobs[1].id;
    assert_eq!(f.except(one, &held, Disposition::Return).await, Settled::Refused);
    assert_eq!(f.queues().await.unwrap()[0].running, 2);
}

#[tokio::test]
async fn an_unknown_worker_is_not_live() {
    let f = Fixture::new();
    assert!(f.heartbeat(WorkerId(77)).await.unwrap_err().is_lease_lost());
    f.deregister(WorkerId(77)).await.unwrap();
}

#[tokio::test]
async fn leaving_hands_everything_back_and_counts_nothing() {
    let f = Fixture::new();
    let added = f.add(6).await;
    let worker = f.worker().await;
    let claim = f.take(worker, 4).await.remove(0);
    f.settle(&completion(worker, &claim, JobSet::Ranges(vec![(added[1].0, added[1].0)]))).await.unwrap();
    f.deregister(worker).await.unwrap();
    f.deregister(worker).await.unwrap();
    assert_eq!(f.state(added[1]).await, JobState::Completed);
    let next = f.worker().await;
    let claims = f.take(next, 9).await;
    let mut got = ids(&claims);
    got.sort_unstable();
    assert_eq!(got, [added[0], added[2], added[3], added[4], added[5]]);
    assert!(claims[0].jobs.iter().all(|job| (job.attempt, job.crash_count) == (1, 0)));
}

#[tokio::test]
async fn one_worker_leads_at_a_time() {
    let f = Fixture::new();
    let (one, other) = (f.worker().await, f.worker().await);
    let term = Duration::from_secs(10);
    assert!(f.lead(one, term).await.unwrap());
    assert!(f.lead(one, term).await.unwrap());
    assert!(!f.lead(other, term).await.unwrap());
    f.resign(other).await.unwrap();
    assert!(!f.lead(other, term).await.unwrap());
    f.advance(term);
    assert!(f.lead(other, term).await.unwrap());
    f.resign(other).await.unwrap();
    assert!(f.lead(one, term).await.unwrap());
}

#[tokio::test]
async fn a_dropped_claim_call_hands_its_jobs_back() {
    let f = Fixture::new();
    f.add(1).await;
    let worker = f.worker().await;
    let request = demand(worker, 1);
    // Whatever moment the caller gives up at, the job must not stay with a worker that never got it.
    for polls in 0..40_u64 {
        let call = f.claim(&request);
        let _ = tokio::time::timeout(Duration::from_micros(polls * 10), async {
            drop(call.await);
            std::future::pending::<()>().await;
        })
        .await;
        let claims = f.take(worker, 1).await;
        for claim in claims {
            let held = crate::fixture::Held { claim: claim.reference, job: claim.jobs[0].clone() };
            f.except(worker, &held, Disposition::Return).await;
        }
        if f.queues().await.unwrap()[0].running == 1 {
            // The call had finished: its caller had the job.
            f.deregister(worker).await.unwrap();
            break;
        }
    }
    let next = f.worker().await;
    assert_eq!(f.take(next, 5).await.len(), 1);
}

/// The jobs of an answer that nobody takes go back also where the file is another's just then, and the store is closed next.
#[tokio::test]
async fn a_dropped_claim_call_hands_its_jobs_back_beside_a_lock() {
    for closes in [false, true] {
        a_claim_that_is_dropped_beside_a_lock_goes_back(closes).await;
    }
}

async fn a_claim_that_is_dropped_beside_a_lock_goes_back(closes: bool) {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { busy_timeout: Duration::from_millis(20), ..SqliteOptions::default() };
    let store = SqliteStore::open(&url(&folder), options).unwrap();
    let spec = WorkerSpec {
        name: "test".into(),
        queues: vec![],
        kinds: vec![],
        lease: LEASE,
        program: Default::default(),
    };
    let worker = store.register(&spec).await.unwrap().worker;
    let request = demand(worker, 1);
    let mut lost = None;
    // An answer that was there at once is not lost.
    while lost.is_none() {
        store.enqueue(&jobs(1)).await.unwrap();
        let mut call = Box::pin(store.claim(&request));
        let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
        lost = polled.await.is_pending().then_some(call);
    }
    let counts = async || {
        let queue = &store.queues().await.unwrap()[0];
        (queue.available, queue.running)
    };
    while counts().await.0 > 0 {}
    let held = counts().await.1;
    let other = rusqlite::Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(lost);
    assert_eq!(store.enqueue(&jobs(1)).await.unwrap_err().kind(), ErrorKind::Unavailable);
    other.execute_batch("ROLLBACK").unwrap();
    if closes {
        store.close().await;
    }
    store.enqueue(&jobs(1)).await.unwrap();
    assert_eq!(counts().await.1, held - 1, "closes: {closes}");
}

/// The runtime asks for an answer to a heartbeat within a sixth of the lease, and then asks again. Where other processes hold the file for longer
/// than that at a time, each heartbeat would be given up before its turn came: the lease would be lost though its worker lives.
#[tokio::test]
async fn a_heartbeat_that_nobody_waits_for_any_more_renews_the_lease_all_the_same() {
    let f = Arc::new(Fixture::new());
    let (rescuer, worker) = (f.rescuer().await, f.worker().await);
    f.advance(LEASE * 2 / 3);
    let other = rusqlite::Connection::open(f.folder.path().join("jobs.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let blocked = tokio::spawn({
        let f = Arc::clone(&f);
        async move { f.add(1).await }
    });
    // Nothing tells that the writer waits for the file already. Where it does not yet, this heartbeat waits with it, and the test proves nothing.
    sleep(Duration::from_millis(50)).await;
    timeout(Duration::from_millis(20), f.heartbeat(worker)).await.expect_err("the file is locked");
    other.execute_batch("COMMIT").unwrap();
    blocked.await.unwrap();
    f.add(1).await;
    f.advance(LEASE * 2 / 3);
    assert_eq!(f.rescue(rescuer).await.unwrap().workers, [], "it was renewed in between");
}
