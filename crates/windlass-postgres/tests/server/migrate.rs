//! A migration runs beside whoever works, is repeatable, and says which programs may go on.

use crate::cluster::Fixture;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;
use windlass_conformance::steps::{LATER, QUEUE, TINY_LEASE, eventually, job, jobs, worker};
use windlass_core::{
    Args, CancelReply, Conflict, Disposition, EditReply, EnqueuedUnique, ErrorKind, JobEdit, JobId, JobStore,
    Load, MigrationReport, OnConflict, Program, Result, Settled, Store, Unique, WorkerSpec,
};
use windlass_postgres::PostgresStore;

const VIEWS: [&str; 9] =
    ["cursor", "unclaimed", "exceptional", "jobs", "job_row", "queues", "sharer", "schedules", "audit"];
/// Longer than any migration takes.
const LONG: Duration = Duration::from_secs(60);

/// Every function is created anew each time, so whoever is in the middle of one must not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_is_repeated_under_load() {
    let fixture = Fixture::shared().await;
    let (store, other) = (fixture.store().await, fixture.store().await);
    let (migrated, ids) = tokio::join!(
        async {
            for _ in 0..10 {
                let report = other.migrate().await.expect("migrates");
                assert_eq!(report.from, report.to);
            }
        },
        async {
            let mut ids = Vec::new();
            for _ in 0..20 {
                ids.extend(store.enqueue(&jobs(50)).await.expect("enqueues"));
            }
            ids
        }
    );
    let () = migrated;
    assert!(ids.windows(2).all(|two| two[0] < two[1]), "{ids:?}");
}

/// An open transaction that enqueued neither holds up a migration nor is held up by it.
#[tokio::test]
async fn a_migration_waits_for_no_open_transaction() {
    let fixture = Fixture::shared().await;
    let (store, mut client) = (fixture.store().await, fixture.sql().await);
    let open = client.transaction().await.unwrap();
    store.enqueue_in(&open, &jobs(50)).await.unwrap();
    fixture.store().await.migrate().await.expect("migrates beside an open transaction");
    store.enqueue_in(&open, &jobs(1)).await.unwrap();
    open.commit().await.unwrap();
}

/// Nor does it wait for one that read every view, as a report or a page does: they are what they were.
#[tokio::test]
async fn a_migration_waits_for_nobody_who_reads() {
    let fixture = Fixture::shared().await;
    let (store, mut client) = (fixture.store().await, fixture.sql().await);
    let open = client.transaction().await.unwrap();
    for view in VIEWS {
        let read = fixture.text(&format!("SELECT count(*) FROM windlass.{view}"));
        open.query_one(&read, &[]).await.expect(view);
    }
    let views = "SELECT count(*) FROM pg_views WHERE schemaname = $1";
    assert_eq!(open.query_one(views, &[&fixture.schema]).await.unwrap().get::<_, i64>(0), VIEWS.len() as i64);
    let migrated = tokio::time::timeout(LONG, store.migrate()).await;
    migrated.expect("the migration waits for the reader").expect("migrates");
    open.commit().await.unwrap();
}

