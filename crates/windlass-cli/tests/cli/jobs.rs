use crate::{
    program::{Answer, Home, eventually, signal},
    work_signals::in_a_terminal,
};
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

#[test]
fn lists_filter_and_page() {
    let home = Home::new();
    let ids: Vec<_> = (0..5).map(|n| home.enqueue(&["a", &n.to_string()])).collect();
    let other = home.enqueue(&["b", "--queue", "q"]);
    let listed = |args: &[&str]| -> Vec<String> {
        let page = home.json(&[&["jobs", "list"], args].concat());
        page["jobs"].as_array().expect("an array").iter().map(|job| job["id"].to_string()).collect()
    };
    assert_eq!(listed(&["--limit", "2"]), [ids[4].clone(), ids[3].clone()]);
    let next = home.json(&["jobs", "list", "--limit", "2"])["next"].as_str().expect("a token").to_owned();
    let rest = [ids[2].clone(), ids[1].clone(), ids[0].clone(), other.clone()];
    assert_eq!(listed(&["--after", &next]), rest);
    home.run(&["jobs", "list", "--kind", "a", "--after", &next]).refused(2, &["belongs to another filter"]);
    let text = home.run(&["jobs", "list", "--limit", "2"]).done().stdout;
    assert!(text.ends_with(&format!("\n\nthere may be more; continue with --after {next}\n")), "{text}");
    assert_eq!(listed(&["--kind", "b"]), std::slice::from_ref(&other));
    assert_eq!(listed(&["--queue", "q", "--state", "available"]), [other]);
    assert!(listed(&["--state", "running"]).is_empty());
    let text = home.run(&["jobs", "list", "--queue", "q"]).done().stdout;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("STATE") && lines[1].contains("available"), "{text}");
    assert_eq!(home.run(&["jobs", "list", "--queue", "none"]).done().stdout, "no jobs\n");
}

