use crate::program::Home;
use serde_json::{Value, json};

fn replies(answer: &Value) -> Vec<(String, String)> {
    let word = |entry: &Value, field: &str| entry[field].as_str().expect("a word").to_owned();
    let entries = answer["schedules"].as_array().expect("a list");
    entries.iter().map(|entry| (word(entry, "schedule"), word(entry, "reply"))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, reply)| ((*name).to_owned(), (*reply).to_owned())).collect()
}

#[test]
fn schedules_are_declared_listed_run_paused_and_removed() {
    let home = Home::new();
    home.run(&["migrate"]).done();
    assert_eq!(home.run(&["schedules", "list"]).done().stdout, "no schedules\n");
    let set =
        ["schedules", "set", "nightly", "30 2 * * *", "clean", r#"{"days":1}"#, "--zone", "Europe/Berlin"];
    let text = home.run(&set).done().stdout;
    assert!(text.starts_with("created schedule nightly; next tick: "), "{text}");
    assert_eq!(home.json(&set)["reply"], "unchanged");
    // No worker has looked yet.
    let listed = home.json(&["schedules", "list"]);
    assert!(
        listed["schedules"][0]["next_tick"].as_str().is_some_and(|at| at.ends_with(":30:00Z")),
        "{listed}"
    );
    let row = home.run(&["schedules", "list"]).done().stdout;
    assert!(row.contains(" new ") && row.contains(":30:00Z"), "{row}");
    let changed =
        [&set[..], &["--queue", "night", "--overlap", "skip", "--missed", "3", "--jitter", "5m"]].concat();
    assert_eq!(home.json(&changed)["reply"], "changed");

    let id = home.json(&["schedules", "run", "nightly"])["id"].clone();
    let listed = home.json(&["schedules", "list"]);
    let nightly = &listed["schedules"][0];
    assert_eq!(
        (&nightly["name"], &nightly["last_job"], &nightly["last_run"]),
        (&"nightly".into(), &id, &"unfinished".into())
    );
    assert_eq!(nightly["definition"]["missed"], json!({ "all": 3 }));
    home.run(&["work", "--exec", "true", "--queue", "night", "--until-empty"]).done();
    assert_eq!(home.json(&["schedules", "list"])["schedules"][0]["last_run"], "completed");
    let text = home.run(&["schedules", "list"]).done().stdout;
    assert!(
        text.contains("nightly") && text.contains("Europe/Berlin") && text.contains("completed"),
        "{text}"
    );

    home.run(&["schedules", "pause", "nightly"]).done();
    assert_eq!(home.json(&["schedules", "list"])["schedules"][0]["paused"], true);
    assert!(home.run(&["schedules", "list"]).done().stdout.contains("paused"));
    assert_eq!(
        home.json(&["schedules", "resume", "nightly"]),
        json!([{ "schedule": "nightly", "reply": "resumed" }])
    );
    assert_eq!(home.run(&["schedules", "remove", "nightly"]).done().stdout, "removed schedule nightly\n");
    for verb in ["remove", "pause", "resume", "run"] {
        home.run(&["schedules", verb, "nightly"]).refused(1, &["nightly", "[not_found]"]);
    }
}

#[test]
fn several_are_changed_or_none() {
    let home = Home::new();
    for name in ["a", "b"] {
        home.run(&["schedules", "set", name, "@daily", "k"]).done();
    }
    let paused = || {
        let listed = home.json(&["schedules", "list"]);
        listed["schedules"].as_array().unwrap().iter().filter(|schedule| schedule["paused"] == true).count()
    };
    home.run(&["schedules", "pause", "a", "x", "y", "b"])
        .refused(1, &[r#"schedules "x", "y" do not exist; nothing was changed"#, "[not_found]"]);
    assert_eq!(paused(), 0);
    home.run(&["schedules", "pause", "b", "a", "a"]).done();
    assert_eq!(paused(), 2);
    home.run(&["schedules", "remove", "a", "x"]).refused(1, &[r#"schedule "x" does not exist"#]);
    assert_eq!(
        home.run(&["schedules", "remove", "a", "b"]).done().stdout,
        "removed schedule a\nremoved schedule b\n"
    );
}

#[test]
fn what_is_wrong_is_told_and_nothing_is_done() {
    let home = Home::new();
    let set = |cron: &str, more: &[&str], exit, says: &[&str]| {
        let command = [&["schedules", "set", "s", cron, "k"], more].concat();
        home.run(&command).refused(exit, says);
    };
    set("61 * * * *", &[], 2, &["the minute field \"61\"", "allowed are 0 to 59", "[invalid_option]"]);
    set("* * * *", &[], 2, &["has 4 fields"]);
    set("@dayly", &[], 2, &["unknown alias", "@daily"]);
    set("every 0s", &[], 2, &["out of range"]);
    set("@daily", &["--zone", "Europe/Berlim"], 2, &["did you mean Europe/Berlin"]);
    set("@daily", &["--overlap", "maybe"], 2, &["unknown policy \"maybe\""]);
    set("@daily", &["--missed", "0"], 2, &["none, last or a number of 1 to 1000"]);
    set("@daily", &["--jitter", "2d"], 2, &["at most a day"]);
    set("@daily", &["--priority", "101"], 2, &["priority must be -100 to 100"]);
    set(
        "@daily",
        &["--end", "2020-01-01T00:00:00Z", "--start", "2021-01-01T00:00:00Z"],
        2,
        &["before it starts"],
    );
    home.run(&["schedules", "set", "a b", "@daily", "k"]).refused(2, &["invalid name of a schedule"]);
    home.run(&["schedules", "set", "a", "@daily", "k", "--expires-at", "2031-01-01T00:00:00Z"])
        .refused(2, &["one moment", "--expires-in", "--end"]);
    home.run(&["migrate"]).done();
    assert_eq!(home.json(&["schedules", "list"])["schedules"], json!([]));
}

#[test]
fn the_next_ticks_are_previewed() {
    let home = Home::new();
    let preview = [
        "schedules",
        "preview",
        "30 2 * * *",
        "--zone",
        "Europe/Berlin",
        "--after",
        "2026-03-28T00:00:00Z",
        "--count",
        "3",
    ];
    let text = home.run(&preview).done().stdout;
    assert_eq!(
        text,
        "Sat 2026-03-28 02:30:00 +01:00\nSun 2026-03-29 03:00:00 +02:00\nMon 2026-03-30 02:30:00 +02:00\n"
    );
    assert_eq!(home.json(&preview)["ticks"][1], "2026-03-29T01:00:00Z");
    home.run(&["schedules", "set", "s", "@daily", "k"]).done();
    let of_schedule =
        ["schedules", "preview", "--schedule", "s", "--after", "2026-03-28T00:00:00Z", "--count", "1"];
    assert_eq!(home.json(&of_schedule)["ticks"], json!(["2026-03-29T00:00:00Z"]));
    home.run(&["schedules", "preview", "--schedule", "x"]).refused(1, &["[not_found]"]);
    home.run(&["schedules", "preview", "* * *"]).refused(2, &["has 3 fields"]);
}

#[test]
fn a_file_is_applied_as_a_whole() {
    let home = Home::new();
    home.run(&["migrate"]).done();
    let entry = |name: &str, cron: &str| {
        format!("[[schedule]]\nname = \"{name}\"\ncron = \"{cron}\"\nkind = \"k\"\n")
    };
    let file = |entries: &[String]| {
        std::fs::write(home.path().join("cron.toml"), format!("source = \"app\"\n{}", entries.concat()))
            .expect("writes");
    };
    home.run(&["schedules", "set", "other", "@daily", "k"]).done();
    file(&[entry("a", "@daily"), entry("b", "every 90s")]);
    let dry = home.json(&["schedules", "apply", "cron.toml", "--dry-run"]);
    assert_eq!(replies(&dry), pairs(&[("a", "created"), ("b", "created")]));
    assert_eq!(home.json(&["schedules", "list", "--source", "app"])["schedules"], json!([]));
    home.run(&["schedules", "apply", "cron.toml"]).done();

    file(&[entry("b", "every 60s"), entry("c", "@weekly")]);
    let command = ["schedules", "apply", "cron.toml", "--prune"];
    let expected = pairs(&[("b", "changed"), ("c", "created"), ("a", "removed")]);
    let dry = home.json(&[&command[..], &["--dry-run"]].concat());
    assert_eq!(replies(&dry), expected);
    assert_eq!(replies(&home.json(&command)), expected);
    assert_eq!(replies(&home.json(&command)), pairs(&[("b", "unchanged"), ("c", "unchanged")]));

    file(&[entry("d", "@daily"), entry("d", "@weekly")]);
    for how in [&[][..], &["--dry-run"]] {
        home.run(&[&command[..], how].concat()).refused(2, &["schedule \"d\" is declared twice"]);
    }

    file(&[entry("d", "@daily"), entry("e", "99 * * * *")]);
    home.run(&command).refused(2, &["cron.toml: line 6: schedule \"e\"", "the minute field"]);
    let names: Vec<_> = home.json(&["schedules", "list"])["schedules"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|schedule| schedule["name"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(names, ["b", "c", "other"], "nothing half applied");
    std::fs::write(home.path().join("cron.toml"), entry("x", "@daily")).expect("writes");
    home.run(&command).refused(2, &["--prune needs to know whose"]);
    home.run(&["schedules", "apply", "none.toml"]).refused(2, &["none.toml: cannot be read"]);
}

/// It had line feeds, which were shown as `\n`.
#[test]
fn what_is_no_toml_is_said_on_one_line() {
    let home = Home::new();
    let file = home.path().join("bad.toml");
    std::fs::write(file, "source = \"app\"\n[[schedule]]\ncron = 5 5\n").unwrap();
    let words = ["error: bad.toml: line 3, `cron = 5 5`: ", "[invalid_option]\n"];
    let answer = home.run(&["schedules", "apply", "bad.toml"]).refused(2, &words);
    assert!(!answer.stderr.contains("\\n"), "{}", answer.stderr);
}

/// Who read only that the disk is full ran it once more.
#[test]
fn what_was_run_is_told_where_its_id_cannot_be_printed() {
    let home = Home::new();
    home.run(&["schedules", "set", "s", "@daily", "k"]).done();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = home.command(&["schedules", "run", "s"]);
    let output = command.stdin(std::process::Stdio::null()).stdout(full).output().unwrap();
    crate::program::Answer::from(output).refused(1, &["job 1 is stored, but this cannot be printed"]);
}

/// They were rounded, as whoever reads them and declares them anew would then mean others.
#[test]
fn the_args_of_listed_schedules_are_as_they_were_declared() {
    let home = Home::new();
    let args = r#"{"x":123456789012345678901234567890,"f":1.10}"#;
    home.run(&["schedules", "set", "s", "@daily", "k", args]).done();
    let listed = home.run(&["schedules", "list", "--json"]).done().stdout;
    assert!(listed.contains(args), "{listed}");
}
