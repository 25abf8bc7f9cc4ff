//! What a store remembers must not outlive a failover that loses the commits it was read from.

use crate::{cluster::Fixture, session::Session};
use std::{sync::Arc, time::Duration};
use windlass_conformance::steps::{QUEUE, enqueue_jobs, eventually, job, jobs, worker_on};
use windlass_core::{
    ClaimRef, Completion, Disposition, Exception, JobId, JobSet, JobState, JobStore, Settled, Store,
};
use windlass_postgres::{Access, PostgresStore};

/// What an asynchronous failover does to a lane that was just made: its row is gone, and so is every
/// connection.
async fn fail_over(fixture: &Fixture, name: &str) {
    let admin = fixture.sql().await;
    admin.batch_execute(&fixture.text("DELETE FROM windlass.lane")).await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    admin.query(end, &[&name]).await.unwrap();
    eventually("the connections are gone", || async {
        let left = "SELECT FROM pg_stat_activity WHERE application_name = $1";
        admin.query(left, &[&name]).await.unwrap().is_empty().then_some(())
    })
    .await;
}

/// Every way to enqueue, until it is acknowledged.
async fn enqueue_all_ways(store: &PostgresStore, round: &str) -> Vec<JobId> {
    let mut ids = Vec::new();
    for batch in [vec![job()], jobs(3), jobs(20)] {
        let key = format!("{round}/{}", batch.len());
        let plain = || async { store.enqueue(&batch).await.ok() };
        let once = || async { Some(store.enqueue_once(&key, &batch).await.ok()?.ids) };
        ids.extend(eventually("enqueued", plain).await);
        ids.extend(eventually("enqueued once", once).await);
    }
    ids
}

async fn check(parameters: &str) {
    let fixture = Fixture::with(parameters).await;
    let name = format!("failover_{}", fixture.schema);
    let url = format!("{}&application_name={name}", fixture.url);
    let store = Arc::new(PostgresStore::connect(&url, Default::default()).await.unwrap());
    let seam: Arc<dyn Store> = store.clone();
    let worker = worker_on(&seam).await;
    for round in ["one", "two"] {
        let mut ids = enqueue_all_ways(&store, round).await;
        ids.sort_unstable();
        assert_eq!(drain(&seam).await, ids, "{parameters:?}, round {round}");
        fail_over(&fixture, &name).await;
    }
    drop(worker);
}

/// By a worker whose connections are new.
async fn drain(seam: &Arc<dyn Store>) -> Vec<JobId> {
    eventually("the store answers", || async { seam.queues().await.ok() }).await;
    eventually("the store answers", || async { seam.promote(1).await.ok() }).await;
    let worker = worker_on(seam).await;
    let mut done = worker.drain(7).await;
    done.sort_unstable();
    done
}

#[tokio::test]
async fn an_acknowledged_job_after_a_failover_can_be_claimed() {
    check("").await;
    check("&pooler=transaction").await;
}

/// The user's connection may come from a pool of the user's, and belong to any server by now.
#[tokio::test]
async fn a_job_of_the_users_transaction_after_a_failover_can_be_claimed() {
    let fixture = Fixture::shared().await;
    let store = Arc::new(fixture.store().await);
    let seam: Arc<dyn Store> = store.clone();
    let worker = worker_on(&seam).await;
    let (mut client, admin) = (fixture.sql().await, fixture.sql().await);
    for _ in 0..2 {
        for count in [1, 3, 20] {
            let in_lane = |n: usize| job().with_queue([QUEUE, "other"][n % 2]).with_priority((n % 3) as i16);
            let batch: Vec<_> = (0..count).map(in_lane).collect();
            let transaction = client.transaction().await.unwrap();
            let ids = store.enqueue_in(&transaction, &batch).await.unwrap();
            transaction.commit().await.unwrap();
            let mut expected = Vec::new();
            for (id, job) in ids.iter().zip(&batch) {
                let record = store.job(*id).await.unwrap().expect("is there");
                assert_eq!((&*record.queue, record.priority), (job.queue(), job.priority()));
                expected.extend((job.queue() == QUEUE).then_some(*id));
            }
            let mut done = worker.drain(7).await;
            done.sort_unstable();
            assert_eq!(done, expected);
        }
        admin.batch_execute(&fixture.text("DELETE FROM windlass.lane")).await.unwrap();
    }
}

