//! What needs PostgreSQL. `make check` leaves out every test target of this name.

#[path = "../cli/points_of_size.rs"]
mod points_of_size;
#[path = "../../../windlass-cli/tests/cli/program.rs"]
#[allow(dead_code)] // these tests need less of it than others
mod program;

use points_of_size::check_points;
use program::Home;
use tokio_postgres::NoTls;

/// What these tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-bench");

#[tokio::test(flavor = "multi_thread")]
async fn every_burden_is_measured_and_removed() {
    let url = std::env::var("WINDLASS_TEST_POSTGRES").expect(
        "WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test -p windlass-bench`",
    );
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let args = ["run", "size", "--scale", "0.001", "--store", &url];
    let summary = tokio::task::block_in_place(|| Home::bare().json(&args));
    check_points(&summary);
    let left = "select count(*) from pg_namespace where nspname like 'windlass\\_bench\\_%'";
    assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
}
