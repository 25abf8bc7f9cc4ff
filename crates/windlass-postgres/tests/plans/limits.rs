//! Shares of limited queues touch a bounded number of pages, however many queues there are, however much was given out, and
//! however long a snapshot is held.
//!
//! Cost is told by the pages that a call touches, not by time.

use crate::session::Session;
use windlass_conformance::steps::eventually;

/// The pages that a share of one queue may cost: descents of the indexes of the worker, the queue and what was given out.
const OF_A_SHARE: i64 = 90;
/// With a job that costs so much that many rows have to leave the window first: it reads a thousand of them.
const OF_A_DEAR_SHARE: i64 = 200;
/// And a claim that finds out that it has none, or finds nothing.
const OF_A_CLAIM: i64 = 90;
/// Of each further queue.
const OF_A_QUEUE: i64 = 30;

/// A worker of queues with limits.
struct Limited {
    session: Session,
    worker: i32,
}

impl Limited {
    async fn begin() -> Self {
        let session = Session::fresh().await;
        let worker = session.register("ARRAY['q', 'free']").await;
        session.run("SELECT windlass.enqueue('k', '{}', 'q'), windlass.enqueue('k', '{}', 'free')").await;
        Self { session, worker }
    }

    fn share(&self, queues: &str, starts: i32) -> String {
        let all = |value: i32| format!("array_fill({value}, ARRAY[cardinality({queues})])");
        format!("windlass.share({}, {queues}, {}, {}, {})", self.worker, all(0), all(5), all(starts))
    }

    fn claim(&self, queues: &str) -> String {
        format!("windlass.claim({}, {queues}, array_fill(10, ARRAY[cardinality({queues})]))", self.worker)
    }

    /// Everything of one queue that has both limits, and of one that has none.
    async fn check(&self, when: &str) {
        for starts in [1, 0, 2_000_000] {
            self.session.bounded(when, &self.share("ARRAY['q']", starts), OF_A_SHARE).await;
        }
        let dear = format!(
            "windlass.share({}, '{{q}}', '{{0}}', '{{5}}', '{{1}}', 0, ARRAY['{{{{1,1000000}}}}'])",
            self.worker
        );
        self.session.bounded(when, &dear, OF_A_DEAR_SHARE).await;
        self.session.bounded(when, &self.claim("ARRAY['q']"), OF_A_CLAIM).await;
        self.session.bounded(when, &self.claim("ARRAY['free']"), OF_A_CLAIM).await;
        self.session.bounded(when, &format!("windlass.limited_queues({})", self.worker), OF_A_CLAIM).await;
    }
}

/// What was given out: so many rows of queue q, one each millisecond until now.
const GIVEN: &str = "DELETE FROM windlass.started;
    INSERT INTO windlass.started (queue, at, clock, expires_at, before, started)
    SELECT 'q', t, t, t + interval '1 hour 1 second', n - 1, n
    FROM generate_series(1, {rows}) AS n, LATERAL (SELECT now() - ({rows} - n) * interval '1 ms' AS t) AS at";

#[tokio::test]
async fn a_share_costs_the_same_whatever_there_is() {
    let limited = Limited::begin().await;
    let session = &limited.session;
    session.run("SELECT windlass.limit_queue('q', 5, 1000000, '1 hour', 100000)").await;
    limited.check("empty").await;
    for rows in ["1000", "100000"] {
        session.run(&GIVEN.replace("{rows}", rows)).await;
        limited.check(&format!("{rows} rows were given out")).await;
    }
    session
        .run("INSERT INTO windlass.queue (name, concurrency, rate, rate_period)
              SELECT 'other' || n, CASE WHEN n % 2 = 0 THEN 5 END, CASE WHEN n % 3 < 2 THEN 10 END, CASE WHEN n % 3 < 2 THEN interval '1 s' END
              FROM generate_series(1, 10000) AS n;
              INSERT INTO windlass.slot (queue, worker_id, slots, want) SELECT 'other' || n, 7, 1, 1 FROM generate_series(1, 10000) AS n")
        .await;
    limited.check("10,000 other queues with limits").await;
    session.run("ANALYZE windlass.queue, windlass.slot, windlass.started, windlass.worker").await;
    limited.check("the same, analysed").await;
    let many = "ARRAY(SELECT 'other' || n FROM generate_series(1, 100) AS n)";
    session.bounded("100 queues at once", &limited.share(many, 1), 100 * OF_A_SHARE).await;
    session.bounded("100 queues at once", &limited.claim(many), OF_A_CLAIM + 100 * OF_A_QUEUE).await;
    // A lower rate counts what is too much; it is read once for the answer when there is more, not by who asks for none.
    session.run("SELECT windlass.limit_queue('q', 5, 1000, '1 hour')").await;
    session.bounded("a lowered rate", &limited.share("ARRAY['q']", 0), OF_A_SHARE).await;
}

/// What housekeeping removed stays in table and indexes as long as somebody holds a snapshot: nobody walks it.
#[tokio::test]
async fn a_held_snapshot_slows_no_share() {
    let limited = Limited::begin().await;
    let session = &limited.session;
    session.run("SELECT windlass.limit_queue('q', 5, 1000000, '1 second', 100000)").await;
    session.run(&GIVEN.replace("{rows}", "100000")).await;
    limited.check("before").await;
    let holder = session.fixture.sql().await;
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    // Ten minutes of a window of a second, and of slots that change hands.
    session.run("UPDATE windlass.started SET expires_at = at + interval '1 second'").await;
    // What is of this second is not removed, and read.
    let of_now =
        "SELECT count(*) FROM windlass.started WHERE at > clock_timestamp() - interval '1.1 seconds'";
    eventually("nothing was given out in this second", || async {
        (session.value::<i64>(of_now).await == 0).then_some(())
    })
    .await;
    session.run("SELECT windlass.forget_shares(1000000)").await;
    for slots in 0..300 {
        session
            .run(&format!(
                "SELECT * FROM windlass.share({}, ARRAY['q'], '{{0}}', '{{{}}}', '{{1}}')",
                limited.worker,
                slots % 5
            ))
            .await;
    }
    limited.check("a snapshot is held").await;
    session.run("VACUUM windlass.started, windlass.slot").await;
    limited.check("and was looked at by vacuum").await;
    holder.batch_execute("COMMIT").await.unwrap();
}