/// Views that changed are replaced under locks that nobody may hold who reads one and comes to another.
#[tokio::test]
async fn a_migration_that_changes_views_ends_no_transaction_of_readers() {
    let fixture = Fixture::shared().await;
    let (store, mut client) = (fixture.store().await, fixture.sql().await);
    // As an older program had them.
    for view in ["cursor", "unclaimed", "queues"] {
        let older = fixture.text(&format!(
            "DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW windlass.{view} AS SELECT * FROM ('
                || rtrim(pg_get_viewdef('windlass.{view}'::regclass), ';') || ') AS v WHERE random() < 2'; END $$"
        ));
        client.batch_execute(&older).await.unwrap();
    }
    let read = |view: &str| fixture.text(&format!("SELECT count(*) FROM windlass.{view}"));
    let open = client.transaction().await.unwrap();
    open.query_one(&read("queues"), &[]).await.unwrap();
    let migration = tokio::spawn(async move { store.migrate().await });
    let watcher = fixture.sql().await;
    let waiting = fixture.text(
        "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'windlass.queues'::regclass)",
    );
    while !watcher.query_one(&waiting, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
    for view in ["unclaimed", "cursor", "queues"] {
        open.query_one(&read(view), &[]).await.expect(view);
    }
    open.commit().await.unwrap();
    migration.await.unwrap().expect("migrates once the reader is gone");
    let left = "SELECT count(*) FROM pg_views WHERE schemaname = $1 AND definition LIKE '%random()%'";
    assert_eq!(watcher.query_one(left, &[&fixture.schema]).await.unwrap().get::<_, i64>(0), 0);
}

/// A reader who has one table and comes to another, which the step of a migration that makes indexes of both anew has by then: it waits for the reader.
struct Crossed {
    reader: tokio_postgres::Client,
    migration: JoinHandle<Result<MigrationReport>>,
}

impl Crossed {
    /// `patience`: after which the reader looks for a deadlock.
    async fn begin(fixture: &Fixture, patience: &str) -> Self {
        let (store, watcher, reader) = (fixture.store().await, fixture.sql().await, fixture.sql().await);
        watcher
            .batch_execute(&fixture.text("DELETE FROM windlass.migration WHERE version >= 28"))
            .await
            .unwrap();
        let look =
            format!("BEGIN; SET LOCAL deadlock_timeout = '{patience}'; SELECT count(*) FROM windlass.dead");
        reader.batch_execute(&fixture.text(&look)).await.unwrap();
        let migration = tokio::spawn(async move { store.migrate().await });
        let waiting = fixture.text(
            "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND relation IN ('windlass.dead'::regclass, 'windlass.dead_lane'::regclass))",
        );
        while !watcher.query_one(&waiting, &[]).await.unwrap().get::<_, bool>(0) {
            tokio::task::yield_now().await;
        }
        Self { reader, migration }
    }

    /// The reader comes to the other table; both end well.
    async fn end(self, fixture: &Fixture) {
        let cross = fixture.text("SELECT count(*) FROM windlass.waiting; COMMIT");
        self.reader.batch_execute(&cross).await.expect("goes on");
        assert_eq!(self.migration.await.unwrap().expect("migrates").from, 27);
    }
}

/// A migration that PostgreSQL ended for the reader's sake is done again.
#[tokio::test]
async fn a_migration_that_meets_a_deadlock_is_done_again() {
    let fixture = Fixture::shared().await;
    Crossed::begin(&fixture, "1min").await.end(&fixture).await;
}

/// PostgreSQL ends one of two that wait for each other, and it was the worker's call where the migration had waited for a while by then.
#[tokio::test]
async fn a_migration_gives_way_to_who_has_one_table_and_comes_to_another() {
    let fixture = Fixture::with("&options=-c%20deadlock_timeout%3D10ms").await;
    let crossed = Crossed::begin(&fixture, "500ms").await;
    tokio::time::sleep(Duration::from_millis(50)).await; // so that one that waits on has looked for a deadlock
    crossed.end(&fixture).await;
}

/// What a definition of an older program left is replaced, grants stay.
#[tokio::test]
async fn a_migration_restores_definitions_and_keeps_grants() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let role = format!("{}_producer", fixture.schema);
    let damage = fixture.text(&format!(
        "CREATE ROLE {role}; GRANT EXECUTE ON FUNCTION windlass.current_segment() TO {role};
         CREATE OR REPLACE FUNCTION windlass.current_segment() RETURNS smallint LANGUAGE sql AS 'SELECT 99::smallint'"
    ));
    client.batch_execute(&damage).await.unwrap();
    fixture.store().await.migrate().await.unwrap();
    let look = fixture.text(&format!(
        "SELECT windlass.current_segment(), has_function_privilege('{role}', 'windlass.current_segment()', 'execute')"
    ));
    let row = client.query_one(&look, &[]).await.unwrap();
    assert_eq!((row.get::<_, i16>(0), row.get::<_, bool>(1)), (0, true));
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// On a schema that an older program made nobody can ask a worker to stop a job.
#[tokio::test]
async fn a_schema_without_requests_to_cancel_is_worked_on() {
    let fixture = Fixture::shared().await;
    let drop = fixture.text(
        "DROP FUNCTION windlass.cancel_requests(integer); DROP FUNCTION windlass.forget_requests(integer);",
    );
    fixture.sql().await.batch_execute(&drop).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker(&store, &[QUEUE], &[], LATER).await;
    assert!(store.heartbeat(worker.id).await.unwrap().cancel.is_empty());
    store.maintain().await.unwrap();
}

/// On a schema that is not migrated to version 24 nobody can ask a worker to drain, and everything else goes on.
#[tokio::test]
async fn a_schema_without_drains_is_worked_on() {
    let fixture = Fixture::shared().await;
    let drop = fixture.text(
        "DROP FUNCTION windlass.drain_worker(integer); DROP FUNCTION windlass.is_draining(integer);
         ALTER TABLE windlass.worker DROP COLUMN draining_at;",
    );
    fixture.sql().await.batch_execute(&drop).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker(&store, &[QUEUE], &[], LATER).await;
    store.limit(QUEUE, &windlass_core::QueueLimits::default().with_concurrency(1)).await.unwrap();
    assert_eq!(store.heartbeat(worker.id).await.unwrap().limited, [QUEUE.into()]);
    let refused = store.drain_worker(worker.id).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SchemaTooOld, "{refused}");
    assert!(store.status().await.unwrap().workers.iter().all(|worker| worker.state() == "live"));
}