/// A list does not read them, and does not say that there were none.
#[test]
fn lists_say_nothing_of_errors() {
    let home = Home::new();
    let id = home.enqueue(&["a", r#"{"n": 1.0}"#]);
    home.run(&["work", "--until-empty", "--exec", "exit 3"]).done();
    let listed = home.json(&["jobs", "list"])["jobs"][0].clone();
    assert_eq!((&listed["state"], listed.get("errors")), (&"retryable".into(), None), "{listed}");
    let shown = home.json(&["jobs", "show", &id]);
    assert_eq!((&listed["args"], shown["errors"].as_array().unwrap().len()), (&shown["args"], 1));
}

/// They are read and printed some at a time.
#[test]
fn a_long_list_is_one_document() {
    let home = Home::new();
    let lines: String = (0..90).map(|n| format!("{{\"kind\":\"a\",\"args\":{{\"n\":{n}}}}}\n")).collect();
    std::fs::write(home.path().join("jobs"), lines).unwrap();
    home.run(&["enqueue", "--many", "jobs"]).done();
    let numbers = |page: &serde_json::Value| -> Vec<u64> {
        page["jobs"].as_array().unwrap().iter().map(|job| job["args"]["n"].as_u64().unwrap()).collect()
    };
    let page = home.json(&["jobs", "list", "--limit", "85"]);
    assert_eq!(numbers(&page), (5..90).rev().collect::<Vec<_>>());
    let rest = home.json(&["jobs", "list", "--after", page["next"].as_str().unwrap()]);
    assert_eq!((numbers(&rest), rest["next"].is_null()), (vec![4, 3, 2, 1, 0], true));
    let text = home.run(&["jobs", "list", "--limit", "85", "--json"]).done().stdout;
    assert!(
        text.starts_with("{\n  \"jobs\": [\n    {\n      \"id\": ") && text.ends_with("\"\n}\n"),
        "{text}"
    );
    let none = home.run(&["jobs", "list", "--queue", "none", "--json"]).done().stdout;
    assert_eq!(none, "{\n  \"jobs\": [],\n  \"next\": null\n}\n");
    assert_eq!(home.run(&["jobs", "list", "--limit", "85"]).done().stdout.lines().count(), 88);
}

#[test]
fn jobs_are_found_by_args_and_error() {
    let home = Home::new();
    let (seven, eight) = (home.enqueue(&["a", r#"{"user": 7}"#]), home.enqueue(&["a", r#"{"user": 8}"#]));
    let listed = |args: &[&str]| -> Vec<String> {
        let page = home.json(&[&["jobs", "list"], args].concat());
        page["jobs"].as_array().expect("an array").iter().map(|job| job["id"].to_string()).collect()
    };
    assert_eq!(listed(&["--args", r#"{"user": 7.0}"#]), std::slice::from_ref(&seven));
    assert!(listed(&["--error", "exit"]).is_empty());
    home.json(&["jobs", "edit", "--with-args", r#"{"user": 8}"#, "--args", r#"{"user": 9}"#]);
    assert_eq!(listed(&["--args", r#"{"user": 9}"#]), [eight]);
    let touched = home.json(&["jobs", "cancel", "--args", r#"{"user": 7}"#]);
    assert_eq!((&touched["done"], home.state(&seven)), (&1.into(), "cancelled".into()));
    home.run(&["jobs", "list", "--args", "[1]"]).refused(2, &["must be a JSON object"]);
    home.run(&["jobs", "delete", "--args", "{}"]).refused(2, &["names no member"]);
    home.run(&["jobs", "list", "--error", ""]).refused(2, &["1 to 1000 bytes"]);
}

#[test]
fn cancel_and_retry_tell_each_job() {
    let home = Home::new();
    let (first, second) = (home.enqueue(&["a"]), home.enqueue(&["a"]));
    let told = home.json(&["jobs", "cancel", &first, &second]);
    assert_eq!(told[0], serde_json::json!({"id": first.parse::<i64>().unwrap(), "reply": "cancelled"}));
    assert_eq!((home.state(&first), home.state(&second)), ("cancelled".into(), "cancelled".into()));
    assert_eq!(home.json(&["jobs", "retry", &first])[0]["reply"], "retried");
    assert_eq!(home.state(&first), "available");

    let again = home.run(&["jobs", "cancel", &second, &first, "999999"]);
    let again = again.refused(1, &["2 of 3 jobs were not cancelled", "[not_cancelled]"]);
    assert!(again.stdout.contains("finished already") && again.stdout.contains("does not exist"));
    home.run(&["jobs", "retry", "999999"]).refused(1, &["[not_retried]"]);
}

#[test]
fn edit_and_delete_tell_each_job() {
    let home = Home::new();
    let (first, second) = (home.enqueue(&["a"]), home.enqueue(&["a"]));
    let change =
        ["--in", "10m", "--priority", "-3", "--max-attempts", "2", "--to-queue", "q", "--args", "[1]"];
    let told = home.json(&[&["jobs", "edit", &first, &second][..], &change].concat());
    assert_eq!(told[1], serde_json::json!({"id": second.parse::<i64>().unwrap(), "reply": "edited"}));
    let job = home.json(&["jobs", "show", &first]);
    assert_eq!((&job["state"], &job["queue"]), (&"scheduled".into(), &"q".into()));
    assert_eq!((&job["priority"], &job["max_attempts"]), (&(-3).into(), &2.into()));
    assert_eq!(job["args"], serde_json::json!([1]));
    home.run(&["jobs", "edit", &first, "--now"]).done();
    assert_eq!(home.state(&first), "available");

    assert_eq!(home.json(&["jobs", "delete", &first])[0]["reply"], "deleted");
    home.run(&["jobs", "delete", &first]).refused(1, &["1 of 1 jobs were not deleted", "[not_deleted]"]);
    home.run(&["jobs", "cancel", &second]).done();
    let left = home.run(&["jobs", "edit", &first, &second, "--now"]);
    let left = left.refused(1, &["2 of 2 jobs were not edited", "[not_edited]"]);
    assert!(left.stdout.contains("does not exist") && left.stdout.contains("is over"), "{}", left.stdout);

    home.run(&["jobs", "edit", &second]).refused(2, &["--priority"]);
    home.run(&["jobs", "edit", "--priority", "1"]).refused(2, &["<IDS|"]);
    home.run(&["jobs", "edit", &second, "--now", "--in", "1s"]).refused(2, &["cannot be used with"]);
    home.run(&["jobs", "edit", &second, "--priority", "101"]).refused(2, &["priority must be -100 to 100"]);
    home.run(&["jobs", "edit", &second, "--args", "{"]).refused(2, &["not valid JSON"]);
}

#[test]
fn a_filter_edits_and_deletes_many() {
    let home = Home::new();
    for n in 0..3 {
        home.enqueue(&["a", &n.to_string()]);
    }
    home.enqueue(&["b"]);
    let would = home.run(&["jobs", "edit", "--kind", "a", "--priority", "5", "--dry-run"]).done().stdout;
    assert_eq!(would, "3 jobs would be edited; nothing was changed\n");
    let edited = home.json(&["jobs", "edit", "--kind", "a", "--priority", "5", "--in", "1h"]);
    assert_eq!((&edited["selected"], &edited["done"]), (&3.into(), &3.into()));
    home.run(&["jobs", "edit", "--state", "cancelled", "--now"])
        .refused(2, &["a time cannot be set for cancelled jobs; use retry"]);
    home.run(&["jobs", "edit", "--state", "running", "--now"]).refused(2, &["cannot edit running jobs"]);
    let would = home.run(&["jobs", "delete", "--all", "--dry-run"]).done().stdout;
    assert_eq!(would, "4 jobs would be deleted; nothing was changed\n");
    assert_eq!(home.run(&["jobs", "delete", "--state", "scheduled"]).done().stdout, "3 jobs deleted\n");
    home.run(&["jobs", "delete", "--state", "running"]).refused(2, &["cannot delete running jobs"]);
    home.run(&["jobs", "delete"]).refused(2, &["<IDS|", "--all"]);
    assert_eq!(home.json(&["jobs", "delete", "--all"])["done"], 1);
}

#[test]
fn a_filter_names_many() {
    let home = Home::new();
    for n in 0..3 {
        home.enqueue(&["a", &n.to_string()]);
    }
    let other = home.enqueue(&["b", "--queue", "q"]);
    let would = home.json(&["jobs", "cancel", "--kind", "a", "--dry-run"]);
    assert_eq!((&would["selected"], &would["dry_run"]), (&3.into(), &true.into()));
    let text = home.run(&["jobs", "cancel", "--kind", "a", "--dry-run"]).done().stdout;
    assert_eq!(text, "3 jobs would be cancelled; nothing was changed\n");
    assert_eq!(home.json(&["jobs", "cancel", "--kind", "a", "--at-most", "2"])["done"], 2);
    assert_eq!(home.run(&["jobs", "cancel", "--kind", "a"]).done().stdout, "1 job cancelled\n");
    assert_eq!(home.state(&other), "available");
    let retried = home.json(&["jobs", "retry", "--state", "cancelled", "--rate", "100000"]);
    assert_eq!((&retried["done"], &retried["left"]), (&3.into(), &0.into()));
    assert_eq!(home.json(&["jobs", "cancel", "--all"])["done"], 4);
    home.run(&["jobs", "cancel"]).refused(2, &["<IDS|", "--all"]);
    home.run(&["jobs", "cancel", "1", "--queue", "q"]).refused(2, &["cannot be used with"]);
    home.run(&["jobs", "cancel", "--state", "completed"]).refused(2, &["cannot cancel completed jobs"]);
    home.run(&["jobs", "retry", "--state", "running"])
        .refused(2, &["cannot retry running jobs", "retryable"]);
}

#[test]
fn show_tells_all_and_knows_what_is_missing() {
    let home = Home::new();
    let id = home.enqueue(&["mail", r#"{"to":"x"}"#]);
    let text = home.run(&["jobs", "show", &id]).done().stdout;
    for words in ["state     available", "kind      mail", r#"args      {"to":"x"}"#, "attempt   0 of 20"] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    home.run(&["jobs", "show", "999999"]).refused(1, &["job 999999 does not exist", "[not_found]"]);
}

#[test]
fn users_data_cannot_steer_the_terminal() {
    let home = Home::new();
    let id = home.enqueue(&["a", "\"x\u{9b}31m\u{202e}\u{7f}\""]);
    for args in [&["jobs", "list"][..], &["jobs", "show", &id], &["jobs", "list", "--json"]] {
        let text = home.run(args).done().stdout;
        assert!(!text.contains(['\u{9b}', '\u{202e}', '\u{7f}', '\u{1b}']), "{text:?}");
    }
    assert_eq!(home.json(&["jobs", "show", &id])["args"], "x\u{9b}31m\u{202e}\u{7f}");
    // Nor what a program says when it fails.
    let program = "printf 'x\\302\\233\\342\\200\\256y\\177' >&2; exit 3";
    home.run(&["work", "--exec", program, "--until-empty"]).done();
    for args in [&["events"][..], &["events", "--json"], &["failures"], &["failures", "--json"]] {
        let text = home.run(args).done().stdout;
        assert!(text.contains("exit code 3"), "{text:?}");
        assert!(!text.contains(['\u{9b}', '\u{202e}', '\u{7f}', '\u{1b}']), "{args:?}: {text:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = Home::new();
    let line = format!("{{\"kind\":\"k\",\"args\":\"{}\"}}\n", "x".repeat(1_000));
    home.run_with(&["enqueue", "--many"], line.repeat(2_000).as_bytes()).done();
    let args = ["jobs", "list", "--limit", "2000", "--json"];
    let mut child = home.spawn(home.command(&args).stdin(Stdio::null()));
    let mut first = String::new();
    // Reads a line of megabytes, then goes away.
    BufReader::with_capacity(16, child.stdout.take().expect("stdout")).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}

#[test]
fn encrypted_args_are_not_shown_and_wait_for_their_key() {
    let home = Home::new();
    let sealed = r#"{"windlass.enc":{"v":1,"key":"k1","nonce":"bm9uY2U","data":"Y2lwaGVydGV4dA"}}"#;
    let id = home.enqueue(&["mail", sealed, "--max-attempts", "1"]);
    let told = home.json(&["work", "--until-empty", "--exec", "touch ran"]);
    assert_eq!((&told["snoozed"], &told["discarded"]), (&1.into(), &0.into()));
    let listed = home.run(&["jobs", "list"]).done().stdout;
    let shown = home.run(&["jobs", "show", &id]).done().stdout;
    for text in [&listed, &shown] {
        assert!(text.contains("[encrypted, key k1]") && !text.contains("Y2lwaGVydGV4dA"), "{text}");
    }
    for words in [
        "state     retryable",
        "attempt   0 of 1\n",
        "attempt 1 could not begin at",
        "undecryptable: key k1 is not in",
    ] {
        assert!(shown.contains(words), "{words} is missing in {shown}");
    }
    assert!(!home.path().join("ran").exists());
    assert_eq!(home.json(&["jobs", "show", &id])["args"]["windlass.enc"]["key"], "k1");
}

/// What a handler says of its job is shown beside the rest, with nothing in it that could steer a terminal.
#[test]
fn progress_and_log_are_shown() {
    use windlass::{Client, Context, Outcome, RawJob, Worker};
    let home = Home::new();
    let id = home.enqueue(&["import"]);
    assert!(!home.run(&["jobs", "show", &id]).done().stdout.contains("reported"));
    assert!(home.json(&["jobs", "show", &id]).get("report").is_none());
    let say = |_: RawJob, ctx: Context| async move {
        ctx.progress((40.0, "page 4\u{1b}[31m")).unwrap();
        (0..101).for_each(|n| ctx.log(format!("line {n}\nred\u{1b}[31m")));
        ctx.checkpoint(&"x".repeat(300)).await.unwrap();
        Outcome::Snooze(std::time::Duration::from_secs(3600))
    };
    let url = format!("sqlite:{}", home.path().join("windlass.db").display());
    let (shown_id, id) = (id.clone(), windlass::JobId(id.parse().unwrap()));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = Client::connect(&url).await.unwrap();
        let worker = Worker::builder(&client).handle_any(say).start().await.unwrap();
        while client.job(id).await.unwrap().unwrap().scheduled_at.is_none() {
            tokio::task::yield_now().await;
        }
        worker.shutdown().await;
    });
    let id = shown_id;
    let shown = home.run(&["jobs", "show", &id]).done().stdout;
    for words in [
        "progress  40 %, page 4\\u{1b}[31m\n",
        "checkpoint \"xxx",
        "… (302 bytes; --json shows all)\n",
        "\nolder lines of the log that were dropped: 1\n",
        "attempt 1: line 100\\nred\\u{1b}[31m\n",
    ] {
        assert!(shown.contains(words), "{words:?} is missing in {shown}");
    }
    assert!(!shown.contains('\u{1b}'));
    let report = &home.json(&["jobs", "show", &id])["report"];
    assert_eq!((&report["progress"]["percent"], &report["log_dropped"]), (&40.0.into(), &1.into()));
    assert_eq!(report["log"].as_array().unwrap().len(), 100);
}

/// As in `windlass jobs cancel 4711 | head -0`: the reader of the answer is gone, and what failed has failed all the same.
#[test]
fn a_failure_is_one_where_nobody_reads_the_answer() {
    let home = Home::new();
    let nobody = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    let run = |args: &[&str]| -> Answer {
        let mut command = home.command(args);
        let child = command.stdin(Stdio::null()).stdout(nobody()).stderr(Stdio::piped()).spawn();
        child.unwrap().wait_with_output().unwrap().into()
    };
    let id = home.enqueue(&["a"]);
    run(&["jobs", "cancel", &id]).done();
    run(&["jobs", "cancel", &id, "999"]).refused(1, &["2 of 2 jobs were not cancelled", "[not_cancelled]"]);

    home.run_with(&["enqueue", "--many"], "{\"kind\":\"b\"}\n".repeat(100).as_bytes()).done();
    let mut command = in_a_terminal(&home, &["jobs", "cancel", "--kind", "b", "--rate", "1"]);
    let child = command.stdin(Stdio::null()).stdout(nobody()).stderr(Stdio::piped()).spawn().unwrap();
    let cancelled = || home.json(&["queues"])[0]["cancelled"].as_u64().unwrap();
    eventually("some are cancelled", || cancelled() > 1);
    signal(&child, "INT");
    Answer::from(child.wait_with_output().unwrap()).refused(1, &["before the end", "[interrupted]"]);
}

/// It was killed by the signal, and nobody could see what it had done, nor who.
#[test]
fn a_change_that_is_interrupted_says_and_notes_what_was_done() {
    for name in ["INT", "HUP"] {
        interrupted_by(name);
    }
}

fn interrupted_by(name: &str) {
    let home = Home::new();
    let lines = "{\"kind\":\"a\"}\n".repeat(100);
    home.run_with(&["enqueue", "--many"], lines.as_bytes()).done();
    let cancelled = || home.json(&["queues"])[0]["cancelled"].as_u64().unwrap();
    let command = ["jobs", "cancel", "--kind", "a", "--rate", "1", "--as", "anna"];
    let child = home.spawn(in_a_terminal(&home, &command).stdin(Stdio::null()));
    eventually("some are cancelled", || cancelled() > 0);
    signal(&child, name);
    let answer =
        Answer::from(child.wait_with_output().unwrap()).refused(1, &["[interrupted]", "before the end"]);
    let done = cancelled();
    assert!(done < 100 && answer.stdout.starts_with(&format!("{done} job")), "{done}: {}", answer.stdout);
    let entry = home.json(&["audit"])["entries"][0].clone();
    assert_eq!(
        (&entry["action"], &entry["actor"], entry["count"].as_u64()),
        (&"jobs.cancel".into(), &"anna".into(), Some(done))
    );
}

#[test]
fn args_that_are_indented_by_tabs_are_json_in_json() {
    let home = Home::new();
    let id = home.enqueue(&["a", "{\t\"x\":\r\n\t1}"]);
    assert_eq!(home.json(&["jobs", "show", &id])["args"]["x"], 1);
    assert_eq!(home.json(&["jobs", "list"])["jobs"][0]["args"]["x"], 1);
}
