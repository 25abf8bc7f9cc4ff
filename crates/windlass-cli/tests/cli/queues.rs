use crate::program::{Answer, Home};
use std::process::Stdio;

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
fn queues_are_found_by_name_and_page_by_page() {
    let home = Home::new();
    for queue in ["mail", "mail-bulk", "reports"] {
        home.enqueue(&["a", "--queue", queue]);
    }
    let names = |args: &[&str]| {
        let queues = home.json(&[&["queues", "list"], args].concat());
        let names =
            queues.as_array().expect("a list").iter().map(|queue| queue["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&["--search", "MAIL"]), ["mail", "mail-bulk"]);
    assert_eq!(names(&["--limit", "1", "--after", "mail"]), ["mail-bulk"]);
    for (limit, is_more) in [("2", true), ("3", false)] {
        let page = home.run(&["queues", "list", "--limit", limit]).done().stdout;
        assert_eq!(page.contains("there are more; continue with --after mail-bulk"), is_more, "{page}");
    }
    assert!(names(&["--search", "nothing"]).is_empty());
    home.run(&["queues", "list", "--limit", "0"]).refused(2, &["--limit"]);
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
    assert_eq!((&changed["retention_ms"], &changed["max_crashes"]), (&129_600_000.into(), &7.into()));
    assert_eq!(home.json(&["settings"]), changed, "everybody sees it");
    home.run(&["settings", "--max-crashes", "2"]).refused(2, &["max_crashes must be at least 3, got 2"]);
    home.run(&["settings", "--retention", "soon"]).refused(2, &["soon"]);
    assert_eq!(home.json(&["settings"]), changed, "and a refused change changes nothing");
}

/// Each wrote all settings as it had read them: one of two changes was undone.
#[test]
fn changes_of_settings_at_once_are_all_kept() {
    let home = Home::new();
    home.run(&["migrate"]).done();
    for n in 3..15 {
        let (hours, crashes) = (format!("{n}h"), n.to_string());
        let args = [["settings", "--retention", &hours], ["settings", "--max-crashes", &crashes]];
        let children = args.map(|args| home.spawn(home.command(&args).stdin(Stdio::null())));
        for child in children {
            Answer::from(child.wait_with_output().unwrap()).done();
        }
        let settings = home.json(&["settings"]);
        assert_eq!(
            (&settings["retention_ms"], &settings["max_crashes"]),
            (&(n * 3_600_000).into(), &n.into())
        );
    }
}

#[test]
fn queues_are_limited_and_unlimited() {
    let home = Home::new();
    home.enqueue(&["a", "--queue", "mail"]);
    let said = home
        .run(&["queues", "limit", "mail", "--concurrency", "5", "--rate", "100/1m", "--burst", "10"])
        .done();
    assert_eq!(said.stdout, "limits of queue mail: 5 at once, 100/1m, 10 at a time\n");
    let limits =
        serde_json::json!({"concurrency": 5, "rate": {"count": 100, "period_ms": 60_000, "burst": 10}});
    assert_eq!(home.json(&["queues"])[0]["limits"], limits);
    let listed = home.run(&["queues"]).done().stdout;
    assert!(listed.contains("LIMITS") && listed.contains("5 at once, 100/1m"), "{listed}");
    assert_eq!(home.json(&["queues", "limit", "later", "--concurrency", "1"])["limits"]["concurrency"], 1);
    assert_eq!(home.run(&["queues", "unlimit", "mail"]).done().stdout, "queue mail has no limits now\n");
    assert_eq!(home.json(&["queues", "unlimit", "later"])["limits"], serde_json::json!({}));
    assert!(!home.run(&["queues"]).done().stdout.contains("LIMITS"));

    let refused: [(&[&str], &str); 6] = [
        (&[], "--concurrency"),
        (&["--concurrency", "0"], "the limit of concurrency must be 1 to 1000000, got 0"),
        (&["--rate", "often"], "write it as a number of jobs per time, like 100/1m"),
        (&["--rate", "1/10ms"], "the period of a rate must be 100 ms to 366 days, got 10ms"),
        (&["--rate", "1000/1s", "--burst", "10"], "use a burst of at least 100"),
        (&["--burst", "10"], "--rate"),
    ];
    for (options, why) in refused {
        home.run(&[&["queues", "limit", "mail"], options].concat()).refused(2, &[why]);
    }
    assert_eq!(home.json(&["queues"])[1]["limits"], serde_json::json!({}), "nothing half applied");
}

#[test]
fn keys_are_limited_and_unlimited() {
    let home = Home::new();
    let keyed = home.enqueue(&["a", "--queue", "sync", "--key", "acme"]);
    assert_eq!(home.json(&["jobs", "show", &keyed])["key"], "acme");
    assert_eq!(
        home.run(&["queues", "keys", "sync"]).done().stdout,
        "the keys of queue sync have no limits\n"
    );
    assert!(!home.run(&["queues"]).done().stdout.contains("KEYS"));
    let said = home.run(&["queues", "limit-keys", "sync", "--concurrency", "2"]).done().stdout;
    assert_eq!(said, "KEY  AT ONCE  RATE  ORDER  WEIGHT\n*          2     -  -           1\n");
    let said = home.json(&["queues", "limit-keys", "sync", "--concurrency", "2", "--rate", "100/1m"]);
    let rate = serde_json::json!({"count": 100, "period_ms": 60_000});
    assert_eq!(said["key_limits"]["default"]["rate"], rate);
    assert!(home.run(&["queues"]).done().stdout.contains("2 at once, 100/1m"));
    home.run(&["queues", "limit-keys", "sync", "--concurrency", "2"]).done();
    let keys = ["--key", "acme", "--key", "post"];
    let said =
        home.json(&[&["queues", "limit-keys", "sync", "--serial", "--weight", "3"], &keys[..]].concat());
    let serial = serde_json::json!({"serial": true, "weight": 3});
    assert_eq!((&said["queue"], &said["key_limits"]["named"]["post"]), (&"sync".into(), &serial));
    assert_eq!(home.json(&["queues", "keys", "sync"]), said);
    let named = |args: &[&str]| {
        let said = home.json(&[&["queues", "keys", "sync"], args].concat());
        let named = said["key_limits"]["named"].as_object(); // left out where there is none
        named.into_iter().flat_map(|named| named.keys().cloned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (named(&["--limit", "1"]), named(&["--after", "acme"])),
        (vec!["acme".into()], vec!["post".into()])
    );
    assert_eq!((named(&["--search", "OS"]), named(&["--search", "x"])), (vec!["post".to_owned()], vec![]));
    let page = home.run(&["queues", "keys", "sync", "--limit", "1"]).done().stdout;
    assert!(page.ends_with("\nthere are more; continue with --after \"acme\"\n"), "{page}");
    assert!(!home.run(&["queues", "keys", "sync", "--limit", "2"]).done().stdout.contains("more"));
    let compact = serde_json::json!({"default": {"concurrency": 2, "weight": 1}, "named": 2});
    assert_eq!(home.json(&["queues"])[0]["key_limits"], compact);
    for command in ["queues", "status"] {
        let listed = home.run(&[command]).done().stdout;
        assert!(listed.contains("KEYS") && listed.contains("2 at once, 2 named"), "{listed}");
    }
    let left = home.json(&["queues", "unlimit-keys", "sync", "--key", "acme"]);
    assert_eq!(left["key_limits"]["named"], serde_json::json!({"post": serial}));
    assert_eq!(home.json(&["queues", "unlimit-keys", "sync"])["key_limits"], serde_json::Value::Null);
    home.run(&["queues", "keys", "nowhere"]).refused(1, &["nowhere", "[not_found]"]);

    let refused: [(&[&str], &str); 8] = [
        (&["--rate", "0/1m"], "the count of a rate must be 1 to 1000000000, got 0"),
        (&["--rate", "5/1ms"], "the period of a rate must be 100 ms to 366 days, got 1ms"),
        (&["--rate", "5"], "like 100/1m"),
        (&["--concurrency", "0"], "the limit of concurrency must be 1 to 1000000, got 0"),
        (&["--concurrency", "2", "--serial"], "--serial"),
        (&["--weight", "0"], "0 is not in 1..=1000"),
        (&["--weight", "70000"], "70000 is not in 1..=1000"),
        (&["--serial", "--key", ""], "a key must be 1 to 200 bytes"),
    ];
    for (options, why) in refused {
        home.run(&[&["queues", "limit-keys", "sync"], options].concat()).refused(2, &[why]);
    }
    assert_eq!(home.json(&["queues", "keys", "sync"])["key_limits"], serde_json::Value::Null);
}

#[test]
fn a_queue_is_purged() {
    let home = Home::new();
    home.enqueue(&["a", "--queue", "mail"]);
    home.enqueue(&["a", "--queue", "mail", "--delay", "1h"]);
    home.enqueue(&["a"]);
    assert!(
        home.run(&["queues", "purge", "mail", "--dry-run"])
            .done()
            .stdout
            .starts_with("2 jobs would be deleted")
    );
    assert_eq!(home.run(&["queues", "purge", "mail"]).done().stdout, "2 jobs deleted\n");
    let left = home.json(&["queues"]);
    assert_eq!((&left[0]["available"], &left[1]["scheduled"]), (&1.into(), &0.into()), "{left}");
    home.run(&["queues", "purge", "mall"]).refused(1, &["mall", "[not_found]"]);
}

#[test]
fn history_is_shown() {
    let home = Home::new();
    let shown = |args: &[&str]| home.run(&[&["history"], args].concat()).done().stdout;
    assert!(shown(&[]).starts_with("nothing ended"));
    home.enqueue(&["a", "--queue", "mail"]);
    home.run(&["jobs", "cancel", &home.enqueue(&["b", "--queue", "mail"])]).done();
    home.run(&["work", "--exec", "true", "--queue", "mail", "--until-empty"]).done();
    let history = home.json(&["history", "--last", "1day", "--step", "1h", "--queue", "mail"]);
    assert_eq!(history["step_ms"], 3_600_000);
    // The worker counts when it leads, which may be after it is done.
    let counts = history["counts"].as_array().expect("counts");
    assert!(counts.iter().all(|count| count["queue"] == "mail" && count["count"] == 1), "{history}");
    let refused = |args: &[&str], says: &[&str]| home.run(&[&["history"], args].concat()).refused(2, says);
    refused(&["--last", "31days"], &["30 days"]);
    refused(&["--step", "90s"], &["whole minutes"]);
    refused(&["--outcome", "done"], &["done"]);
    refused(&["--outcome", "started"], &["started is not counted"]);
}

#[test]
fn timings_failures_and_marks_are_shown() {
    let home = Home::new();
    let shown = |args: &[&str]| home.run(args).done().stdout;
    assert_eq!(shown(&["timings"]), "nothing was measured in that time\n");
    assert_eq!(shown(&["failures"]), "no attempt failed in that time\n");
    home.enqueue(&["good", "--queue", "mail"]);
    let bad = home.enqueue(&["bad", "--queue", "mail", "--max-attempts", "1"]);
    let program = "case $WINDLASS_KIND in bad) echo 'no paper in tray 7' >&2; exit 3;; esac";
    home.run(&["work", "--exec", program, "--queue", "mail", "--until-empty"]).done();
    let timings =
        home.json(&["timings", "--last", "1day", "--step", "1day", "--queue", "mail", "--kind", "good"]);
    let timed = &timings["timed"][0];
    assert_eq!((&timed["run"]["count"], &timed["wait"]["count"]), (&1.into(), &1.into()), "{timings}");
    let text = shown(&["timings", "--last", "1day", "--step", "1day"]);
    assert!(text.starts_with("FROM") && text.contains("mail   bad") && text.contains(" ms"), "{text}");
    let failures = home.json(&["failures"]);
    assert_eq!(failures["failures"][0]["last_job"].to_string(), bad, "{failures}");
    assert!(shown(&["failures"]).contains("no paper in tray 7"));
    home.run(&["failures", "--limit", "0"]).refused(2, &["--limit"]);
    assert_eq!(shown(&["mark", "release 7"]), "marked\n");
    assert!(shown(&["audit", "--action", "mark"]).contains("release 7"));
    home.run(&["mark", " "]).refused(2, &["label of a mark is empty"]);
    home.run(&["timings", "--last", "31days"]).refused(2, &["30 days"]);
    home.run(&["failures", "--last", "0s"]).refused(2, &["30 days"]);
}

#[test]
fn retention_is_set_and_listed() {
    let home = Home::new();
    let list = |args: &[&str]| home.run(&[&["retention"], args].concat()).done().stdout;
    assert!(list(&["list"]).contains("no rules"));
    list(&["set", "--queue", "mail", "--outcome", "discarded", "--age", "7days", "--count", "1000"]);
    let text = list(&["set", "--outcome", "cancelled", "--count", "0"]);
    assert_eq!(
        text,
        "QUEUE  OUTCOME    AGE    COUNT\n*      cancelled  -          0\nmail   discarded  7days  1,000\n"
    );
    let rules = home.json(&["retention", "list"]);
    assert_eq!((&rules[0]["queue"], &rules[0]["count"]), (&serde_json::Value::Null, &0.into()));
    assert_eq!((&rules[1]["outcome"], &rules[1]["age_ms"]), (&"discarded".into(), &604_800_000.into()));
    let refused = |args: &[&str], says: &[&str]| home.run(&[&["retention"], args].concat()).refused(2, says);
    refused(&["set", "--outcome", "completed", "--count", "5"], &["by count"]);
    refused(&["set", "--outcome", "done", "--count", "5"], &["done"]);
    refused(
        &["set", "--outcome", "running", "--count", "5"],
        &["running", "completed, cancelled, discarded"],
    );
    refused(&["set", "--outcome", "cancelled", "--count", "1000001"], &["1000001"]);
    refused(&["set", "--outcome", "cancelled", "--age", "101years"], &["100 years"]);
    refused(&["set", "--outcome", "cancelled"], &["--age"]);
    refused(&["set", "--queue", "no name", "--outcome", "cancelled", "--count", "1"], &["no name"]);
    assert_eq!(home.json(&["retention", "list"]), rules, "a refused change changes nothing");
    list(&["unset", "--outcome", "cancelled"]);
    assert!(list(&["unset", "--queue", "mail", "--outcome", "discarded"]).contains("no rules"));
}
