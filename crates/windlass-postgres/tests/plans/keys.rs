//! A claim of a keyed queue touches a bounded number of pages, however many jobs wait, are finished, or come in one bulk, and however long a snapshot
//! is held.
//!
//! Cost is told by the pages that a call touches, not by time.

use crate::session::Session;

/// The pages of a claim of ten jobs of few keys: descents of some thirty indexes, and of some for each key and job. 220 to 310 here; to step over
/// a bulk takes a thousand. Some ten more for each transaction that is open anywhere in the cluster, as those of the tests beside it are.
const OF_A_CLAIM: i64 = 600;
/// Of one that takes a job of each of ten keys.
const OF_TEN_KEYS: i64 = 800;
/// And of one that finds nothing.
const OF_AN_EMPTY_CLAIM: i64 = 260;
/// Of a promotion that finds nothing due, where keys of one queue have rates.
const OF_A_PROMOTION: i64 = 40;

/// A worker of a keyed queue.
struct Keyed {
    session: Session,
    worker: i32,
}

impl Keyed {
    async fn begin() -> Self {
        let session = Session::fresh().await;
        let worker = session.register("'{q}'").await;
        session.run("SELECT windlass.limit_keys('q', concurrency => 1000)").await;
        Self { session, worker }
    }

    async fn bulk(&self, jobs: i64, keys: i64) {
        self.session.put_keyed("q", jobs, keys).await;
    }

    async fn claim_and_settle(&self, times: i32) {
        self.session.claim_and_settle(self.worker, "q", times).await;
    }

    /// A job of each of so many keys is claimed: `claimed` has the heads.
    async fn hold(&self, keys: i64) {
        let (s, worker) = (&self.session, self.worker);
        s.run("CREATE TEMP TABLE claimed (head bigint[])").await;
        self.bulk(keys, keys).await;
        while s.value::<i64>("SELECT count(*) FROM windlass.key_held").await < keys {
            let claim = format!(
                "INSERT INTO claimed SELECT c.head FROM windlass.claim({worker}, '{{q}}', '{{20000}}') AS c WHERE c.head[1] <> 0"
            );
            s.run(&claim).await;
        }
    }

    /// The least of some claims: the first ones move what came from the log.
    async fn bounded(&self, when: &str, most: i64) {
        let call = format!("windlass.claim({}, '{{q}}', '{{10}}')", self.worker);
        self.session.bounded_in(30, when, &call, most).await;
    }
}

#[tokio::test]
async fn neither_backlog_nor_history_counts() {
    let keyed = Keyed::begin().await;
    keyed.bounded("empty", OF_AN_EMPTY_CLAIM).await;
    keyed.bulk(60_000, 1).await;
    keyed.bounded("many jobs of one key", OF_A_CLAIM).await;
    keyed.bulk(20, 2).await;
    keyed.bounded("two keys, one of them noisy", OF_A_CLAIM).await;
    keyed.claim_and_settle(60).await;
    keyed.bounded("and thousands that are done", OF_A_CLAIM).await;
    keyed.bulk(20_000, 10_000).await;
    keyed.bounded("and many keys", OF_TEN_KEYS).await;
}

/// Of 20,000 keys with a rate a job each ends between two claims. Each was compared with each, which took the next claim minutes: no call waits for so long, so it was
/// begun again and again, and the queue stood still. Half a minute is many times what it takes.
#[tokio::test]
async fn many_keys_with_a_rate_may_end_at_once() {
    let keyed = Keyed::begin().await;
    let (s, worker) = (&keyed.session, keyed.worker);
    s.run("SELECT windlass.limit_keys('q', rate => 10, period => '1 hour')").await;
    keyed.hold(20_000).await;
    let settle = format!(
        "SELECT windlass.settle({worker}, array_agg(c.head[1]::integer), array_agg(c.head[2]), array_agg(c.head[3]::integer),
             array_agg(NULL::integer), '{{}}', '{{}}', '{{}}') FROM claimed AS c"
    );
    s.run(&settle).await;
    s.run(&format!(
        "SET statement_timeout = '30s'; DO $$ BEGIN WHILE EXISTS (SELECT 1 FROM windlass.key_held) LOOP
             PERFORM windlass.claim({worker}, '{{q}}', '{{10}}'); END LOOP; END $$"
    ))
    .await;
    assert_eq!(s.value::<i64>("SELECT sum(ended) FROM windlass.key_room").await, 20_000);
}

