//! Claims stay bounded: in locks, in bytes, and in how long a lane of low priority waits.

use crate::cluster::Fixture;
use std::sync::Arc;
use tokio_postgres::Client;
use windlass_conformance::steps::{KIND, QUEUE, TestWorker, job, worker_on};
use windlass_core::{Args, NewJob, Store};

/// The bytes of a claim that says nothing of them.
const MOST_BYTES: i64 = 32 * 1024 * 1024;

struct Ground {
    fixture: Fixture,
    store: Arc<dyn Store>,
    worker: TestWorker,
    client: Client,
}

impl Ground {
    async fn fresh() -> Self {
        let fixture = Fixture::shared().await;
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        let worker = worker_on(&store).await;
        let client = fixture.sql().await;
        Self { fixture, store, worker, client }
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(&self.fixture.text(sql)).await.expect(sql);
    }

    async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(&self.fixture.text(sql), &[]).await.expect(sql).get(0)
    }

    /// The jobs, the bytes of their args, and whether there is more.
    async fn claim(&self, queues: &str, limit: i32, bytes: &str) -> (i64, i64, bool) {
        let sql = format!(
            "SELECT count(id), coalesce(sum(octet_length(args::text)), 0)::bigint, coalesce(bool_or(head[1] = 0), false)
             FROM windlass.claim({}, {queues}, array_fill({limit}, ARRAY[cardinality({queues})]), {bytes})",
            self.worker.id
        );
        let row = self.client.query_one(&self.fixture.text(&sql), &[]).await.expect("claims");
        (row.get(0), row.get(1), row.get(2))
    }
}

const A_THOUSAND: &str = "ARRAY(SELECT 'idle' || i FROM generate_series(1, 1000) AS i)";
const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_a_thousand_queues_locks_those_that_have_work() {
    let ground = Ground::fresh().await;
    ground.run(&format!("SELECT windlass.lane_of(q, 0) FROM unnest({A_THOUSAND}) AS q")).await;
    for (jobs, when) in [(0, "never used"), (3, "three have jobs"), (0, "used")] {
        for i in 0..jobs {
            ground.store.enqueue(&[job().with_queue(format!("idle{}", 300 * (i + 1)))]).await.unwrap();
        }
        ground.run("BEGIN").await;
        assert_eq!(ground.claim(A_THOUSAND, 10, "NULL").await.0, jobs, "{when}");
        // Two are the fence's. A lane counts as busy when looking at it took over 2 ms, so leave room for a slow machine.
        let locks = ground.number(LOCKS).await;
        assert!((2 + jobs..50).contains(&locks), "{when}: {locks}");
        ground.run("COMMIT").await;
    }
    // Where all have work, it comes in several claims.
    ground.run(&format!("SELECT windlass.enqueue('k', queue => q) FROM unnest({A_THOUSAND}) AS q")).await;
    let mut claimed = 0;
    for _ in 0..10 {
        ground.run("BEGIN").await;
        let (jobs, _, more) = ground.claim(A_THOUSAND, 10, "NULL").await;
        assert!(ground.number(LOCKS).await <= 202);
        ground.run("COMMIT").await;
        claimed += jobs;
        assert_eq!(more, claimed < 1_000, "after {claimed}");
    }
    assert_eq!(claimed, 1_000);
}

