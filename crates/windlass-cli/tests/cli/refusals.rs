//! Every bad input: its exit code, and a message that says what to do.

use crate::program::{Answer, Home};

#[test]
fn usage_errors_exit_with_2() {
    let home = Home::new();
    for (args, words) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["enqueue"], "<KIND"),
        (&["enqueue", "a", "{oops"], "args are not valid JSON"),
        (&["enqueue", "mail", "{to: anna}"], r#"write them between single quotes, as in '{"to": "anna"}'"#),
        (&["schedules", "set", "s", "@daily", "k", "anna"], "write them between single quotes"),
        (&["jobs", "edit", "1", "--args", "anna"], "write them between single quotes"),
        (&["enqueue", "a", "\"\\u0000\""], "NUL"),
        (&["enqueue", "a b"], "invalid kind"),
        (&["enqueue", "a", "--queue", "ä"], "invalid queue name"),
        (&["enqueue", "a", "--priority", "40000"], "40000"),
        (&["enqueue", "a", "--max-attempts", "0"], "max_attempts must be 1"),
        (&["enqueue", "a", "--delay", "5"], "write it like 250ms"),
        (&["enqueue", "a", "--delay", "200000d"], "100 years"),
        (
            &["enqueue", "a", "--at", "tomorrow"],
            "\"tomorrow\" is no time; write it like 2031-01-31T08:00:00Z",
        ),
        (&["enqueue", "a", "--expires-at", "2031-01-31T08:00:00"], "the offset of your zone"),
        (&["jobs", "edit", "1", "--at", "08:00"], "the offset of your zone"),
        (&["schedules", "set", "s", "@daily", "k", "--start", "2031-01-31"], "the offset of your zone"),
        (&["schedules", "preview", "@daily", "--after", "now"], "the offset of your zone"),
        (&["audit", "--since", "1h"], "the offset of your zone"),
        (&["enqueue", "a", "--at", "2031-01-01T00:00:00Z", "--delay", "1s"], "cannot be used with"),
        (&["enqueue", "a", "--many"], "cannot be used with"),
        (&["enqueue", "a", "--args-file", "nowhere.json"], "nowhere.json"),
        (&["jobs", "list", "--state", "odd"], "unknown job state"),
        (
            &["jobs", "list", "--state", "blocked"],
            "use one of scheduled, available, running, retryable, completed, cancelled, discarded",
        ),
        (&["jobs", "cancel", "--queue", ""], "invalid queue name \"\""),
        (&["jobs", "cancel", "--queue", "ä ö"], "use 1 to 128 of letters"),
        (&["jobs", "list", "--kind", "a b"], "invalid kind \"a b\""),
        (&["jobs", "delete", "--tag", ""], "a tag must be 1 to 100 bytes"),
        (&["jobs", "cancel", "--all", "--queue", "q"], "cannot be used with"),
        (&["jobs", "list", "--limit", "0"], "0 is not in 1..=10000"),
        (&["jobs", "show", "x"], "invalid value 'x'"),
        (&["jobs", "cancel"], "<IDS|"),
        (&["work"], "--exec"),
        (&["work", "--exec", ""], "is a variable unset?"),
        (&["work", "--exec", " \n# later: mail"], "it names no program"),
        (&["work", "--stdio", " "], "it names no program"),
        (&["work", "--exec", "true", "--queue", "q=0"], "concurrency"),
        (&["work", "--exec", "true", "--queue", "q=x"], "NAME=CONCURRENCY"),
        (&["work", "--exec", "true", "--queue", "a b"], "invalid queue name"),
        (&["work", "--exec", "true", "--lease", "1ms"], "lease must be at least"),
        (&["work", "--exec", "true", "--timeout", "0s"], "a timeout of 0 leaves no time"),
        (
            &["retention", "set", "--outcome", "failed", "--age", "1d"],
            "use one of completed, cancelled, discarded",
        ),
        (&["status", "--store", "redis://u:secret@h"], "use sqlite:FILE"),
        (&["status", "--store", "sqlite::memory:"], "memory"),
        (&["status", "--store", "sqlite:///jobs.db"], "write sqlite:jobs.db for one in this folder"),
        (&["jobs", "list", "--store", "sqlite:new.db?mode=ro"], "unknown parameter"),
        (&["top", "--store", "sqlite:folder/"], "names no file"),
        (&["status", "--log", "a=b=c"], "invalid log filter"),
        (&["serve", "--listen", ":8080"], "write a port as 9464 for this machine alone"),
        (&["demo", "--jobs", "-1"], "-1"),
        (&["demo", "--concurrency", "0"], "0 is not in 1..=100000"),
        (&["grant"], "permissions of its file"),
        (&["grant", "worker", "me"], "permissions of its file"),
        (&["grant", "worker"], "<ROLE>"),
        (&["grant", "admin", "me"], "sql-producer, producer, viewer, operator, worker"),
        (&["grant", "--revoke"], "<ROLE>"),
        (&["migrate", "--print-grants", "worker"], "--role <NAME>"),
        (&["migrate", "--role", "me"], "--print-grants <ACCESS>"),
        (&["migrate", "--print-grants", "worker", "--role", "me"], "permissions of its file"),
        (&["migrate", "--print-grants", "worker", "--role", "", "--store", "postgres://h/d"], "it is empty"),
        (
            &["migrate", "--print-grants", "worker", "--role", "public", "--store", "postgres://h/d"],
            "everybody",
        ),
        (
            &["migrate", "--print-grants", "worker", "--role", "me", "--store", "postgres://h/d?schema=A"],
            "schema name",
        ),
    ] {
        let answer = home.run(args).refused(2, &["error: ", words]);
        assert_eq!(answer.stdout, "", "{args:?}");
        assert!(!answer.stderr.contains("secret"), "{args:?}");
    }
}

