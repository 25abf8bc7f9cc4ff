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

/// Every job writes its row and is completed with it, and the table goes.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_end_in_transactions_of_the_user() {
    let url = std::env::var("WINDLASS_TEST_POSTGRES").expect("see the test above");
    for plain in [false, true] {
        let store = format!("{url}?schema=bench_effects_{plain}");
        let mut args = vec!["effects", "--jobs", "500", "--store", &store];
        if plain {
            args.push("--plain");
        }
        let report = tokio::task::block_in_place(|| Home::bare().json(&args));
        let samples = &report["figures"]["complete_in_call"]["samples"];
        assert_eq!(samples, if plain { 0 } else { 500 }, "{report}");
    }
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    for plain in [false, true] {
        let ended = format!("SELECT count(*) FROM bench_effects_{plain}.jobs WHERE state = 'completed'");
        assert_eq!(client.query_one(&ended, &[]).await.unwrap().get::<_, i64>(0), 500);
    }
    let left = "SELECT to_regclass('windlass_bench_effect') IS NULL";
    assert!(client.query_one(left, &[]).await.unwrap().get::<_, bool>(0));
}
