//! Schemas that were renamed, restored in part, or hold what others made there; and roles with settings of their own.

use crate::{cluster::Fixture, session::Session};
use std::sync::Arc;
use windlass_conformance::steps::{LATER, enqueue_jobs, eventually, worker_on};
use windlass_core::{ErrorKind, JobStore, Load, Program, Store, WorkerSpec};
use windlass_postgres::{Access, PostgresOptions, PostgresStore};

async fn connect(url: &str) -> windlass_core::Result<PostgresStore> {
    PostgresStore::connect(url, PostgresOptions::default()).await
}

#[tokio::test]
async fn a_renamed_schema_is_refused_until_its_functions_are_defined_anew() {
    let fixture = Fixture::shared().await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let all = enqueue_jobs(&store, 5).await;
    assert_eq!(worker_on(&store).await.drain_some(2).await.len(), 2);
    let (sql, name) = (fixture.sql().await, &fixture.schema);
    sql.batch_execute(&format!("ALTER SCHEMA {name} RENAME TO {name}_new")).await.unwrap();
    // Another one of the old name: what the functions of the renamed one name is there.
    fixture.store().await.migrate().await.unwrap();
    let renamed = format!("{}_new", fixture.url);
    let refused = connect(&renamed).await.err().expect("its functions work on the other schema");
    assert_eq!(refused.kind(), ErrorKind::SchemaMissing, "{refused}");
    assert!(refused.to_string().contains("migrate=auto"), "{refused}");
    let store: Arc<dyn Store> =
        Arc::new(connect(&format!("{renamed}&migrate=auto")).await.expect("migrates"));
    connect(&renamed).await.expect("is in order");
    let more = store.enqueue(&windlass_conformance::steps::jobs(1)).await.unwrap();
    let rest = worker_on(&store).await.drain(10).await;
    assert_eq!((rest.len(), rest.contains(&more[0]), rest.contains(&all[4])), (4, true, true));
}

#[tokio::test]
async fn a_schema_without_its_data_is_told_from_one_that_is_not_there() {
    let fixture = Fixture::shared().await;
    // As pg_dump --schema-only leaves it.
    let empty = "DO $$ DECLARE t regclass; BEGIN FOR t IN SELECT c.oid FROM pg_class c WHERE relkind = 'r' AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'windlass.job'::regclass)
                 LOOP EXECUTE format('DELETE FROM %s', t); END LOOP; END $$";
    fixture.sql().await.batch_execute(&fixture.text(empty)).await.unwrap();
    let store = connect(&fixture.url).await.unwrap();
    let spec = WorkerSpec {
        name: "w".to_owned(),
        queues: vec!["q".to_owned()],
        kinds: vec![],
        lease: LATER,
        program: Program::default(),
    };
    for refused in [
        store.migrate().await.expect_err("there are tables"),
        store.enqueue(&windlass_conformance::steps::jobs(1)).await.expect_err("there is no segment"),
        store.register(&spec).await.expect_err("there is nothing to work on"),
    ] {
        assert_eq!(refused.kind(), ErrorKind::SchemaMissing, "{refused}");
        assert!(refused.to_string().contains("--schema-only"), "{refused}");
    }
}

/// The rows of a migration are there already: those of the dump are refused, but for the one that says that the log came from elsewhere. Where triggers are switched off that one is refused, too.
#[tokio::test]
async fn data_that_are_restored_into_a_migrated_schema_are_worked_on() {
    let copied = "INSERT INTO windlass.home (one, xid, system) SELECT one, xid, system FROM windlass.home";
    for how in [
        copied.to_owned(),
        format!("SET session_replication_role = replica; {copied}"), // as some tools restore
        "ALTER TABLE windlass.home DISABLE TRIGGER ALL; ALTER TABLE windlass.home ENABLE TRIGGER ALL"
            .to_owned(), // pg_dump --disable-triggers
    ] {
        let fixture = Fixture::shared().await;
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        let all = enqueue_jobs(&store, 5).await;
        let worker = worker_on(&store).await;
        let held = worker.claim(2).await;
        worker.complete_claims(&held).await;
        let sql = fixture.sql().await;
        sql.batch_execute(&fixture.text(&how)).await.expect("takes the place of the other");
        let store: Arc<dyn Store> = Arc::new(fixture.store().await);
        store.promote(100).await.unwrap();
        let mut rest = worker_on(&store).await.drain(10).await;
        rest.sort_unstable();
        assert_eq!(rest, all[2..], "{how}: unfinished jobs come again, the others do not");
        let state = sql.query_one(&fixture.text("SELECT windlass.home_state()"), &[]).await.unwrap();
        assert_eq!(state.get::<_, &str>(0), "home", "{how}");
    }
}

