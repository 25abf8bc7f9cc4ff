use crate::program::Home;
use std::fs;

/// Works everything off with a program.
fn work(home: &Home, program: &str) -> crate::program::Answer {
    home.run(&["work", "--until-empty", "--exec", program]).done()
}

#[test]
fn a_program_gets_its_job() {
    let home = Home::new();
    let id = home.enqueue(&["mail.send", r#"{"to":"a"}"#, "--queue", "mail", "--max-attempts", "7"]);
    let program = r#"{ cat; echo "|$WINDLASS_JOB_ID|$WINDLASS_KIND|$WINDLASS_QUEUE|$WINDLASS_ATTEMPT|$WINDLASS_MAX_ATTEMPTS"; } > seen"#;
    home.run(&["work", "--until-empty", "--exec", program, "--queue", "mail=3"]).done();
    let seen = fs::read_to_string(home.path().join("seen")).unwrap();
    assert_eq!(seen, format!("{{\"to\":\"a\"}}|{id}|mail.send|mail|1|7\n"));
    assert_eq!(home.state(&id), "completed");
}

#[test]
fn the_exit_code_is_the_fate() {
    let home = Home::new();
    for (program, state, error) in [
        ("exit 0", "completed", None),
        ("echo one >&2; echo two >&2; exit 3", "retryable", Some("exit code 3: one\ntwo")),
        ("exit 1", "retryable", Some("exit code 1")),
        ("kill -9 $$", "retryable", Some("killed by signal 9 (SIGKILL)")),
        ("exit 75", "scheduled", None),
        ("no-such-program-here", "retryable", Some("exit code 127")),
    ] {
        let id = home.enqueue(&["a"]);
        work(&home, program);
        let job = home.json(&["jobs", "show", &id]);
        assert_eq!(job["state"], state, "{program}");
        let kept = job["errors"][0]["error"].as_str();
        assert_eq!(kept.is_some(), error.is_some(), "{program}: {kept:?}");
        assert!(kept.unwrap_or_default().starts_with(error.unwrap_or_default()), "{program}: {kept:?}");
    }
    let id = home.enqueue(&["a"]);
    work(&home, "echo hopeless >&2; exit 65");
    let job = home.json(&["jobs", "show", &id]);
    assert_eq!((&job["state"], &job["reason"]), (&"discarded".into(), &"exit code 65: hopeless".into()));
}

#[test]
fn the_last_attempt_ends_in_discard() {
    let home = Home::new();
    let id = home.enqueue(&["a", "--max-attempts", "1"]);
    work(&home, "echo no >&2; exit 1");
    let job = home.json(&["jobs", "show", &id]);
    assert_eq!((&job["state"], &job["errors"][0]["attempt"]), (&"discarded".into(), &1.into()));
}

#[test]
fn the_error_is_the_end_of_stderr_bounded_and_harmless() {
    let home = Home::new();
    let id = home.enqueue(&["a"]);
    work(&home, r#"head -c 1000000 /dev/zero | tr '\0' x >&2; printf '\033[31mred\0end' >&2; exit 1"#);
    let job = home.json(&["jobs", "show", &id]);
    let error = job["errors"][0]["error"].as_str().unwrap();
    assert!(error.len() < 9_000 && error.ends_with("red\u{fffd}end"), "{error}");
    assert!(!home.run(&["jobs", "show", &id]).done().stdout.contains('\u{1b}'));
}

#[test]
fn a_program_need_not_read_its_args_nor_wait_for_its_children() {
    let home = Home::new();
    let large = format!("\"{}\"", "x".repeat(1_000_000));
    let id = home.run_with(&["enqueue", "a", "-"], large.as_bytes()).done().stdout;
    // The child keeps stderr open until the file is there, which is only after the worker has ended.
    work(&home, "(while [ ! -e go ]; do sleep 0.05; done) > out & exit 0");
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(home.state(id.trim()), "completed");
}

#[test]
fn a_program_that_takes_too_long_is_stopped_with_its_children() {
    let (error, child) = timed_out("echo working >&2; sh -c 'echo $$ > child; exec sleep 300' & wait");
    assert_eq!(error, "timeout after 2s: the program was stopped: working");
    crate::program::eventually("the program's child is gone", || !alive(&child));
}

#[test]
fn what_the_job_says_of_its_timeout_goes_before_what_the_worker_says() {
    let home = Home::new();
    let long = home.enqueue(&["long", "--timeout", "10m"]);
    let short = home.enqueue(&["short", "--timeout", "100ms"]);
    let program = "case $WINDLASS_KIND in short) exec sleep 300;; *) sleep 1;; esac";
    home.run(&["work", "--until-empty", "--timeout", "300ms", "--exec", program]).done();
    assert_eq!(home.state(&long), "completed");
    let job = home.json(&["jobs", "show", &short]);
    assert_eq!(job["errors"][0]["error"], "timeout after 100ms: the program was stopped");
}

/// The shell dies of the first signal, and its child does not listen to it.
#[test]
fn what_outlives_its_shell_is_killed() {
    let (_, child) = timed_out("sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.1; done' & wait");
    crate::program::eventually("the child is gone", || !alive(&child));
}

/// Runs a program that takes longer than its 2 seconds, and whose child writes who it is. The error of its job, and that child.
fn timed_out(program: &str) -> (String, String) {
    for _ in 0..5 {
        let home = Home::new();
        let id = home.enqueue(&["a"]);
        home.run(&["work", "--until-empty", "--timeout", "2s", "--exec", program]).done();
        let job = home.json(&["jobs", "show", &id]);
        let error = job["errors"][0]["error"].as_str().unwrap();
        let child = fs::read_to_string(home.path().join("child")).unwrap_or_default();
        // Else the machine stood still for so long that the child did not come so far: once more.
        if !child.is_empty() {
            return (error.to_owned(), child.trim().to_owned());
        }
    }
    panic!("the child never began: {program}");
}

pub(crate) fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn kinds_without_a_program_wait_for_another_worker() {
    let home = Home::new();
    let (mine, other) = (home.enqueue(&["mine"]), home.enqueue(&["other"]));
    home.run(&["work", "--until-empty", "--exec", "true", "--kind", "mine"]).done();
    assert_eq!((home.state(&mine), home.state(&other)), ("completed".into(), "available".into()));
    work(&home, "true");
    assert_eq!(home.state(&other), "completed");
}

#[test]
fn several_queues_and_a_report() {
    let home = Home::new();
    for queue in ["a", "b", "c"] {
        home.enqueue(&["k", "--queue", queue]);
    }
    let report = home.json(&["work", "--until-empty", "--exec", "true", "--queue", "a=2", "--queue", "b"]);
    assert_eq!((&report["claimed"], &report["completed"]), (&2.into(), &2.into()));
    let available: Vec<_> =
        home.json(&["queues"]).as_array().unwrap().iter().map(|q| q["available"].clone()).collect();
    assert_eq!(available, [0, 0, 1]);
}

/// Whatever became of a job is in the summary.
#[test]
fn the_report_leaves_no_job_out() {
    let home = Home::new();
    home.enqueue(&["timely"]);
    home.enqueue(&["late", "--expires-in", "1ms"]);
    home.enqueue(&["late", "--expires-in", "1ms"]);
    std::thread::sleep(std::time::Duration::from_millis(10));
    let said = work(&home, "true").stdout;
    let words = "jobs taken: 3; 1 completed, 0 to be retried, 0 put off, 2 cancelled or expired, 0 discarded, 0 handed back";
    assert_eq!(said.trim(), words);
    home.enqueue(&["late", "--expires-in", "1ms"]);
    std::thread::sleep(std::time::Duration::from_millis(10));
    let told = home.json(&["work", "--until-empty", "--exec", "true"]);
    assert_eq!(
        (&told["claimed"], &told["cancelled"], &told["taken_away"]),
        (&1.into(), &1.into(), &0.into())
    );
}

/// What a program prints is the result of its job, where that is asked for and the job completes.
#[test]
fn what_a_program_prints_is_the_result() {
    let home = Home::new();
    let ids: Vec<_> = ["json", "text", "quiet", "large", "fails"]
        .map(|kind| home.enqueue(&[kind, "7", "--max-attempts", "1"]))
        .into();
    let program = r#"case $WINDLASS_KIND in
        json) printf '{"twice": %d}' $((2 * $(cat))) ;;
        text) echo 'all "done"'; echo noise >&2 ;;
        large) head -c 2000000 /dev/zero | tr '\0' x ;;
        fails) echo half; exit 3 ;;
    esac"#;
    let told = home.json(&["work", "--until-empty", "--results", "--exec", program]);
    assert_eq!((&told["completed"], &told["discarded"]), (&3.into(), &2.into()), "{told}");
    let shown = |nth: usize| home.json(&["jobs", "show", &ids[nth]]);
    assert_eq!(shown(0)["result"], serde_json::json!({ "twice": 14 }));
    assert_eq!(shown(1)["result"], "all \"done\"");
    assert!(shown(2)["result"].is_null() && shown(4)["result"].is_null());
    assert!(shown(3).to_string().contains("the limit is 1048576"), "{}", shown(3));
    home.run(&["work", "--results", "--stdio", "true"]).refused(2, &["--results"]);
    // Not where nobody asked.
    let id = home.enqueue(&["json", "7"]);
    home.run(&["work", "--until-empty", "--exec", program]).done();
    assert!(home.json(&["jobs", "show", &id])["result"].is_null());
}