/// On a schema that is not migrated to version 26 nobody notes what workers run, and they work; an older program beside a migrated one calls what it knew.
#[tokio::test]
async fn a_schema_without_programs_is_worked_on() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let (said, load) = (Some("2.4.1".to_owned()), Load { memory_bytes: Some(7), jobs_per_second: Some(0.5) });
    let program = Program { app_version: said, ..Program::default() };
    let (queues, kinds) = (vec![QUEUE.to_owned()], vec![]);
    let spec = WorkerSpec { name: "w".to_owned(), queues, kinds, lease: LATER, program };
    let sql = fixture.sql().await;
    let older = fixture.text(
        "SELECT windlass.heartbeat(windlass.register('older', '{q}', '{}', 60.0::float8), 1::bigint, '{}'::integer[], '{}'::bigint[])",
    );
    sql.batch_execute(&older).await.expect("as a program of version 25 calls");
    let drop = fixture.text(
        "ALTER FUNCTION windlass.register RENAME TO register_26; ALTER FUNCTION windlass.heartbeat RENAME TO heartbeat_26;
         CREATE FUNCTION windlass.register(text, text[], text[], double precision) RETURNS integer LANGUAGE sql AS 'SELECT windlass.register_26($1, $2, $3, $4)';
         CREATE FUNCTION windlass.heartbeat(integer, bigint, integer[], bigint[]) RETURNS void LANGUAGE sql AS 'SELECT windlass.heartbeat_26($1, $2, $3, $4)'",
    );
    sql.batch_execute(&drop).await.unwrap();
    let worker = store.register(&spec).await.unwrap().worker;
    store.heartbeat_with(worker, load).await.unwrap();
    // So that what is missing in the table shows, too.
    let columns = "ALTER TABLE windlass.worker RENAME COLUMN program TO p; ALTER TABLE windlass.worker RENAME COLUMN memory_bytes TO m";
    sql.batch_execute(&fixture.text(columns)).await.unwrap();
    let status = store.status().await.unwrap();
    let known = status.workers.iter().find(|listed| listed.id == worker).expect("it is listed");
    assert_eq!(
        (known.program.name.as_ref(), known.program.app_version.as_ref(), known.load),
        (None, None, Load::default())
    );
}

