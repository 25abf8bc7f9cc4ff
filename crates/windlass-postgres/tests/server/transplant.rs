//! A database restored into another cluster: transaction ids start again, nothing unfinished is lost.

use crate::{cluster::Fixture, session::Session};
use std::{collections::BTreeSet, sync::Arc};
use tokio_postgres::{Client, error::SqlState};
use windlass_conformance::steps::{args, enqueue_jobs, eventually, ids, worker_on};
use windlass_core::{EditReply, ErrorKind, JobEdit, JobId, JobStore, Store};
use windlass_postgres::PostgresStore;

/// What pg_dump and a restore into a younger cluster leave behind: the same rows, with transaction ids
/// and snapshots that this cluster has not reached.
fn transplant() -> String {
    let [jobs, claims, home] = moved("1000000000");
    format!("{jobs}; {claims}; {home}")
}

/// The statements by which jobs, claims and the row of table home look as if they came from a cluster that is so many
/// transactions ahead.
fn moved(by: &str) -> [String; 3] {
    let jobs = "UPDATE windlass.job SET xid = (xid::text::bigint + {by})::text::xid8 WHERE xid < '4611686018427387904'";
    let claims = "UPDATE windlass.claim SET
        from_snapshot = CASE from_snapshot::text WHEN '4:4:' THEN from_snapshot
            ELSE format('%s:%s:', pg_snapshot_xmin(from_snapshot)::text::bigint + {by},
                        pg_snapshot_xmax(from_snapshot)::text::bigint + {by})::pg_snapshot END,
        to_snapshot = format('%s:%s:', pg_snapshot_xmin(to_snapshot)::text::bigint + {by},
                             pg_snapshot_xmax(to_snapshot)::text::bigint + {by})::pg_snapshot,
        start_xid = (start_xid::text::bigint + {by})::text::xid8,
        end_xid = (end_xid::text::bigint + {by})::text::xid8";
    let home = "UPDATE windlass.home SET xid = (xid::text::bigint + {by})::text::xid8, system = 1";
    [jobs, claims, home].map(|text| text.replace("{by}", by))
}

#[tokio::test]
async fn unfinished_jobs_are_available_again_after_a_restore() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let all = enqueue_jobs(&store, 30).await;
    let worker = worker_on(&store).await;
    worker.complete_claims(&worker.claim(10).await).await;
    let running = ids(&worker.claim(5).await);
    assert_eq!(running, all[10..15]);
    let client = fixture.sql().await;
    client.batch_execute(&fixture.text(&transplant())).await.unwrap();
    assert!(worker.try_claim(1).await.expect_err("the log is not in order").is_lease_lost());
    // Producers that know nothing of it, before any worker comes: rows of this cluster's own.
    let new = enqueue_every_way(&fixture, &client).await;

    let restored: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&restored).await;
    restored.promote(1_000).await.unwrap();
    let found: BTreeSet<_> = worker.drain(7).await.into_iter().collect();
    let expected: BTreeSet<_> = all[10..].iter().copied().chain(new).collect();
    assert_eq!(found, expected, "the finished ten stay finished, all others come once");
    // And it stays that way: the next connection finds nothing to move.
    let again: Arc<dyn Store> = Arc::new(fixture.store().await);
    assert_eq!(worker_on(&again).await.drain(7).await, []);
}

