//! Every seeded bug of the schema still finds the text that it changes, so that none of them is tried without being there.

use windlass_chaos::bug::{self, Bug};
use windlass_core::JobStore as _;
use windlass_postgres::{PostgresOptions, PostgresStore};

#[tokio::test]
async fn every_bug_finds_its_text() {
    let url = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test`");
    let schema = format!("planted_{}", std::process::id());
    let mut options = PostgresOptions::default();
    options.schema.clone_from(&schema);
    PostgresStore::connect(&url, options).await.expect("connects").migrate().await.expect("migrates");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    for bug in Bug::ALL {
        client.batch_execute("BEGIN").await.unwrap();
        bug::plant(*bug, &client, &schema).await.unwrap();
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
}