/// Nor could the limits of many serial keys be changed while a job of each was held.
#[tokio::test]
async fn many_serial_keys_may_be_held_when_their_limits_change() {
    let keyed = Keyed::begin().await;
    let s = &keyed.session;
    s.run("SELECT windlass.limit_keys('q', serial => true)").await;
    keyed.hold(60_000).await;
    s.run("SET statement_timeout = '30s'; SELECT windlass.limit_keys('q', concurrency => 7)").await;
    let room = "SELECT count(*) FROM windlass.key_room WHERE held = 1 AND begun = '{}'";
    assert_eq!(s.value::<i64>(room).await, 60_000);
}

/// What of many serial keys came back at once is looked for together: one by one it took the next claim longer than any call waits.
#[tokio::test]
async fn many_serial_keys_may_come_back_at_once() {
    let keyed = Keyed::begin().await;
    let (s, worker) = (&keyed.session, keyed.worker);
    s.run("SELECT windlass.limit_keys('q', serial => true)").await;
    keyed.hold(2_000).await;
    s.run(&format!("SELECT windlass.end_worker({worker}, false)")).await;
    s.bounded_undone("jobs that came back", "windlass.make_room('q')", 2_000 * 45).await;
    s.bounded_undone("jobs that came back", "windlass.count_held('q')", 2_000 * 45).await;
    s.run("SELECT windlass.make_room('q')").await;
    let room = "SELECT count(*) FROM windlass.key_room WHERE held = 0 AND cardinality(begun) = 1";
    assert_eq!(s.value::<i64>(room).await, 2_000, "none of them is over");
}

/// However many jobs ended, a claim sees to a part of them: those of some transactions, and where one settled very many, some of those.
#[tokio::test]
async fn a_claim_sees_to_some_of_many_jobs_that_ended() {
    const JOBS: i64 = 3_000;
    let keyed = Keyed::begin().await;
    let (s, worker) = (&keyed.session, keyed.worker);
    s.run("SELECT windlass.limit_keys('q', serial => true)").await;
    keyed.hold(JOBS).await;
    // Half of them complete one by one, and one in a transaction that began before and commits later; the others come back together.
    let late = s.fixture.sql().await;
    let first = format!(
        "BEGIN; INSERT INTO windlass.settlement (seq, lane_id, worker_id, job_count, segment, completed, low_id, high_id)
             SELECT h.seq, h.lane_id, {worker}, 1, windlass.current_segment(), true, h.id, h.id FROM windlass.key_held h ORDER BY h.id LIMIT 1"
    );
    late.batch_execute(&s.fixture.text(&first)).await.unwrap();
    let one_by_one = format!(
        "DO $$ DECLARE j record; BEGIN FOR j IN SELECT h.*, c.token FROM windlass.key_held h JOIN windlass.claim c USING (lane_id, seq) ORDER BY h.id OFFSET 1 LIMIT {JOBS} / 2 LOOP
             PERFORM windlass.settle({worker}, ARRAY[j.lane_id], ARRAY[j.seq], ARRAY[j.token], ARRAY[1], ARRAY[1], ARRAY[j.id], ARRAY[j.id]); COMMIT; END LOOP; END $$"
    );
    s.run(&one_by_one).await;
    let mut parts = Vec::new();
    loop {
        let held: i64 = s.value("SELECT count(*) FROM windlass.key_held").await;
        s.bounded_undone("some of many that ended", "windlass.make_room('q', 200)", 36_000).await;
        let more: bool = s.value("SELECT windlass.make_room('q', 200)").await;
        parts.push(held - s.value::<i64>("SELECT count(*) FROM windlass.key_held").await);
        if parts.len() == 3 {
            late.batch_execute("COMMIT").await.unwrap();
            s.run(&format!("SELECT windlass.end_worker({worker}, false)")).await;
        } else if !more {
            break;
        }
    }
    assert!(parts.iter().all(|part| *part <= 400), "{parts:?}");
    assert_eq!(parts.iter().sum::<i64>(), JOBS, "{parts:?}");
    let room = "SELECT count(*) FROM windlass.key_room WHERE held = 0 AND cardinality(begun) = 1";
    assert_eq!(s.value::<i64>(room).await, JOBS / 2 - 1, "those that came back are not over: {parts:?}");
}