/// Jobs that were edited and deleted before the move come as they were changed last, each once, or not at all. Until the log is in order nobody can tell where a job stands, so
/// that changes are refused.
#[tokio::test]
async fn edited_jobs_come_once_after_a_restore() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let all = enqueue_jobs(&store, 12).await;
    let edit = JobEdit::new().with_args(args(100));
    store.edit(&all[4..8], &edit).await.unwrap();
    store.delete(&all[8..10]).await.unwrap();
    // By this claim jobs that this cluster writes look as if they were history.
    let before = worker_on(&store).await;
    before.complete_claims(&before.claim(1).await).await;
    let client = fixture.sql().await;
    client.batch_execute(&fixture.text(&transplant())).await.unwrap();
    let enqueue = fixture.text("SELECT windlass.enqueue('noop', queue => 'q')");
    let own = JobId(client.query_one(&enqueue, &[]).await.unwrap().get(0));
    for id in [all[6], all[11], own] {
        for call in ["cancel({id})", "retry({id})", r#"edit({id}, args => '{"n":200}')"#, "delete({id})"] {
            let call = fixture.text(&format!("SELECT windlass.{}", call.replace("{id}", &id.to_string())));
            let refused = client.query_one(&call, &[]).await.expect_err(&call);
            let refused = refused.as_db_error().expect("the server's");
            assert_eq!(refused.code(), &SqlState::LOCK_NOT_AVAILABLE, "{call}: {refused}");
            assert!(refused.message().contains("moved here from another cluster"), "{call}: {refused}");
        }
    }
    let refused = store.edit(&[own], &edit).await.expect_err("the log is not in order");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");

    let restored: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&restored).await;
    restored.promote(1_000).await.unwrap();
    assert_eq!(restored.edit(&[own], &edit).await.unwrap(), [EditReply::Edited]);
    let taken = worker.take(10).await;
    worker.finds_nothing().await;
    let mut found: Vec<_> = taken
        .iter()
        .map(|held| (held.job.id, String::from_utf8_lossy(&held.job.args).replace(' ', "")))
        .collect();
    found.sort();
    let changed = |n: usize| format!(r#"{{"n":{n}}}"#);
    let as_enqueued = [1, 2, 3, 10, 11].map(|n| (all[n], changed(n)));
    let edited = [all[4], all[5], all[6], all[7], own].map(|id| (id, changed(100)));
    let mut expected = [as_enqueued, edited].concat();
    expected.sort();
    assert_eq!(found, expected);
}

/// One job each: in a statement of its own, in a savepoint, and in a function's block that catches errors. The rows of
/// the last two carry the id of a subtransaction.
async fn enqueue_every_way(fixture: &Fixture, client: &Client) -> Vec<JobId> {
    let enqueue = fixture.text("SELECT windlass.enqueue('k', '{}', 'q')");
    let plain: i64 = client.query_one(&enqueue, &[]).await.unwrap().get(0);
    client.batch_execute("BEGIN; SELECT pg_current_xact_id(); SAVEPOINT s").await.unwrap();
    let saved: i64 = client.query_one(&enqueue, &[]).await.unwrap().get(0);
    client.batch_execute("COMMIT").await.unwrap();
    let caught = format!(
        "DO $$ BEGIN PERFORM pg_current_xact_id(); BEGIN PERFORM {}; EXCEPTION WHEN division_by_zero THEN END; END $$",
        &enqueue[7..]
    );
    client.batch_execute(&caught).await.unwrap();
    let newest = fixture.text("SELECT max(id) FROM windlass.job");
    let caught: i64 = client.query_one(&newest, &[]).await.unwrap().get(0);
    [plain, saved, caught].map(JobId).to_vec()
}

/// Logical replication carries rows and no sequences.
#[tokio::test]
async fn ids_stay_unique_where_the_sequences_began_anew() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let old = enqueue_jobs(&store, 3).await;
    let before = worker_on(&store).await;
    let client = fixture.sql().await;
    client.batch_execute(&fixture.text(&transplant())).await.unwrap();
    client.batch_execute(&fixture.text("ALTER SEQUENCE windlass.job_id_seq RESTART")).await.unwrap();
    client.batch_execute(&fixture.text("ALTER TABLE windlass.worker ALTER id RESTART")).await.unwrap();
    client.batch_execute(&fixture.text("ALTER TABLE windlass.lane ALTER id RESTART")).await.unwrap();
    let new = enqueue_every_way(&fixture, &client).await;
    assert!(old.contains(&new[0]), "two jobs have one id: {old:?}, {new:?}");

    let after = worker_on(&store).await;
    assert!(after.id > before.id);
    store.promote(1_000).await.unwrap();
    let mut found = after.drain(7).await;
    found.extend(enqueue_jobs(&store, 3).await);
    let distinct: BTreeSet<_> = found.iter().copied().collect();
    assert_eq!((found.len(), distinct.len()), (9, 9), "{found:?}");
    assert!(old.iter().all(|id| distinct.contains(id)));
    store.enqueue(&[windlass_conformance::steps::job().with_queue("another")]).await.expect("makes a lane");
}

