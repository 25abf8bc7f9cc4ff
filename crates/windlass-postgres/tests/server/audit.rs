//! The audit log by SQL: who may do what, what is refused, and schemas that have none yet.

use crate::cluster::Fixture;
use windlass_conformance::steps::LEASE;
use windlass_core::{
    AuditEntry, AuditFilter, AuditStore, ErrorKind, JobStore, Program, Settings, WorkerSpec,
};
use windlass_postgres::{Access, PostgresStore};

async fn open(fixture: &Fixture, url: &str) -> PostgresStore {
    PostgresStore::connect(url, fixture.options.clone()).await.expect("connects")
}

fn entry() -> AuditEntry {
    AuditEntry::new("anna", "queues.pause", "mail")
}

/// An operator adds and reads, a viewer reads, and nobody but the owner changes or removes what was said.
#[tokio::test]
async fn the_log_is_append_only() {
    let fixture = Fixture::shared().await;
    let url = |access| fixture.role(if access == Access::Viewer { "viewer" } else { "operator" }, &[]);
    let (viewer, operator) = (url(Access::Viewer).await, url(Access::Operator).await);
    let owner = fixture.store().await;
    for (access, url) in [(Access::Viewer, &viewer), (Access::Operator, &operator)] {
        let role = url.trim_start_matches("postgres://").split('@').next().unwrap();
        owner.grant(access, role).await.expect("grants");
    }
    let operator_store = open(&fixture, &operator).await;
    operator_store.append_audit(&[entry()]).await.expect("an operator adds");
    let viewer_store = open(&fixture, &viewer).await;
    for store in [&viewer_store, &operator_store] {
        let page = store.audit(&AuditFilter::default()).await.expect("both read");
        assert_eq!(page.entries.len(), 1);
    }
    let error = viewer_store.append_audit(&[entry()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("windlass grant operator"), "{error}");
    let worker = open(&fixture, &fixture.role("worker", &[Access::Worker]).await).await;
    worker.maintain().await.expect("keeps house");
    let error = worker.audit(&AuditFilter::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");

    let operator = crate::cluster::connect(operator.split('?').next().unwrap()).await;
    for change in [
        "DELETE FROM windlass.audit_entry",
        "UPDATE windlass.audit_entry SET actor = 'x'",
        "TRUNCATE windlass.audit_entry",
        "DELETE FROM windlass.audit",
        "INSERT INTO windlass.audit_entry (actor, via, action, target, outcome) VALUES ('x', 'x', 'x', 'x', 'x')",
        "SELECT windlass.forget_audit(1)",
    ] {
        let error = operator.batch_execute(&fixture.text(change)).await.expect_err(change);
        assert_eq!(error.code().expect("from the server").code(), "42501", "{change}");
    }
}

/// psql users read the view, and may write entries of their own; the role that wrote is noted, whoever the entry names.
#[tokio::test]
async fn the_view_tells_who_wrote() {
    let fixture = Fixture::shared().await;
    let url = fixture.role("operator", &[Access::Operator]).await;
    let client = crate::cluster::connect(url.split('?').next().unwrap()).await;
    let append = r#"SELECT windlass.append_audit('[{"actor": "anna", "action": "by hand", "target": "job 7", "filter": {"a": 1}, "count": 3}]')"#;
    assert_eq!(client.query_one(&fixture.text(append), &[]).await.unwrap().get::<_, i64>(0), 1);
    let read = "SELECT actor || '|' || via || '|' || action || '|' || target || '|' || filter || '|' || count || '|' || outcome || '|' || login FROM windlass.audit";
    let told: String = client.query_one(&fixture.text(read), &[]).await.unwrap().get(0);
    assert_eq!(told, format!("anna|sql|by hand|job 7|{{\"a\": 1}}|3|done|{}_operator", fixture.schema));
}

#[tokio::test]
async fn nonsense_is_refused_by_sql() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let long =
        format!(r#"append_audit('[{{"actor": "{}", "action": "b", "target": "c"}}]')"#, "x".repeat(201));
    for (call, says) in [
        ("append_audit(NULL)", "a JSON array"),
        ("append_audit('{}')", "a JSON array"),
        (r#"append_audit('[{"actor": "a", "action": "b"}]')"#, "actor, action and target"),
        (r#"append_audit('[{"actor": "", "action": "b", "target": "c"}]')"#, "actor, action and target"),
        (&*long, "too long"),
        ("configure_audit('-1 day')", "0 to 100 years, got -1 days"),
        ("configure_audit(most => 0)", "1 to 1000000000, got 0"),
    ] {
        let sql = fixture.text(&format!("SELECT windlass.{call}"));
        let error = client.batch_execute(&sql).await.expect_err(call);
        let error = error.as_db_error().expect("from the server");
        assert!(error.message().contains(says), "{call}: {}", error.message());
        let kind = windlass_postgres::sqlstate_error(error.code().code(), error.message()).kind();
        assert_eq!(kind, ErrorKind::InvalidOption);
    }
    let store = fixture.store().await;
    assert_eq!(store.settings().await.unwrap(), Settings::DEFAULT);
    assert_eq!(store.audit(&AuditFilter::default()).await.unwrap().entries, []);
}

/// What it is marked with is younger than nothing then.
#[tokio::test]
async fn a_deploy_is_marked_once_though_the_clock_was_set_back() {
    let fixture = Fixture::shared().await;
    let (store, client) = (fixture.store().await, fixture.sql().await);
    for version in ["1", "2"] {
        let program =
            Program { name: Some("shop".into()), app_version: Some(version.into()), ..Program::default() };
        let (name, queues) = ("test".to_owned(), vec!["default".to_owned()]);
        let spec = WorkerSpec { name, queues, kinds: vec![], lease: LEASE, program };
        store.register(&spec).await.expect("registers");
    }
    // What a server whose clock was set back by an hour would have stored.
    let back = "UPDATE windlass.worker SET started_at = started_at + interval '1 hour'";
    client.batch_execute(&fixture.text(back)).await.unwrap();
    for _ in 0..3 {
        store.maintain().await.expect("keeps house");
    }
    let page = store.audit(&AuditFilter::default()).await.unwrap();
    let marks: Vec<_> = page.entries.iter().map(|record| &*record.entry.target).collect();
    assert_eq!(marks, ["shop 2"]);
}

/// On a schema that an older program made everything else works, and what is missing says what to do.
#[tokio::test]
async fn a_schema_without_it_is_worked_on() {
    let fixture = Fixture::shared().await;
    let drop = "DROP TABLE windlass.audit_entry CASCADE; DROP TABLE windlass.audit_setting CASCADE;
        DROP FUNCTION windlass.append_audit, windlass.configure_audit; DELETE FROM windlass.migration WHERE version >= 16";
    let drop = drop.to_owned()
        + "; DROP FUNCTION IF EXISTS windlass.audit_page; DROP FUNCTION IF EXISTS windlass.forget_audit;
        DROP TABLE windlass.timing, windlass.failure, windlass.timing_kept CASCADE; ALTER TABLE windlass.worker DROP COLUMN beat, DROP COLUMN draining_at, DROP COLUMN program, DROP COLUMN app_version, DROP COLUMN engine, DROP COLUMN memory_bytes, DROP COLUMN jobs_per_second; DROP TABLE windlass.no_handler; DROP TRIGGER no_handler ON windlass.waiting; ALTER TABLE windlass.waiting DROP COLUMN xid; DROP TABLE windlass.came_back; DROP FUNCTION IF EXISTS windlass.mark_deploys; ALTER TABLE windlass.cancelled_in_log DROP COLUMN xid;
        DROP TABLE windlass.key_ended, windlass.key_looked, windlass.key_lookahead CASCADE; ALTER TABLE windlass.key_limit DROP COLUMN rate, DROP COLUMN rate_period;
        ALTER TABLE windlass.queue DROP COLUMN key_rates; ALTER TABLE windlass.key_room DROP COLUMN ended; ALTER TABLE windlass.key_turn DROP COLUMN due_at";
    fixture.sql().await.batch_execute(&fixture.text(&drop)).await.unwrap();
    let store = fixture.store().await;
    assert_eq!(store.settings().await.expect("settings"), Settings::DEFAULT);
    let week = Settings::DEFAULT.with_retention(std::time::Duration::from_secs(7 * 86_400));
    store.configure(&week).await.expect("configure");
    assert_eq!(store.settings().await.expect("settings"), week);
    store.maintain().await.expect("maintain");
    let refused = [
        store.append_audit(&[entry()]).await.unwrap_err(),
        store.audit(&AuditFilter::default()).await.unwrap_err(),
        store.configure(&week.with_audit_retention(std::time::Duration::ZERO)).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::SchemaTooOld, "{error}");
        assert!(error.to_string().contains("windlass migrate"), "{error}");
    }
    store.migrate().await.expect("migrates");
    store.append_audit(&[entry()]).await.expect("there it is");
    assert_eq!(store.audit(&AuditFilter::default()).await.unwrap().entries.len(), 1);
    assert_eq!(store.settings().await.expect("settings"), week);
}

/// The newest are kept, as many as the setting says.
#[tokio::test]
async fn too_many_are_removed() {
    let fixture = Fixture::shared().await;
    let store = fixture.store().await;
    let entries: Vec<_> = (0..12).map(|n| AuditEntry::new("ci", "jobs.cancel", n.to_string())).collect();
    store.append_audit(&entries).await.unwrap();
    store.maintain().await.expect("maintain");
    assert_eq!(store.audit(&AuditFilter::default()).await.unwrap().entries.len(), 12);
    let most = fixture.text("SELECT windlass.configure_audit(most => 5)");
    fixture.sql().await.batch_execute(&most).await.unwrap();
    assert_eq!(store.settings().await.unwrap(), Settings::DEFAULT);
    store.maintain().await.expect("maintain");
    let left = store.audit(&AuditFilter::default()).await.unwrap().entries;
    let left: Vec<_> = left.iter().map(|record| &*record.entry.target).collect();
    assert_eq!(left, ["11", "10", "9", "8", "7"]);
}

/// Times that PostgreSQL does not know are told apart from none.
#[tokio::test]
async fn any_time_is_a_time() {
    let fixture = Fixture::shared().await;
    let store = fixture.store().await;
    store.append_audit(&[entry()]).await.unwrap();
    for (since, found) in
        [("-009999-01-03T00:00:00Z", 1), ("1960-01-01T00:00:00Z", 1), ("9999-12-30T00:00:00Z", 0)]
    {
        let filter = AuditFilter { since: Some(since.parse().unwrap()), ..AuditFilter::default() };
        assert_eq!(store.audit(&filter).await.unwrap().entries.len(), found, "{since}");
    }
}
