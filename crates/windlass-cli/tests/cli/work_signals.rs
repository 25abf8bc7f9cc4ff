use crate::program::{Home, eventually, signal};
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

const SLOW: &str = "echo started >> started; while [ ! -e go ]; do sleep 0.05; done; echo done >> done";

fn lines(home: &Home, file: &str) -> usize {
    fs::read_to_string(home.path().join(file)).map_or(0, |text| text.lines().count())
}

#[test]
fn sigterm_lets_running_jobs_finish_and_returns_the_rest() {
    let home = Home::new();
    let ids: Vec<_> = (0..4).map(|_| home.enqueue(&["a"])).collect();
    let args = ["work", "--exec", SLOW, "--concurrency", "2"];
    let worker = home.spawn(home.command(&args).stdin(Stdio::null()));
    eventually("two jobs run", || lines(&home, "started") == 2);
    signal(&worker, "TERM");
    eventually("the others are available", || {
        home.json(&["queues"])[0]["available"] == 2 && home.json(&["queues"])[0]["running"] == 2
    });
    fs::write(home.path().join("go"), "").unwrap();
    let output = worker.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!((lines(&home, "started"), lines(&home, "done")), (2, 2));
    let states: Vec<_> = ids.iter().map(|id| home.state(id)).collect();
    assert_eq!(states.iter().filter(|state| *state == "completed").count(), 2, "{states:?}");
    let workers = home.json(&["status"])["workers"].clone();
    assert!(workers.as_array().unwrap().iter().all(|worker| worker["live"] == false), "{workers}");
}

#[test]
fn a_drained_worker_ends_what_it_runs_and_goes_with_success() {
    let home = Home::new();
    let ids = [home.enqueue(&["a"]), home.enqueue(&["a"])];
    let args = ["work", "--exec", SLOW, "--concurrency", "1", "--log", "info"];
    let mut worker = home.spawn(home.command(&args).stdin(Stdio::null()));
    eventually("a job runs", || lines(&home, "started") == 1);
    let id = home.json(&["workers"])[0]["id"].to_string();
    assert_eq!(home.run(&["workers", "drain", &id]).done().stdout, format!("worker {id} drains\n"));
    assert!(home.run(&["workers"]).done().stdout.contains("draining"));
    // Told by its next heartbeat, which comes some milliseconds after somebody asked for that: until then it takes jobs.
    let mut said = BufReader::new(worker.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("draining")), "it is told");
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(worker.wait().unwrap().code(), Some(0));
    let states = ids.map(|id| home.state(&id));
    assert_eq!((states, lines(&home, "done")), (["completed".to_owned(), "available".to_owned()], 1));
    assert_eq!(home.json(&["audit"])["entries"][0]["action"], "workers.drain");
    home.run(&["workers", "drain", &id]).refused(1, &[&format!("no worker {id}"), "[not_found]"]);
}

#[test]
fn a_worker_is_listed_with_what_it_runs() {
    let home = Home::new();
    home.enqueue(&["a"]);
    let [by_option, by_environment] =
        [("--app-version=2.4.1", ""), ("--concurrency=1", "2.4.0")].map(|(option, environment)| {
            let mut command = home.command(&[
                "work",
                "--exec",
                "TOKEN=secret ./bin/run.sh secret",
                "--queue",
                "other",
                option,
            ]);
            home.spawn(command.env("WINDLASS_APP_VERSION", environment).stdin(Stdio::null()))
        });
    eventually("both registered", || {
        home.json(&["workers"]).as_array().is_some_and(|workers| workers.len() == 2)
    });
    let workers = home.json(&["workers"]);
    let versions: std::collections::BTreeSet<_> =
        workers.as_array().unwrap().iter().map(|worker| worker["app_version"].as_str().unwrap()).collect();
    assert_eq!(versions.into_iter().collect::<Vec<_>>(), ["2.4.0", "2.4.1"]);
    let text = home.run(&["workers"]).done().stdout;
    assert!(text.contains(concat!("run.sh 2.4.1 (exec ", env!("CARGO_PKG_VERSION"), ")")), "{text}");
    assert!(!text.contains("secret"), "{text}");
    for worker in [by_option, by_environment] {
        signal(&worker, "TERM");
        assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(0));
    }
    home.run(&["work", "--exec", "true", "--app-version", "a\nb"])
        .refused(2, &["app_version", "control characters"]);
}

#[test]
fn a_worker_is_not_killed_by_a_signal_from_its_first_job_on() {
    let home = Home::new();
    for _ in 0..10 {
        let id = home.enqueue(&["a"]);
        home.run(&["work", "--exec", "kill -TERM $PPID"]).done();
        assert_eq!(home.state(&id), "completed");
    }
}

