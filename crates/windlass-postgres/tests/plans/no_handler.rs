//! Jobs that waited for a worker that knows their kind, and wait no more, cost the claims of their lane nothing, however long a snapshot keeps what they were.
//!
//! Cost is told by the pages that a call touches, not by time.

use crate::session::Session;
use windlass_conformance::steps::eventually;

/// More than a claim may walk, by far.
const JOBS: i64 = 20_000;
/// What a claim may touch more than before: a probe for what comes later, and one for each transaction that was open anywhere in the cluster when jobs were
/// handed out, as those of the tests beside it are: 23 to 36 pages alone, up to 67 beside others. To walk what was there takes 374.
const MORE_PAGES: i64 = 150;

/// A worker that knows the kind, one that knows another, and one that knows all.
struct Workers {
    session: Session,
    ids: [i32; 3],
}

impl Workers {
    async fn begin() -> Self {
        let session = Session::fresh().await;
        let mut ids = [0; 3];
        for (id, kinds) in ids.iter_mut().zip(["'{unknown,k}'", "'{k}'", "'{}'"]) {
            let register = format!("SELECT windlass.register('w', '{{q}}', {kinds}, 600)");
            *id = session.value(&register).await;
        }
        Self { session, ids }
    }

    async fn put(&self, jobs: i64) {
        let sql = format!(
            "INSERT INTO windlass.waiting (id, lane_id, available_at, state, max_attempts, kind, args)
             SELECT nextval('windlass.job_id_seq'), (SELECT windlass.lane_of('q', 0)), now(), 'no_handler', 20, 'unknown', '{{}}'
             FROM generate_series(1, {jobs})"
        );
        self.session.run(&sql).await;
    }

    fn claim(&self, worker: i32) -> String {
        format!("SELECT * FROM windlass.claim({worker}, '{{q}}', '{{1000}}') WHERE id IS NOT NULL")
    }

    /// How many jobs a worker gets by one claim, and the pages that it touches.
    async fn claimed(&self, worker: i32) -> (usize, i64) {
        self.session.fixture.rows_and_pages(&self.session.client, &self.claim(worker)).await
    }

    async fn take(&self, worker: i32) -> usize {
        let mut taken = 0;
        loop {
            let (rows, _) = self.claimed(worker).await;
            taken += rows;
            if rows == 0 {
                return taken;
            }
        }
    }

    /// The pages of a claim of each worker that finds nothing: the least of some, the first of which also plan.
    async fn pages(&self) -> [i64; 3] {
        let mut pages = [i64::MAX; 3];
        for (least, worker) in pages.iter_mut().zip(self.ids) {
            for _ in 0..3 {
                let (rows, touched) = self.claimed(worker).await;
                assert_eq!(rows, 0, "worker {worker}");
                *least = touched.min(*least);
            }
        }
        pages
    }

    /// After a few claims: on a fast machine it is one of 16 that notes how far the others need not look.
    async fn as_before(&self, before: [i64; 3], when: &str) {
        eventually(when, || async {
            let after = self.pages().await;
            println!("{when}: {before:?} and {after:?} pages");
            after.iter().zip(before).all(|(after, before)| *after <= before + MORE_PAGES).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn jobs_that_found_a_handler_beside_a_held_snapshot_do_not_count() {
    let workers = Workers::begin().await;
    let [knows, other, knows_all] = workers.ids;
    let before = workers.pages().await;
    let reader = workers.session.fixture.sql().await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()").await.unwrap();
    workers.put(JOBS).await;
    assert_eq!(workers.take(other).await, 0, "of a kind that it does not know");
    assert_eq!(workers.take(knows).await, JOBS as usize);
    workers.as_before(before, "handed out").await;
    workers.put(JOBS).await;
    assert_eq!(workers.take(knows_all).await, JOBS as usize);
    workers.as_before(before, "handed out to who knows all").await;
    workers.put(JOBS).await;
    workers.session.run("DELETE FROM windlass.waiting").await;
    workers.pages().await; // who finds that out
    workers.as_before(before, "cancelled").await;
    let mut least = i64::MAX;
    for _ in 0..3 {
        workers.put(1).await;
        let (rows, pages) = workers.claimed(knows).await;
        assert_eq!(rows, 1);
        least = pages.min(least); // where tests beside this one change tables, it also plans
    }
    assert!(least < 600, "{least} pages for one job behind them");
}

/// What is being written while others are handed out is found when it is there, though it began before.
#[tokio::test]
async fn a_job_that_is_committed_late_is_found() {
    let workers = Workers::begin().await;
    let [knows, ..] = workers.ids;
    let late = workers.session.fixture.sql().await;
    let one = workers.session.fixture.text(
        "BEGIN; INSERT INTO windlass.waiting (id, lane_id, available_at, state, max_attempts, kind, args)
         VALUES (nextval('windlass.job_id_seq'), (SELECT windlass.lane_of('q', 0)), now(), 'no_handler', 20, 'unknown', '{}')",
    );
    workers.put(5).await;
    late.batch_execute(&one).await.unwrap();
    workers.put(1_500).await;
    assert_eq!(workers.take(knows).await, 1_505);
    workers.put(3).await;
    assert_eq!(workers.take(knows).await, 3);
    late.batch_execute("COMMIT").await.unwrap();
    assert_eq!(workers.take(knows).await, 1, "committed late");
    workers.put(2).await;
    assert_eq!(workers.take(knows).await, 2);
}

/// A job that somebody else has locked, to cancel it, waits until that is decided, and the others do not wait for it.
#[tokio::test]
async fn a_locked_job_is_found_later() {
    let workers = Workers::begin().await;
    let [knows, ..] = workers.ids;
    workers.put(10).await;
    let other = workers.session.fixture.sql().await;
    let delete = "BEGIN; DELETE FROM windlass.waiting WHERE id = (SELECT id FROM windlass.waiting ORDER BY id OFFSET 3 LIMIT 1)";
    other.batch_execute(&workers.session.fixture.text(delete)).await.unwrap();
    assert_eq!(workers.take(knows).await, 9);
    workers.put(2).await;
    assert_eq!(workers.take(knows).await, 2);
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(workers.take(knows).await, 1, "the one that was not cancelled after all");
}

/// A job that waits for a handler and gets another priority is found in its new lane, where others were handed out since it came.
#[tokio::test]
async fn an_edited_job_is_found_in_its_new_lane() {
    let workers = Workers::begin().await;
    let [knows, ..] = workers.ids;
    workers.session.run("SELECT windlass.lane_of('q', 7)").await;
    workers.put(1).await;
    let id: i64 = workers.session.value("SELECT max(id) FROM windlass.waiting").await;
    let elsewhere = "INSERT INTO windlass.waiting (id, lane_id, available_at, state, max_attempts, kind, args)
        VALUES (nextval('windlass.job_id_seq'), (SELECT windlass.lane_of('q', 7)), now(), 'no_handler', 20, 'unknown', '{}')";
    workers.session.run(elsewhere).await;
    workers.session.run(&format!("UPDATE windlass.waiting SET state = 'scheduled' WHERE id = {id}")).await;
    assert_eq!(workers.take(knows).await, 1);
    workers.session.run(&format!("UPDATE windlass.waiting SET state = 'no_handler' WHERE id = {id}")).await;
    workers.session.run(&format!("SELECT windlass.edit({id}, priority => 7)")).await;
    assert_eq!(workers.take(knows).await, 1);
}
