use crate::program::{Answer, Home, eventually, signal};
use std::process::Stdio;
use tokio_postgres::NoTls;

/// Somebody who does not want to wait for a store that hangs is told, and the audit log is, what was done before.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_interrupt_does_not_wait_for_the_store() {
    let server = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("run `scripts/with-postgres cargo test -p windlass-cli`");
    let home = Home::bare();
    let url = format!("{server}?schema=cli_interrupted");
    let command = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("WINDLASS_STORE", &url).stdin(Stdio::null());
        command
    };
    let run = |args: &[&str]| Answer::from(command(args).output().expect("run windlass"));
    run(&["migrate"]).done();
    run(&["enqueue", "a"]).done();
    let (mut client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
    tokio::spawn(connection);
    let tx = client.transaction().await.unwrap();
    tx.batch_execute("LOCK TABLE cli_interrupted.waiting IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut child = home.spawn(&mut command(&["jobs", "cancel", "--kind", "a", "--as", "anna"]));
    let waits = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'cli_interrupted.waiting'::regclass";
    while !tx.query_one(waits, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
    // The first asks it to end after this call; several may be heard as one.
    eventually("it ends", || {
        signal(&child, "INT");
        child.try_wait().unwrap().is_some()
    });
    let said = "0 jobs were cancelled before; whether those of that call were is not known";
    Answer::from(child.wait_with_output().unwrap()).refused(1, &[said, "[interrupted]"]);
    tx.rollback().await.unwrap();
    let audit: serde_json::Value = serde_json::from_str(&run(&["audit", "--json"]).done().stdout).unwrap();
    let entry = &audit["entries"][0];
    assert_eq!(
        (&entry["actor"], &entry["outcome"], &entry["count"]),
        (&"anna".into(), &"interrupted".into(), &0.into())
    );
}
