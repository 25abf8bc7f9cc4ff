//! Taking unique keys touches a bounded number of pages, however many keys and jobs there are.
//!
//! Cost is told by the pages that a call touches, not by time.

use crate::{depth::deep, session::Session};
use std::sync::Arc;
use windlass_conformance::steps::{TestWorker, worker_on};
use windlass_core::Store;

/// The pages that a key may cost: descents of the key's two indexes, of the log's in four segments, of the tables of those that
/// wait or were cancelled, and the rows. As many again for the call.
const OF_A_KEY: i64 = 60;
const OF_A_CALL: i64 = 150;
/// And those that a replacement may: it looks for the holder by its id, range after range of the log, a few times.
const OF_A_REPLACEMENT: i64 = 1_500;

/// What a key finds when it is taken.
#[derive(Clone, Copy, Debug)]
enum Found {
    Nobody,
    /// A job that waits in line, from the middle of the log.
    Available,
    /// One that runs.
    Running,
    /// One that was completed long ago.
    Completed,
    /// One that waits for its time.
    Scheduled,
    /// One that did, and waits in line.
    Promoted,
}

const ALL: [Found; 6] =
    [Found::Nobody, Found::Available, Found::Running, Found::Completed, Found::Scheduled, Found::Promoted];

/// A key of a job that was the `n`th of its state.
fn key(found: Found, n: i64) -> String {
    format!("md5('{found:?}/' || {n})::uuid")
}

/// A store whose keys are taken.
struct Keys(Session);