/// So are the ids of jobs of which only other tables know, and the numbers of what is no job.
#[tokio::test]
async fn numbers_that_only_other_tables_have_are_not_given_again() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let client = fixture.sql().await;
    let run = async |sql: &str| client.batch_execute(&fixture.text(sql)).await.expect(sql);
    let number =
        async |sql: &str| client.query_one(&fixture.text(sql), &[]).await.expect(sql).get::<_, i64>(0);
    let audit = r#"SELECT windlass.append_audit('[{"actor": "anna", "action": "looked", "target": "all"}]')"#;
    let signal = "INSERT INTO windlass.key_signal (lane_id, job_id, is_over, key) VALUES (-2, 1, true, 'k')";
    run("SELECT windlass.set_schedule('s', '@daily', 'k'); SELECT windlass.pause_schedule('s')").await;
    run(audit).await;
    run(signal).await;
    for only in [
        "INSERT INTO windlass.unique_key (key, id, until_finished, check_at) VALUES (gen_random_uuid(), {id}, true, now())",
        "UPDATE windlass.schedule SET last_job = {id}",
        "INSERT INTO windlass.cancel_request (job_id, lane_id, seq, worker_id) VALUES ({id}, 1, 1, 1)",
        "INSERT INTO windlass.key_signal (lane_id, job_id, is_over, key) VALUES (-2, {id}, true, 'k')",
        "INSERT INTO windlass.key_room (queue, key, held, begun) VALUES ('q', 'k', 0, '{{id}}')",
    ] {
        let id = number("SELECT nextval('windlass.job_id_seq') + 100").await;
        run(&only.replace("{id}", &id.to_string())).await;
        let version = number("SELECT max(version) FROM windlass.schedule").await;
        run(&transplant()).await;
        run(
            "ALTER SEQUENCE windlass.job_id_seq RESTART; ALTER SEQUENCE windlass.schedule_version RESTART;
             ALTER SEQUENCE windlass.key_turn_seq RESTART; ALTER TABLE windlass.audit_entry ALTER id RESTART",
        )
        .await;
        worker_on(&store).await;
        let next = number("SELECT windlass.enqueue('k')").await;
        assert!(next > id, "{next} after {id}: {only}");
        run(audit).await;
        run(signal).await;
        run("SELECT windlass.resume_schedule('s'); SELECT windlass.pause_schedule('s')").await;
        assert!(number("SELECT max(version) FROM windlass.schedule").await > version);
    }
}

/// The new cluster may be as old as the other was: then transaction ids of the copied rows lie where its own are.
#[tokio::test]
async fn what_was_finished_stays_finished_where_the_new_cluster_is_as_old() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let mut all = Vec::new();
    for _ in 0..6 {
        all.extend(enqueue_jobs(&store, 1).await);
    }
    let worker = worker_on(&store).await;
    worker.complete_claims(&worker.claim(4).await).await;
    let client = fixture.sql().await;
    let [_, _, home] = moved("1000000000");
    client.batch_execute(&fixture.text(&home)).await.unwrap();
    // Between the copy of home and that of the jobs others work, and just there the ids of the jobs lie.
    client
        .batch_execute(
            "DO $$ BEGIN FOR i IN 1..1000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
        )
        .await
        .unwrap();
    let text = "SELECT (SELECT xmin::text::bigint FROM windlass.home) + 100 - min(xid::text::bigint) FROM windlass.job";
    let by: i64 = client.query_one(&fixture.text(text), &[]).await.unwrap().get(0);
    let [jobs, claims, _] = moved(&by.to_string());
    client.batch_execute(&fixture.text(&claims)).await.unwrap();
    client.batch_execute(&fixture.text(&jobs)).await.unwrap();
    let new = enqueue_every_way(&fixture, &client).await;

    let after = worker_on(&store).await;
    store.promote(1_000).await.unwrap();
    let found: BTreeSet<_> = after.drain(7).await.into_iter().collect();
    let expected: BTreeSet<_> = all[4..].iter().copied().chain(new).collect();
    assert_eq!(found, expected);
}