/// A failover forgets claims, and gives their numbers again: only the token tells them apart. A worker that settles
/// both in one call is told the truth about each, and the one that stands is settled.
#[tokio::test]
async fn a_claim_that_a_failover_forgot_does_not_stand_for_the_next_of_its_number() {
    let fixture = Fixture::shared().await;
    let seam: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&seam).await;
    enqueue_jobs(&seam, 3).await;
    let forgotten = |ClaimRef(lane_and_token, seq)| ClaimRef(lane_and_token ^ 1, seq);

    let held = worker.take_one().await;
    let returned = held.exception(Disposition::Retry { delay: Duration::from_secs(60), error: "no".into() });
    let old = Exception { claim: forgotten(returned.claim), ..returned.clone() };
    let reply = worker.try_settle(vec![], vec![old, returned]).await.expect("settles");
    assert_eq!(reply.exceptions, [Settled::Refused, Settled::Accepted]);

    for jobs in [JobSet::Rest, JobSet::Ranges(vec![(1, i64::MAX)])] {
        let claim = worker.claim(1).await.remove(0);
        let new = Completion { claim: claim.reference, jobs: jobs.clone(), count: 1 };
        let old = Completion { claim: forgotten(claim.reference), ..new.clone() };
        let reply = worker.try_settle(vec![old, new], vec![]).await.expect("settles");
        assert_eq!(reply.completions, [Settled::Refused, Settled::Accepted], "{jobs:?}");
        let record = seam.job(claim.jobs[0].id).await.expect("look up").expect("is there");
        assert_eq!(record.state, JobState::Completed, "{jobs:?}");
    }
}

/// A worker that registered before a failover is told with its next heartbeat to register anew, by every access that works; who registers afterwards is not. A schema whose functions are of
/// before says nothing of it, and is worked on.
#[tokio::test]
async fn who_registered_before_a_failover_is_told_to_register_anew() {
    let s = Session::fresh().await;
    let url = s.fixture.role("worker", &[Access::Worker]).await;
    let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(&url, Default::default()).await.unwrap());
    let tells = async |worker| store.heartbeat(worker).await.unwrap().register_anew;
    let before = worker_on(&store).await;
    assert!(!tells(before.id).await);
    s.run("CREATE OR REPLACE FUNCTION windlass.event_timeline() RETURNS text LANGUAGE sql STABLE AS $$ SELECT '00000002' $$").await;
    assert!(tells(before.id).await);
    let after = worker_on(&store).await;
    assert!(!tells(after.id).await);
    s.run("DROP FUNCTION windlass.is_outdated(integer)").await;
    assert!(!tells(before.id).await);
}

