//! What statistics say changes no plan that a worker waits for: they are of some moment, when a table may have been empty or full, and plans made by them stay.
//!
//! Here they say of each table in turn that it is empty while the others are huge, and the other way round.

use crate::{cluster::cost::Pages, session::Session};
use std::collections::{BTreeMap, HashSet};

/// Twice the pages, and as many more: those of other ways through small tables.
const MORE: i64 = 100;

/// Of a row c of pg_class: it is of the schema.
const OF_SCHEMA: &str =
    "c.relnamespace = (SELECT s.relnamespace FROM pg_class s WHERE s.oid = 'windlass.waiting'::regclass)";

/// What workers call, and `{w}` is the worker.
const CALLS: [&str; 9] = [
    "windlass.claim({w}, '{keyed}', '{10}')",
    "windlass.claim({w}, '{rated}', '{10}')",
    "windlass.claim({w}, '{plain}', '{10}')",
    "windlass.heartbeat({w}, 1, '{}', '{}')",
    "windlass.promote(100)",
    "windlass.promote_keys(NULL)",
    "windlass.overdue_workers({w})",
    "windlass.share({w}, '{plain}', '{0}', '{10}', '{0}')",
    "windlass.make_room('keyed')",
];

/// Each queue has jobs that ended while a snapshot was held, so that their rows are dead and not gone, open claims, and jobs that wait.
async fn with_a_past() -> (Session, i32, tokio_postgres::Client) {
    let session = Session::fresh().await;
    let worker = session.register("'{keyed,rated,plain}'").await;
    session
        .run(
            "SELECT windlass.limit_keys('keyed', concurrency => 1000), windlass.limit_keys('rated', rate => 100000, period => '100 ms'),
                 windlass.limit_queue('plain', concurrency => 1000)",
        )
        .await;
    let reader = session.fixture.sql().await;
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    for queue in ["keyed", "rated", "plain"] {
        session.put_keyed(queue, 3000, 3).await;
        session.claim_and_settle(worker, queue, 35).await;
        session.put_keyed(queue, 100, 3).await;
        let later = format!(
            "INSERT INTO windlass.waiting (id, lane_id, available_at, state, max_attempts, kind, args, attributes)
             SELECT nextval('windlass.job_id_seq'), (SELECT windlass.lane_of('{queue}', 0)), now() + interval '1 hour', 'scheduled', 20, 'k', '{{}}', '{{\"key\": \"key 0\"}}'
             FROM generate_series(1, 3000)"
        );
        session.run(&later).await;
        for _ in 0..5 {
            // the first ones read the log to its end
            session.run(&format!("SELECT * FROM windlass.claim({worker}, '{{{queue}}}', '{{10}}')")).await;
        }
    }
    let ended = "INSERT INTO windlass.key_ended (queue, key, free_at, jobs)
        SELECT 'rated', 'key 0', clock_timestamp() - interval '1 minute' - i * interval '1 ms', 1 FROM generate_series(1, 150000) AS i";
    session.run(ended).await;
    session
        .run("DELETE FROM windlass.key_ended WHERE free_at < clock_timestamp() - interval '1 minute'")
        .await;
    (session, worker, reader)
}

/// The pages of each call, all in one session that is new, of so many runs.
async fn costs(session: &Session, calls: &[String], runs: u32) -> Vec<Pages> {
    let client = session.fixture.sql().await;
    let mut costs = Vec::new();
    for call in calls {
        costs.push(cost(session, &client, call, runs).await);
    }
    costs
}

async fn cost(session: &Session, client: &tokio_postgres::Client, call: &str, runs: u32) -> Pages {
    session.fixture.least(client, &format!("SELECT * FROM {call}"), runs).await
}

/// The tables that the calls read, also to plan, and of those that are in parts all parts. To the calls all others are one.
async fn tables(session: &Session, calls: &[String]) -> BTreeMap<String, Vec<u32>> {
    let client = session.fixture.sql().await;
    let mut read: HashSet<u32> = HashSet::new();
    let touched = format!(
        "SELECT DISTINCT coalesce(x.indrelid, c.oid) FROM pg_class c LEFT JOIN pg_index x ON x.indexrelid = c.oid
        WHERE pg_stat_get_xact_blocks_fetched(c.oid) > 0 AND {OF_SCHEMA}"
    );
    for call in calls {
        let call = session.fixture.text(&format!("BEGIN; SELECT * FROM {call}"));
        client.batch_execute(&call).await.unwrap();
        let rows = client.query(&session.fixture.text(&touched), &[]).await.unwrap();
        read.extend(rows.iter().map(|row| row.get::<_, u32>(0)));
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    let sql = format!(
        "SELECT coalesce(i.inhparent, c.oid)::regclass::text, array_agg(c.oid) FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
        WHERE c.relkind = 'r' AND {OF_SCHEMA} GROUP BY 1"
    );
    let rows = client.query(&session.fixture.text(&sql), &[]).await.unwrap();
    let all: Vec<(String, Vec<u32>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let is_read = |(_, parts): &(String, Vec<u32>)| parts.iter().any(|part| read.contains(part));
    let (read, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_read);
    assert!(read.len() > 5, "{read:?}");
    read.into_iter().chain(others.into_iter().take(1)).collect()
}

/// Statistics by which these tables are empty and all others of the schema huge, or the other way round.
async fn lie(session: &Session, of: &[u32], are_empty: bool) {
    let sql = format!(
        "UPDATE pg_class c SET relpages = 1, reltuples = CASE WHEN $2 = (coalesce(x.indrelid, c.oid) = ANY ($1)) THEN 0 ELSE 1e8 END
        FROM pg_class t LEFT JOIN pg_index x ON x.indexrelid = t.oid
        WHERE t.oid = c.oid AND c.relkind IN ('r', 'i') AND {OF_SCHEMA}"
    );
    session.client.execute(&session.fixture.text(&sql), &[&of, &are_empty]).await.unwrap();
}

#[tokio::test]
async fn whatever_they_say_calls_of_workers_touch_few_pages() {
    let (session, worker, _reader) = with_a_past().await;
    hold_by_lies(&session, &CALLS.map(|call| call.replace("{w}", &worker.to_string()))).await;
}

/// Asserts that the calls touch no more pages than by honest statistics, or hardly more.
pub(crate) async fn hold_by_lies(session: &Session, calls: &[String]) {
    let quiet = format!(
        "DO $$ DECLARE t regclass; BEGIN
        FOR t IN SELECT c.oid FROM pg_class c WHERE c.relkind = 'r' AND {OF_SCHEMA}
        LOOP EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', t); END LOOP; END $$"
    );
    session.run(&quiet).await;
    session.run("ANALYZE").await;
    let honest = costs(session, calls, 2).await;
    let mut wrong = Vec::new();
    for (table, parts) in tables(session, calls).await {
        for are_empty in [true, false] {
            lie(session, &parts, are_empty).await;
            for ((call, honest), mut lied) in calls.iter().zip(&honest).zip(costs(session, calls, 1).await) {
                let most = 2 * honest.all() + MORE;
                if lied.all() > most {
                    // It planned as well, and again where the tests beside define something.
                    lied = cost(session, &session.fixture.sql().await, call, 20).await;
                }
                if lied.all() > most {
                    let what = if are_empty {
                        "is empty and others are huge"
                    } else {
                        "is huge and others are empty"
                    };
                    wrong.push(format!(
                        "{call} touched {} pages, {} before, where {table} {what}:{lied}",
                        lied.all(),
                        honest.all()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