/// Work that committed late, before an older open transaction ended, is seen by the look as by the claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_sees_what_was_committed_late() {
    let ground = Ground::fresh().await;
    ground.run(&format!("SELECT windlass.lane_of(q, 0) FROM unnest({A_THOUSAND}) AS q")).await;
    let (early, late) = (ground.fixture.sql().await, ground.fixture.sql().await);
    let enqueue = |n| ground.fixture.text(&format!("SELECT windlass.enqueue('k', queue => 'idle{n}')"));
    early.batch_execute(&format!("BEGIN; {}", enqueue(5))).await.unwrap();
    late.batch_execute(&enqueue(5)).await.unwrap();
    assert_eq!(ground.claim(A_THOUSAND, 10, "NULL").await.0, 1, "behind an open transaction");
    late.batch_execute(&enqueue(5)).await.unwrap();
    assert_eq!(ground.claim(A_THOUSAND, 10, "NULL").await.0, 1, "behind it still");
    assert_eq!(ground.claim(A_THOUSAND, 10, "NULL").await.0, 0);
    early.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ground.claim(A_THOUSAND, 10, "NULL").await.0, 1, "the late one");
    assert_eq!(ground.claim(A_THOUSAND, 10, "NULL").await.0, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_bounded_by_bytes() {
    let ground = Ground::fresh().await;
    for (args, what) in [
        ("to_json(repeat('x', 102400))", "args that compress well"),
        (
            "to_json((SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 3200) AS j))",
            "args that do not",
        ),
    ] {
        ground
            .run(&format!(
                "INSERT INTO windlass.job (lane_id, kind, args)
                 SELECT windlass.lane_of('q', 0), 'k', {args} FROM generate_series(1, 700) AS i"
            ))
            .await;
        let mut claimed = 0;
        while claimed < 700 {
            let (jobs, bytes, more) = ground.claim("ARRAY['q']", 5_000, "NULL").await;
            assert!(jobs > 0 && bytes <= MOST_BYTES, "{what}: {jobs} jobs of {bytes} bytes");
            claimed += jobs;
            assert!(more || claimed == 700, "{what}: {claimed} claimed");
        }
        assert_eq!(ground.claim("ARRAY['q']", 5_000, "NULL").await, (0, 0, false));
    }
    ground
        .run("SELECT windlass.enqueue('k', to_jsonb(repeat('x', 5000)), 'q') FROM generate_series(1, 3)")
        .await;
    for _ in 0..3 {
        assert_eq!(ground.claim("ARRAY['q']", 10, "ARRAY[100]").await.0, 1, "always at least one");
    }
    assert_eq!(ground.claim("ARRAY['q']", 10, "ARRAY[100]").await.0, 0);
}

/// Each job once, though claims end in the middle of a transaction's rows and cancelled ones lie between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_jobs_come_once_each_and_in_order() {
    let ground = Ground::fresh().await;
    let large = NewJob::new(KIND, Args::of(&"x".repeat(200_000)).unwrap()).with_queue(QUEUE);
    let mut batch = vec![job(); 40];
    batch.iter_mut().step_by(3).for_each(|job| *job = large.clone());
    let mut ids = ground.store.enqueue(&batch).await.unwrap();
    ids.extend(ground.store.enqueue(&batch).await.unwrap());
    ground.store.cancel(&[ids[1], ids[30], ids[41]]).await.unwrap();
    let expected: Vec<_> =
        ids.iter().enumerate().filter(|(n, _)| ![1, 30, 41].contains(n)).map(|(_, id)| id.0).collect();
    let mut seen: Vec<i64> = Vec::new();
    let sql = ground.fixture.text(&format!(
        "SELECT id FROM windlass.claim({}, ARRAY['q'], ARRAY[7], ARRAY[500000]) WHERE id IS NOT NULL",
        ground.worker.id
    ));
    for _ in 0..80 {
        seen.extend(ground.client.query(&sql, &[]).await.unwrap().iter().map(|row| row.get::<_, i64>(0)));
    }
    assert_eq!(seen, expected);
    let twice = "SELECT count(*) - count(DISTINCT j.id) FROM windlass.claim c, windlass.claim_jobs(c.lane_id, c.seq) j";
    assert_eq!(ground.number(twice).await, 0);
}

/// A job that waited for long at a low priority runs, however much comes at a better one; in between the
/// better one is served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_priority_starves() {
    let ground = Ground::fresh().await;
    ground
        .run(
            "INSERT INTO windlass.job (lane_id, kind, args, enqueued_at)
             SELECT windlass.lane_of('q', p), 'k', '{}', now() - interval '1 minute'
             FROM (VALUES (1, 3), (2, 3)) AS low(p, n), generate_series(1, n);
             SELECT windlass.enqueue('k', queue => 'q') FROM generate_series(1, 5000)",
        )
        .await;
    let mut low = Vec::new();
    // Few enough for any machine: 10 s after its last claim a lane would be served again.
    for nth in 0..300 {
        for held in ground.worker.take(1).await {
            if held.priority > 0 {
                low.push((nth, held.priority));
            }
        }
    }
    // One of each at the claims that look, 1 in 16; then both were served just now.
    let priorities: Vec<_> = low.iter().map(|(_, priority)| *priority).collect();
    assert_eq!(priorities.len(), 2, "{low:?}");
    assert!(priorities.contains(&1) && priorities.contains(&2), "{low:?}");
}