/// On a schema that is not migrated to version 27 who waits asks for each job by itself.
#[tokio::test]
async fn a_schema_without_ended_jobs_tells_which_ended() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let ids = store.enqueue(&jobs(3)).await.unwrap();
    let worker = worker(&store, &[QUEUE], &[], LATER).await;
    worker.drain_some(1).await;
    fixture.sql().await.batch_execute(&fixture.text("DROP FUNCTION windlass.ended_jobs")).await.unwrap();
    let ended = store.ended(&[ids.clone(), vec![JobId(i64::MAX)]].concat()).await.unwrap();
    let told: Vec<JobId> = ended.jobs.iter().map(|job| job.id).collect();
    assert_eq!((told, ended.unknown), (vec![ids[0]], vec![JobId(i64::MAX)]));
}

/// Who has locks waits for others for less than deadlock_timeout. Where the definitions are older, and do not say for how long, each job is seen to by itself.
#[tokio::test]
async fn a_schema_without_short_waits_is_worked_on() {
    let fixture = Fixture::shared().await;
    let sql = fixture.sql().await;
    for (timeout, wait) in [("1s", "300"), ("10ms", "4"), ("1min", "300")] {
        sql.batch_execute(&format!("SET deadlock_timeout = '{timeout}'")).await.unwrap();
        let row = sql.query_one(&fixture.text("SELECT windlass.short_wait()"), &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), wait, "{timeout}");
    }
    let store = fixture.store().await;
    let ids = store.enqueue(&jobs(3)).await.unwrap();
    sql.batch_execute(&fixture.text("DROP FUNCTION windlass.short_wait()")).await.unwrap();
    assert_eq!(store.cancel(&ids).await.unwrap(), [CancelReply::Cancelled; 3]);
}

