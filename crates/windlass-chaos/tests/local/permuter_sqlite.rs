//! All orders of whole operations of a few processes on SQLite.

use windlass_chaos::permuter::{Plan, Scenario, scenarios, sqlite};

/// How many orders of each scenario are tried without being asked for more.
const SAMPLE: u64 = 60;

#[tokio::test]
async fn every_order_keeps_the_rules() {
    let plan = Plan::from_env(SAMPLE).expect("the environment");
    println!("seed {}", plan.seed());
    let folder = tempfile::tempdir().expect("a folder");
    let mut bad = String::new();
    let fits = |scenario: &Scenario| plan.wants(scenario.name) && scenario.fits_whole_operations();
    for scenario in scenarios::all().into_iter().filter(fits) {
        let outcome = sqlite::run(folder.path(), &scenario, &plan).await.expect(scenario.name);
        println!("{}", outcome.line());
        bad += &outcome.to_string();
    }
    assert!(bad.is_empty(), "{bad}");
}
