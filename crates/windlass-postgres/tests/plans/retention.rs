//! Removing dead jobs by rules costs what it removes, and an index entry for each job that is kept by count, however many there are.
//!
//! Cost is told by the pages that a call touches, not by time.

use crate::cluster::Fixture;
use windlass_core::{ErrorKind, JobStore};

/// 10^6 dead jobs: half in one queue of two priorities, the others in 200 queues, none of them old.
const FILL: &str = "SET synchronous_commit = off;
    INSERT INTO windlass.dead (id, finished_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args)
    SELECT n, now() + n * interval '1 microsecond', now(),
           CASE WHEN n % 2 = 0 THEN l.large[1 + n / 2 % 2] ELSE l.small[1 + n / 2 % 200] END, 1, 20, 0,
           CASE WHEN n / 4 % 2 = 0 THEN 'discarded' ELSE 'cancelled' END, 'k', '{}'
    FROM generate_series(1, 1000000) AS n,
         (SELECT ARRAY[windlass.lane_of('large', 0), windlass.lane_of('large', 1)] AS large,
                 ARRAY(SELECT windlass.lane_of('small' || n, 0) FROM generate_series(1, 200) AS n) AS small) AS l;
    VACUUM windlass.dead";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_costs_what_it_removes() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    // Whatever plan was made while the table was empty is used to the end.
    let forget = "SELECT * FROM windlass.forget_dead(100)";
    client
        .batch_execute(&fixture.text("SELECT windlass.set_retention('*', 'discarded', '90 days')"))
        .await
        .unwrap();
    client.batch_execute(&fixture.text("SELECT windlass.forget_dead(100)")).await.unwrap();
    for statement in FILL.split_inclusive(';') {
        client.batch_execute(&fixture.text(statement)).await.unwrap();
    }
    // Nothing is to be removed: a few probes for each of 402 places.
    let idle = fixture.pages(&client, forget).await;
    assert!(idle < 402 * 20, "{idle} pages though nothing is past what is kept");

    client
        .batch_execute(&fixture.text("SELECT windlass.set_retention('large', 'discarded', count => 10000)"))
        .await
        .unwrap();
    let first = fixture.pages(&client, forget).await;
    assert!(
        first < idle + 100 * 40 + 2_000,
        "{first} pages for 100 of 240,000 jobs, 10,000 are kept; {idle} without"
    );
    let removed: i64 =
        client.query_one(&fixture.text("SELECT windlass.forget_dead(100)"), &[]).await.unwrap().get(0);
    assert_eq!(removed, 100);
    // The next step goes on where this one ended, and does not look for it again.
    let next = fixture.pages(&client, forget).await;
    assert!(next < idle + 100 * 40, "{next} pages for the next 100");
    let store = fixture.store().await;
    let removed = store.maintain().await.expect("maintain").removed_dead;
    let left = "SELECT count(*) FROM windlass.dead d JOIN windlass.lane l ON l.id = d.lane_id WHERE queue = 'large' AND state = 'discarded'";
    let left: i64 = client.query_one(&fixture.text(left), &[]).await.unwrap().get(0);
    assert_eq!(left, 10_000);
    let all: i64 =
        client.query_one(&fixture.text("SELECT count(*) FROM windlass.dead"), &[]).await.unwrap().get(0);
    assert_eq!(all + removed.cast_signed() + 100, 1_000_000);
}

/// Of thousands of lanes a call looks at some hundred, and the next round goes on behind them: it comes to all, and to each in turn.
#[tokio::test]
async fn a_round_looks_at_some_of_many_lanes() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let removed = async || -> i64 {
        client.query_one(&fixture.text("SELECT windlass.forget_dead(5000)"), &[]).await.unwrap().get(0)
    };
    client
        .batch_execute(&fixture.text("SELECT windlass.set_retention('*', 'discarded', count => 1)"))
        .await
        .unwrap();
    removed().await; // the plan of empty tables
    // 3,000 queues, one of them with 700 priorities, each lane with two jobs of either end.
    let fill = "INSERT INTO windlass.lane (queue, priority) SELECT CASE WHEN n <= 700 THEN 'p' ELSE 'q' || n END, n FROM generate_series(1, 3700) AS n;
        INSERT INTO windlass.dead (id, finished_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args)
        SELECT l.id * 10 + m, now(), now(), l.id, 1, 20, 0, CASE WHEN m < 2 THEN 'discarded' ELSE 'cancelled' END, 'k', '{}'
        FROM windlass.lane l, generate_series(0, 3) AS m";
    client.batch_execute(&fixture.text(fill)).await.unwrap();
    let (mut all, mut calls) = (0, 0);
    while all < 3_000 + 1_399 {
        all += removed().await;
        calls += 1;
        assert!(calls <= 8, "{all} after {calls} calls");
    }
    assert_eq!((all, calls), (4_399, 7));
    for _ in 0..14 {
        assert_eq!(removed().await, 0);
        let idle = fixture.pages(&client, "SELECT * FROM windlass.forget_dead(5000)").await;
        assert!(idle < 20_000, "{idle} pages to find nothing");
    }
}