/// Which rows of the log are to be stepped over is known by their place since table version 22: a migration finds it, also of a job that stood in the log
/// before, and forgets an entry without a row.
#[tokio::test]
async fn cancelled_jobs_are_stepped_over_after_a_migration() {
    let fixture = Fixture::shared().await;
    let (store, sql): (Arc<dyn Store>, _) = (Arc::new(fixture.store().await), fixture.sql().await);
    let worker = worker(&store, &[QUEUE], &[], LATER).await;
    let ids = store.enqueue(&jobs(40)).await.unwrap();
    let failed = worker.take_one().await;
    let error = Disposition::Retry { delay: std::time::Duration::ZERO, error: "again".into() };
    worker.settle(vec![], vec![failed.exception(error)]).await;
    store.promote(10).await.unwrap();
    let cancelled = [&[failed.job.id], &ids[10..20]].concat();
    store.cancel(&cancelled).await.unwrap();
    let older = "INSERT INTO windlass.cancelled_in_log SELECT 1000000, max(lane_id), '9' FROM windlass.cancelled_in_log;
        ALTER TABLE windlass.cancelled_in_log DROP COLUMN xid; CREATE INDEX cancelled_in_log_lane ON windlass.cancelled_in_log (lane_id);
        DROP TABLE windlass.no_handler; DROP TRIGGER no_handler ON windlass.waiting; ALTER TABLE windlass.waiting DROP COLUMN xid; DROP TABLE windlass.came_back; ALTER TABLE windlass.worker DROP COLUMN draining_at, DROP COLUMN program, DROP COLUMN app_version, DROP COLUMN engine, DROP COLUMN memory_bytes, DROP COLUMN jobs_per_second; DELETE FROM windlass.migration WHERE version >= 22";
    sql.batch_execute(&fixture.text(older)).await.unwrap();
    fixture.store().await.migrate().await.unwrap();
    let left = worker.take(29).await;
    assert!(left.iter().all(|held| !cancelled.contains(&held.job.id)), "{cancelled:?} {left:?}");
    assert!(worker.claim(100).await.is_empty());
    let entries = fixture.text("SELECT count(*) FROM windlass.cancelled_in_log");
    assert_eq!(sql.query_one(&entries, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// Jobs that wait for a handler in an older schema go to a worker that knows them, as do those that come after.
#[tokio::test]
async fn jobs_without_a_handler_are_found_after_a_migration() {
    let fixture = Fixture::shared().await;
    let (store, sql): (Arc<dyn Store>, _) = (Arc::new(fixture.store().await), fixture.sql().await);
    store.enqueue(&jobs(12)).await.unwrap();
    let other = worker(&store, &[QUEUE], &["other"], LATER).await;
    let give_up = async |most| {
        let held = other.take(most).await;
        other.settle(vec![], held.iter().map(|held| held.exception(Disposition::NoHandler)).collect()).await;
    };
    give_up(8).await;
    let older = "DROP TABLE windlass.no_handler; DROP TRIGGER no_handler ON windlass.waiting; ALTER TABLE windlass.waiting DROP COLUMN xid;
        CREATE INDEX waiting_no_handler ON windlass.waiting (lane_id, kind, id) WHERE state = 'no_handler'; 
        ALTER TABLE windlass.worker DROP COLUMN program, DROP COLUMN app_version, DROP COLUMN engine, DROP COLUMN memory_bytes, DROP COLUMN jobs_per_second;
        DELETE FROM windlass.migration WHERE version >= 25";
    sql.batch_execute(&fixture.text(older)).await.unwrap();
    fixture.store().await.migrate().await.unwrap();
    give_up(4).await;
    let knows = worker(&store, &[QUEUE], &[], LATER).await;
    knows.take(12).await;
    assert!(knows.claim(100).await.is_empty());
}

/// A function whose parameters changed is one function, whoever was granted its older form may call it, and an older program's
/// call of it works.
#[tokio::test]
async fn a_function_with_new_parameters_takes_the_place_of_the_older_one() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let role = format!("{}_producer", fixture.schema);
    let enqueue = "enqueue(kind text, args jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 0,
        max_attempts integer DEFAULT 20, scheduled_at timestamptz DEFAULT NULL, key text DEFAULT NULL, meta jsonb DEFAULT NULL,
        tracked boolean DEFAULT false) RETURNS bigint";
    let list = "list_jobs(p_state text, p_queue text, p_kind text, p_after bigint[], p_limit integer,
        p_look_at integer DEFAULT 50000) RETURNS TABLE (next bigint[], job windlass.jobs)";
    let older = fixture.text(&format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {} TO {role};
         DROP FUNCTION windlass.enqueue; DROP FUNCTION windlass.list_jobs;
         CREATE FUNCTION windlass.{enqueue} LANGUAGE sql AS 'SELECT 1::bigint';
         CREATE FUNCTION windlass.{list} LANGUAGE sql AS 'SELECT NULL::bigint[], NULL::windlass.jobs';
         GRANT EXECUTE ON FUNCTION windlass.enqueue TO {role};
         GRANT EXECUTE ON FUNCTION windlass.list_jobs TO {role} WITH GRANT OPTION",
        fixture.schema
    ));
    client.batch_execute(&older).await.unwrap();
    for _ in 0..2 {
        fixture.store().await.migrate().await.unwrap();
        let look = fixture.text(
            "SELECT string_agg(p.proname || ':' || g.is_grantable, ' ' ORDER BY p.proname)
             FROM pg_proc p, aclexplode(p.proacl) g
             WHERE p.pronamespace = $2::text::regnamespace AND g.grantee = $1::text::regrole",
        );
        let granted: String = client.query_one(&look, &[&role, &fixture.schema]).await.unwrap().get(0);
        assert_eq!(granted, "enqueue:false list_jobs:true");
        let forms = fixture.text(
            "SELECT count(*) FROM pg_proc WHERE proname IN ('enqueue', 'list_jobs') AND pronamespace = $1::text::regnamespace",
        );
        assert_eq!(client.query_one(&forms, &[&fixture.schema]).await.unwrap().get::<_, i64>(0), 2);
    }
    let calls = fixture.text(&format!(
        "SET ROLE {role}; SELECT windlass.enqueue('k', '{{}}', 'default', 0, 20, key => 'a'); RESET ROLE"
    ));
    client.batch_execute(&calls).await.unwrap();
    let rows = client
        .query(
            &fixture.text("SELECT (p.job).*, p.next FROM windlass.list_jobs(NULL, NULL, NULL, NULL, 5) p"),
            &[],
        )
        .await
        .unwrap();
    assert_eq!(rows[0].columns()[18].name(), "next", "older programs go by the number");
    assert_eq!(rows[0].get::<_, Option<String>>(15).as_deref(), Some("a"));
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// Where the definitions are of before replace_unique was told for how long the job has its key, a bulk replaces all the same, also in a user's transaction; the key is held as it was.
#[tokio::test]
async fn unique_jobs_are_replaced_under_older_definitions() {
    let fixture = Fixture::fresh().await;
    let (store, mut client) = (fixture.store().await, fixture.sql().await);
    let older = "ALTER FUNCTION windlass.replace_unique RENAME TO replace_of_now;
        CREATE FUNCTION windlass.replace_unique(
            p_key uuid, p_holder bigint, p_lane integer, p_kind text, p_args text, p_max smallint, p_attributes text, p_due timestamptz,
            p_max_wait interval, OUT id bigint, OUT fate smallint) LANGUAGE sql
        AS 'SELECT * FROM windlass.replace_of_now($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL, NULL)'";
    client.batch_execute(&fixture.text(older)).await.unwrap();
    let unique = |key: &str| Unique::by_key(key).on_conflict(OnConflict::Replace { max_wait: None });
    let both = [job().with_unique(unique("a")), job().with_unique(unique("b"))];
    let replaced = |stored: Vec<EnqueuedUnique>| {
        assert!(stored.iter().all(|stored| stored.conflict == Some(Conflict::Replaced)), "{stored:?}");
    };
    store.enqueue_unique(&both).await.unwrap();
    replaced(store.enqueue_unique(&both).await.unwrap());
    // Whoever has not asked yet asks within the transaction.
    let tx = client.transaction().await.unwrap();
    replaced(fixture.store().await.enqueue_unique_in(&tx, &both).await.unwrap());
    tx.commit().await.unwrap();

    store.migrate().await.unwrap();
    let until_started = [job().with_unique(unique("a").until_started()), job().with_unique(unique("c"))];
    store.enqueue_unique(&until_started).await.unwrap();
    let told = fixture.text("SELECT count(*) FROM windlass.unique_key WHERE NOT until_finished");
    assert_eq!(client.query_one(&told, &[]).await.unwrap().get::<_, i64>(0), 1);
}

