use crate::program::{Answer, Home};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio_postgres::NoTls;

/// Somebody has one of three jobs in a transaction that stays open: the others are done, told and noted.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_of_several_jobs_is_told_and_noted() {
    let server = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("run `scripts/with-postgres cargo test -p windlass-cli`");
    let home = Home::bare();
    let url = format!("{server}?schema=cli_part_done&call_timeout=1");
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("WINDLASS_STORE", &url).stdin(Stdio::null());
        Answer::from(command.output().expect("run windlass"))
    };
    run(&["migrate"]).done();
    let enqueue = |queue: &str| run(&["enqueue", "a", "--queue", queue]).done().stdout.trim().to_owned();
    let (a, b, c) = (enqueue("qa"), enqueue("qb"), enqueue("qa"));
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("BEGIN; SELECT cli_part_done.cancel({b})")).await.unwrap();

    let said = run(&["jobs", "cancel", &a, &b, &c, "--as", "anna"]);
    assert_eq!(said.stdout, format!("job {a} cancelled\njob {c} cancelled\n"));
    said.refused(3, &["not all done within 1s", "2 of 3 were done", "[unavailable]"]);
    let said = run(&["jobs", "retry", "--kind", "a", "--as", "anna"]).done().stdout;
    assert_eq!(said, "2 jobs retried\n");
    let said = run(&["jobs", "delete", "--kind", "a", "--as", "anna"]);
    said.refused(3, &["1 of 3 jobs could not be had, 2 were done", "[unavailable]"]);
    client.batch_execute("ROLLBACK").await.unwrap();

    let audit: Value = serde_json::from_str(&run(&["audit", "--json"]).done().stdout).unwrap();
    let entries = audit["entries"].as_array().unwrap();
    let entry = |entry: &Value| json!([entry["action"], entry["count"], entry["outcome"]]);
    let expected = [
        json!(["jobs.delete", 2, "unavailable"]),
        json!(["jobs.retry", 2, "done"]),
        json!(["jobs.cancel", 2, "unavailable"]),
    ];
    assert_eq!(entries.iter().take(3).map(entry).collect::<Vec<_>>(), expected);
}