#[tokio::test]
async fn a_held_snapshot_does_not_count() {
    what_was_done_beside_a_snapshot_does_not_count().await;
}

/// Nor does a transaction that writes and is older than all that the log keeps.
#[tokio::test]
async fn an_old_transaction_does_not_count() {
    let older = Session::fresh().await;
    older.run("BEGIN; SELECT pg_current_xact_id()").await;
    what_was_done_beside_a_snapshot_does_not_count().await;
    older.run("COMMIT").await;
}

async fn what_was_done_beside_a_snapshot_does_not_count() {
    let keyed = Keyed::begin().await;
    let reader = keyed.session.fixture.sql().await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    keyed.bulk(8_000, 3).await;
    keyed.claim_and_settle(50).await;
    keyed.bounded("thousands done while a snapshot is held", OF_A_CLAIM).await;
    keyed.claim_and_settle(40).await;
    keyed.bounded("all done while a snapshot is held", OF_AN_EMPTY_CLAIM).await;
}

/// What ended under a rate, however much, and whatever a held snapshot keeps of it, is not walked; nor are keys that may not go on.
#[tokio::test]
async fn what_ended_under_a_rate_does_not_count() {
    let keyed = Keyed::begin().await;
    let reader = keyed.session.fixture.sql().await;
    keyed.session.run("SELECT windlass.limit_keys('q', rate => 100000, period => '100 ms')").await;
    keyed.bulk(300, 3).await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    for _ in 0..60 {
        // The claims after the first find what ended before, and take it out of the counts.
        keyed.bulk(120, 3).await;
        keyed.claim_and_settle(2).await;
    }
    // And very many before, which are dead to all but the snapshot.
    keyed
        .session
        .run(
            "INSERT INTO windlass.key_ended (queue, key, free_at, jobs)
             SELECT 'q', 'key 0', clock_timestamp() - interval '1 minute' - i * interval '1 ms', 1 FROM generate_series(1, 40000) AS i",
        )
        .await;
    keyed
        .session
        .run("DELETE FROM windlass.key_ended WHERE free_at < clock_timestamp() - interval '1 minute'")
        .await;
    keyed.bulk(60, 3).await;
    keyed.bounded("thousands ended while a snapshot is held", OF_A_CLAIM).await;
    keyed.session.run("SELECT windlass.limit_keys('q', rate => 1, period => '1 hour')").await;
    keyed.bulk(3_000, 1_000).await;
    for _ in 0..30 {
        keyed.claim_and_settle(2).await;
    }
    keyed.bounded("a thousand keys may not go on", OF_AN_EMPTY_CLAIM).await;
    keyed
        .session
        .bounded("promotion with a thousand keys that wait", "windlass.promote(10)", OF_A_PROMOTION)
        .await;
}