/// No shell took their quotes.
#[test]
fn args_of_a_file_are_not_told_to_be_quoted() {
    let home = Home::new();
    std::fs::write(home.path().join("args.json"), "{to: anna}").unwrap();
    let file = home.run(&["enqueue", "mail", "--args-file", "args.json"]);
    for answer in [file, home.run_with(&["enqueue", "mail", "-"], b"{to: anna}")] {
        let answer = answer.refused(2, &["args are not valid JSON"]);
        assert!(!answer.stderr.contains("single quotes"), "{}", answer.stderr);
    }
}

#[test]
fn errors_are_json_when_json_is_asked_for() {
    let home = Home::new();
    for (args, code, expected) in [
        (&["enqueue", "a", "{oops", "--json"][..], 2, "invalid_args"),
        (&["--json", "jobs", "show", "7"], 1, "not_found"),
        (&["jobs", "--json", "list", "--limit", "x"], 2, "usage"),
        (&["status", "--json", "--store", "redis://u:secret@h"], 2, "invalid_option"),
    ] {
        let answer = home.run(args).refused(code, &[]);
        let error: serde_json::Value = serde_json::from_str(&answer.stderr).expect("JSON on stderr");
        assert_eq!(error["error"]["code"], expected);
        assert!(error["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
        assert!(!answer.stderr.contains("secret"));
    }
}

#[test]
fn a_store_out_of_reach_exits_with_3() {
    let home = Home::bare();
    // Port 1 is reserved and nobody listens on it.
    let url = "postgres://me:secret@127.0.0.1:1/app";
    let answer = home.run(&["status", "--store", url]).refused(3, &["error: ", "[unavailable]"]);
    assert!(!answer.stderr.contains("secret"), "{}", answer.stderr);
    let mut command = home.command(&["queues"]);
    let answer: crate::program::Answer =
        command.env("WINDLASS_STORE", url).output().expect("run windlass").into();
    answer.refused(3, &["[unavailable]"]);
}

#[test]
fn a_missing_schema_exits_with_3_and_says_what_to_do() {
    let home = Home::bare();
    for args in [&["status"][..], &["jobs", "list"], &["queues"], &["jobs", "cancel", "1"]] {
        home.run(args).refused(3, &["windlass migrate", "[schema_missing]"]);
    }
    let report = home.json(&["migrate"]);
    assert_eq!((report["from"].as_u64(), report["to"].as_u64() > Some(0)), (Some(0), true));
    assert_eq!(home.json(&["migrate"])["from"], report["to"]);
    home.run(&["queues"]).done();
}

#[test]
fn help_and_version_are_no_errors() {
    let home = Home::bare();
    for args in [&["--help"][..], &["work", "--help"], &["demo", "-h"], &["--version"]] {
        let answer = home.run(args).done();
        assert!(!answer.stdout.is_empty() && answer.stderr.is_empty());
    }
}

/// What stands behind the first line of a command's help.
#[test]
fn help_says_how_a_command_is_used() {
    let home = Home::bare();
    for (args, words) in [
        (["work", "--help"], &["WINDLASS_JOB_ID", "65 discards it", "WINDLASS_REPORT", "stdio.md"][..]),
        (["serve", "--help"], &["Without --auth only this machine is served", "operate.md"]),
        (["top", "--help"], &["q ends, p pauses"]),
        (["demo", "--help"], &["in a queue of its own"]),
        (["token", "--help"], &["It is printed once"]),
        (["help", "work"], &["65 discards it"]),
    ] {
        let help = home.run(&args).done().stdout;
        words.iter().for_each(|word| assert!(help.contains(word), "{word:?} is missing in {help}"));
    }
    assert!(home.run(&["--help"]).done().stdout.starts_with("A durable background-job queue"));
    home.run(&["work"]).refused(2, &["<--exec <CMD>|--stdio <CMD>>"]);
    home.run(&["work", "--exec", "a", "--stdio", "b"]).refused(2, &["cannot be used with"]);
}

/// Printing needs no server, and whatever the role is called is its name.
#[test]
fn grants_are_printed_without_a_server() {
    let home = Home::bare();
    let url = "postgres://me:secret@127.0.0.1:1/app?schema=jobs";
    let args = ["migrate", "--print-grants", "producer", "--role", "a\"; DROP ROLE b", "--store", url];
    let printed = home.run(&args).done().stdout;
    assert!(printed.contains(r#"GRANT USAGE ON SCHEMA "jobs" TO "a""; DROP ROLE b";"#), "{printed}");
    assert!(!printed.contains("secret") && !printed.contains('{'), "{printed}");
    assert_eq!(home.json(&args)["sql"], printed);
}

/// A file that reaches `ulimit -f` ended the program by a signal, a worker with all its jobs.
#[test]
fn a_file_that_may_not_grow_is_told() {
    let home = Home::new();
    std::fs::write(home.path().join("args.json"), format!("\"{}\"", "x".repeat(100_000))).unwrap();
    let enqueue = format!("'{}' enqueue big --args-file args.json", crate::PROGRAM);
    // Blocks of 512 bytes, or of 1024.
    let script =
        format!("ulimit -f 1200; n=0; while [ $n -lt 20 ] && {enqueue}; do n=$((n + 1)); done; {enqueue}");
    let output =
        std::process::Command::new("sh").args(["-c", &script]).current_dir(home.path()).output().unwrap();
    Answer::from(output).refused(1, &["the disk failed during a commit", "[ambiguous]"]);
    home.enqueue(&["small"]);
}

/// So docker compose hands on what nobody set.
#[test]
fn an_empty_variable_is_as_none() {
    let home = Home::new();
    home.enqueue(&["a"]);
    let run = |name: &str, args: &[&str]| -> Answer {
        home.command(args)
            .env(name, "")
            .stdin(std::process::Stdio::null())
            .output()
            .expect("run windlass")
            .into()
    };
    for name in [
        "WINDLASS_LOG",
        "WINDLASS_LOG_FORMAT",
        "WINDLASS_KEYS",
        "WINDLASS_KEYS_FILE",
        "WINDLASS_ACTOR",
        "WINDLASS_APP_VERSION",
    ] {
        run(name, &["work", "--exec", "true", "--until-empty"]).done();
    }
    run("WINDLASS_TRACE_URL", &["serve", "--auth", "nowhere"]).refused(2, &["auth file nowhere"]);
    // Jobs are not to go into a file of whatever folder this is.
    run("WINDLASS_STORE", &["enqueue", "a"]).refused(2, &["unknown store URL \"\""]);
}