/// That a job has used its attempts is said to programs that know the word; to those of before a job is left alone in one of theirs. A program of now works on a schema of before, also in one connection
/// through a migration.
#[tokio::test]
async fn older_programs_edit_and_older_definitions_are_edited_with() {
    let fixture = Fixture::fresh().await;
    let (store, client) = (Arc::new(fixture.store().await) as Arc<dyn Store>, fixture.sql().await);
    let id = store.enqueue(&jobs(1)).await.unwrap()[0];
    let worker = worker(&store, &[QUEUE], &[], LATER).await;
    let later = Disposition::Retry { delay: LATER, error: "no".into() };
    assert_eq!(worker.except(&worker.take_one().await, later).await, Settled::Accepted);
    let once = JobEdit::new().with_max_attempts(1);
    assert_eq!(store.edit(&[id], &once).await.unwrap(), [EditReply::AttemptsUsed]);
    let of_before = fixture.text("SELECT windlass.edit_job($1, NULL, NULL, NULL, NULL, 1, NULL)");
    let told = async || client.query_one(&of_before, &[&id.0]).await.unwrap().get::<_, String>(0);
    assert_eq!(told().await, "finished");

    let older = "DROP FUNCTION windlass.edit_job;
        CREATE FUNCTION windlass.edit_job(bigint, timestamptz, double precision, text, integer, integer, json) RETURNS text
            LANGUAGE sql AS $$ SELECT 'edited' $$";
    client.batch_execute(&fixture.text(older)).await.unwrap();
    let store = fixture.store().await;
    assert_eq!(store.edit(&[id], &once).await.unwrap(), [EditReply::Edited]);
    store.migrate().await.unwrap();
    assert_eq!(store.edit(&[id], &once).await.unwrap(), [EditReply::AttemptsUsed]);
    assert_eq!(told().await, "finished");
}

