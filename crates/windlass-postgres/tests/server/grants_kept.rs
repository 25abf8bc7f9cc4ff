//! Granting, taking away, and what migrations make of what was granted.

use crate::cluster::{Fixture, WITHOUT_EVENTS, WITHOUT_LIMITS};
use std::sync::Arc;
use windlass_conformance::steps::{LATER, QUEUE, job, jobs, worker};
use windlass_core::{Args, Disposition, ErrorKind, JobFilter, JobStore, Settled, Store};
use windlass_postgres::{Access, PostgresStore};

async fn open(fixture: &Fixture, url: &str) -> PostgresStore {
    PostgresStore::connect(url, fixture.options.clone()).await.expect("connects")
}

/// The name of the role that the URL logs in as.
fn name_of(url: &str) -> &str {
    url.trim_start_matches("postgres://").split('@').next().unwrap()
}

/// A job goes its way, with a result, by this store.
async fn works(store: PostgresStore) {
    let store: Arc<dyn Store> = Arc::new(store);
    let id = store.enqueue(&[job().with_queue("results")]).await.expect("enqueues")[0];
    let worker = worker(&store, &["results"], &[], LATER).await;
    let result = Args::parse("7").ok();
    let held = worker.take_one().await;
    assert_eq!(held.job.id, id);
    assert_eq!(worker.except(&held, Disposition::Complete { result }).await, Settled::Accepted);
    store.maintain().await.expect("maintains");
    store.deregister(worker.id).await.expect("deregisters");
}

/// What a version adds is granted to those who were granted their access before it.
#[tokio::test]
async fn a_migration_grants_what_is_new() {
    let fixture = Fixture::shared().await;
    let producer = fixture.role("p", &[Access::Producer]).await;
    let viewer = fixture.role("v", &[Access::Viewer]).await;
    let worker = fixture.role("w", &[Access::Worker]).await;
    let owner = fixture.sql().await;
    for older in [
        // A program whose functions were fewer.
        "DROP FUNCTION windlass.settle_with_results; DROP FUNCTION windlass.take_key; DROP FUNCTION windlass.lane_of;
         DROP FUNCTION windlass.rescue; DROP FUNCTION windlass.maintain; DROP FUNCTION windlass.lane_counts CASCADE"
            .to_owned(),
        // Schema version 1, whose views were others.
        WITHOUT_EVENTS.to_owned()
            + WITHOUT_LIMITS
            + "DELETE FROM windlass.migration WHERE version >= 2; DROP TABLE windlass.cancel_request, windlass.unique_key, windlass.job_report,
             windlass.retention_rule, windlass.retention_pass, windlass.counter, windlass.counter_fold;
             DROP TABLE windlass.schedule CASCADE;
         DROP FUNCTION windlass.settle_with_results;
         DROP FUNCTION windlass.result_of CASCADE; TRUNCATE windlass.result;
         ALTER TABLE windlass.result DROP COLUMN jobs, DROP COLUMN results, ALTER COLUMN result SET NOT NULL",
    ] {
        owner.batch_execute(&fixture.text(&older)).await.expect(&older);
        fixture.store().await.migrate().await.expect("migrates");
        works(open(&fixture, &worker).await).await;
        let producer = open(&fixture, &producer).await;
        producer.enqueue(&jobs(20)).await.expect("enqueues");
        producer.enqueue_once(&older[..40], &jobs(20)).await.expect("enqueues once");
        let viewer = open(&fixture, &viewer).await;
        assert!(viewer.jobs(&JobFilter::default()).await.expect("lists").len() > 40);
        viewer.queues().await.expect("counts");
    }
    let granted = fixture.store().await.granted().await.unwrap();
    let expected = [(&producer, Access::Producer), (&viewer, Access::Viewer), (&worker, Access::Worker)];
    assert_eq!(granted, expected.map(|(url, access)| (name_of(url).to_owned(), access)));
}