/// A failover that loses a settlement, while the worker that made it runs on: what it says of its claims hides none from its end, and nobody who registers, and no job, gets an id that was
/// given in what was lost.
#[tokio::test]
async fn what_a_failover_made_open_again_comes_back_when_its_worker_ends() {
    let s = Session::fresh().await;
    let worker = s.register("'{q}'").await;
    let tell = |from: u32| format!("SELECT windlass.heartbeat({worker}, {from}, '{{}}', '{{}}')");
    let enqueue = "SELECT windlass.enqueue('k', queue => 'q')";
    let before: i64 = s.value(enqueue).await;
    s.run(&format!("SELECT windlass.claim({worker}, '{{q}}', '{{1}}', NULL, 3)")).await;
    s.run(&tell(3)).await;
    // The settlement of its only job is lost, and the server's eleventh timeline has begun.
    s.run("CREATE OR REPLACE FUNCTION windlass.event_timeline() RETURNS text LANGUAGE sql STABLE AS $$ SELECT '0000000B' $$").await;
    s.run(&tell(4)).await;
    let (new, next) = (s.register("'{q}'").await, s.register("'{q}'").await);
    assert_eq!((new, next), (100_000_001, 100_000_002));
    let beyond = s.value::<i64>(enqueue).await - before;
    assert!(
        beyond > 99_999_999,
        "a job has an id that another may have had in what was lost, {beyond} later"
    );
    let end = format!("SELECT rescued FROM windlass.end_worker({worker}, false)");
    assert_eq!(s.value::<Option<i64>>(&end).await, Some(1));
    s.run(&format!("SELECT windlass.heartbeat({new}, 9, '{{}}', '{{}}')")).await;
    let told = format!("SELECT open_from FROM windlass.worker WHERE id = {new}");
    assert_eq!(s.value::<i64>(&told).await, 9, "what a worker of this timeline says is believed");
}

/// pg_upgrade, and a move to another cluster, begin the server's timelines anew, while ids of workers go on: the next failover is noticed all the same, and gives neither workers nor jobs ids that were
/// given in what it lost.
#[tokio::test]
async fn a_failover_is_noticed_where_timelines_began_anew() {
    let s = Session::fresh().await;
    let line = async |line: &str| {
        let says = format!(
            "CREATE OR REPLACE FUNCTION windlass.event_timeline() RETURNS text LANGUAGE sql STABLE AS $$ SELECT '{line}' $$"
        );
        s.run(&says).await;
    };
    let outdated =
        async |worker: i32| s.value::<bool>(&format!("SELECT windlass.is_outdated({worker})")).await;
    let job = async || s.value::<i64>("SELECT windlass.enqueue('k', queue => 'q')").await;
    // As a second timeline and a move leave it, in a schema of before: nothing says on which timeline anybody registered.
    s.run("SELECT setval(pg_get_serial_sequence('windlass.worker', 'id'), 11000005)").await;
    let mut worker = s.register("'{q}'").await;
    s.run("DROP TABLE windlass.timeline; DELETE FROM windlass.migration WHERE version >= 29").await;
    s.fixture.store().await.migrate().await.unwrap();
    assert!(!outdated(worker).await);
    for (says, first) in [
        ("00000002", 20_000_000), // a failover
        ("00000001", 30_000_000), // pg_upgrade
        ("00000003", 50_000_000), // two more failovers, of which one is known of
        ("00000001", 60_000_000), // another cluster
    ] {
        let before = job().await;
        line(says).await;
        assert!(outdated(worker).await, "{says}");
        let (new, next) = (s.register("'{q}'").await, s.register("'{q}'").await);
        assert_eq!((new, next), (first + 1, first + 2), "{says}");
        assert!(job().await > before + 99_999_999, "{says}");
        assert!(outdated(worker).await && !outdated(new).await, "{says}");
        worker = new;
    }
    // Where their millions are used up, and at the very end.
    for (says, last, first) in
        [("00000002", 1_999_000_001, 1_999_010_001), ("00000003", 2_147_483_640, i32::MAX)]
    {
        s.run(&format!("SELECT setval(pg_get_serial_sequence('windlass.worker', 'id'), {last})")).await;
        line(says).await;
        assert_eq!(s.value::<i32>("SELECT windlass.first_worker()").await, first);
    }
    // A dump that is restored in place: its row is of the timeline of before, and ids of the present one were given since.
    s.run("UPDATE windlass.timeline SET line = 1, first_worker = 0; SELECT setval(pg_get_serial_sequence('windlass.worker', 'id'), 50)").await;
    line("00000002").await;
    s.run("DELETE FROM windlass.worker; UPDATE windlass.home SET one = one; UPDATE windlass.migration SET version = version").await;
    s.run("SELECT windlass.rehome()").await;
    let new = s.register("'{q}'").await;
    assert!(new > 11_000_000, "{new}");
}