/// A round of housekeeping that finds nothing to remove looks at the oldest row of each table, however many there are. (`clock_timestamp()` is
/// volatile: compared with it directly, an index is read to its end.)
#[tokio::test]
async fn looking_for_what_is_past_costs_nothing() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let calls = [
        "forget_dead(100)",
        "forget_errors(100)",
        "forget_workers(100)",
        "forget_keys(100)",
        "forget_unique(100)",
        "forget_counters(100)",
        "forget_shares(100)",
        "history()",
    ];
    let call = |call: &str| format!("SELECT * FROM windlass.{call}");
    for name in calls {
        fixture.pages(&client, &call(name)).await; // plans of empty tables
    }
    let rows = "FROM generate_series(1, 100000) AS n";
    client
        .batch_execute(&fixture.text(&format!(
            "SET synchronous_commit = off;
             INSERT INTO windlass.dead (id, finished_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args)
                 SELECT n, now(), now(), (SELECT windlass.lane_of('q', 0)), 1, 1, 0, 'cancelled', 'k', '{{}}' {rows};
             INSERT INTO windlass.attempt_error (job_id, worker_id, attempt, error) SELECT n, 1, 1, 'no' {rows};
             INSERT INTO windlass.worker (name, queues, kinds, lease, ended_at) SELECT 'w', '{{}}', '{{}}', '30 s', now() {rows};
             INSERT INTO windlass.enqueue_key (key, ranges) SELECT n, '{{}}' {rows};
             INSERT INTO windlass.unique_key (key, id, until_finished, taken_at, check_at)
                 SELECT gen_random_uuid(), n, true, now() - interval '1 day', now() + interval '1 day' {rows};
             INSERT INTO windlass.counter (minute, queue, kind, outcome, n) SELECT now() - interval '2 hours', n, 'k', 'completed', 1 {rows};
             INSERT INTO windlass.started (queue, at, clock, expires_at, before, started)
                 SELECT 'q', now() + n * interval '1 ms', now(), now() + interval '1 day', 0, 1 {rows};
             RESET synchronous_commit"
        )))
        .await
        .unwrap();
    for name in calls {
        let pages = fixture.pages(&client, &call(name)).await;
        assert!(pages <= 60, "{name} touched {pages} pages to find nothing");
    }
}

/// By SQL the same is refused as by the client libraries, by name.
#[tokio::test]
async fn nonsense_is_refused_by_sql() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    for (call, says, kind) in [
        ("'a', 'running', '1 day'", "unknown outcome 'running'", ErrorKind::InvalidOption),
        ("'a', NULL, '1 day'", "unknown outcome NULL", ErrorKind::InvalidOption),
        ("NULL, 'cancelled', '1 day'", "invalid queue name NULL", ErrorKind::InvalidName),
        ("'no name', 'cancelled', '1 day'", "no name", ErrorKind::InvalidName),
        ("'a', 'cancelled', '-1 day'", "0 to 100 years, got -1 days", ErrorKind::InvalidOption),
        ("'a', 'cancelled', '200 years'", "0 to 100 years, got 200 years", ErrorKind::InvalidOption),
        ("'a', 'cancelled', NULL, -1", "0 to 1000000, got -1", ErrorKind::InvalidOption),
        ("'a', 'cancelled', NULL, 1000001", "0 to 1000000, got 1000001", ErrorKind::InvalidOption),
        ("'a', 'completed', NULL, 5", "by count", ErrorKind::InvalidOption),
    ] {
        let sql = fixture.text(&format!("SELECT windlass.set_retention({call})"));
        let error = client.batch_execute(&sql).await.expect_err(call);
        let error = error.as_db_error().expect("from the server");
        assert!(error.message().contains(says), "{call}: {}", error.message());
        assert_eq!(windlass_postgres::sqlstate_error(error.code().code(), error.message()).kind(), kind);
    }
    assert_eq!(fixture.store().await.retention().await.expect("retention"), []);
}