/// What nobody granted by name is not widened: a right given by hand stays what it is.
#[tokio::test]
async fn a_migration_grants_nothing_else() {
    let fixture = Fixture::shared().await;
    let url = fixture.role("hand", &[]).await;
    let by_hand = format!(
        "GRANT USAGE ON SCHEMA {} TO {role}; GRANT EXECUTE ON FUNCTION windlass.cancel TO {role}",
        fixture.schema,
        role = name_of(&url)
    );
    fixture.sql().await.batch_execute(&fixture.text(&by_hand)).await.unwrap();
    fixture.store().await.migrate().await.unwrap();
    let store = open(&fixture, &url).await;
    store.cancel(&[windlass_core::JobId(1)]).await.expect("as before");
    assert_eq!(store.pause(QUEUE, true).await.unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(fixture.store().await.granted().await.unwrap(), []);
}

/// Neither waits for the other, as with the owner.
#[tokio::test]
async fn a_migration_waits_for_no_open_transaction_of_a_role() {
    let fixture = Fixture::shared().await;
    let url = fixture.role("p", &[Access::Producer]).await;
    let store = open(&fixture, &url).await;
    let mut client = crate::cluster::connect(url.split('?').next().unwrap()).await;
    let transaction = client.transaction().await.unwrap();
    store.enqueue_in(&transaction, &jobs(50)).await.unwrap();
    fixture.store().await.migrate().await.expect("migrates beside an open transaction");
    store.enqueue_in(&transaction, &jobs(1)).await.unwrap();
    transaction.commit().await.unwrap();
}

/// `migrate=auto` is for owners; a role that was granted access connects with it while there is nothing to do.
#[tokio::test]
async fn a_role_connects_to_what_needs_no_migration() {
    let fixture = Fixture::shared().await;
    let url = format!("{}&migrate=auto", fixture.role("p", &[Access::Producer]).await);
    open(&fixture, &url).await.enqueue(&jobs(1)).await.unwrap();
    let older = fixture.text("COMMENT ON TABLE windlass.migration IS 'definitions of windlass 0.0.1'");
    fixture.sql().await.batch_execute(&older).await.unwrap();
    let error = PostgresStore::connect(&url, fixture.options.clone()).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("connect as \"postgres\""), "{error}");
}

#[tokio::test]
async fn what_is_taken_away_is_gone_and_the_rest_stays() {
    let fixture = Fixture::shared().await;
    let owner = fixture.store().await;
    let url = fixture.role("both", &[Access::Worker, Access::Operator]).await;
    let role = name_of(&url);
    owner.grant(Access::Worker, role).await.expect("once more");
    assert!(!owner.revoke(Access::Viewer, role).await.unwrap(), "it had no such access");
    assert!(owner.revoke(Access::Operator, role).await.unwrap());
    let store = open(&fixture, &url).await;
    let kind = |error: windlass_core::Error| error.kind();
    assert_eq!(store.pause(QUEUE, true).await.map_err(kind), Err(ErrorKind::PermissionDenied));
    assert_eq!(store.queues().await.map_err(kind), Err(ErrorKind::PermissionDenied));
    works(open(&fixture, &url).await).await;
    owner.grant(Access::Producer, role).await.unwrap();
    assert!(owner.revoke(Access::Worker, role).await.unwrap());
    assert_eq!(store.maintain().await.map_err(kind), Err(ErrorKind::PermissionDenied));
    store.enqueue(&jobs(20)).await.expect("still a producer");
    assert!(owner.revoke(Access::Producer, role).await.unwrap());
    assert_eq!(store.enqueue(&jobs(20)).await.map_err(kind), Err(ErrorKind::PermissionDenied));
    assert!(!owner.revoke(Access::Producer, role).await.unwrap());
    fixture.sql().await.batch_execute(&format!("DROP ROLE {role}")).await.expect("it has no right left");
}