/// A worker that runs on knows of settlements that the dump does not, and its claims reach over rows of this cluster.
#[tokio::test]
async fn workers_of_before_change_nothing_until_the_log_is_in_order() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let old = enqueue_jobs(&store, 5).await;
    let before = worker_on(&store).await;
    assert_eq!(before.claim(5).await.len(), 1);
    let client = fixture.sql().await;
    client.batch_execute(&fixture.text(&transplant())).await.unwrap();
    let new = enqueue_every_way(&fixture, &client).await;

    let settled = format!("SELECT windlass.heartbeat({}, 1000, '{{}}', '{{}}')", before.id.0);
    let refused =
        client.batch_execute(&fixture.text(&settled)).await.expect_err("a log that is not in order");
    assert_eq!(refused.code().map(|code| code.code()), Some("WL001"));
    assert!(store.heartbeat(before.id).await.is_err_and(|error| error.is_lease_lost()));
    store.deregister(before.id).await.unwrap();
    let report = store.maintain().await.unwrap();
    assert_eq!((report.rotated, report.rehomed, report.truncated), (false, 0, 0));

    let after = worker_on(&store).await;
    store.promote(1_000).await.unwrap();
    let found = after.drain(7).await;
    let distinct: BTreeSet<_> = found.iter().copied().collect();
    assert_eq!((found.len(), distinct), (8, old.into_iter().chain(new).collect()));
}

/// Somebody writes on and reads while the log is put in order: the one is not lost, the other not thrown out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_readers_beside_the_move_are_waited_for() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let old = enqueue_jobs(&store, 3).await;
    let before = worker_on(&store).await;
    before.complete_claims(&before.claim(1).await).await;
    let (client, reader) = (fixture.sql().await, fixture.sql().await);
    for patient in [&client, &reader] {
        // Of two that wait for one another the one with the shorter patience is refused.
        patient.batch_execute("SET deadlock_timeout = '10s'").await.unwrap();
    }
    client.batch_execute(&fixture.text(&transplant())).await.unwrap();
    client
        .batch_execute(&fixture.text("BEGIN; LOCK TABLE windlass.job_0 IN ROW EXCLUSIVE MODE"))
        .await
        .unwrap();
    let mover = tokio::spawn({
        let store = Arc::clone(&store);
        async move { worker_on(&store).await }
    });
    until_waited_for(&fixture, &reader, "job_0").await;
    // It began before this transaction got its id.
    let enqueue = fixture.text("SELECT windlass.enqueue('k', '{}', 'q')");
    let new: i64 = client.query_one(&enqueue, &[]).await.unwrap().get(0);
    reader.batch_execute(&fixture.text("BEGIN; SELECT 1 FROM windlass.settlement LIMIT 1")).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    // It has the jobs now.
    until_waited_for(&fixture, &client, "settlement").await;
    reader.batch_execute(&fixture.text("SELECT 1 FROM windlass.job LIMIT 1")).await.expect("no deadlock");
    reader.batch_execute("COMMIT").await.unwrap();

    let after = mover.await.expect("registers");
    store.promote(1_000).await.unwrap();
    let found: BTreeSet<_> = after.drain(7).await.into_iter().collect();
    assert_eq!(found, old[1..].iter().copied().chain([JobId(new)]).collect());
}

async fn until_waited_for(fixture: &Fixture, client: &Client, table: &str) {
    let text = format!(
        "SELECT 1 FROM pg_locks WHERE relation = 'windlass.{table}'::regclass AND NOT granted LIMIT 1"
    );
    let text = fixture.text(&text);
    let look = || async { client.query_opt(&text, &[]).await.expect("looks") };
    eventually("somebody waits for the table", look).await;
}

/// A process that runs on remembers before which time nothing is due.
#[tokio::test]
async fn what_was_due_before_the_move_is_not_passed_over() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    assert_eq!(store.promote(1_000).await.unwrap().count, 0);
    let restored = "INSERT INTO windlass.waiting (id, available_at, lane_id, max_attempts, kind, args)
        VALUES (7, now() - interval '1 minute', windlass.lane_of('q', 0), 20, 'k', '{}')";
    let client = fixture.sql().await;
    client.batch_execute(&fixture.text(restored)).await.unwrap();
    client.batch_execute(&fixture.text(&transplant())).await.unwrap();
    worker_on(&store).await;
    assert_eq!(store.promote(1_000).await.unwrap().count, 1);
}

