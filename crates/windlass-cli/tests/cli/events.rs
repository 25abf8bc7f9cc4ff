//! `windlass events`.

use crate::program::{Home, eventually, signal};
use std::{
    fs,
    io::{BufRead, BufReader},
};

#[test]
fn each_event_is_a_line_with_its_cursor() {
    let home = Home::new();
    home.enqueue(&["mail.send", "--queue", "mail"]);
    home.enqueue(&["noop"]);
    let lines = |args: &[&str]| -> Vec<serde_json::Value> {
        let args: Vec<&str> = ["events", "--json"].iter().chain(args).copied().collect();
        let text = home.run(&args).done().stdout;
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    };
    let all = lines(&[]);
    assert_eq!(all.len(), 2);
    assert_eq!((&all[0]["event"], &all[0]["queue"]), (&"enqueued".into(), &"mail".into()));
    assert_eq!(lines(&["--queue", "mail"]).len(), 1);
    assert_eq!(lines(&["--event", "completed"]).len(), 0);
    assert_eq!(lines(&["--from", "now"]).len(), 0);
    let cursor = all[0]["cursor"].as_str().expect("a cursor");
    assert_eq!(lines(&["--from", cursor]), all[1..]);
}

#[test]
fn a_file_keeps_how_far_it_got() {
    let home = Home::new();
    let printed = || home.run(&["events", "--keep", "cursor", "--json"]).done().stdout.lines().count();
    assert_eq!(printed(), 0);
    home.enqueue(&["a"]);
    home.enqueue(&["b"]);
    assert_eq!((printed(), printed()), (2, 0));
    home.enqueue(&["c"]);
    // What the filter leaves out was read, too.
    let left_out = ["events", "--keep", "cursor", "--event", "failed", "--from", "start"];
    assert_eq!(home.run(&left_out).done().stdout, "");
    assert_eq!(printed(), 0);
    fs::write(home.path().join("cursor"), "").unwrap();
    home.run(&["events", "--keep", "cursor"]).refused(2, &["cursor has no cursor", "remove it"]);
    fs::write(home.path().join("cursor"), "not mine\n").unwrap();
    home.run(&["events", "--keep", "cursor"]).refused(2, &["the cursor in cursor: ", "not mine"]);
    home.run(&["events", "--keep", "new", "--from", "odd"]).refused(2, &["error: ", "odd"]);
    let refused = home
        .run(&["events", "--keep", "none/cursor"])
        .refused(2, &["cannot write the cursor in none/cursor"]);
    assert_eq!(refused.stdout, "", "it is told before events are printed that would come again");
}

#[test]
fn a_cursor_that_is_none_is_refused() {
    let home = Home::new();
    for cursor in ["", "nonsense", "1/2", "s1/00000000/9/0/0", "start "] {
        let refused = home.run(&["events", "--from", cursor]);
        assert!(refused.code == Some(2) || refused.code == Some(1), "{cursor:?}: {:?}", refused.code);
        assert!(refused.stderr.contains("start") && refused.stderr.contains("now"), "{}", refused.stderr);
    }
    home.run(&["events", "--event", "exploded"])
        .refused(2, &["unknown event \"exploded\"", "enqueued, started"]);
}

#[test]
fn following_ends_quietly() {
    let home = Home::new();
    let follow = ["events", "--follow", "--keep", "cursor"];
    for name in ["INT", "TERM"] {
        let _ = fs::remove_file(home.path().join("cursor"));
        let mut following = home.spawn(&mut home.command(&follow));
        eventually("it follows", || home.path().join("cursor").exists());
        let id = home.enqueue(&["a"]);
        let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
        let line = lines.next().expect("a line").unwrap();
        assert!(line.contains("enqueued") && line.contains(&id), "{line}");
        signal(&following, name);
        let ended = following.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()), "SIG{name}");
    }
    // Whoever reads is gone, and nothing happens any more.
    let mut following = home.spawn(&mut home.command(&follow));
    drop(following.stdout.take());
    let ended = following.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()));
}
