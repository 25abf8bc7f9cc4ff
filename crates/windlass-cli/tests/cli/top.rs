use crate::program::{Home, eventually, signal};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

#[test]
fn one_look_is_a_table() {
    let home = Home::new();
    assert!(home.run(&["top", "--once"]).done().stdout.contains("no queues\n\nno worker is live\n"));
    for queue in ["mail", "mail", "reports", "\u{1b}[2Jslow"] {
        let _ = home.run(&["enqueue", "a", "--queue", queue]);
    }
    home.run(&["queues", "pause", "reports"]).done();
    // stdout is no terminal here.
    for args in [&["top", "--once"][..], &["top"]] {
        let text = home.run(args).done().stdout;
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("SQLite") && lines[0].contains("sqlite:windlass.db"), "{text}");
        assert!(lines[3].starts_with("QUEUE    STATE   AVAILABLE  RUNNING  OLDEST  RETRYABLE"), "{text}");
        assert!(lines[4].starts_with("mail     open            2") && lines[5].contains("paused"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    let sorted = home.run(&["top", "--sort", "name", "--lines", "1"]).done().stdout;
    assert!(sorted.contains("mail ") && !sorted.contains("reports"), "{sorted}");
}

#[test]
fn looks_are_lines_of_json() {
    let home = Home::new();
    home.enqueue(&["a", "--queue", "mail"]);
    let once = home.json(&["top", "--once"]);
    assert_eq!((&once["queues"][0]["name"], &once["queues"][0]["available"]), (&"mail".into(), &1.into()));
    assert_eq!(once["queues"][0]["backlog_per_second"], Value::Null, "one look has no rates");

    let mut top = home.spawn(home.command(&["top", "--json"]).stdin(Stdio::null()));
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    next();
    home.enqueue(&["a", "--queue", "mail"]);
    let rose = |look: Value| look["queues"][0]["backlog_per_second"].as_f64() > Some(0.0);
    eventually("the backlog grew", || rose(next()));
    signal(&top, "INT");
    assert_eq!(top.wait().unwrap().code(), Some(0), "that is how one leaves it");
}

#[test]
fn it_ends_when_nobody_reads_it() {
    let home = Home::new();
    let mut top = home.spawn(home.command(&["top", "--json"]).stdin(Stdio::null()));
    drop(top.stdout.take());
    assert_eq!(top.wait().unwrap().code(), Some(0));
}

#[test]
fn wrong_options_are_refused() {
    let home = Home::new();
    for (args, says) in [
        (&["--lines", "0"][..], "--lines"),
        (&["--lines", "many"], "--lines"),
        (&["--sort", "color"], "available"),
        (&["mail"], "mail"),
    ] {
        home.run(&[&["top"], args].concat()).refused(2, &[says]);
    }
    Home::bare().run(&["top"]).refused(3, &["windlass migrate", "[schema_missing]"]);
}