#[tokio::test]
async fn bad_names_say_what_to_do() {
    let fixture = Fixture::shared().await;
    let owner = fixture.store().await;
    for (role, kind, words) in [
        ("", ErrorKind::InvalidName, "empty"),
        ("public", ErrorKind::InvalidName, "everybody"),
        ("nobody_here", ErrorKind::NotFound, "CREATE ROLE \"nobody_here\" LOGIN"),
        ("x\"; DROP SCHEMA y; --", ErrorKind::NotFound, "does not exist"),
        ("postgres", ErrorKind::InvalidOption, "owns schema"),
    ] {
        for error in [
            owner.grant(Access::Worker, role).await.unwrap_err(),
            owner.revoke(Access::Worker, role).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    let odd = format!("{} \"Web\"; é", fixture.schema);
    let create = format!("CREATE ROLE \"{}\"", odd.replace('"', "\"\""));
    fixture.sql().await.batch_execute(&create).await.unwrap();
    owner.grant(Access::Viewer, &odd).await.expect("an odd name is a name");
    assert_eq!(owner.granted().await.unwrap(), [(odd.clone(), Access::Viewer)]);
    owner.migrate().await.expect("also when it is granted anew");
    assert!(owner.revoke(Access::Viewer, &odd).await.unwrap());

    let missing = fixture.url.replace(&fixture.schema, "not_there");
    let error = open(&fixture, &missing).await.grant(Access::Viewer, &odd).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMissing, "{error}");
    let operator = open(&fixture, &fixture.role("operator", &[Access::Operator]).await).await;
    let error = operator.grant(Access::Viewer, &odd).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("connect as \"postgres\""), "{error}");
}

/// The printed statements do the same, piped through psql.
#[tokio::test]
async fn the_printed_statements_grant_the_same() {
    let fixture = Fixture::shared().await;
    let url = fixture.role("printed", &[]).await;
    let sql = Access::Worker.grant_sql(&fixture.url, name_of(&url)).unwrap();
    fixture.sql().await.batch_execute(&sql).await.unwrap();
    works(open(&fixture, &url).await).await;
    assert_eq!(fixture.store().await.granted().await.unwrap(), [(name_of(&url).to_owned(), Access::Worker)]);
}

/// By several at once, as by jobs of one pipeline, and within a transaction of somebody's own, as `psql -1` runs them: they go one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_may_run_the_printed_statements_at_once() {
    let fixture = Fixture::shared().await;
    let mut all = Vec::new();
    for nth in 0..6 {
        let url = fixture.role(&format!("printed{nth}"), &[]).await;
        let sql = Access::Worker.grant_sql(&fixture.url, name_of(&url)).unwrap();
        let client = fixture.sql().await;
        all.push(tokio::spawn(async move { client.batch_execute(&format!("BEGIN; {sql} COMMIT")).await }));
    }
    for one in all {
        one.await.unwrap().expect("waits for the others");
    }
    assert_eq!(fixture.store().await.granted().await.unwrap().len(), 6);
}

/// Functions run with the rights of their owner: a superuser who migrates must not lend his to who owns the tables.
#[tokio::test]
async fn a_superuser_migrates_as_the_owner() {
    let schema = crate::cluster::fresh_schema();
    let superuser = crate::cluster::connect(&crate::cluster::url()).await;
    let owner = format!("{schema}_owner");
    let create = format!("CREATE ROLE {owner} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {owner}");
    superuser.batch_execute(&create).await.unwrap();
    let options = windlass_postgres::PostgresOptions::default;
    let url = format!("{}?schema={schema}", crate::cluster::url());
    let own = url.replace("//postgres@", &format!("//{owner}@"));
    let own = PostgresStore::connect(&own, options()).await.unwrap();
    own.migrate().await.expect("the owner migrates");
    let drop = format!("DROP FUNCTION {schema}.claim; DROP FUNCTION {schema}.maintain");
    superuser.batch_execute(&drop).await.unwrap();
    let above = PostgresStore::connect(&url, options()).await.unwrap();
    above.migrate().await.expect("the superuser migrates");
    above.grant(Access::Viewer, "pg_monitor").await.expect("and grants");
    let others = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                  WHERE n.nspname = $1 AND p.proowner <> $2::text::regrole";
    assert_eq!(superuser.query_one(others, &[&schema, &owner]).await.unwrap().get::<_, i64>(0), 0);
    works(own).await;
}