#[test]
fn a_signal_before_the_first_job_ends_what_was_started() {
    let home = Home::new();
    // It never says that it is ready.
    let program = "echo $$ > pid; exec sleep 1000";
    let worker = home.spawn(home.command(&["work", "--stdio", program]).stdin(Stdio::null()));
    eventually("the program runs", || lines(&home, "pid") == 1);
    signal(&worker, "TERM");
    let output = worker.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let pid = fs::read_to_string(home.path().join("pid")).unwrap();
    eventually("its program is killed", || is_over(&pid));
}

fn is_over(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

#[test]
fn a_second_signal_stops_now() {
    let home = Home::new();
    let id = home.enqueue(&["a"]);
    let program = "echo $$ > pid; trap '' TERM; while :; do sleep 0.05; done";
    let worker = home.spawn(home.command(&["work", "--exec", program]).stdin(Stdio::null()));
    eventually("the job runs", || lines(&home, "pid") == 1);
    signal(&worker, "INT");
    signal(&worker, "TERM");
    let output = worker.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let job = home.json(&["jobs", "show", &id]);
    assert_eq!((&job["state"], &job["attempt"]), (&"available".into(), &0.into()));
    let pid = fs::read_to_string(home.path().join("pid")).unwrap();
    eventually("its program is killed", || is_over(&pid));
}

/// With SIGHUP as a terminal's programs have it, also where these tests ignore it (nohup) and so would the program.
pub(crate) fn in_a_terminal(home: &Home, args: &[&str]) -> Command {
    let program = home.command(args);
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(program.get_program()).args(program.get_args());
    command.current_dir(home.path());
    for (name, _) in program.get_envs() {
        command.env_remove(name); // it has none but such
    }
    command
}

/// The programs have process groups of their own, so the terminal tells them nothing.
#[test]
#[cfg(target_os = "linux")]
fn a_terminal_that_goes_leaves_no_program_behind() {
    let home = Home::new();
    let id = home.enqueue(&["a"]);
    let program = "echo $$ > pid; while :; do sleep 0.05; done";
    let args = ["work", "--exec", program, "--grace-period", "1s"];
    let worker = home.spawn(in_a_terminal(&home, &args).stdin(Stdio::null()));
    eventually("the job runs", || lines(&home, "pid") == 1);
    signal(&worker, "HUP");
    let output = worker.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(home.state(&id), "available");
    let pid = fs::read_to_string(home.path().join("pid")).unwrap();
    eventually("its program is killed", || is_over(&pid));
}

#[test]
#[cfg(target_os = "linux")]
fn a_worker_that_was_told_to_outlive_its_terminal_does() {
    let home = Home::new();
    let ids = [home.enqueue(&["a"]), home.enqueue(&["a"])];
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap "" HUP; exec "$0" "$@""#, crate::PROGRAM]);
    shell.args(["work", "--exec", SLOW, "--concurrency", "1"]).current_dir(home.path()).stdin(Stdio::null());
    let worker = home.spawn(&mut shell);
    eventually("a job runs", || lines(&home, "started") == 1);
    signal(&worker, "HUP");
    fs::write(home.path().join("go"), "").unwrap();
    eventually("it went on to the next", || lines(&home, "done") == 2);
    signal(&worker, "TERM");
    assert_eq!(worker.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(ids.map(|id| home.state(&id)), ["completed", "completed"]);
}

#[test]
fn a_killed_workers_jobs_are_finished_by_another() {
    let home = Home::new();
    let ids: Vec<_> = (0..10).map(|_| home.enqueue(&["a"])).collect();
    let args = ["work", "--exec", SLOW, "--concurrency", "10", "--lease", "1s"];
    let mut worker = home.spawn(home.command(&args).stdin(Stdio::null()));
    eventually("all jobs run", || lines(&home, "started") == 10);
    signal(&worker, "KILL");
    worker.wait().unwrap();
    assert_eq!(home.json(&["queues"])[0]["running"], 10);

    let mut heir = home.spawn(home.command(&["work", "--exec", "true"]).stdin(Stdio::null()));
    eventually("the heir completes them", || home.json(&["queues"])[0]["completed"] == 10);
    signal(&heir, "TERM");
    assert_eq!(heir.wait().unwrap().code(), Some(0));
    fs::write(home.path().join("go"), "").unwrap();
    for id in ids {
        let job = home.json(&["jobs", "show", &id]);
        assert_eq!(
            (&job["state"], &job["attempt"], &job["crash_count"]),
            (&"completed".into(), &1.into(), &1.into())
        );
    }
}
