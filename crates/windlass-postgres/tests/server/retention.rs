//! What grows is removed at the rate at which it comes, whatever is paused, forgotten or slow; and what all wait
//! for is held for a TRUNCATE alone.
//!
//! How long is told by the rows that a transaction touched before its TRUNCATE, not by time.

use crate::cluster::Fixture;
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio_postgres::Client;
use windlass_conformance::steps::{QUEUE, TestWorker, worker};
use windlass_core::{Args, Disposition, JobLease, JobStore, MaintainReport, NewJob, Settings, Store};
use windlass_postgres::PostgresStore;

const LEASE: Duration = Duration::from_secs(600);
const ROUNDS: usize = 20;
/// Nothing settled stays, and segments are small.
const SMALL: Settings = Settings::DEFAULT
    .with_retention(Duration::ZERO)
    .with_dead_retention(Duration::from_secs(600))
    .with_segment_bytes(1 << 20);
/// The most rows that a step writes, each moved one twice: deleted here, inserted there.
const MOST_MOVED: i64 = 2 * 10_000;
/// The most rows that a step touches which truncates: cursors move, and nothing in the segment is needed.
const MOST_TOUCHED: i64 = 200;

/// A store, its schema, and a plain connection.
struct Place {
    fixture: Fixture,
    store: Arc<PostgresStore>,
    client: Client,
}

impl Place {
    /// Notes when each TRUNCATE of a segment begins, which is when its transaction has all its locks.
    async fn fresh() -> Self {
        let fixture = Fixture::fresh().await;
        let (store, client) = (Arc::new(fixture.store().await), fixture.sql().await);
        store.configure(&SMALL).await.expect("configure");
        let place = Self { fixture, store, client };
        place
            .sql(
                "CREATE TABLE windlass.probe (at timestamptz);
                 CREATE FUNCTION windlass.probe() RETURNS trigger LANGUAGE plpgsql
                 AS $$ BEGIN INSERT INTO windlass.probe VALUES (clock_timestamp()); RETURN NULL; END $$",
            )
            .await;
        for leaf in 0..4 {
            let trigger = "CREATE TRIGGER probe BEFORE TRUNCATE ON windlass.job_{leaf} EXECUTE FUNCTION windlass.probe()";
            place.sql(&trigger.replace("{leaf}", &leaf.to_string())).await;
        }
        place
    }

    async fn sql(&self, text: &str) {
        self.client.batch_execute(&self.fixture.text(text)).await.expect(text);
    }

    async fn number(&self, text: &str) -> i64 {
        self.client.query_one(&self.fixture.text(text), &[]).await.expect(text).get(0)
    }

    fn seam(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as _
    }

    async fn worker(&self, queue: &str) -> TestWorker {
        worker(&self.seam(), &[queue], &[], LEASE).await
    }