impl Keys {
    /// Keys with jobs of each state; most are completed, as in life.
    async fn fill(&self, worker: &TestWorker, jobs: i64) {
        self.0.run("SET synchronous_commit = off").await;
        let append = |found: Found, count: i64| {
            let key = key(found, 0).replace("0)::uuid", "n)::uuid");
            format!(
                "WITH stored AS (
                     INSERT INTO windlass.job_0 (lane_id, kind, args)
                     SELECT (SELECT windlass.lane_of('q', 0)), 'k', '{{}}' FROM generate_series(1, {count}) RETURNING id, xid, lane_id)
                 INSERT INTO windlass.unique_key (key, id, xid, lane_id, until_finished, check_at)
                 SELECT {key}, id, xid, lane_id, true, now() + interval '1 day' FROM (SELECT *, row_number() OVER () AS n FROM stored) AS s"
            )
        };
        self.0.run(&append(Found::Completed, jobs / 2)).await;
        worker.drain(10_000).await;
        // Claims of the last heartbeats are looked at one by one.
        for _ in 0..3 {
            worker.store.heartbeat(worker.id).await.expect("lives");
        }
        self.0.run(&append(Found::Running, jobs / 100)).await;
        worker.take((jobs / 100) as usize).await;
        self.0.run(&append(Found::Available, jobs / 2)).await;
        let key = key(Found::Scheduled, 0).replace("0)::uuid", "n)::uuid");
        self.0.run(&format!(
            "WITH stored AS (
                 INSERT INTO windlass.waiting (id, available_at, lane_id, max_attempts, kind, args)
                 SELECT nextval('windlass.job_id_seq'), now() + interval '1 day', (SELECT windlass.lane_of('q', 0)), 20, 'k', '{{}}'
                 FROM generate_series(1, {jobs} / 10) RETURNING id)
             INSERT INTO windlass.unique_key (key, id, until_finished, check_at)
             SELECT {key}, id, true, now() + interval '1 day' FROM (SELECT *, row_number() OVER () AS n FROM stored) AS s"
        ))
        .await;
        let key = self::key(Found::Promoted, 0).replace("0)::uuid", "n)::uuid");
        self.0.run(&format!(
            "WITH stored AS (
                 INSERT INTO windlass.job_0 (lane_id, kind, args, moved)
                 SELECT (SELECT windlass.lane_of('q', 0)), 'k', '{{}}', true FROM generate_series(1, {jobs} / 10) RETURNING id)
             INSERT INTO windlass.unique_key (key, id, until_finished, check_at)
             SELECT {key}, id, true, now() + interval '1 day' FROM (SELECT *, row_number() OVER () AS n FROM stored) AS s"
        ))
        .await;
        self.0.run("RESET synchronous_commit").await;
    }

    /// One by one, several singles, a bulk, a replacement and a retry by hand; and housekeeping.
    async fn check(&self, when: &str, middle: i64) {
        for found in ALL {
            let one = key(found, middle);
            for (rule, most) in [(0, OF_A_KEY), (2, OF_A_REPLACEMENT)] {
                let put = format!(
                    "windlass.put_unique({one}, true, NULL, {rule}::smallint, NULL, windlass.lane_of('q', 0), 'q', 'k', '{{}}',
                     20::smallint, '', NULL, NULL)"
                );
                self.0.bounded_undone(when, &put, OF_A_CALL + most).await;
            }
            for count in [10, 100] {
                let keys = key(found, 0).replace("0)::uuid", "n)::uuid");
                let keys = format!(
                    "ARRAY(SELECT {keys} FROM generate_series({middle}, {middle} + {count} - 1) AS n)"
                );
                let all = |value: &str| format!("array_fill({value}, ARRAY[{count}])");
                let terms =
                    [all("true"), all("NULL::bigint"), all("0::smallint"), all("windlass.lane_of('q', 0)")]
                        .join(", ");
                let rest = [
                    all("'k'::text"),
                    all("'{}'::json"),
                    all("20::smallint"),
                    all("''::text"),
                    all("NULL::timestamptz"),
                ];
                let most = OF_A_CALL + count * OF_A_KEY;
                self.0.bounded_undone(when, &format!("windlass.take_unique({keys}, {terms})"), most).await;
                let singles = format!(
                    "windlass.put_unique_singles({keys}, {terms}, 'q', {}, {})",
                    rest.join(", "),
                    all("NULL::bigint")
                );
                self.0.bounded_undone(when, &singles, most).await;
                self.0.bounded_undone(when, &format!("windlass.unique_holders({keys})"), most).await;
            }
        }
        let enqueue = "windlass.enqueue_unique('k', '{\"a\": 1}', unique_fields => '{a}', queue => 'q')";
        self.0.bounded_undone(when, enqueue, OF_A_CALL + OF_A_KEY).await;
        self.0.bounded_undone(when, "windlass.forget_unique(100)", OF_A_CALL + 100 * OF_A_KEY).await;
        for found in ALL {
            let keys = key(found, 0).replace("0)::uuid", "n)::uuid");
            let keys = format!("ARRAY(SELECT {keys} FROM generate_series({middle}, {middle} + 99) AS n)");
            let freed = format!("windlass.unique_freed({keys})");
            self.0.bounded_undone(when, &freed, OF_A_CALL + 100 * OF_A_KEY).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taking_a_key_costs_the_same_whatever_the_tables_hold() {
    let keys = Keys(Session::fresh().await);
    let session = &keys.0;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    let worker = worker_on(&store).await;
    session.run("SELECT windlass.lane_of('q', 0)").await;
    keys.check("empty", 1).await;
    let jobs = deep() / 4;
    keys.fill(&worker, jobs).await;
    // Housekeeping finds 1,000 keys that are due.
    session
        .run("UPDATE windlass.unique_key SET check_at = now() - interval '1 s' WHERE key IN (SELECT key FROM windlass.unique_key LIMIT 1000)")
        .await;
    for setting in ["random_page_cost = 4", "random_page_cost = 1.1"] {
        session.run(&format!("SET {setting}")).await;
        keys.check("many keys", jobs / 200).await;
    }
    session.run("ANALYZE windlass.unique_key, windlass.job, windlass.waiting, windlass.claim").await;
    keys.check("many keys, analysed", jobs / 200).await;
}

/// What all workers have claimed since their last heartbeats, and who has how many long jobs, is nothing to a key of another queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_costs_the_same_beside_a_busy_fleet() {
    let keys = Keys(Session::fresh().await);
    let session = &keys.0;
    let store: Arc<dyn Store> = Arc::new(session.fixture.store().await);
    let worker = worker_on(&store).await;
    session.run("SELECT windlass.lane_of('q', 0), windlass.lane_of('busy', 0)").await;
    keys.fill(&worker, 20_000).await;
    let busy = format!("(SELECT id FROM windlass.lane WHERE queue = 'busy'), {}, 1", worker.id.0);
    session
        .run(&format!(
            "INSERT INTO windlass.claim (lane_id, worker_id, job_count, seq, worker_call, token, segment, from_snapshot, to_snapshot)
             SELECT {busy}, n, 1000000 + n, 0, 0, '4:4:', '4:4:' FROM generate_series(1, 5000) AS n;
             INSERT INTO windlass.settlement (lane_id, worker_id, job_count, seq, segment, completed)
             SELECT {busy}, n, 0, true FROM generate_series(1, 5000) AS n"
        ))
        .await;
    for found in [Found::Running, Found::Completed] {
        for count in [1, 10] {
            let taken = key(found, 0).replace("0)::uuid", "n)::uuid");
            let holders = format!(
                "windlass.unique_holders(ARRAY(SELECT {taken} FROM generate_series(50, 49 + {count}) AS n))"
            );
            session.bounded_undone("beside 5,000 claims", &holders, OF_A_CALL + 2 * count * OF_A_KEY).await;
        }
        let put = format!(
            "windlass.put_unique({}, true, NULL, 0::smallint, NULL, windlass.lane_of('q', 0), 'q', 'k', '{{}}', 20::smallint, '', NULL, NULL)",
            key(found, 50)
        );
        session.bounded_undone("beside 5,000 claims", &put, OF_A_CALL + 2 * OF_A_KEY).await;
    }
}