/// Clusters that were made from one data folder, as copies of a template, have one identifier. What came from one that was ahead is told by its transactions, whatever of it is there.
#[tokio::test]
async fn a_restore_into_a_cluster_of_the_same_identifier_is_a_move() {
    for done in [0, 10, 30] {
        let fixture = Fixture::shared().await;
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        let all = enqueue_jobs(&store, 30).await;
        let worker = worker_on(&store).await;
        if done > 0 {
            worker.complete_claims(&worker.claim(done).await).await;
        }
        let client = fixture.sql().await;
        let [jobs, claims, home] = moved("1000000000");
        let ended =
            "UPDATE windlass.settlement SET event_xid = (event_xid::text::bigint + 1000000000)::text::xid8;
            UPDATE windlass.claim SET event_pos = (event_pos::text::bigint + 1000000000)::text::xid8";
        let home = home.replace(", system = 1", "");
        client.batch_execute(&fixture.text(&format!("{jobs}; {claims}; {ended}; {home}"))).await.unwrap();
        let new = enqueue_every_way(&fixture, &client).await;
        let worker = worker_on(&store).await;
        store.promote(1_000).await.unwrap();
        let found: BTreeSet<_> = worker.drain(7).await.into_iter().collect();
        assert_eq!(found, all[done as usize..].iter().copied().chain(new).collect(), "{done} were done");
    }
}

/// A table that was only rewritten, as pg_repack does, moves nothing.
#[tokio::test]
async fn a_rewritten_table_is_not_a_move() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let all = enqueue_jobs(&store, 3).await;
    let worker = worker_on(&store).await;
    let held = worker.claim(1).await;
    let rewrite = "UPDATE windlass.home SET one = one";
    fixture.sql().await.batch_execute(&fixture.text(rewrite)).await.unwrap();
    assert!(worker.try_claim(1).await.is_err_and(|error| error.is_lease_lost()));
    let other = worker_on(&store).await;
    worker.complete_claims(&held).await;
    assert_eq!(other.drain(7).await, all[1..]);
}

/// pg_upgrade keeps every row, and its cluster has another identifier: who connects notes that, nobody has to stop, and tables that are rewritten afterwards are no move either, however often.
#[tokio::test]
async fn a_rewritten_table_after_an_upgrade_is_not_a_move() {
    let s = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(s.fixture.store().await);
    let all = enqueue_jobs(&store, 3).await;
    let worker = worker_on(&store).await;
    let held = worker.claim(1).await;
    // As the migration wrote them, but for the identifier.
    s.run("UPDATE windlass.home SET xid = pg_current_xact_id(), system = system + 1; UPDATE windlass.migration SET version = version").await;
    store.heartbeat(worker.id).await.expect("goes on");
    assert_eq!(worker.claim(1).await.len(), 1);
    let state = async || s.value::<String>("SELECT windlass.home_state()").await;
    assert_eq!(state().await, "upgraded");
    let in_a_savepoint = "DO $$ BEGIN PERFORM windlass.rehome(); EXCEPTION WHEN division_by_zero THEN END $$";
    assert_eq!(s.refusal(in_a_savepoint).await.0.code(), "WL006");
    s.fixture.store().await;
    assert_eq!(state().await, "home");
    for _ in 0..2 {
        s.run("UPDATE windlass.home SET one = one").await;
        assert_eq!(state().await, "rewritten");
        worker_on(&store).await;
        assert_eq!(state().await, "home");
        store.heartbeat(worker.id).await.expect("goes on");
    }
    worker.complete_claims(&held).await;
    assert_eq!(worker_on(&store).await.drain(7).await, all[2..]);
}