/// A claim that passes a lane because another has it says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contention_is_told_from_emptiness() {
    let ground = Ground::fresh().await;
    let other = ground.fixture.sql().await;
    assert_eq!(ground.claim("ARRAY['q']", 10, "NULL").await, (0, 0, false));
    ground.store.enqueue(&vec![job(); 30]).await.unwrap();
    let claim =
        format!("BEGIN; SELECT count(*) FROM windlass.claim({}, ARRAY['q'], ARRAY[10])", ground.worker.id);
    other.batch_execute(&ground.fixture.text(&claim)).await.unwrap();
    assert_eq!(ground.claim("ARRAY['q']", 10, "NULL").await, (0, 0, true));
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ground.claim("ARRAY['q']", 10, "NULL").await.0, 10);
}

/// A cancel inside a user's open transaction holds up the claims of its lane, and nothing else: they answer at
/// once that there is more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_cancel_holds_up_its_lane_only() {
    let ground = Ground::fresh().await;
    let ids = ground.store.enqueue(&vec![job(); 10]).await.unwrap();
    ground.store.enqueue(&[job().with_priority(1), job().with_queue("other")]).await.unwrap();
    let user = ground.fixture.sql().await;
    let cancel = ground.fixture.text(&format!("BEGIN; SELECT windlass.cancel({})", ids[0]));
    user.batch_execute(&cancel).await.unwrap();
    assert_eq!(ground.claim("ARRAY['q', 'other']", 10, "NULL").await, (2, 14, true));
    assert_eq!(ground.claim("ARRAY['q', 'other']", 10, "NULL").await, (0, 0, true));
    user.batch_execute("COMMIT").await.unwrap();
    let mut left = 0;
    while left < 9 {
        left += ground.claim("ARRAY['q', 'other']", 10, "NULL").await.0;
    }
    assert_eq!(ground.claim("ARRAY['q', 'other']", 10, "NULL").await, (0, 0, false));
}

/// A claim stepped over as many cancelled jobs as it was to hand out, a hundred times at most, and then said that there is nothing: a worker of few slots found what comes behind a bulk
/// cancellation after many polls. Then it stepped over 100,000 in each lane, and then over as many in each as it was to hand out of it: of many lanes that took longer than a call may, and began
/// again for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_jobs_hide_none_behind_them() {
    const TO_STEP_OVER: &str = "SELECT count(*) FROM windlass.cancelled_in_log";
    let ground = Ground::fresh().await;
    for (lanes, cancelled, asked, most) in [(1, 300, 1, 1), (2, 25_000, 1, 500), (30, 1_500, 1_000, 500)] {
        let queues: Vec<_> = (0..lanes).map(|n| format!("q{cancelled}.{n}")).collect();
        for queue in &queues {
            let ids =
                ground.store.enqueue(&vec![job().with_queue(queue.clone()); cancelled + 1]).await.unwrap();
            let (first, last) = (ids[0], ids[cancelled]);
            ground
                .run(&format!(
                    "INSERT INTO windlass.cancelled_in_log (job_id, lane_id, xid) SELECT id, lane_id, xid FROM windlass.job WHERE id BETWEEN {first} AND {last} - 1"
                ))
                .await;
        }
        let (mut found, mut claims) = (0, 0);
        while found < lanes {
            claims += 1;
            assert!(claims <= most, "{cancelled} cancelled: {found} of {lanes} found by {most} claims");
            let before = ground.number(TO_STEP_OVER).await;
            let (jobs, _, more) =
                ground.claim(&format!("ARRAY['{}']", queues.join("', '")), asked, "NULL").await;
            assert!(more, "{cancelled} cancelled, claim {claims}");
            assert!(before - ground.number(TO_STEP_OVER).await <= 25_000, "a call must not take long");
            found += jobs;
        }
        assert_eq!((found, ground.number(TO_STEP_OVER).await), (lanes, 0), "{cancelled} cancelled");
    }
}
