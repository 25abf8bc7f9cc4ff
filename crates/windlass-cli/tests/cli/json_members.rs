//! What `--json` prints is what docs/guide/json.md says, member by member.

use crate::program::Home;
use serde_json::Value;
use std::{collections::BTreeSet, fs};

const GUIDE: &str = "../../docs/guide/json.md";
/// Values that are the user's own, or described where they come from.
const FOREIGN: [&str; 4] = ["args", "meta", "result", "report"];

/// The names in backticks of a section.
fn told(section: &str) -> BTreeSet<String> {
    let guide = fs::read_to_string(GUIDE).expect("the guide");
    let heading = format!("## {section}\n");
    let text = guide.split_once(&heading).unwrap_or_else(|| panic!("no section {section}")).1;
    let text = text.split("\n## ").next().unwrap_or_default();
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn members(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| members(value, found)),
        Value::Object(object) => {
            for (name, value) in object {
                found.insert(name.clone());
                if !FOREIGN.contains(&&**name) {
                    members(value, found);
                }
            }
        }
        _ => {}
    }
}

/// All members that these commands print.
fn printed(home: &Home, commands: &[&[&str]]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for command in commands {
        members(&home.json(command), &mut found);
    }
    found
}

fn check(section: &str, printed: &BTreeSet<String>) {
    let told = told(section);
    let missing: Vec<_> = printed.difference(&told).collect();
    assert!(missing.is_empty(), "{GUIDE} does not name {missing:?} under {section}");
}

/// A store in which a job waits, one ended well and one badly.
fn home() -> Home {
    let home = Home::new();
    home.enqueue(&["mail", "{}", "--queue", "mail", "--key", "acme", "--tag", "t"]);
    home.enqueue(&["fail", "{}", "--queue", "mail", "--max-attempts", "1"]);
    home.json(&["work", "--queue", "mail", "--exec", "test $WINDLASS_KIND = mail", "--until-empty"]);
    home.enqueue(&["mail", "{}", "--queue", "other", "--key", "acme"]);
    home
}

#[test]
fn jobs_are_printed_as_the_guide_says() {
    let home = home();
    let printed = printed(
        &home,
        &[
            &["jobs", "list"],
            &["jobs", "show", "2"],
            &["enqueue", "mail", "--unique-key", "k"],
            &["jobs", "retry", "2"],
            &["jobs", "edit", "2", "--priority", "3"],
            &["jobs", "cancel", "--queue", "other"],
            &["queues", "purge", "mail", "--dry-run"],
            &["jobs", "delete", "2"],
        ],
    );
    assert!(printed.contains("crash_count") && printed.contains("conflict") && printed.contains("asked"));
    check("Jobs", &printed);
}

#[test]
fn many_are_printed_as_the_guide_says() {
    let home = Home::new();
    fs::write(home.path().join("jobs"), "{\"kind\":\"a\"}\n{\"kind\":\"b\"}\n").unwrap();
    check("Jobs", &printed(&home, &[&["enqueue", "--many", "jobs"]]));
}

#[test]
fn queues_and_work_are_printed_as_the_guide_says() {
    let home = home();
    let work = ["work", "--queue", "mail", "--exec", "true", "--until-empty"];
    check("Work", &printed(&home, &[&work]));
    let queues = printed(
        &home,
        &[
            &["queues", "limit", "mail", "--concurrency", "3", "--rate", "10/1s"],
            &["queues", "limit-keys", "mail", "--concurrency", "3", "--rate", "10/1s"],
            &["queues", "limit-keys", "mail", "--serial", "--key", "acme"],
            &["queues"],
            &["queues", "keys", "mail"],
            &["queues", "pause", "mail"],
            &["queues", "resume", "mail"],
            &["queues", "unlimit", "mail"],
            &["queues", "unlimit-keys", "mail"],
        ],
    );
    let mut queues = queues;
    queues.remove("acme"); // a key
    check("Queues", &queues);
}

#[test]
fn workers_and_settings_are_printed_as_the_guide_says() {
    let home = home();
    let commands: [&[&str]; 9] = [
        &["workers"],
        &["settings"],
        &["settings", "--retention", "2h"],
        &["retention", "set", "--outcome", "discarded", "--age", "3days"],
        &["retention", "list"],
        &["migrate"],
        &["token", "a", "--role", "viewer"],
        &["mark", "v1"],
        &["status"],
    ];
    let mut found = printed(&home, &commands);
    let queues = told("Queues");
    found.retain(|name| !queues.contains(name));
    check("Workers and the store", &found);
}

#[test]
fn schedules_are_printed_as_the_guide_says() {
    let home = home();
    let commands: [&[&str]; 7] = [
        &["schedules", "set", "a", "every 90s", "mail"],
        &["schedules", "list"],
        &["schedules", "run", "a"],
        &["schedules", "pause", "a"],
        &["schedules", "resume", "a"],
        &["schedules", "preview", "@daily"],
        &["schedules", "remove", "a"],
    ];
    check("Schedules", &printed(&home, &commands));
}

#[test]
fn what_happened_is_printed_as_the_guide_says() {
    let home = home();
    let mut found = printed(&home, &[&["timings"], &["failures"], &["history"], &["audit"]]);
    let events = home.run(&["events", "--json"]).done().stdout;
    for line in events.lines() {
        members(&serde_json::from_str(line).unwrap(), &mut found);
    }
    assert!(found.contains("p99_ms") && found.contains("fingerprint") && found.contains("cursor"));
    check("What happened", &found);
}

#[test]
fn errors_are_printed_as_the_guide_says() {
    let home = home();
    let mut found = BTreeSet::new();
    for command in [["jobs", "show", "99", "--json"], ["jobs", "cancel", "99", "--json"]] {
        let answer = home.run(&command);
        assert_ne!(answer.code, Some(0));
        members(&serde_json::from_str(&answer.stderr).unwrap(), &mut found);
    }
    check("Errors", &found);
}
