//! Programs that work many jobs over stdin and stdout, and what they can do wrong.

use crate::program::{Home, eventually, signal};
use serde_json::Value;
use std::{fs, process::Stdio};

/// What every program here begins with: `jobs()` gives the lines, `say(..)` writes one.
const BEGIN: &str = r#"
import json, os, signal, sys, time
def say(kind, job=None, **fields):
    ticket = {} if job is None else {"ticket": job["ticket"]}
    print(json.dumps({"type": kind, **ticket, **fields}), flush=True)
def lines():
    for line in sys.stdin:
        yield json.loads(line)
def jobs():
    return (line for line in lines() if line["type"] == "job")
"#;

impl Home {
    /// Writes a Python program, and how it is run.
    pub(crate) fn python(&self, name: &str, program: &str) -> String {
        fs::write(self.path().join(name), format!("{BEGIN}{program}")).unwrap();
        format!("exec python3 {name}")
    }

    /// Works everything off with a Python program; the report.
    pub(crate) fn stdio(&self, program: &str, args: &[&str]) -> Value {
        let command = self.python("worker.py", program);
        self.json(&[&["work", "--until-empty", "--stdio", &command], args].concat())
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        self.json(&["jobs", "show", id])
    }

    pub(crate) fn error(&self, id: &str) -> String {
        self.show(id)["errors"][0]["error"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) const COMPLETE_ALL: &str = r#"
say("ready", protocol=1)
for job in jobs():
    say("complete", job)
"#;

#[test]
fn a_program_gets_jobs_and_says_what_becomes_of_them() {
    let home = Home::new();
    let ids = ["complete", "retry", "later", "snooze", "cancel", "discard"].map(|kind| home.enqueue(&[kind]));
    let report = home.stdio(
        r#"
say("ready", protocol=1)
for job in jobs():
    match job["kind"]:
        case "complete": say("complete", job, result={"of": job["id"]})
        case "retry": say("retry", job, error="no route")
        case "later": say("retry", job, error="not yet", after_ms=3600000)
        case "snooze": say("snooze", job, after_ms=3600000)
        case "cancel": say("cancel", job, reason="not wanted")
        case "discard": say("discard", job, error="hopeless")
"#,
        &[],
    );
    let states = ids.each_ref().map(|id| home.state(id));
    assert_eq!(states, ["completed", "retryable", "retryable", "scheduled", "cancelled", "discarded"]);
    assert_eq!(home.show(&ids[0])["result"]["of"].to_string(), ids[0]);
    assert_eq!((home.error(&ids[1]), home.error(&ids[2])), ("no route".into(), "not yet".into()));
    assert_eq!(home.show(&ids[4])["reason"], "not wanted");
    let processes = &report["processes"];
    assert_eq!((&processes["started"], &processes["died"]), (&1.into(), &0.into()), "{report}");
}

#[test]
fn a_job_comes_with_all_that_is_known_of_it() {
    let home = Home::new();
    let args = "{\n\"to\": [\"ä\", 1e2]\n}";
    let id = home.enqueue(&[
        "mail.send",
        args,
        "--queue",
        "mail",
        "--max-attempts",
        "7",
        "--tag",
        "t",
        "--expires-at",
        "2100-01-01T00:00:00Z",
    ]);
    let program = COMPLETE_ALL
        .replace("say(\"complete\"", "open('seen', 'w').write(json.dumps(job)); say(\"complete\"");
    home.stdio(&program, &["--queue", "mail"]);
    let seen: Value = serde_json::from_str(&fs::read_to_string(home.path().join("seen")).unwrap()).unwrap();
    assert_eq!(seen["id"].to_string(), id);
    assert_eq!(
        (&seen["kind"], &seen["queue"], &seen["attempt"]),
        (&"mail.send".into(), &"mail".into(), &1.into())
    );
    assert_eq!((&seen["max_attempts"], &seen["tags"][0]), (&7.into(), &"t".into()));
    assert_eq!(seen["args"]["to"], serde_json::json!(["ä", 100.0]));
    assert!(seen["enqueued_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&seen["expires_at"], seen.get("crash_count")), (&"2100-01-01T00:00:00Z".into(), None));
}

#[test]
fn progress_log_and_checkpoints_reach_the_next_attempt() {
    let home = Home::new();
    let id = home.enqueue(&["import"]);
    let program = r#"
say("ready", protocol=1)
while line := sys.stdin.readline():
    job = json.loads(line)
    say("last_checkpoint", job)
    before = json.loads(sys.stdin.readline())["value"]
    if before is None:
        say("progress", job, percent=40, note="page 4")
        say("log", job, text="the other side hung up")
        say("checkpoint", job, value={"page": 4})
        kept = json.loads(sys.stdin.readline())
        say("retry", job, error=json.dumps(kept), after_ms=0)
    else:
        say("complete", job, result=before)
"#;
    eventually("the second attempt is done", || {
        home.stdio(program, &[]);
        home.state(&id) == "completed"
    });
    let job = home.show(&id);
    assert_eq!((&job["result"]["page"], &job["attempt"]), (&4.into(), &2.into()), "{job}");
    assert!(home.error(&id).contains(r#""value": {"page": 4}"#), "{job}");
    let said = &job["report"];
    assert_eq!((&said["progress"]["percent"], &said["progress"]["note"]), (&40.0.into(), &"page 4".into()));
    assert_eq!(said["log"][0]["text"], "the other side hung up");
}

#[test]
fn a_process_that_closes_its_stdin_is_replaced() {
    let home = Home::new();
    let ids = [(); 3].map(|()| home.enqueue(&["a"]));
    let program = r#"
say("ready", protocol=1)
job = next(jobs())
os.close(0)
say("complete", job)
time.sleep(600)
"#;
    let report = home.stdio(program, &[]);
    let errors = ids.each_ref().map(|id| home.error(id));
    assert_eq!(
        (home.state(&ids[0]), &*errors[1]),
        ("completed".into(), "the process that ran it closed its stdin, and goes on")
    );
    assert!(report["processes"]["died"].as_u64() >= Some(1), "{report}");
}

#[test]
fn several_processes_run_several_jobs_each() {
    let home = Home::new();
    for _ in 0..6 {
        home.enqueue(&["together"]);
    }
    // Each job ends when six have begun: two processes of three have to have them all at once.
    let program = r#"
say("ready", protocol=1, concurrency=3)
mine = []
for job in jobs():
    mine.append(job)
    open(f"began-{job['id']}", "w")
    if len(mine) == 3:
        while len([name for name in os.listdir(".") if name.startswith("began-")]) < 6: time.sleep(0.01)
        for job in mine: say("complete", job, result=os.getpid())
        mine = []
"#;
    let report = home.stdio(program, &["--processes", "2"]);
    assert_eq!((&report["completed"], &report["processes"]["started"]), (&6.into(), &2.into()), "{report}");
}

#[test]
fn kinds_that_the_program_does_not_run_wait_for_another_worker() {
    let home = Home::new();
    let (mine, other) = (home.enqueue(&["mine"]), home.enqueue(&["other"]));
    let program = COMPLETE_ALL.replace("protocol=1", "protocol=1, kinds=['mine']");
    home.stdio(&program, &[]);
    assert_eq!((home.state(&mine), home.state(&other)), ("completed".into(), "available".into()));
    let command = home.python("worker.py", &program);
    let refused = home.run(&["work", "--until-empty", "--stdio", &command, "--kind", "other"]);
    refused.refused(2, &["the program says that it runs mine, not \"other\""]);
}

#[test]
fn a_process_that_dies_fails_its_job_and_is_started_anew() {
    let home = Home::new();
    let fatal = ["exit", "kill"].map(|kind| home.enqueue(&[kind]));
    let fine = [(); 5].map(|()| home.enqueue(&["fine"]));
    let program = r#"
say("ready", protocol=1)
for job in jobs():
    if job["kind"] == "exit": sys.exit(3)
    if job["kind"] == "kill": os.kill(os.getpid(), signal.SIGKILL)
    say("complete", job)
"#;
    let report = home.stdio(program, &[]);
    assert!(fine.iter().all(|id| home.state(id) == "completed"));
    let errors = fatal.each_ref().map(|id| home.error(id));
    assert_eq!(errors[0], "the process that ran it ended with exit code 3");
    assert_eq!(errors[1], "the process that ran it was killed by signal 9 (SIGKILL)");
    assert_eq!((&report["processes"]["died"], &report["retried"]), (&2.into(), &2.into()), "{report}");
}

#[test]
fn a_process_that_says_stop_is_followed_by_another_and_loses_nothing() {
    let home = Home::new();
    let ids = [(); 6].map(|()| home.enqueue(&["a"]));
    let program =
        format!("{COMPLETE_ALL}    say('stop')\n").replace("protocol=1", "protocol=1, concurrency=2");
    let report = home.stdio(&program, &[]);
    assert!(ids.iter().all(|id| home.state(id) == "completed"));
    let processes = &report["processes"];
    assert_eq!((&processes["died"], &report["retried"]), (&0.into(), &0.into()), "{report}");
    let started = processes["started"].as_u64().unwrap();
    assert!((2..=7).contains(&started), "{report}");
}

#[test]
fn a_program_that_goes_on_after_its_time_is_killed_and_one_that_listens_is_not() {
    let home = Home::new();
    let (deaf, fine) = (home.enqueue(&["deaf", "--timeout", "100ms"]), home.enqueue(&["fine"]));
    let program = r#"
say("ready", protocol=1)
for job in jobs():
    if job["kind"] == "deaf": time.sleep(600)
    say("complete", job)
"#;
    let report = home.stdio(program, &[]);
    assert_eq!((home.state(&deaf), home.state(&fine)), ("retryable".into(), "completed".into()));
    assert!(home.error(&deaf).starts_with("timeout after 100ms"), "{}", home.error(&deaf));
    assert_eq!(report["processes"]["died"], 1, "{report}");

    let listens = home.enqueue(&["listens", "--timeout", "100ms"]);
    let program = r#"
say("ready", protocol=1, concurrency=2)
for line in lines():
    if line["type"] == "cancel": say("retry", line, error=line["reason"])
"#;
    let report = home.stdio(program, &[]);
    assert_eq!(home.error(&listens), "timeout after 100ms: timeout");
    assert_eq!(report["processes"]["died"], 0, "{report}");
}

#[test]
fn what_is_no_such_program_is_refused_at_once() {
    let home = Home::new();
    let too_new = home.python("new.py", "say('ready', protocol=2)\ntime.sleep(60)");
    let answers = home.python("answers.py", "say('complete', {'ticket': 1})\ntime.sleep(60)");
    for (command, words) in [
        ("true", "ended with exit code 0 before it said that it is ready"),
        ("no-such-program-here", "ended with exit code 127"),
        (too_new.as_str(), "speaks protocol 2"),
        (answers.as_str(), "before it said that it is ready"),
        ("echo '{\"type\":\"ready\"}'; sleep 60", "\"ready\" needs the field protocol"),
        ("echo '{\"type\":\"ready\",\"protocol\":1,\"concurrency\":0}'; sleep 60", "1 to 10000 can be"),
    ] {
        home.run(&["work", "--stdio", command]).refused(1, &[words, "[stdio]"]);
    }
    home.run(&["work", "--stdio", "true", "--processes", "0"]).refused(2, &["--processes must be 1 to 1000"]);
    home.run(&["work", "--exec", "true", "--processes", "2"])
        .refused(2, &["--processes", "cannot be used with"]);
    home.run(&["work"]).refused(2, &["--exec"]);
    home.run(&["work", "--exec", "true", "--stdio", "true"]).refused(2, &["cannot be used with"]);
}

#[test]
fn a_signal_lets_running_jobs_finish_and_ends_the_processes() {
    let home = Home::new();
    let ids = [(); 3].map(|()| home.enqueue(&["a"]));
    let program = r#"
say("ready", protocol=1)
for job in jobs():
    open(f"pid-{job['id']}", "w").write(str(os.getpid()))
    while not os.path.exists("go"): time.sleep(0.01)
    say("complete", job)
open("ended", "w")
"#;
    let command = home.python("worker.py", program);
    let worker = home.spawn(home.command(&["work", "--stdio", &command, "--json"]).stdin(Stdio::null()));
    eventually("a job runs", || home.path().join(format!("pid-{}", ids[0])).exists());
    signal(&worker, "TERM");
    eventually("the others are available", || home.json(&["queues"])[0]["available"] == 2);
    fs::write(home.path().join("go"), "").unwrap();
    let output = worker.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["completed"], &report["processes"]["died"]), (&1.into(), &0.into()), "{report}");
    assert!(home.path().join("ended").exists(), "the end of stdin let it end by itself");
}

#[test]
fn a_second_signal_hands_back_at_once_and_kills_what_goes_on() {
    let home = Home::new();
    let id = home.enqueue(&["a"]);
    let program = r#"
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("ready", protocol=1)
for job in jobs():
    open("pid", "w").write(str(os.getpid()))
    time.sleep(600)
"#;
    let command = home.python("worker.py", program);
    let worker = home.spawn(home.command(&["work", "--stdio", &command]).stdin(Stdio::null()));
    let pid = || fs::read_to_string(home.path().join("pid")).unwrap_or_default();
    eventually("the job runs", || !pid().is_empty());
    signal(&worker, "INT");
    signal(&worker, "TERM");
    let output = worker.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let job = home.show(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&"available".into(), &0.into()));
    eventually("its program is gone", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid())).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
}

#[test]
fn a_job_that_somebody_cancels_is_told_so() {
    let home = Home::new();
    let id = home.enqueue(&["a"]);
    let program = r#"
say("ready", protocol=1)
for line in lines():
    if line["type"] == "job": open("runs", "w")
    if line["type"] == "cancel": say("retry", line, error="stopped: " + line["reason"])
"#;
    let command = home.python("worker.py", program);
    let worker = home.spawn(home.command(&["work", "--stdio", &command]).stdin(Stdio::null()));
    eventually("the job runs", || home.path().join("runs").exists());
    home.run(&["jobs", "cancel", &id]).done();
    eventually("it is cancelled", || home.state(&id) == "cancelled");
    signal(&worker, "TERM");
    assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(home.show(&id)["reason"], "cancelled by request: stopped: cancelled");
}

#[test]
fn a_killed_workers_processes_end_and_its_jobs_are_finished_by_another() {
    let home = Home::new();
    let ids = [(); 4].map(|()| home.enqueue(&["a"]));
    let program = r#"
say("ready", protocol=1, concurrency=2)
for job in jobs():
    open(f"began-{os.getpid()}", "a").write("x")
open(f"ended-{os.getpid()}", "w")
"#;
    let named = |home: &Home, prefix: &str| {
        let files = fs::read_dir(home.path()).unwrap().map(|file| file.unwrap());
        files
            .filter(|file| file.file_name().to_string_lossy().starts_with(prefix))
            .map(|file| file.metadata().unwrap().len())
            .collect::<Vec<_>>()
    };
    let command = home.python("worker.py", program);
    let args = ["work", "--stdio", &command, "--processes", "2", "--lease", "1s"];
    let mut worker = home.spawn(home.command(&args).stdin(Stdio::null()));
    eventually("all jobs run", || named(&home, "began-").iter().sum::<u64>() == 4);
    signal(&worker, "KILL");
    worker.wait().unwrap();
    eventually("its processes end", || named(&home, "ended-").len() == 2);
    let heir = home.python("heir.py", COMPLETE_ALL);
    let mut heir = home.spawn(home.command(&["work", "--stdio", &heir]).stdin(Stdio::null()));
    eventually("the heir completes them", || ids.iter().all(|id| home.state(id) == "completed"));
    signal(&heir, "TERM");
    assert_eq!(heir.wait().unwrap().code(), Some(0));
}

#[test]
fn kinds_may_come_in_any_order_and_twice() {
    let home = Home::new();
    let ids = ["a", "b"].map(|kind| home.enqueue(&[kind]));
    // Each job ends when both have begun: there have to be two processes.
    let program = r#"
of = int(os.environ["WINDLASS_PROCESS"])
say("ready", protocol=1, kinds=["a", "b", "a"] if of else ["b", "a"])
for job in jobs():
    open(f"begun-{job['kind']}", "w")
    while not (os.path.exists("begun-a") and os.path.exists("begun-b")): time.sleep(0.01)
    say("complete", job)
"#;
    let report = home.stdio(program, &["--processes", "2"]);
    assert_eq!(ids.each_ref().map(|id| home.state(id)), ["completed", "completed"], "{report}");
    assert_eq!(report["processes"]["died"], 0, "{report}");
}

#[test]
fn a_program_says_how_long_attempts_of_its_kinds_may_take() {
    let home = Home::new();
    let slow = home.enqueue(&["slow"]);
    let program = r#"
say("ready", protocol=1, kinds=["slow", "other"], timeouts_ms={"slow": 100})
for line in lines():
    if line["type"] == "cancel": say("retry", line, error=line["reason"])
"#;
    home.stdio(program, &[]);
    assert_eq!(home.error(&slow), "timeout after 100ms: timeout");
    let unknown = home
        .python("unknown.py", "say('ready', protocol=1, kinds=['a'], timeouts_ms={'b': 1})\ntime.sleep(60)");
    let words = ["kind \"b\" has a timeout or a retry policy, and no handler", "[invalid_option]"];
    home.run(&["work", "--stdio", &unknown]).refused(2, &words);
}

/// It runs any kind, and says of some how long they may take; those that its worker leaves to others have no say here.
#[test]
fn a_program_of_any_kind_says_how_long_attempts_of_some_may_take() {
    let home = Home::new();
    let [slow, other] = ["slow", "other"].map(|kind| home.enqueue(&[kind]));
    let program = r#"
say("ready", protocol=1, concurrency=2, timeouts_ms={"slow": 100, "left": 100})
for line in lines():
    if line["type"] == "cancel": say("retry", line, error=line["reason"])
    elif line["kind"] == "other": say("complete", line)
"#;
    home.stdio(program, &[]);
    assert_eq!(
        (home.error(&slow).as_str(), home.state(&other).as_str()),
        ("timeout after 100ms: timeout", "completed")
    );
    let again = home.enqueue(&["slow"]);
    home.stdio(program, &["--kind", "slow"]);
    assert_eq!(home.error(&again), "timeout after 100ms: timeout");
}

#[test]
fn a_kind_that_no_job_can_have_is_refused() {
    let home = Home::new();
    let refused = |args: &[&str]| {
        home.run(&[&["work"], args].concat())
            .refused(2, &["invalid kind", "use 1 to 200 bytes without spaces", "[invalid_name]"]);
    };
    refused(&["--exec", "true", "--kind", ""]);
    refused(&["--exec", "true", "--kind", "fine", "--kind", "a b"]);
    let program = home.python("none.py", "say('ready', protocol=1, kinds=[''])\ntime.sleep(60)");
    refused(&["--stdio", &program]);
}

/// It was ready once, and cannot start any more: what its worker has claimed is not kept from a worker that has places.
#[test]
fn other_workers_run_what_is_left_of_a_program_that_cannot_start_any_more() {
    let home = Home::new();
    let ids = [(); 6].map(|()| home.enqueue(&["a"]));
    let program = r#"
if os.path.exists("was-there"): sys.exit(7)
open("was-there", "w")
say("ready", protocol=1)
next(jobs())
sys.exit(7)
"#;
    let command = home.python("broken.py", program);
    let args = ["work", "--stdio", &command, "--concurrency", "4"];
    let mut broken = home.spawn(home.command(&args).stdin(Stdio::null()));
    eventually("its job fails", || home.state(&ids[0]) == "retryable");
    let well = home.python("well.py", COMPLETE_ALL);
    let mut well = home.spawn(home.command(&["work", "--stdio", &well]).stdin(Stdio::null()));
    eventually("another completes the others", || ids[1..].iter().all(|id| home.state(id) == "completed"));
    assert!(broken.try_wait().unwrap().is_none(), "it goes on trying");
    for worker in [&mut broken, &mut well] {
        signal(worker, "TERM");
        assert_eq!(worker.wait().unwrap().code(), Some(0));
    }
}

/// It starts something that would go on for ever, and dies with a job, or ends at the end of its stdin.
#[test]
fn what_a_process_started_ends_with_it_however_it_ends() {
    let home = Home::new();
    for kind in ["die", "ok"] {
        home.enqueue(&[kind]);
    }
    home.stdio(
        r#"
import subprocess
started = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(started.pid, file=open("started", "a"))
say("ready", protocol=1)
for job in jobs():
    if job["kind"] == "die": os._exit(3)
    say("complete", job)
"#,
        &[],
    );
    let started = fs::read_to_string(home.path().join("started")).unwrap();
    assert_eq!(started.lines().count(), 2);
    for pid in started.lines() {
        crate::program::eventually("what it started is gone", || !crate::work::alive(pid));
    }
}
