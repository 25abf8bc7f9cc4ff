//! Many queues that have limits of their keys: no call takes more than some hundreds of the server's locks, of which it has some thousands for all sessions together,
//! and each queue has its turn all the same.

use crate::{cluster::Fixture, session::Session};

const QUEUES: i64 = 300;
const NAMES: &str = "ARRAY(SELECT 'q' || i FROM generate_series(1, 300) AS i)";
const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";

/// Of a hundred locks, those of the last queue, and the worker's.
const OF_A_CLAIM: i64 = 106;
/// The same and a hundred of other queues.
const OF_MORE_QUEUES: i64 = 206;

/// Each queue has two jobs of one key, of which one may start.
async fn keyed() -> Session {
    let s = Session::of(Fixture::shared().await).await;
    s.run("SELECT windlass.limit_keys(q, rate => 1, period => '1 hour'), windlass.enqueue('k', queue => q, key => 'a'), windlass.enqueue('k', queue => q, key => 'a')
           FROM (SELECT 'q' || i AS q FROM generate_series(1, 300) AS i) AS names")
        .await;
    s
}

/// What a call answers, and how many locks it holds until its transaction ends.
async fn call(s: &Session, sql: &str) -> (tokio_postgres::Row, i64) {
    s.run("BEGIN").await;
    let row = s.row(sql).await;
    let locks = s.value(LOCKS).await;
    s.run("COMMIT").await;
    (row, locks)
}

/// The same of a call that takes at most so many.
async fn bounded(s: &Session, sql: &str, most: i64) -> tokio_postgres::Row {
    let (row, locks) = call(s, sql).await;
    assert!(locks <= most, "{sql} took {locks} locks");
    row
}

/// How many jobs a claim gets, and whether it says that there is more.
fn claim_of(worker: i32, queues: &str) -> String {
    format!(
        "SELECT count(c.id), coalesce(bool_or(c.head[1] = 0 AND c.id IS NULL), false)
         FROM windlass.claim({worker}, {queues}, array_fill(10, ARRAY[cardinality({queues})])) AS c"
    )
}

async fn claim(s: &Session, worker: i32, queues: &str, most: i64) -> (i64, bool) {
    let row = bounded(s, &claim_of(worker, queues), most).await;
    (row.get(0), row.get(1))
}

async fn hold_all(s: &Session) -> i32 {
    let worker = s.register(NAMES).await;
    let mut jobs = 0;
    for _ in 0..40 {
        let (got, more) = claim(s, worker, NAMES, OF_A_CLAIM).await;
        jobs += got;
        if !more {
            break;
        }
    }
    assert_eq!(jobs, QUEUES, "one of each key");
    worker
}

#[tokio::test]
async fn a_claim_of_many_reads_some_that_have_work() {
    let s = keyed().await;
    let worker = hold_all(&s).await;
    // Those whose keys wait for their rate are no work, and none of their locks is taken: but where a look took longer than 2 ms, as on a busy machine.
    let (mut least, mut calls) = (i64::MAX, 0);
    while least > 5 && calls < 500 {
        let (row, locks) = call(&s, &claim_of(worker, NAMES)).await;
        assert_eq!((row.get(0), row.get(1)), (0_i64, false));
        (least, calls) = (least.min(locks), calls + 1);
    }
    assert!(least <= 5, "{least} locks");
    s.run("SELECT windlass.enqueue('k', queue => 'q7', key => 'b')").await;
    assert_eq!(claim(&s, worker, NAMES, OF_A_CLAIM).await.0, 1);
}

#[tokio::test]
async fn queues_without_keys_have_their_part() {
    let s = keyed().await;
    s.run("SELECT windlass.enqueue('k', queue => 'plain' || i) FROM generate_series(1, 150) AS i").await;
    let queues = format!("{NAMES} || ARRAY(SELECT 'plain' || i FROM generate_series(1, 150) AS i)");
    let worker = s.register(&queues).await;
    let (mut jobs, mut calls) = (0, 0);
    loop {
        let (got, more) = claim(&s, worker, &format!("({queues})"), OF_MORE_QUEUES).await;
        assert!(calls > 0 || got > 100, "{got} of the first claim");
        (jobs, calls) = (jobs + got, calls + 1);
        if !more {
            break;
        }
        assert!(calls < 40, "{jobs} jobs");
    }
    assert_eq!(jobs, QUEUES + 150);
}

#[tokio::test]
async fn a_promotion_sees_to_some_of_many_that_are_due() {
    let s = keyed().await;
    hold_all(&s).await;
    s.run("UPDATE windlass.key_turn SET due_at = clock_timestamp() - interval '1 second' WHERE blocked")
        .await;
    for nth in 1.. {
        let row = bounded(&s, "SELECT next_due_ms FROM windlass.promote(10)", 102).await;
        match row.get::<_, Option<f64>>(0) {
            Some(next) => assert_eq!(next, 0.0, "there are others"),
            None => break,
        }
        assert!(nth <= 3, "each is seen to once");
    }
    let seen_to = "SELECT count(DISTINCT queue) FROM windlass.key_looked WHERE at > clock_timestamp() - interval '1 hour'";
    assert_eq!(s.value::<i64>(seen_to).await, QUEUES);
}

#[tokio::test]
async fn housekeeping_looks_at_some_of_many() {
    let s = keyed().await;
    hold_all(&s).await;
    s.run("INSERT INTO windlass.key_turn (lane_id, finish, low_id, blocked, key)
           SELECT l.id, 0, 0, false, 'gone ' || i FROM windlass.lane l, generate_series(1, 4) AS i WHERE l.id < 0;
           INSERT INTO windlass.key_ended (queue, key, free_at, jobs) SELECT 'q' || i, 'x', clock_timestamp(), 1 FROM generate_series(1, 300) AS i")
        .await;
    // Counts of this run's own claims do not matter: what is looked at begins anew once an hour.
    s.run("UPDATE windlass.housekeeping SET turns_began_at = '-infinity'").await;
    let mut calls = 0;
    while bounded(&s, "SELECT windlass.forget_key_turns(5000)", OF_MORE_QUEUES).await.get::<_, i64>(0) == 5000
    {
        calls += 1;
        assert!(calls < 10, "it does not come to an end");
    }
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.key_turn WHERE key LIKE 'gone%'").await, 0);
    assert_eq!(s.value::<i64>("SELECT count(*) FROM windlass.key_turn WHERE blocked").await, QUEUES);
    for _ in 0..100 {
        bounded(&s, "SELECT windlass.forget_ended()::text", 101).await;
        if s.value::<i64>("SELECT count(*) FROM windlass.key_ended").await == 0 {
            return;
        }
    }
    panic!("some queues are never looked at");
}
