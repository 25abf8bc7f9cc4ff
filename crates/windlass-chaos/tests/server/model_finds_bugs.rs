//! The model on trial: random histories against a store with a planted bug of unique jobs find that it differs. What only time shows (a window
//! or an extension that is too short, a job that is put off for ever) is found by the scenario `unique`: the model waits for nothing.

use std::sync::Arc;
use windlass_chaos::bug::{Bug, patch, patches};
use windlass_conformance::{Fixture, model};
use windlass_core::{JobStore as _, Store};
use windlass_postgres::{PostgresOptions, PostgresStore};

/// A schema whose functions have a bug.
struct Spoiled {
    url: String,
    schema: String,
}

impl Spoiled {
    async fn store(&self) -> PostgresStore {
        let mut options = PostgresOptions::default();
        options.schema.clone_from(&self.schema);
        PostgresStore::connect(&self.url, options).await.expect("connects")
    }
}

#[async_trait::async_trait]
impl Fixture for Spoiled {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store().await)
    }
}

/// Plants a bug, and expects that some history shows it: the store and the oracle differ.
async fn finds(name: &str, function: &'static str, from: &'static str, to: &'static str) {
    let url = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test`");
    let schema = format!("model_{name}_{}", std::process::id());
    let spoiled = Spoiled { url: url.clone(), schema: schema.clone() };
    spoiled.store().await.migrate().await.expect("migrates");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    patch(name, &[(function, from, to)], &client, &schema).await.expect("plants");
    let told = tokio::spawn(async move { model::one_caller_agrees_with_the_model(&spoiled).await }).await;
    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.expect("drops");
    let panic = told.expect_err("no history shows it").into_panic();
    let said = panic.downcast_ref::<String>().map(String::as_str).unwrap_or_default();
    assert!(said.contains("oracle"), "it is not the model that says: {said}");
}

/// Until started: what was handed out has its key no more.
#[tokio::test]
async fn a_started_job_that_keeps_its_key() {
    finds(
        "started",
        "unique_holders",
        "WHEN NOT h.until_finished THEN false",
        "WHEN NOT h.until_finished THEN true",
    )
    .await;
}

/// Until finished: what waits to be tried again has it still.
#[tokio::test]
async fn a_failed_job_that_gives_its_key_up() {
    let &[(function, from, to)] = patches(Bug::UniqueForgetsRetries).expect("it is one of the schema") else {
        panic!("it is one change")
    };
    finds("finished", function, from, to).await;
}

/// A window: the job has its key for that long, also when it has ended.
#[tokio::test]
async fn a_window_that_ends_with_its_job() {
    finds("window", "unique_holders", "WHEN h.expires IS NOT NULL THEN", "WHEN false THEN").await;
}

/// Keep: the first, as long as it has the key.
#[tokio::test]
async fn a_kept_job_that_is_over() {
    finds("keep", "take_unique", "ELSIF r.held AND p_rules[i] = 0 THEN", "ELSIF p_rules[i] = 0 THEN").await;
}

/// Replace: the new job with its own args.
#[tokio::test]
async fn a_job_that_replaces_without_its_args() {
    finds("args", "store_job", "p_max, p_kind, p_args::json", "p_max, p_kind, '{}'::json").await;
}

/// Replace: the old one does not run.
#[tokio::test]
async fn a_replaced_job_that_runs() {
    finds(
        "replaced",
        "bury_untried",
        "VALUES (p_id, f.lane_id, f.xid);",
        "SELECT p_id, f.lane_id, f.xid WHERE false;",
    )
    .await;
}

/// Replace: one that began is kept.
#[tokio::test]
async fn a_running_job_that_is_replaced() {
    finds("running", "bury_untried", "IF f.place = 'log' AND f.seq IS NULL THEN", "IF f.place = 'log' THEN")
        .await;
}

/// Extend: it is told that the window goes on.
#[tokio::test]
async fn an_extension_that_is_told_as_kept() {
    finds("extend", "take_unique", "WHEN r.expires IS NULL THEN 1 ELSE 2 END", "ELSE 1 END").await;
}

/// Error: the whole call is refused.
#[tokio::test]
async fn a_conflict_that_is_no_error() {
    finds("refuse", "take_unique", "ELSIF r.held AND p_rules[i] = 3 THEN", "ELSIF false THEN").await;
}

/// In bulk: each key for itself.
#[tokio::test]
async fn a_batch_with_one_new_key_that_takes_all() {
    finds("bulk", "take_unique", "EXIT WHEN v_won = cardinality(v_left);", "EXIT WHEN v_won > 0;").await;
}