#[tokio::test]
async fn what_others_keep_in_the_schema_is_left_to_them() {
    let fixture = Fixture::fresh().await;
    let (sql, other) = (fixture.sql().await, format!("{}_other", fixture.name));
    let owner = fixture.role("owner", &[]).await;
    let roles = format!("GRANT CREATE ON DATABASE {0} TO {0}_owner; CREATE ROLE {other}", fixture.name);
    sql.batch_execute(&roles).await.unwrap();
    let store = connect(&format!("{owner}_owned")).await.unwrap();
    store.migrate().await.unwrap();
    let schema = format!("{}_owned", fixture.schema);
    let own = format!(
        "GRANT USAGE, CREATE ON SCHEMA {schema} TO {other}; SET ROLE {other};
         CREATE FUNCTION {schema}.theirs() RETURNS integer LANGUAGE sql AS 'SELECT 1'; REVOKE ALL ON FUNCTION {schema}.theirs() FROM PUBLIC;
         SET ROLE {0}_owner; CREATE FUNCTION {schema}.ours() RETURNS integer LANGUAGE sql AS 'SELECT 2'",
        fixture.name
    );
    sql.batch_execute(&own).await.unwrap();
    store.migrate().await.expect("migrates beside a function of another role");
    let everybodys = format!(
        "SELECT string_agg(p.proname, ' ') FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         WHERE p.pronamespace = '{schema}'::regnamespace AND a.grantee = 0"
    );
    let row = sql.query_one(&everybodys, &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "ours", "nothing of Windlass's is everybody's");
    sql.batch_execute(&format!("RESET ROLE; DROP OWNED BY {other}; DROP ROLE {other}")).await.unwrap();
}

/// Somebody grants on one of our functions and has not committed yet: PostgreSQL refuses the second who does.
#[tokio::test]
async fn a_migration_goes_on_beside_who_grants() {
    let s = Session::of(Fixture::shared().await).await;
    let role = format!("{}_granted", s.fixture.schema);
    let mut other = s.fixture.sql().await;
    other.batch_execute(&format!("CREATE ROLE {role}")).await.unwrap();
    let open = other.transaction().await.unwrap();
    let grant = format!("GRANT EXECUTE ON FUNCTION windlass.enqueue, windlass.claim TO {role}");
    open.batch_execute(&s.fixture.text(&grant)).await.unwrap();
    let store = s.fixture.store().await;
    let granted = s.fixture.store().await;
    let migration = tokio::spawn(async move { store.migrate().await });
    let pid: i32 = open.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let waiting =
        format!("SELECT count(*) FROM pg_stat_activity a WHERE {pid} = ANY (pg_blocking_pids(a.pid))");
    let look = || async { (s.value::<i64>(&waiting).await > 0).then_some(()) };
    eventually("the migration waits for the grant", look).await;
    open.commit().await.unwrap();
    migration.await.unwrap().expect("begins again");
    granted.grant(Access::Worker, &role).await.unwrap();
    other.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// Behind a transaction-mode pooler the settings of the role hold.
#[tokio::test]
async fn programs_that_migrate_at_once_behind_a_pooler_mind_no_settings_of_their_role() {
    let fixture = Fixture::with("&pooler=transaction").await;
    let (sql, role) = (fixture.sql().await, format!("{}_strict", fixture.schema));
    let set = format!(
        "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET default_transaction_isolation = 'serializable';
         ALTER ROLE {role} SET statement_timeout = '50ms'; ALTER ROLE {role} SET lock_timeout = '1ms'; DROP SCHEMA {} CASCADE",
        fixture.schema
    );
    sql.batch_execute(&set).await.unwrap();
    let url = fixture.url.replacen("//postgres", &format!("//{role}"), 1) + "&migrate=auto";
    let (one, other, third) = tokio::join!(connect(&url), connect(&url), connect(&url));
    for store in [one, other, third] {
        store.expect("migrates, or waits for who does").close().await;
    }
    sql.batch_execute(&format!(
        "REASSIGN OWNED BY {role} TO postgres; DROP OWNED BY {role}; DROP ROLE {role}"
    ))
    .await
    .unwrap();
}

/// Of what workers say all digits count, whatever the role would see of them.
#[tokio::test]
async fn a_role_that_sees_few_digits_is_told_all() {
    let fixture = Fixture::with("&options=-c%20extra_float_digits%3D-15").await;
    let store: Arc<dyn Store> = Arc::new(fixture.store().await);
    let worker = worker_on(&store).await;
    let load = Load { memory_bytes: None, jobs_per_second: Some(2_604.5) };
    store.heartbeat_with(worker.id, load).await.unwrap();
    assert_eq!(store.status().await.unwrap().workers[0].load, load);
}
