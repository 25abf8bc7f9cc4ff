use crate::program::Home;

#[test]
fn queues_are_listed_paused_and_resumed() {
    let home = Home::new();
    assert_eq!(home.json(&["queues"]), serde_json::json!([]));
    assert_eq!(home.run(&["queues", "list"]).done().stdout, "no queues\n");
    home.enqueue(&["a", "--queue", "mail"]);
    assert_eq!(home.run(&["queues", "pause", "mail"]).done().stdout, "paused queue mail\n");
    let queues = home.json(&["queues", "list"]);
    assert_eq!((&queues[0]["paused"], &queues[0]["available"]), (&true.into(), &1.into()));
    home.run(&["work", "--exec", "true", "--queue", "mail", "--until-empty"]).done();
    assert_eq!(home.json(&["queues"])[0]["available"], 1, "a paused queue is left alone");
    assert_eq!(home.json(&["queues", "resume", "mail"])["paused"], false);
    assert!(home.run(&["queues"]).done().stdout.contains("mail   open"));
    home.run(&["queues", "pause", "nowhere"]).refused(1, &["nowhere", "[not_found]"]);
}

#[test]
fn status_names_the_store() {
    let home = Home::new();
    home.enqueue(&["a"]);
    let status = home.json(&["status"]);
    assert!(status["store"].as_str().expect("a name").starts_with("SQLite"));
    assert!(status["schema_version"].as_u64() > Some(0) && status["size_bytes"].as_u64() > Some(0));
    assert_eq!(
        (&status["workers"], &status["queues"][0]["name"]),
        (&serde_json::json!([]), &"default".into())
    );
    let text = home.run(&["status"]).done().stdout;
    assert!(text.contains("sqlite:windlass.db") && text.contains("no workers"), "{text}");
}

#[test]
fn settings_are_shown_and_changed() {
    let home = Home::new();
    home.run(&["migrate"]).done();
    let text = home.run(&["settings"]).done().stdout;
    assert!(text.contains("retention       1day ") && text.contains("1.00 GiB"), "{text}");
    let changed = home.json(&["settings", "--retention", "36h", "--max-crashes", "7"]);
    assert_eq!((&changed["retention_seconds"], &changed["max_crashes"]), (&129_600.0.into(), &7.into()));
    assert_eq!(home.json(&["settings"]), changed, "everybody sees it");
    home.run(&["settings", "--max-crashes", "2"]).refused(2, &["max_crashes must be at least 3, got 2"]);
    home.run(&["settings", "--retention", "soon"]).refused(2, &["soon"]);
    assert_eq!(home.json(&["settings"]), changed, "and a refused change changes nothing");
}
