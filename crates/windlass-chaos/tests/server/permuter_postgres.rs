//! All orders of a few sessions on PostgreSQL: a sample of each scenario, with `WINDLASS_PERMUTE_FULL=1` all.

use std::{sync::Arc, time::Duration};
use tokio_postgres::NoTls;
use windlass_chaos::permuter::{Plan, postgres::Server, scenarios};

/// How many orders of each scenario are tried without being asked for more.
const SAMPLE: u64 = 20;
/// Housekeeping takes its time, so fewer of those with it.
const HOUSEKEEPING_SAMPLE: u64 = 10;

fn url() -> String {
    std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test`")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_order_keeps_the_rules() {
    let plan = Plan::from_env(SAMPLE).expect("the environment");
    let housekeeping = Plan::from_env(HOUSEKEEPING_SAMPLE).expect("the environment");
    println!("seed {}", plan.seed());
    let server = Arc::new(Server::new(url()));
    let mut bad = String::new();
    for scenario in scenarios::all().iter().filter(|scenario| plan.wants(scenario.name)) {
        let plan = if scenario.keeps_house() { &housekeeping } else { &plan };
        let outcome = server.run(scenario, plan).await.expect(scenario.name);
        println!("{}", outcome.line());
        bad += &outcome.to_string();
    }
    server.close().await.expect("the schemas go");
    assert!(bad.is_empty(), "{bad}");
}

/// Locks a table of some schema of the permuter for a moment, where nobody has it, as autovacuum does.
const LOCK: &str = "
DO $$ DECLARE t text; BEGIN
    SELECT quote_ident(schemaname) INTO t FROM pg_tables WHERE schemaname ~ '^p[0-9]+_[0-9]+$' AND tablename = 'settlement' ORDER BY random() LIMIT 1;
    IF t IS NOT NULL THEN
        EXECUTE 'LOCK TABLE ' || t || '.settlement IN ACCESS EXCLUSIVE MODE NOWAIT';
        PERFORM pg_sleep(0.005);
    END IF;
EXCEPTION WHEN lock_not_available THEN NULL;
END $$";

/// A session that waits for a moment, and not for another session, is no deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_locks_a_table_for_a_moment_stops_no_order() {
    // In a database of its own, so that nobody else meets these locks.
    let (admin, database) = (connect(&url()).await, format!("locked_{}", std::process::id()));
    admin.batch_execute(&format!("CREATE DATABASE {database}")).await.expect("a database");
    let url = format!("{}/{database}", url().rsplit_once('/').expect("a URL that names its database").0);
    let client = connect(&url).await;
    let locker = tokio::spawn(async move {
        loop {
            // A schema may go meanwhile.
            let _ = client.batch_execute(LOCK).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let server = Arc::new(Server::new(url));
    let all = scenarios::all();
    let scenario =
        all.iter().find(|scenario| scenario.name == "inside_settle_vs_settle").expect("it is there");
    let outcome = server.run(scenario, &Plan::sample(150)).await.expect("no order is stuck");
    locker.abort();
    assert!(locker.await.is_err_and(|ended| ended.is_cancelled()));
    server.close().await.expect("the schemas go");
    drop(server);
    admin.batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await.expect("the database goes");
    assert!(outcome.is_good(), "{outcome}");
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}