/// Progress, log and checkpoint, whatever ends the attempt, to the last line and the one without an end; the next attempt gets the checkpoint.
#[test]
fn what_a_program_says_of_its_job_is_kept() {
    let home = Home::new();
    let id = home.enqueue(&["import", "--backoff", "fixed:1ms"]);
    let program = r#"say() { echo "$@" > "$WINDLASS_REPORT"; }
        say log "begins after ${WINDLASS_CHECKPOINT:-nothing}"
        case $WINDLASS_ATTEMPT in
        1) say progress 40 page 2 of 5; say checkpoint page 2; exit 1 ;;
        2) say checkpoint '{"page": 3}'; say percent 60; say progress many; say checkpoint "$(head -c 70000 /dev/zero | tr '\0' x)"; kill -9 $$ ;;
        *) printf 'progress 100' >&3 ;;
        esac"#;
    work(&home, program);
    let job = home.json(&["jobs", "show", &id]);
    assert_eq!((&job["state"], &job["attempt"]), (&"completed".into(), &3.into()), "{job}");
    let report = &job["report"];
    assert_eq!(report["checkpoint"], serde_json::json!({ "page": 3 }), "{report}");
    assert_eq!(report["progress"], serde_json::json!({ "percent": 100.0, "note": null }));
    let log: Vec<_> =
        report["log"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect();
    let [first, second, unknown, number, large, third] = log[..] else { panic!("{log:?}") };
    assert_eq!(
        [first, second, third],
        ["begins after nothing", "begins after page 2", "begins after {\"page\": 3}"]
    );
    for (line, why) in [(unknown, "progress, log or checkpoint"), (number, "0 to 100"), (large, "65600")] {
        assert!(line.starts_with("left out") && line.contains(why), "{line}");
    }
}
