use crate::program::{Answer, Home, eventually, signal};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    process::Stdio,
};

#[test]
fn one_job_with_everything() {
    let home = Home::new();
    let args = ["mail.send", r#"{"to":"a@example.com"}"#, "--queue", "mail", "--priority", "-5"];
    let id = home.enqueue(&[&args[..], &["--delay", "1h30m", "--max-attempts", "3"]].concat());
    let job = home.json(&["jobs", "show", &id]);
    assert_eq!(job["id"].to_string(), id);
    assert_eq!((&job["kind"], &job["queue"]), (&"mail.send".into(), &"mail".into()));
    assert_eq!(job["args"]["to"], "a@example.com");
    assert_eq!((job["priority"].as_i64(), job["max_attempts"].as_i64()), (Some(-5), Some(3)));
    assert_eq!(job["state"], "scheduled");
}

#[test]
fn meta_is_an_object_of_the_callers() {
    let home = Home::new();
    let id = home.enqueue(&["a", "--meta", r#"{"request": "r-1", "n": 1.50}"#]);
    assert_eq!(home.json(&["jobs", "show", &id])["meta"], serde_json::json!({ "request": "r-1", "n": 1.5 }));
    for meta in ["[1]", "{", "\"x\""] {
        home.run(&["enqueue", "a", "--meta", meta]).refused(2, &["meta"]);
    }
    home.run(&["schedules", "set", "s", "@daily", "k", "--meta", r#"{"a": 1}"#]).done();
    let ran = home.json(&["schedules", "run", "s"]);
    let meta = &home.json(&["jobs", "show", &ran["id"].to_string()])["meta"];
    assert_eq!((&meta["a"], &meta["windlass.schedule"]), (&1.into(), &"s".into()));
    assert_eq!(home.run(&["enqueue", "--many", "--meta", "{}"]).code, Some(2));
}

#[test]
fn the_smallest_job() {
    let home = Home::new();
    let answer = home.json(&["enqueue", "tick"]);
    let job = home.json(&["jobs", "show", &answer["id"].to_string()]);
    assert_eq!((&job["state"], &job["args"]), (&"available".into(), &serde_json::json!({})));
}

#[test]
fn args_from_a_file_or_stdin() {
    let home = Home::new();
    fs::write(home.path().join("args.json"), "[1, 2]").unwrap();
    let from_file = home.enqueue(&["a", "--args-file", "args.json"]);
    assert_eq!(home.json(&["jobs", "show", &from_file])["args"], serde_json::json!([1, 2]));
    for dash in [&["-"][..], &["--args", "-"], &["--args-file", "-"]] {
        let id = home.run_with(&[&["enqueue", "a"], dash].concat(), b"\"piped\"").done().stdout;
        assert_eq!(home.json(&["jobs", "show", id.trim()])["args"], "piped");
    }
}

#[test]
fn a_time_in_the_past_is_now() {
    let home = Home::new();
    let id = home.enqueue(&["a", "--at", "2001-01-01T00:00:00Z"]);
    assert_eq!(home.state(&id), "available");
    let id = home.enqueue(&["a", "--at", "2101-01-01T00:00:00Z"]);
    assert_eq!(home.state(&id), "scheduled");
}

#[test]
fn many_jobs_from_lines() {
    let home = Home::new();
    let lines: String = (0..12_000).map(|n| format!("{{\"kind\":\"k\",\"args\":{n}}}\n")).collect();
    let answer = home.run_with(&["enqueue", "--many", "--json"], lines.as_bytes()).done();
    let answer: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(answer["enqueued"], 12_000);
    assert!(answer["first_id"].as_i64() < answer["last_id"].as_i64());
    assert_eq!(home.json(&["queues"])[0]["available"], 12_000);
}

#[test]
fn many_knows_every_field_and_skips_blank_lines() {
    let home = Home::new();
    let line = r#"{"kind":"a","args":{"x":1},"queue":"q","priority":2,"max_attempts":4,"delay_ms":3600000}"#;
    fs::write(home.path().join("jobs.ndjson"), format!("\n{line}\r\n\n  \n{{\"kind\":\"b\"}}")).unwrap();
    let answer = home.run(&["enqueue", "--many", "jobs.ndjson"]).done();
    assert_eq!(answer.stdout, "enqueued 2 jobs\n");
    let jobs = &home.json(&["jobs", "list"])["jobs"];
    assert_eq!((&jobs[0]["kind"], &jobs[0]["args"]), (&"b".into(), &serde_json::json!({})));
    assert_eq!((&jobs[1]["state"], &jobs[1]["queue"]), (&"scheduled".into(), &"q".into()));
    assert_eq!((&jobs[1]["priority"], &jobs[1]["max_attempts"]), (&2.into(), &4.into()));
}

#[test]
fn many_names_the_bad_line_and_what_was_enqueued() {
    let home = Home::new();
    let good: String = (0..7_000).map(|_| "{\"kind\":\"k\"}\n").collect();
    for (bad, words) in [
        ("{\"kind\":\"k\",\"colour\":1}", "unknown field `colour`"),
        ("{\"kind\":\"a b\"}", "invalid kind"),
        ("{\"args\":1}", "missing field `kind`"),
        ("{\"kind\":\"k\",\"max_attempts\":0}", "max_attempts must be 1"),
        ("{\"kind\":\"k\",\"args\":\"\\u0000\"}", "NUL"),
        ("nonsense", "expected"),
    ] {
        let home = if words == "expected" { &Home::new() } else { &home };
        let before = home.json(&["queues"])[0]["available"].as_u64().unwrap_or(0);
        let input = format!("{good}{bad}\n{good}");
        let answer = home.run_with(&["enqueue", "--many", "--json"], input.as_bytes());
        answer.refused(2, &[words, "\"line\": 7001", "\"enqueued\": 5000", "line 7001: "]);
        assert_eq!(home.json(&["queues"])[0]["available"].as_u64(), Some(before + 5_000));
    }
}

#[test]
fn many_knows_unique_jobs() {
    let home = Home::new();
    let line = |rest: &str| format!("{{\"kind\":\"k\",\"args\":{{\"user\":7}},{rest}}}\n");
    let first = [
        line(r#""unique_fields":["user"],"unique_in":"queue""#),
        line(r#""unique_key":"a","delay_ms":3600000,"on_conflict":"replace","max_wait_ms":7200000"#),
        line(r#""unique_args":true,"unique_for_ms":3600000,"on_conflict":"extend""#),
        line(r#""priority":1"#),
    ];
    let run = |lines: &str| home.run_with(&["enqueue", "--many", "--json"], lines.as_bytes());
    let answer: serde_json::Value = serde_json::from_str(&run(&first.concat()).done().stdout).unwrap();
    assert_eq!((&answer["enqueued"], &answer["kept"]), (&4.into(), &serde_json::Value::Null));
    let answer: serde_json::Value = serde_json::from_str(&run(&first.concat()).done().stdout).unwrap();
    assert_eq!(
        (&answer["enqueued"], &answer["kept"], &answer["replaced"]),
        (&1.into(), &2.into(), &1.into())
    );
    let again = home.run_with(&["enqueue", "--many"], first[0].as_bytes()).done();
    assert_eq!(again.stdout, "enqueued 0 jobs; the unique keys of others were taken: 1 kept, 0 replaced\n");
    // Which of its lines it was, and nothing of the rest.
    let refused = line(r#""unique_key":"a","on_conflict":"error""#);
    run(&format!("\n{}{}\n{refused}", first[3], first[3])).refused(
        1,
        &[
            "line 5: job ",
            "has its unique key; nothing of lines 1 to 5 was enqueued",
            "\"line\": 5",
            "unique_conflict",
        ],
    );
    run(&refused).refused(1, &["line 1: job ", "nothing of lines 1 to 1 was enqueued"]);
    let twice = line(r#""unique_key":"b","on_conflict":"error""#).repeat(2);
    run(&twice).refused(
        1,
        &["line 2: another job of the same call has its unique key; nothing of lines 1 to 2 was"],
    );
    run(&format!("{}{}", first[3], line(r#""unique_key":"""#))).refused(2, &["line 2: ", "1 to 200 bytes"]);
    home.run_with(
        &["enqueue", "--many", "--idempotency-key", "x"],
        format!("{}{}", first[3], first[0]).as_bytes(),
    )
    .refused(2, &["line 2: a unique job takes no idempotency key"]);
    assert_eq!(home.json(&["queues"])[0]["available"], 4);
}

#[test]
fn many_bounds_its_lines() {
    let home = Home::new();
    let endless = vec![b' '; 5 * 1024 * 1024];
    home.run_with(&["enqueue", "--many"], &endless).refused(2, &["line 1: longer than"]);
    home.run(&["enqueue", "--many", "nowhere.ndjson"]).refused(2, &["cannot read file", "[invalid_input]"]);
    assert_eq!(home.run(&["enqueue", "--many"]).done().stdout, "enqueued 0 jobs\n");
}

#[test]
fn a_key_enqueues_once() {
    let home = Home::new();
    let command = ["enqueue", "tick", "--idempotency-key", "nightly/2031-01-31"];
    let first = home.json(&command);
    assert_eq!(first["repeated"], false);
    let again = home.json(&command);
    assert_eq!((&again["id"], &again["repeated"]), (&first["id"], &true.into()));
    assert_eq!(home.run(&command).done().stdout.trim(), first["id"].to_string());
    assert_eq!(home.json(&["queues"])[0]["available"], 1);
    let long = "k".repeat(201);
    home.run(&["enqueue", "tick", "--idempotency-key", &long]).refused(2, &["got 201", "[invalid_option]"]);
    home.run(&["enqueue", "tick", "--idempotency-key", ""]).refused(2, &["got 0"]);
}

#[test]
fn a_unique_job_is_enqueued_once() {
    let home = Home::new();
    let command = ["enqueue", "report", r#"{"user": 7, "day": 1}"#, "--unique-fields", "user"];
    let first = home.json(&command);
    assert_eq!(first["conflict"], serde_json::Value::Null);
    let again = home.json(&command);
    assert_eq!((&again["id"], &again["conflict"]), (&first["id"], &"kept".into()));
    let told = home.run(&command).done();
    assert_eq!(told.stdout, format!("{}\n", first["id"]));
    assert_eq!(
        told.stderr,
        format!("job {} has the key and was kept; this one was not stored\n", first["id"])
    );
    let args = ["enqueue", "report", "{}", "--unique-args", "--unique-for", "1h", "--on-conflict", "extend"];
    home.json(&args);
    assert_eq!(home.json(&args)["conflict"], "extended");
    home.run(&["enqueue", "report", "--unique-args", "--max-wait", "5s"])
        .refused(2, &["--on-conflict replace"]);
    let keyed = |rule| {
        ["enqueue", "k", "--unique-key", "a", "--unique-in-queue", "--delay", "1h", "--on-conflict", rule]
    };
    assert_eq!(home.run(&keyed("error")).done().stderr, "");
    home.run(&keyed("error")).refused(1, &["has its unique key", "[unique_conflict]"]);
    assert_eq!(home.json(&keyed("replace"))["conflict"], "replaced");
    home.run(&["enqueue", "report", "{}", "--unique-fields", "user"])
        .refused(2, &["\"user\"", "[invalid_args]"]);
    home.run(&["enqueue", "k", "--unique-for", "1h"]).refused(2, &["--unique-key"]);
    home.run(&["enqueue", "k", "--unique-key", "a", "--unique-args"]).refused(2, &["cannot be used with"]);
}

/// A run that was cut off, here by a bad line, is repeated with the same command once the line is right.
#[test]
fn many_under_a_key_can_be_repeated() {
    let home = Home::new();
    let line = |n: usize| format!("{{\"kind\":\"k\",\"args\":{n}}}\n");
    let lines = |jobs: std::ops::Range<usize>| jobs.map(line).collect::<String>();
    let command = ["enqueue", "--many", "--json", "--idempotency-key", "import"];
    let broken = format!("\n{}oops\n{}", lines(0..7_000), lines(7_001..12_000));
    home.run_with(&command, broken.as_bytes()).refused(2, &["line 7002", "\"enqueued\": 5000"]);

    let whole = format!("\n{}", lines(0..12_000));
    for (enqueued, repeated) in [(7_000, 5_000), (0, 12_000)] {
        let answer = home.run_with(&command, whole.as_bytes()).done();
        let answer: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
        assert_eq!((&answer["enqueued"], &answer["repeated"]), (&enqueued.into(), &repeated.into()));
        assert!(answer["first_id"].as_i64() < answer["last_id"].as_i64());
    }
    assert_eq!(home.json(&["queues"])[0]["available"], 12_000);

    // An input that grew has another last batch: the one of 2,000 jobs cannot become one of 2,001.
    let grown = format!("\n{}", lines(0..12_001));
    let words = [
        "lines 10002 to 12002:",
        "import/10002",
        "2000 jobs, now for 2001",
        "10000 more by",
        "[invalid_option]",
    ];
    let plain = ["enqueue", "--many", "--idempotency-key", "import"];
    home.run_with(&plain, grown.as_bytes()).refused(2, &words);
    assert_eq!(home.json(&["queues"])[0]["available"], 12_000);
}

#[test]
fn a_key_of_many_leaves_room_for_line_numbers() {
    let home = Home::new();
    let (longest, longer) = ("k".repeat(179), "k".repeat(180));
    let run =
        |key: &str| home.run_with(&["enqueue", "--many", "--idempotency-key", key], b"{\"kind\":\"k\"}\n");
    assert_eq!(run(&longest).done().stdout, "enqueued 1 jobs, 0 were stored before\n");
    assert_eq!(run(&longest).done().stdout, "enqueued 0 jobs, 1 were stored before\n");
    run(&longer).refused(2, &["1 to 179 bytes, got 180", "[invalid_option]"]);
    run("").refused(2, &["got 0"]);
}

#[test]
fn a_job_with_times_and_tags_of_its_own() {
    let home = Home::new();
    let options = [
        "--timeout",
        "5s",
        "--backoff",
        "linear:2s:1m",
        "--expires-in",
        "1h",
        "--tag",
        "urgent",
        "--tag",
        "b c",
        "--cost",
        "5",
    ];
    let id = home.enqueue(&[&["a"][..], &options].concat());
    let job = home.json(&["jobs", "show", &id]);
    assert_eq!((&job["timeout_ms"], &job["tags"]), (&5_000.into(), &serde_json::json!(["urgent", "b c"])));
    let policy = &job["retry_policy"];
    assert_eq!(
        (&policy["backoff"], &policy["base_ms"], &policy["max_ms"]),
        (&"linear".into(), &2_000.into(), &60_000.into())
    );
    assert!(job["expires_at"].as_str() > job["enqueued_at"].as_str());
    let text = home.run(&["jobs", "show", &id]).done().stdout;
    for words in [
        "tags      urgent, b c",
        "timeout   5s",
        "backoff   linear from 2s, at most 60s, ± 10 %",
        "expires   20",
        "cost      5",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let line = r#"{"kind":"m","timeout_ms":7,"expires_in_ms":60000,"retry_policy":{"backoff":"fixed","base_ms":9},"tags":["urgent"],"cost":6}"#;
    home.run_with(&["enqueue", "--many"], line.as_bytes()).done();
    home.enqueue(&["other"]);
    let found = &home.json(&["jobs", "list", "--tag", "urgent"])["jobs"];
    let kinds: Vec<_> = found.as_array().unwrap().iter().map(|job| job["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["m", "a"]);
    assert_eq!((&found[0]["timeout_ms"], &found[0]["retry_policy"]["base_ms"]), (&7.into(), &9.into()));
    assert!(found[0]["expires_at"].is_string());
    assert_eq!((&found[0]["cost"], &job["cost"]), (&6.into(), &5.into()));
}

#[test]
fn absurd_times_are_refused() {
    let home = Home::new();
    for (options, words) in [
        (&["--timeout", "0s"][..], "leaves no time"),
        (&["--timeout=-5s"], "invalid duration"),
        (&["--expires-in", "0s"], "leaves no time"),
        (&["--expires-in", "1m", "--delay", "1m"], "it would never run"),
        (&["--expires-in", "1m", "--expires-at", "2031-01-01T00:00:00Z"], "cannot be used with"),
        (&["--backoff", "sometimes"], "write it like linear:10s"),
        (&["--cost", "0"], "the cost of a job must be 1 to 1000000, got 0"),
        (&["--tag", ""], "a tag must be 1 to 100 bytes"),
    ] {
        home.run(&[&["enqueue", "a"][..], options].concat()).refused(2, &[words]);
    }
}

#[test]
fn an_input_of_another_form_is_told_what_it_is() {
    let home = Home::new();
    for (input, words) in [
        (&b"[{\"kind\":\"a\"}]\n"[..], "the JSON object of one job, not an array"),
        (b"{\"kind\":\"a\"}\n [\n", "line 2: a line is the JSON object"),
        (b"\xef\xbb\xbf{\"kind\":\"a\"}\n", "byte order mark"),
        (b"\xff\xfe{\0", "byte order mark"),
    ] {
        home.run_with(&["enqueue", "--many"], input).refused(2, &[words, "0 jobs were enqueued"]);
    }
}

/// Who is told of an error alone enqueues once more.
#[test]
fn what_is_stored_and_cannot_be_printed_is_said_to_be_stored() {
    let home = Home::new();
    fs::write(home.path().join("lines"), "{\"kind\":\"a\"}\n").unwrap();
    for (args, words) in [
        (&["enqueue", "a"][..], "job 1 is stored"),
        (&["enqueue", "a", "--idempotency-key", "k"], "job 2 is stored"),
        (&["enqueue", "--many", "lines"], "all of the input is stored"),
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = home.command(args).stdin(Stdio::null()).stdout(full).output().unwrap();
        Answer::from(output).refused(1, &[words, "cannot be printed", "[io]"]);
    }
    assert_eq!(home.json(&["queues"])[0]["available"], 3);
}

/// The input goes on for ever. It was killed by the signal, and nobody knew what to enqueue again.
#[test]
fn many_that_is_interrupted_says_what_is_stored() {
    let home = Home::new();
    for (key, go_on) in [(None, "go on with the next line"), (Some("import"), "the same call goes on")] {
        let before = home.json(&["queues"])[0]["available"].as_u64().unwrap_or_default();
        let mut command = home.command(&["enqueue", "--many"]);
        command.args(key.map(|key| ["--idempotency-key", key]).iter().flatten());
        let mut child = home.spawn(command.stdin(Stdio::piped()));
        child.stdin.as_mut().unwrap().write_all("{\"kind\":\"a\"}\n".repeat(5_001).as_bytes()).unwrap();
        eventually("a batch is stored", || home.json(&["queues"])[0]["available"] == before + 5_000);
        // Its end may not be told yet: then it ends before the next batch, which needs more lines.
        signal(&child, "INT");
        let input = child.stdin.take(); // stays open
        let told =
            ["[interrupted]", "5000 jobs were enqueued, all up to line 5000, and none behind it", go_on];
        Answer::from(child.wait_with_output().unwrap()).refused(1, &told);
        drop(input);
        assert_eq!(home.json(&["queues"])[0]["available"], before + 5_000);
    }
}