/// Nor is it one when the log moved before: the rows beside home are those that were brought along.
#[tokio::test]
async fn a_rewritten_table_after_a_move_is_not_another() {
    let s = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(s.fixture.store().await);
    enqueue_jobs(&store, 3).await;
    s.run(&transplant()).await;
    let worker = worker_on(&store).await;
    store.promote(10).await.unwrap();
    worker.take(1).await;
    s.run("UPDATE windlass.home SET one = one").await;
    worker_on(&store).await;
    store.heartbeat(worker.id).await.expect("goes on");
}

/// A restore in one transaction, which by chance has the id that table home notes: whoever was at work refuses to go on by that alone. What makes it moved for everybody else is that
/// rows of the log are ahead, whether the cluster has another identifier or not.
#[tokio::test]
async fn a_restore_under_the_id_that_home_notes_is_a_move() {
    for system in ["system + 1", "system"] {
        let s = Session::fresh().await;
        let store: Arc<dyn Store> = Arc::new(s.fixture.store().await);
        let all = enqueue_jobs(&store, 30).await;
        let before = worker_on(&store).await;
        before.complete_claims(&before.claim(10).await).await;
        assert_eq!(before.claim(5).await.len(), 1);
        let [jobs, claims, _] = moved("1000000000");
        let home = format!("UPDATE windlass.home SET xid = pg_current_xact_id(), system = {system}");
        let rest = "UPDATE windlass.lane SET queue = queue; UPDATE windlass.worker SET name = name;
            UPDATE windlass.settlement SET event_xid = (event_xid::text::bigint + 1000000000)::text::xid8;
            UPDATE windlass.claim SET event_pos = (event_pos::text::bigint + 1000000000)::text::xid8";
        s.run(&format!("{home}; {jobs}; {claims}; {rest}")).await;
        assert!(before.try_claim(1).await.expect_err("moved").is_lease_lost(), "{system}");
        let cancel = s.refusal(&format!("SELECT windlass.cancel({})", all[20])).await;
        assert_eq!(cancel.0, SqlState::LOCK_NOT_AVAILABLE, "{system}");
        let beat = format!("SELECT windlass.heartbeat({}, 1, '{{}}', '{{}}')", before.id.0);
        assert_eq!(s.refusal(&beat).await.0.code(), "WL001", "{system}");
        let new = enqueue_every_way(&s.fixture, &s.client).await;
        let after = worker_on(&store).await;
        store.promote(1_000).await.unwrap();
        let found: BTreeSet<_> = after.drain(7).await.into_iter().collect();
        assert_eq!(found, all[10..].iter().copied().chain(new).collect(), "{system}");
        store.heartbeat(after.id).await.expect("is at home");
    }
}

/// What looks for a job's place asks for the cluster once in a session, since that reads the cluster's control file, and notices a move all the same.
#[tokio::test]
async fn a_session_that_knows_its_cluster_notices_a_move() {
    let s = Session::fresh().await;
    let store: Arc<dyn Store> = Arc::new(s.fixture.store().await);
    let all = enqueue_jobs(&store, 12).await;
    let counting = "CREATE SEQUENCE windlass.asked MINVALUE 0;
        CREATE OR REPLACE FUNCTION windlass.system_identifier() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
        BEGIN PERFORM nextval('windlass.asked'); RETURN (SELECT c.system_identifier FROM pg_control_system() c); END $$";
    s.run(counting).await;
    let asked = async || s.value::<i64>("SELECT nextval('windlass.asked')").await;
    for (n, call) in [
        "cancel({})",
        "retry({})",
        "edit({}, priority => 5)",
        "delete({})",
        "enqueue_unique('k', unique_key => 'one', queue => 'q')",
    ]
    .into_iter()
    .enumerate()
    {
        let session = s.fixture.sql().await;
        let call = s.fixture.text(&format!("SELECT windlass.{}", call.replace("{}", &all[n].to_string())));
        session.batch_execute(&call).await.unwrap(); // the first under a key looks for no other job
        session.batch_execute(&call).await.unwrap();
        let before = asked().await;
        session.batch_execute(&call).await.unwrap();
        assert_eq!(asked().await, before + 1, "{call}");
    }
    s.run(&format!("SELECT windlass.cancel({})", all[5])).await;
    let refused = async || {
        let (code, text) = s.refusal(&format!("SELECT windlass.cancel({})", all[6])).await;
        assert_eq!(code, SqlState::LOCK_NOT_AVAILABLE, "{text}");
        assert!(text.contains("moved here from another cluster"), "{text}");
    };
    let [jobs, claims, home] = moved("1000000000");
    s.run(&format!("{jobs}; {claims}; {home}")).await;
    refused().await;
    worker_on(&store).await;
    store.promote(1_000).await.unwrap();
    s.run(&format!("SELECT windlass.cancel({})", all[7])).await;
    // Once more, by a restore in one transaction that has the very id.
    s.run(&format!(
        "{jobs}; UPDATE windlass.home SET xid = pg_current_xact_id(); UPDATE windlass.lane SET queue = queue"
    ))
    .await;
    refused().await;
}