/// A promotion comes some twenty times a second. It asked each queue with rates of keys for when one may go on.
#[tokio::test]
async fn queues_where_no_key_waits_for_its_rate_do_not_count() {
    let session = Session::fresh().await;
    let s = &session;
    s.run("INSERT INTO windlass.queue (name, keyed, key_rates) SELECT 'q' || i, true, true FROM generate_series(1, 1000) AS i;
           INSERT INTO windlass.key_limit (queue, key, rate, rate_period) SELECT 'q' || i, '', 1, interval '1 hour' FROM generate_series(1, 1000) AS i;
           SELECT windlass.keyed_lane('q' || i, 0) FROM generate_series(1, 1000) AS i")
        .await;
    s.bounded("nothing waits", "windlass.promote(10)", OF_A_PROMOTION).await;
    let waits = "INSERT INTO windlass.key_turn (lane_id, finish, low_id, blocked, due_at, key)
        SELECT l.id, 0, 0, true, clock_timestamp() + interval '1 hour', 'a' FROM windlass.lane l WHERE l.id < 0 AND l.queue IN ('q7', 'q700')";
    s.run(waits).await;
    s.bounded("two wait", "windlass.promote(10)", 2 * OF_A_PROMOTION).await;
    // What a held snapshot keeps of what was due is passed over in the index, 200 entries a page.
    let reader = s.fixture.sql().await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    s.run("INSERT INTO windlass.key_turn (lane_id, finish, low_id, blocked, due_at, key)
           SELECT l.id, 0, 0, true, clock_timestamp() - interval '2 minutes' - i * interval '1 ms', 'b' FROM windlass.lane l, generate_series(1, 20000) AS i
           WHERE l.queue = 'q500' AND l.id < 0")
        .await;
    s.run("DELETE FROM windlass.key_turn WHERE key = 'b'").await;
    s.bounded(
        "many waited",
        "windlass.promote(10, clock_timestamp(), 0)",
        2 * OF_A_PROMOTION + 2 * 20_000 / 100,
    )
    .await;
    reader.batch_execute("COMMIT").await.unwrap();
}

/// Keys of many queues are looked at by their place. Those of all were compared with those of each queue.
#[tokio::test]
async fn housekeeping_looks_at_each_key_once() {
    let session = Session::fresh().await;
    let s = &session;
    s.run("SELECT windlass.keyed_lane('q' || i, 0) FROM generate_series(1, 90) AS i;
           INSERT INTO windlass.key_turn (lane_id, finish, low_id, blocked, key)
           SELECT l.id, 0, 0, false, 'gone ' || i FROM windlass.lane l, generate_series(1, 50) AS i WHERE l.id < 0")
        .await;
    s.bounded_undone("4,500 keys of 90 queues", "windlass.forget_key_turns(5000)", 4_500 * 20).await;
}

/// A bulk that is not committed, and one that was rolled back, are not walked by every claim.
#[tokio::test]
async fn an_open_bulk_does_not_count() {
    let keyed = Keyed::begin().await;
    let open = keyed.session.fixture.sql().await;
    let bulk = keyed.session.fixture.text(
        "INSERT INTO windlass.job (lane_id, kind, args, attributes)
         SELECT l.lane, 'k', '{}', '{\"key\": \"key 0\"}' FROM (SELECT windlass.lane_of('q', 0) AS lane) AS l, generate_series(1, 60000)",
    );
    open.batch_execute(&format!("BEGIN; {bulk}")).await.unwrap();
    keyed.bulk(200, 1).await;
    keyed.bounded("behind an open bulk", OF_A_CLAIM).await;
    open.batch_execute("ROLLBACK").await.unwrap();
    keyed.claim_and_settle(4).await;
    keyed.bounded("behind one that was rolled back", OF_A_CLAIM).await;
}

/// The limit of one key is a matter of what is held of that key. To count all that was begun took seconds where there were 100,000 keys, in which nobody got jobs of the queue.
#[tokio::test]
async fn keys_whose_limits_stay_do_not_count() {
    let keyed = Keyed::begin().await;
    let s = &keyed.session;
    s.run("SELECT windlass.limit_keys('q', serial => true)").await;
    s.run("INSERT INTO windlass.key_room (queue, key, held, begun) SELECT 'q', 'k' || i, 0, ARRAY[-i] FROM generate_series(1, 20000) AS i").await;
    s.bounded_undone("20,000 keys were begun", "windlass.limit_key('q', 'one', concurrency => 2)", 600).await;
    // Of all keys: their rows are written anew, and nobody looks for their jobs.
    s.bounded_undone(
        "20,000 keys were begun",
        "windlass.limit_keys('q', serial => true, weight => 2)",
        240_000,
    )
    .await;
}
