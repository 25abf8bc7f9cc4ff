//! What needs PostgreSQL. `make check` leaves out every test target of this name.

mod interrupted;
mod part_done;
#[path = "../cli/program.rs"]
#[allow(dead_code)] // these tests need less of it than others
mod program;
mod serve_grants;

use program::{Answer, Home};
use serde_json::json;
use std::process::Stdio;
use tokio_postgres::NoTls;

/// What these tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass");

/// Three roles do what docs/guide/privileges.md says of them, by the commands that it names.
#[tokio::test(flavor = "multi_thread")]
async fn roles_get_what_they_need() {
    let server = std::env::var("WINDLASS_TEST_POSTGRES").expect(
        "WINDLASS_TEST_POSTGRES is not set; run `make test` or `scripts/with-postgres cargo test -p windlass-cli`",
    );
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
    tokio::spawn(connection);
    let roles = "CREATE ROLE cli_web LOGIN; CREATE ROLE cli_mailer LOGIN; CREATE ROLE cli_desk LOGIN";
    client.batch_execute(roles).await.unwrap();

    let home = Home::bare();
    let url =
        |role: &str| format!("{}?schema=cli_grants", server.replace("//postgres@", &format!("//{role}@")));
    let run = |role: &str, args: &[&str]| -> Answer {
        let mut command = home.command(args);
        let output = command.env("WINDLASS_STORE", url(role)).stdin(Stdio::null()).output();
        output.expect("run the program").into()
    };
    run("postgres", &["grant", "worker", "cli_mailer"]).refused(3, &["windlass migrate", "[schema_missing]"]);
    run("postgres", &["migrate"]).done();
    let said = run("postgres", &["grant"]).done().stdout;
    assert_eq!(said, "nothing was granted\n");
    let said = run("postgres", &["grant", "worker", "cli_mailer"]).done().stdout;
    assert_eq!(said, "granted worker to role cli_mailer\n");
    let said = run("postgres", &["grant", "operator", "cli_desk", "--json"]).done().stdout;
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said, json!({ "role": "cli_desk", "access": "operator", "done": "granted" }));
    let printed =
        run("postgres", &["migrate", "--print-grants", "producer", "--role", "cli_web"]).done().stdout;
    client.batch_execute(&printed).await.expect("as psql would run it");
    let listed = run("postgres", &["grant"]).done().stdout;
    assert_eq!(
        listed.split_whitespace().collect::<Vec<_>>(),
        ["ROLE", "ACCESS", "cli_desk", "operator", "cli_mailer", "worker", "cli_web", "producer"]
    );

    run("cli_web", &["enqueue", "mail"]).done();
    run("cli_web", &["jobs", "list"]).refused(1, &["`windlass grant viewer ROLE`", "[permission_denied]"]);
    run("cli_mailer", &["work", "--exec", "true", "--until-empty"]).done();
    run("cli_mailer", &["status"]).refused(1, &["`windlass grant viewer ROLE`"]);
    let status = run("cli_desk", &["queues", "--json"]).done().stdout;
    let queues: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(queues[0]["completed"], 1, "{status}");
    run("cli_desk", &["status"]).done();
    run("cli_desk", &["queues", "pause", "default"]).done();
    run("cli_desk", &["enqueue", "mail"]).refused(1, &["`windlass grant producer ROLE`"]);
    run("cli_desk", &["migrate"]).refused(1, &["connect as \"postgres\""]);
    run("cli_desk", &["grant", "worker", "cli_desk"]).refused(1, &["connect as \"postgres\""]);

    run("postgres", &["grant", "worker", "nobody_here"]).refused(1, &["CREATE ROLE", "[not_found]"]);
    run("postgres", &["grant", "worker", "postgres"]).refused(2, &["owns schema", "[invalid_option]"]);
    run("postgres", &["grant", "worker", ""]).refused(2, &["empty", "[invalid_name]"]);
    for expected in ["revoked worker from role cli_mailer\n", "role cli_mailer had not been granted worker\n"]
    {
        let said = run("postgres", &["grant", "worker", "cli_mailer", "--revoke"]).done().stdout;
        assert_eq!(said, expected);
    }
    run("cli_mailer", &["enqueue", "mail"]).refused(1, &["permission denied for schema"]);
}
