use crate::program::Home;
use serde_json::{Value, json};

/// Who did what to what, how many jobs and how it ended, the newest first.
fn told(log: &Value) -> Vec<Value> {
    let entries = log["entries"].as_array().expect("entries");
    entries
        .iter()
        .map(|entry| json!([entry["actor"], entry["via"], entry["action"], entry["target"], entry["count"]]))
        .collect()
}

#[test]
fn what_commands_change_is_in_the_audit_log() {
    let home = Home::new();
    let ids: Vec<_> = (0..3).map(|_| home.enqueue(&["a", "--queue", "mail"])).collect();
    home.run(&["queues", "pause", "mail", "--as", "anna"]).done();
    home.run(&["queues", "pause", "nowhere", "--as", "anna"]).refused(1, &["nowhere"]);
    home.run(&["jobs", "cancel", &ids[0], "999", "--as", "bob"]).refused(1, &["1 of 2"]);
    home.run(&["jobs", "cancel", "--queue", "mail", "--dry-run", "--as", "bob"]).done();
    home.run(&["jobs", "cancel", "--queue", "mail", "--as", "bob"]).done();
    home.run(&["settings", "--max-crashes", "7", "--as", "anna"]).done();
    home.run(&["settings", "--max-crashes", "7", "--as", "anna"]).done();
    home.run(&["schedules", "set", "nightly", "@daily", "report", "--as", "anna"]).done();
    home.run(&["schedules", "remove", "nightly", "--as", "anna"]).done();
    home.run(&["queues", "purge", "mail", "--as", "anna"]).done();
    let log = home.json(&["audit"]);
    let mut told = told(&log);
    let migrated = told.pop().expect("the first");
    assert_eq!((&migrated[1], &migrated[2]), (&json!("cli"), &json!("migrate")));
    assert!(migrated[0].as_str().expect("an actor").contains('@'), "{migrated}");
    assert_eq!(
        json!(told),
        json!([
            ["anna", "cli", "jobs.delete", "jobs", 3],
            ["anna", "cli", "schedules.remove", "nightly", null],
            ["anna", "cli", "schedules.put", "nightly", null],
            ["anna", "cli", "settings.put", "settings", null],
            ["bob", "cli", "jobs.cancel", "jobs", 2],
            ["bob", "cli", "jobs.cancel", "2 jobs", 1],
            ["anna", "cli", "queues.pause", "mail", null],
        ])
    );
    assert_eq!(log["entries"][4]["filter"], json!({"queue": "mail"}));
    assert_eq!(log["next"], Value::Null);
}

#[test]
fn the_audit_log_is_listed_in_pages_and_by_filters() {
    let home = Home::new();
    home.enqueue(&["a", "--queue", "mail"]);
    for _ in 0..3 {
        home.run(&["queues", "pause", "mail", "--as", "anna \u{1b}[31m"]).done();
        home.run(&["queues", "resume", "mail", "--as", "bob"]).done();
    }
    let by_bob = home.json(&["audit", "--actor", "bob"]);
    assert_eq!(by_bob["entries"].as_array().expect("entries").len(), 3);
    let first = home.json(&["audit", "--action", "queues.pause", "--limit", "2"]);
    let next = first["next"].as_str().expect("there is more");
    let rest = home.json(&["audit", "--action", "queues.pause", "--before", next]);
    assert_eq!((rest["entries"].as_array().expect("entries").len(), &rest["next"]), (1, &Value::Null));
    assert_eq!(home.json(&["audit", "--since", "2200-01-01T00:00:00Z"])["entries"], json!([]));
    let text = home.run(&["audit", "--limit", "1"]).done().stdout;
    assert!(text.starts_with("AT ") && text.contains("bob") && text.contains("--before "), "{text}");
    let text = home.run(&["audit", "--action", "queues.pause"]).done().stdout;
    assert!(text.contains("anna") && !text.contains('\u{1b}'), "{text}");
    assert_eq!(home.run(&["audit", "--actor", "nobody"]).done().stdout, "no entries\n");
    home.run(&["audit", "--before", "yesterday"]).refused(2, &["yesterday"]);
    home.run(&["audit", "--limit", "0"]).refused(2, &["0"]);
}