/// A dump restored into the cluster that it is of: what its workers held comes back, though one of them runs on, which has settled that since and says so; and no other gets the id of one
/// that registered since.
#[tokio::test]
async fn a_restore_in_place_takes_back_what_was_held() {
    let s = Session::fresh().await;
    let (worker, other) = (s.register("'{q}'").await, s.register("'{q}'").await);
    for _ in 0..4 {
        s.run("SELECT windlass.enqueue('k', queue => 'q')").await;
    }
    let claimed = async |worker: i32, call: u32| {
        let claim = format!(
            "SELECT count(*) FROM windlass.claim({worker}, '{{q}}', '{{2}}', NULL, {call}) WHERE id IS NOT NULL"
        );
        s.value::<i64>(&claim).await
    };
    assert_eq!((claimed(worker, 1).await, claimed(other, 1).await), (2, 2));
    // All rows are written anew, as of the time of the dump.
    s.run("UPDATE windlass.home SET one = one; UPDATE windlass.migration SET version = version; UPDATE windlass.worker SET name = name").await;
    // What puts the log in order is itself beyond all that has ended by then.
    let open = s.fixture.sql().await;
    open.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    let beat = |worker: i32| format!("SELECT windlass.heartbeat({worker}, 2, '{{}}', '{{}}')");
    assert_eq!(s.refusal(&beat(worker)).await.0.code(), "WL001");
    assert_eq!(s.value::<Option<i64>>("SELECT windlass.rehome()").await, Some(4));
    let new = s.register("'{q}'").await;
    assert!(new > other + 1_000, "{new} may be the id of a worker that registered since the dump");
    for old in [worker, other] {
        assert_eq!(s.refusal(&beat(old)).await.0.code(), "WL001", "{old}");
    }
    assert_eq!((claimed(new, 1).await, claimed(new, 2).await), (2, 2));
    assert_eq!(s.value::<Option<i64>>("SELECT windlass.rehome()").await, None);
}

/// Who owns the schema needs no right to temporary tables, which many databases take from everybody.
#[tokio::test]
async fn an_owner_without_temporary_tables_puts_the_log_in_order() {
    let fixture = Fixture::fresh().await;
    let (database, owner) = (&fixture.name, format!("{}_owner", fixture.name));
    let superuser = fixture.sql().await;
    let create = format!(
        "REVOKE TEMP ON DATABASE {database} FROM PUBLIC; CREATE ROLE {owner} LOGIN; CREATE SCHEMA own AUTHORIZATION {owner}"
    );
    superuser.batch_execute(&create).await.unwrap();
    let url = fixture.url.replace("//postgres@", &format!("//{owner}@"));
    let url = format!("{}?schema=own", url.split('?').next().unwrap());
    let connect = async || PostgresStore::connect(&url, fixture.options.clone()).await.expect("connects");
    let store = connect().await;
    store.migrate().await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let all = enqueue_jobs(&store, 3).await;
    superuser.batch_execute(&transplant().replace("windlass.", "own.")).await.unwrap();
    let new: i64 = superuser.query_one("SELECT own.enqueue('noop', queue => 'q')", &[]).await.unwrap().get(0);
    let store: Arc<dyn Store> = Arc::new(connect().await);
    let worker = worker_on(&store).await;
    store.promote(10).await.unwrap();
    let found: BTreeSet<_> = worker.drain(10).await.into_iter().collect();
    assert_eq!(found, all.into_iter().chain([JobId(new)]).collect());
}