    async fn enqueue(&self, queue: &'static str, count: usize) -> HashSet<i64> {
        let args = Args::parse(r#"{"id": 1}"#).unwrap();
        let jobs = vec![NewJob::new("k", args).with_queue(queue); count];
        self.store.enqueue(&jobs).await.unwrap().into_iter().map(|id| id.0).collect()
    }

    /// A round of traffic in a queue of its own, then one of housekeeping.
    async fn round(&self, busy: &TestWorker) -> MaintainReport {
        self.enqueue("busy", 10_000).await;
        busy.drain(5_000).await;
        self.store.maintain().await.expect("maintain")
    }

    async fn log_bytes(&self) -> i64 {
        self.number("SELECT sum(windlass.segment_bytes(n))::bigint FROM generate_series(0, 3) AS n").await
    }

    /// How many rows of the log this session has read and written.
    async fn touched(&self) -> (i64, i64) {
        let sql = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint,
                          sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint
                   FROM pg_stat_xact_user_tables WHERE schemaname = $1 AND relname ~ '^(job|claim|settlement)_[0-9]$'";
        let row = self.client.query_one(sql, &[&self.fixture.schema]).await.expect("statistics");
        (row.get(0), row.get(1))
    }

    /// Every step of emptying segments, each in its transaction: none touches more rows than it may. Returns how many
    /// truncated a segment, how many jobs moved, and how long the longest TRUNCATE was from its locks to its end, in ms.
    async fn steps(&self) -> (i32, i64, f64) {
        let (mut truncated, mut moved, mut longest) = (0, 0, 0.0_f64);
        loop {
            self.sql("BEGIN").await;
            let before = self.touched().await;
            let step = self.fixture.text("SELECT truncated, rehomed, again FROM windlass.maintain()");
            let row = self.client.query_one(&step, &[]).await.expect("a step");
            let after = self.touched().await;
            self.sql("COMMIT").await;
            let (read, written) = (after.0 - before.0, after.1 - before.1);
            assert!(written <= MOST_MOVED, "one step wrote {written} rows");
            if row.get::<_, i32>(0) > 0 {
                assert!(
                    read + written <= MOST_TOUCHED,
                    "read {read} rows and wrote {written} before TRUNCATE"
                );
                let held = "SELECT extract(epoch FROM clock_timestamp() - max(at))::float8 * 1000 FROM windlass.probe";
                let held = self.client.query_one(&self.fixture.text(held), &[]).await.expect("probe").get(0);
                longest = longest.max(held);
            }
            truncated += row.get::<_, i32>(0);
            moved += row.get::<_, i64>(1);
            if !row.get::<_, bool>(2) {
                return (truncated, moved, longest);
            }
        }
    }
}

/// A queue that nobody works has more jobs than one round could ever move under a lock. The rest of the database
/// is cleaned all the same, and each job is handed out once afterwards.
#[tokio::test]
async fn a_forgotten_backlog_stops_nothing() {
    let place = Place::fresh().await;
    let busy = place.worker("busy").await;
    let forgotten = place.enqueue(QUEUE, 50_000).await;
    let backlog = place.log_bytes().await;
    let (mut most, mut truncated, mut rehomed, mut longest) = (0, 0, 0, 0.0_f64);
    for round in 0..ROUNDS {
        place.enqueue("busy", 4_000).await;
        busy.drain(2_000).await;
        let (emptied, moved, held) = place.steps().await;
        (truncated, rehomed, longest) = (truncated + emptied, rehomed + moved, longest.max(held));
        if round >= ROUNDS / 2 {
            most = most.max(place.log_bytes().await);
        }
    }
    println!(
        "backlog {backlog} bytes, at most {most} in the later rounds; {truncated} truncated, {rehomed} moved"
    );
    println!("locked for at most {longest:.1} ms");
    assert!(truncated >= 5, "only {truncated} segments were truncated");
    assert!(most < backlog * 3, "the log has {most} bytes, the backlog {backlog}");

    let late = place.worker(QUEUE).await;
    let mut seen = HashSet::new();
    loop {
        let claims = late.claim(50_000).await;
        if claims.is_empty() {
            break;
        }
        for job in claims.iter().flat_map(|claim| &claim.jobs) {
            assert!(seen.insert(job.id.0), "job {} twice", job.id);
        }
        late.complete_claims(&claims).await;
        place.store.maintain().await.expect("maintain");
    }
    assert_eq!(seen, forgotten);
}

/// Jobs of 1 MiB move some 32 at a time, whether they wait or run, and each is handed out once afterwards.
#[tokio::test]
async fn a_step_moves_few_bytes() {
    let place = Place::fresh().await;
    // Nothing that compression would make small.
    let letters: String = (0..1_000_000).map(|_| fastrand::alphanumeric()).collect();
    let big = NewJob::new("k", Args::parse(&format!("{letters:?}")).unwrap()).with_queue(QUEUE);
    let ids = place.store.enqueue(&vec![big; 100]).await.unwrap();
    let slow = place.worker(QUEUE).await;
    let mut running = slow.claim(40).await;
    while running.iter().map(|claim| claim.jobs.len()).sum::<usize>() < 40 {
        running.extend(slow.claim(10).await);
    }
    let busy = place.worker("busy").await;
    place.enqueue("busy", 10_000).await;
    busy.drain(5_000).await;
    let (mut moved, mut most, mut steps) = (0, 0, 0);
    while moved < 100 {
        let of_step = place.number("SELECT rehomed FROM windlass.maintain()").await;
        (moved, most, steps) = (moved + of_step, most.max(of_step), steps + 1);
        assert!(steps < ROUNDS, "only {moved} moved");
    }
    // A step goes on until it has 32 MiB, and a claim that runs, here of 10 jobs, moves whole.
    assert!(most <= 45, "{most} jobs of 1 MB moved in one step");
    slow.complete_claims(&running).await;
    let mut done: HashSet<_> = running.iter().flat_map(|claim| &claim.jobs).map(|job| job.id).collect();
    for job in slow.drain(40).await {
        assert!(done.insert(job), "job {job} twice");
    }
    assert_eq!(done, ids.into_iter().collect());
}

/// Cancelled jobs of a queue that nobody works go with the rest.
#[tokio::test]
async fn cancelled_jobs_of_a_forgotten_queue_go() {
    let place = Place::fresh().await;
    let busy = place.worker("busy").await;
    let ids: Vec<_> = place.enqueue(QUEUE, 100).await.into_iter().map(windlass_core::JobId).collect();
    place.store.cancel(&ids[..60]).await.unwrap();
    let mut rounds = 0;
    while place.number("SELECT count(*) FROM windlass.cancelled_in_log").await > 0 {
        place.round(&busy).await;
        rounds += 1;
        assert!(rounds < ROUNDS, "cancelled jobs stay in the log");
    }
    let left = place.number("SELECT count(*) FROM windlass.job j JOIN windlass.lane l ON l.id = j.lane_id WHERE l.queue <> 'busy'");
    assert_eq!(left.await, 40);
    assert_eq!(place.worker(QUEUE).await.drain(100).await.len(), 40);
    assert_eq!(place.number("SELECT count(*) FROM windlass.dead").await, 60);
}

/// Handlers that complete in their own transactions, one of them always open, do not starve truncation; nor does
/// what they complete run again.
#[tokio::test]
async fn open_completions_do_not_starve_truncation() {
    let place = Place::fresh().await;
    let busy = place.worker("busy").await;
    place.enqueue(QUEUE, ROUNDS).await;
    let slow = place.worker(QUEUE).await;
    let held = slow.take(ROUNDS).await;
    let mut clients = Vec::new();
    for _ in 0..ROUNDS {
        clients.push(place.fixture.sql().await);
    }
    let mut open: Option<tokio_postgres::Transaction<'_>> = None;
    let mut truncated = 0;
    for (held, client) in held.iter().zip(&mut clients) {
        let next = client.transaction().await.unwrap();
        let lease =
            JobLease { worker: slow.id, claim: held.claim, job: held.job.id, position: held.job.position };
        place.store.complete_in(&next, lease).await.unwrap();
        truncated += place.round(&busy).await.truncated;
        if let Some(before) = open.replace(next) {
            before.commit().await.unwrap();
        }
    }
    open.take().unwrap().commit().await.unwrap();
    assert!(truncated >= 5, "only {truncated} segments were truncated");
    place.store.deregister(slow.id).await.unwrap();
    assert!(place.worker(QUEUE).await.drain(100).await.is_empty(), "a completed job came back");
}

/// A transaction that completes a job may commit after the job's claim has moved to a newer segment than the one
/// it wrote to.
#[tokio::test]
async fn a_settlement_outlives_its_older_segment() {
    let place = Place::fresh().await;
    let busy = place.worker("busy").await;
    place.enqueue(QUEUE, 2).await;
    let slow = place.worker(QUEUE).await;
    let held = slow.take(2).await;
    place.round(&busy).await; // so that the settlement is not in the claim's segment
    let mut client = place.fixture.sql().await;
    let open = client.transaction().await.unwrap();
    let lease = JobLease {
        worker: slow.id,
        claim: held[0].claim,
        job: held[0].job.id,
        position: held[0].job.position,
    };
    place.store.complete_in(&open, lease).await.unwrap();
    for _ in 0..2 {
        place.round(&busy).await;
    }
    open.commit().await.unwrap();
    assert_eq!(slow.complete(&held[1]).await, windlass_core::Settled::Accepted);
    for _ in 0..6 {
        place.round(&busy).await;
    }
    place.store.deregister(slow.id).await.unwrap();
    assert!(place.worker(QUEUE).await.drain(10).await.is_empty(), "a completed job came back");
    assert_eq!(place.number("SELECT count(*) FROM windlass.moved_claim").await, 0);
}

/// A job that commits into a segment while that is being emptied is kept: its writer chose the segment before.
#[tokio::test]
async fn a_late_write_is_kept() {
    let place = Place::fresh().await;
    let busy = place.worker("busy").await;
    let lane = place.number("SELECT windlass.lane_of('default', 0)::bigint").await;
    let late = place.fixture.sql().await;
    let insert =
        format!("BEGIN; INSERT INTO windlass.job_0 (lane_id, kind, args) VALUES ({lane}, 'k', '{{}}')");
    late.batch_execute(&place.fixture.text(&insert)).await.unwrap();
    for _ in 0..3 {
        place.round(&busy).await; // all but the truncation is done
    }
    late.batch_execute("COMMIT").await.unwrap();
    for _ in 0..6 {
        place.round(&busy).await;
    }
    assert_eq!(place.worker("default").await.drain(10).await.len(), 1);
}

/// Time passes for errors: they are looked at again.
const LATER: &str = "UPDATE windlass.attempt_error SET checked_at = checked_at - interval '2 hours'";

/// Dead jobs and their errors, errors of completed jobs, ended workers: gone in a round, however many.
#[tokio::test]
async fn rows_beside_the_log_go_in_one_round() {
    let place = Place::fresh().await;
    place
        .sql(
            "INSERT INTO windlass.dead (id, finished_at, enqueued_at, lane_id, attempt, max_attempts, crash_count, state, kind, args)
                 SELECT n, now() - interval '1 year', now(), 1, 1, 1, 0, 'discarded', 'k', '{}' FROM generate_series(1, 25000) AS n;
             INSERT INTO windlass.attempt_error (job_id, at, checked_at, worker_id, attempt, error)
                 SELECT n, now() - interval '1 year', now() - interval '1 year', 1, 1, 'no' FROM generate_series(1, 50000) AS n;
             INSERT INTO windlass.worker (name, queues, kinds, lease, ended_at)
                 SELECT 'w', '{}', '{}', '1 s', now() - interval '1 year' FROM generate_series(1, 12000)",
        )
        .await;
    let removed = place.store.maintain().await.unwrap().removed_dead;
    assert_eq!(removed, 25_000);
    assert_eq!(place.number("SELECT count(*) FROM windlass.attempt_error").await, 25_000);
    place.sql(LATER).await;
    place.store.maintain().await.unwrap();
    for table in ["dead", "attempt_error", "worker"] {
        assert_eq!(place.number(&format!("SELECT count(*) FROM windlass.{table}")).await, 0, "{table}");
    }
}

/// One kind of rows that grows faster than a round removes it leaves the others their time: the next round begins behind it.
#[tokio::test]
async fn a_round_begins_behind_what_the_last_one_did_not_end() {
    let place = Place::fresh().await;
    place
        .sql(
            "CREATE TABLE windlass.called (n serial, what text);
             CREATE OR REPLACE FUNCTION windlass.forget_dead(p_most integer) RETURNS bigint LANGUAGE plpgsql
             AS $$ BEGIN INSERT INTO windlass.called (what) VALUES ('dead'); PERFORM pg_sleep(10.1); RETURN p_most; END $$;
             CREATE OR REPLACE FUNCTION windlass.forget_errors(p_most integer) RETURNS bigint LANGUAGE plpgsql
             AS $$ BEGIN INSERT INTO windlass.called (what) VALUES ('errors');
                         RETURN CASE WHEN (SELECT count(*) FROM windlass.called) < 5 THEN p_most ELSE 0 END; END $$",
        )
        .await;
    let called = async || {
        let text = "SELECT string_agg(what, ' ' ORDER BY n) FROM windlass.called";
        place.client.query_one(&place.fixture.text(text), &[]).await.unwrap().get::<_, String>(0)
    };
    place.store.maintain().await.unwrap();
    assert_eq!(called().await, "dead errors");
    place
        .sql(
            "CREATE OR REPLACE FUNCTION windlass.forget_dead(p_most integer) RETURNS bigint LANGUAGE plpgsql
             AS $$ BEGIN INSERT INTO windlass.called (what) VALUES ('dead'); RETURN 0; END $$",
        )
        .await;
    place.store.maintain().await.unwrap();
    assert_eq!(called().await, "dead errors errors errors errors dead");
}

/// Old errors of jobs that still wait are looked at once, not in each round; they go when the job is gone.
#[tokio::test]
async fn errors_of_waiting_jobs_are_not_read_again() {
    let place = Place::fresh().await;
    let jobs = 20_000;
    place
        .sql(&format!(
            "INSERT INTO windlass.waiting (id, available_at, lane_id, max_attempts, state, kind, args)
                 SELECT n, now() + interval '1 day', 1, 9, 'retryable', 'k', '{{}}' FROM generate_series(1, {jobs}) AS n;
             INSERT INTO windlass.attempt_error (job_id, at, checked_at, worker_id, attempt, error)
                 SELECT n, now() - interval '40 days', now() - interval '40 days', 1, a, 'no' FROM generate_series(1, {jobs}) AS n, generate_series(1, 3) AS a",
        ))
        .await;
    place.store.configure(&SMALL.with_dead_retention(Duration::ZERO)).await.unwrap();
    place.store.maintain().await.unwrap();
    assert_eq!(place.number("SELECT count(*) FROM windlass.attempt_error").await, 3 * jobs);
    assert_eq!(place.number("SELECT windlass.forget_errors(5000)").await, 0, "read again");
    place.sql("DELETE FROM windlass.waiting").await;
    for _ in 0..2 {
        place.sql(LATER).await;
        place.store.maintain().await.unwrap();
    }
    assert_eq!(place.number("SELECT count(*) FROM windlass.attempt_error").await, 0);
}

/// The errors of a job that failed, was retried and completed go by the retention of completed jobs.
#[tokio::test]
async fn errors_go_with_the_retention_of_their_job() {
    let place = Place::fresh().await;
    place.enqueue(QUEUE, 1).await;
    let worker = place.worker(QUEUE).await;
    let held = worker.take(1).await;
    worker.except(&held[0], Disposition::Retry { delay: Duration::ZERO, error: "no".into() }).await;
    place.store.promote(10).await.unwrap();
    assert_eq!(worker.drain(10).await.len(), 1);
    assert_eq!(place.number("SELECT count(*) FROM windlass.attempt_error").await, 1);
    place.store.configure(&SMALL.with_dead_retention(Duration::from_secs(86_400 * 30))).await.unwrap();
    for left in [1, 0] {
        place.store.maintain().await.unwrap();
        assert_eq!(place.number("SELECT count(*) FROM windlass.attempt_error").await, left);
        place.sql(LATER).await;
    }
}

/// A dead job past its retention goes although its log row still stands in a paused queue, and then is nowhere.
#[tokio::test]
async fn a_cancelled_job_that_was_forgotten_is_nowhere() {
    let place = Place::fresh().await;
    let ids: Vec<_> = place.enqueue(QUEUE, 2).await.into_iter().map(windlass_core::JobId).collect();
    place.store.cancel(&ids[..1]).await.unwrap();
    place.store.configure(&SMALL.with_dead_retention(Duration::ZERO).with_retention(LEASE)).await.unwrap();
    place.store.maintain().await.unwrap();
    assert!(place.store.job(ids[0]).await.unwrap().is_none());
    assert_eq!(place.store.cancel(&ids[..1]).await.unwrap(), [windlass_core::CancelReply::NotFound]);
    assert_eq!(place.worker(QUEUE).await.drain(10).await, [ids[1]]);
}
