//! All orders of a few sessions on PostgreSQL: a sample of each scenario, with `WINDLASS_PERMUTE_FULL=1` all.

use std::sync::Arc;
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