/// Programs of before work until nothing is left by any_available alone, so it tells them of what dead workers hold. Those of now ask for that by itself, and work on a schema of before.
#[tokio::test]
async fn older_programs_are_told_of_what_dead_workers_hold() {
    let fixture = Fixture::fresh().await;
    let (store, client) = (Arc::new(fixture.store().await) as Arc<dyn Store>, fixture.sql().await);
    store.enqueue(&jobs(1)).await.unwrap();
    worker(&store, &[QUEUE], &[], TINY_LEASE).await.take_one().await;
    let queues = [QUEUE.to_owned()];
    let of_before = fixture.text(&format!("SELECT windlass.any_available('{{{QUEUE}}}', '{{}}')"));
    let told = async || client.query_one(&of_before, &[]).await.unwrap().get::<_, bool>(0);
    eventually("the lease is over", || async { told().await.then_some(()) }).await;
    assert!(!store.any_available(&queues, &[]).await.unwrap());
    store.pause(QUEUE, true).await.unwrap();
    assert!(!told().await);

    let older = "ALTER FUNCTION windlass.available_now RENAME TO available_of_now;
        CREATE OR REPLACE FUNCTION windlass.any_available(p_queues text[], p_kinds text[]) RETURNS boolean LANGUAGE sql AS 'SELECT true'";
    client.batch_execute(&fixture.text(older)).await.unwrap();
    let store = fixture.store().await;
    for _ in 0..2 {
        assert!(store.any_available(&queues, &[]).await.unwrap());
    }
    store.migrate().await.unwrap();
    assert!(!store.any_available(&queues, &[]).await.unwrap());
}

/// A schema that an older program made has no batches of results; they are kept one by one there.
#[tokio::test]
async fn an_older_schema_keeps_results_too() {
    let fixture = Fixture::shared().await;
    let drop = fixture.text(
        "DROP FUNCTION windlass.settle_with_results(integer, integer[], bigint[], integer[], integer[], integer[], bigint[],
             bigint[], json, bigint[], integer[], bigint[], text[], json[])",
    );
    fixture.sql().await.batch_execute(&drop).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let ids = store.enqueue(&jobs(2)).await.unwrap();
    let worker = worker(&store, &[QUEUE], &[], LATER).await;
    for held in worker.take(2).await {
        let result = Args::parse(&held.job.id.to_string()).ok();
        assert_eq!(worker.except(&held, Disposition::Complete { result }).await, Settled::Accepted);
    }
    for id in ids {
        let kept = store.job(id).await.unwrap().unwrap().result;
        assert_eq!(kept.as_ref().map(Args::as_str), Some(id.to_string().as_str()));
    }
}

/// `migrate=auto` makes the schema, brings one of an older program up to date, and leaves the others alone.
#[tokio::test]
async fn connecting_migrates_where_the_url_says_so() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let connect = |parameter: &'static str| {
        let separator = if fixture.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}migrate={parameter}", fixture.url);
        let options = fixture.options.clone();
        async move { PostgresStore::connect(&url, options).await }
    };
    let refused = connect("always").await.map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("use auto or never"), "{refused}");

    client.batch_execute(&format!("DROP SCHEMA {} CASCADE", fixture.schema)).await.unwrap();
    let error = connect("never").await.unwrap().enqueue(&jobs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMissing);
    let (one, other) = tokio::join!(connect("auto"), connect("auto"));
    one.unwrap().enqueue(&jobs(1)).await.expect("the schema is there");
    other.unwrap().enqueue(&jobs(1)).await.expect("for both");

    let damage = "CREATE OR REPLACE FUNCTION windlass.current_segment() RETURNS smallint LANGUAGE sql AS 'SELECT 99::smallint'";
    client.batch_execute(&fixture.text(damage)).await.unwrap();
    let segment = fixture.text("SELECT windlass.current_segment()");
    connect("auto").await.unwrap();
    assert_eq!(client.query_one(&segment, &[]).await.unwrap().get::<_, i16>(0), 99, "nothing was to do");
    for (program, expected) in [("99.0.0", 99), ("0.0.9", 0)] {
        let note = format!("COMMENT ON TABLE windlass.migration IS 'definitions of windlass {program}'");
        client.batch_execute(&fixture.text(&note)).await.unwrap();
        connect("auto").await.unwrap();
        assert_eq!(client.query_one(&segment, &[]).await.unwrap().get::<_, i16>(0), expected, "{program}");
    }
}

/// An older program that migrates (a container of before a deploy, an application that was rolled back) leaves what a newer one of the same tables defined: beside a function with a new parameter its
/// older form would be a second of that name, and no call would say which it means.
#[tokio::test]
async fn an_older_program_replaces_no_definition_of_a_newer_one() {
    let fixture = Fixture::fresh().await;
    let (store, client) = (fixture.store().await, fixture.sql().await);
    assert!(!store.migrate().await.unwrap().newer, "it is of this program");
    let newer = fixture.text(
        "ALTER FUNCTION windlass.heartbeat RENAME TO heartbeat_29;
         CREATE FUNCTION windlass.heartbeat(integer, bigint, integer[], bigint[], bigint DEFAULT NULL, double precision DEFAULT NULL, p_new text DEFAULT NULL) RETURNS void
             LANGUAGE sql AS 'SELECT windlass.heartbeat_29($1, $2, $3, $4, $5, $6)';
         COMMENT ON TABLE windlass.migration IS 'definitions of windlass 99.0.0'",
    );
    client.batch_execute(&newer).await.unwrap();
    let report = store.migrate().await.unwrap();
    assert!(report.newer && report.from == report.to, "{report:?}");
    let seam: Arc<dyn Store> = Arc::new(store);
    let worker = worker(&seam, &[QUEUE], &[], LATER).await;
    seam.heartbeat(worker.id).await.expect("there is one function of the name");

    // Its functions work on a name that is nobody's: better ours than none.
    let rename = format!("ALTER SCHEMA {} RENAME TO other", fixture.schema);
    client.batch_execute(&rename).await.unwrap();
    let url = fixture.url.replace(&format!("schema={}", fixture.schema), "schema=other&migrate=auto");
    let store = PostgresStore::connect(&url, fixture.options.clone()).await.expect("defines them anew");
    store.enqueue(&jobs(1)).await.expect("works on the new name");
}

/// The rule for older programs: a newer schema names the oldest that may work on it, and its definitions are
/// not replaced by theirs.
#[tokio::test]
async fn a_newer_schema_says_which_programs_may_work() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let newer = fixture.text(
        "INSERT INTO windlass.migration (version, compatible_with) VALUES (1000, 1);
         CREATE OR REPLACE FUNCTION windlass.ids_of(p_ranges bigint[]) RETURNS bigint[] LANGUAGE sql AS 'SELECT ARRAY[7::bigint]'",
    );
    client.batch_execute(&newer).await.unwrap();
    let store = fixture.store().await;
    store.enqueue(&jobs(1)).await.expect("an older program goes on");
    let report = store.migrate().await.expect("has nothing to do");
    assert_eq!((report.from, report.to, report.newer), (1000, 1000, true));
    let look = fixture.text("SELECT windlass.ids_of('{}')");
    assert_eq!(
        client.query_one(&look, &[]).await.unwrap().get::<_, Vec<i64>>(0),
        [7],
        "the newer definition stays"
    );

    let breaking = fixture.text("UPDATE windlass.migration SET compatible_with = 1000 WHERE version = 1000");
    client.batch_execute(&breaking).await.unwrap();
    for refused in [
        PostgresStore::connect(&fixture.url, fixture.options.clone()).await.map(|_| ()).unwrap_err(),
        store.migrate().await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::SchemaTooNew);
        assert!(refused.to_string().contains("version 1000"), "{refused}");
    }
}
