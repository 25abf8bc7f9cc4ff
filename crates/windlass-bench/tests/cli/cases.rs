use crate::program::{Home, eventually, signal};
use serde_json::Value;
use std::{collections::HashSet, fs, path::Path, process::Stdio};
use windlass::{Client, QueueStats};

/// What every report has.
const FIELDS: [&str; 9] =
    ["bench", "command", "windlass", "store", "place", "durability", "settling", "machine", "settings"];
/// What is told of every distribution.
const PERCENTILES: [&str; 8] =
    ["samples", "average_us", "p50_us", "p90_us", "p95_us", "p99_us", "p999_us", "max_us"];
/// The figures of every report that need no server.
const COSTS: [&str; 2] = ["cpu_seconds_per_million_jobs", "peak_memory_bytes"];

fn check(report: &Value, figures: &[&str]) {
    for field in FIELDS {
        assert!(report.get(field).is_some(), "{field} is missing in {report}");
    }
    assert!(report["store"].as_str().is_some_and(|store| store.starts_with("SQLite")), "{report}");
    assert_eq!(report["server"], Value::Null);
    assert!(report["machine"]["cores"].as_u64() > Some(0), "{report}");
    for figure in figures.iter().chain(&COSTS) {
        assert!(report["figures"][figure].is_number(), "{figure} is missing in {report}");
    }
}

fn check_distribution(report: &Value, name: &str, samples: u64) {
    let times = &report["figures"][name];
    for part in PERCENTILES {
        assert!(times[part].is_number(), "{name}.{part} is missing in {report}");
    }
    assert_eq!(times["samples"], samples, "{name} in {report}");
    let order: Vec<_> = PERCENTILES[2..].iter().map(|part| times[part].as_f64().unwrap()).collect();
    assert!(order.is_sorted(), "{name} in {report}");
}

fn sum(series: &Value) -> u64 {
    series.as_array().expect("a series").iter().map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn each_case_reports_its_settings_and_figures() {
    let home = Home::bare();
    type Case = (&'static [&'static str], &'static [&'static str], Option<(&'static str, u64)>);
    let cases: [Case; 20] = [
        (
            &["enqueue", "--mode", "copy", "--jobs", "2000"],
            &["enqueued_per_second"],
            Some(("enqueue_call", 1)),
        ),
        (
            &["enqueue", "--mode", "single", "--jobs", "200", "--clients", "4", "--with-worker"],
            &["enqueued_per_second"],
            Some(("enqueue_call", 200)),
        ),
        (&["drain", "--jobs", "2000", "--concurrency", "10"], &["completed_per_second"], None),
        (&["drain", "--jobs", "500", "--payload", "3000", "--workers", "2"], &["completed_per_second"], None),
        (
            &["work", "--jobs", "200", "--sleep-ms", "1", "--concurrency", "20"],
            &["of_theoretical_percent"],
            None,
        ),
        (&["work", "--jobs", "50", "--cpu", "10"], &["of_theoretical_percent"], None),
        (&["latency", "--samples", "20"], &[], Some(("latency", 20))),
        (&["latency", "--samples", "20", "--load", "0", "--gap", "1ms"], &[], Some(("latency", 20))),
        (&["latency", "--samples", "20", "--load", "20"], &["load_per_second"], Some(("latency", 20))),
        (
            &["enqueue", "--unique", "--mode", "single", "--jobs", "100", "--clients", "4"],
            &["enqueued_per_second"],
            Some(("enqueue_call", 100)),
        ),
        (&["enqueue", "--unique", "--jobs", "2000", "--with-worker"], &["enqueued_per_second"], None),
        (&["cancel", "--samples", "10", "--depth", "1000"], &[], Some(("token", 10))),
        (&["waiters", "--jobs", "300"], &[], Some(("told_after", 300))),
        (
            &["unique", "--keys", "20", "--jobs", "2000", "--batch", "30"],
            &["asked_per_second", "stored", "doubled", "lost"],
            None,
        ),
        (&["events", "--jobs", "2000"], &["events_per_second"], None),
        (&["startup", "--runs", "2"], &["total_ms"], None),
        (
            &["limited", "--jobs", "300", "--limit", "5", "--sleep-ms", "2", "--workers", "2"],
            &["completed_per_second", "unlimited_per_second", "of_unlimited_percent", "of_allowed_percent"],
            None,
        ),
        (&["limited", "--jobs", "300", "--rate", "200"], &["of_allowed_percent"], None),
        (
            &["keys", "--keys", "10", "--serial", "--jobs", "300", "--workers", "2"],
            &["completed_per_second", "of_without_keys_percent", "of_enqueued_without_keys_percent"],
            None,
        ),
        (
            &["keys", "--noisy", "3", "--jobs", "20000", "--sleep-ms", "40"],
            &["p99_ratio", "left"],
            Some(("beside", 3)),
        ),
    ];
    for (args, figures, distribution) in cases {
        let report = home.json(args);
        assert_eq!(report["bench"], args[0]);
        assert_eq!(report["command"], format!("windlass-bench {}", args.join(" ")));
        check(&report, figures);
        if let Some((name, samples)) = distribution {
            check_distribution(&report, name, samples);
        }
    }
    let text = home.run(cases[0].0).done().stdout;
    for words in ["durability", "settling", "machine", "synchronous=full"] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn schedules_report_how_late_their_ticks_are() {
    let report = Home::bare().json(&["schedules", "--schedules", "20", "--seconds", "2"]);
    check(&report, &["ticks", "of_all_percent", "cpu_percent"]);
    // Some are left out where a busy machine works them when the measurement is over.
    let ticks = report["figures"]["ticks"].as_u64().unwrap();
    assert!((1..=40).contains(&ticks), "{report}");
    check_distribution(&report, "lateness", ticks);
}

#[test]
fn drains_by_other_means_are_exact_and_named() {
    let home = Home::bare();
    let drain = ["drain", "--jobs", "3000"];
    let report = home.json(&[&drain[..], &["--processes", "2", "--concurrency", "5"]].concat());
    check(&report, &["completed_per_second"]);
    assert_eq!(report["settings"]["processes"], 2);
    assert_eq!(
        (&report["settling"], &report["durability"]),
        (&"pipelined".into(), &"synchronous=full".into())
    );
    assert_eq!(sum(&report["figures"]["per_second"]), 3000);

    let report = home.json(&[&drain[..], &["--settling", "strict", "--async-commit"]].concat());
    assert_eq!(
        (&report["settling"], &report["durability"]),
        (&"strict".into(), &"synchronous=normal".into())
    );
    assert_eq!(sum(&report["figures"]["per_second"]), 3000);
}

#[test]
fn a_mix_on_a_schedule_sends_all_and_tells_every_latency() {
    let home = Home::bare();
    let report = home.json(&["mixed", "--seconds", "1", "--rate", "200", "--batch", "2"]);
    check(&report, &["completed_per_second", "unsent"]);
    // What it could not send in twice its time is told.
    let jobs = report["figures"]["jobs"].as_u64().unwrap();
    assert_eq!(jobs + report["figures"]["unsent"].as_u64().unwrap(), 200, "{report}");
    check_distribution(&report, "latency", jobs);
    assert_eq!(report["figures"]["sent_late"]["samples"], jobs / 2);
    assert_eq!(sum(&report["figures"]["per_second"]), jobs);

    let report = home.json(&["mixed", "--seconds", "1", "--backlog", "100"]);
    check(&report, &["completed_per_second"]);
    check_distribution(&report, "latency", report["figures"]["jobs"].as_u64().unwrap());
}

#[test]
fn no_job_of_a_burst_starts_early() {
    let report = Home::bare().json(&["burst", "--jobs", "300", "--ahead", "5"]);
    check(&report, &["completed_seconds"]);
    check_distribution(&report, "lateness", 300);
    assert_eq!(report["figures"]["started_early"], 0, "{report}");
}

#[test]
fn the_list_names_each_scenario_once_with_its_source() {
    let home = Home::bare();
    let list = home.json(&["list"]);
    let names: HashSet<_> = list.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), list.as_array().unwrap().len());
    for scenario in list.as_array().unwrap() {
        assert!(!scenario["about"].as_str().unwrap().is_empty(), "{scenario}");
        assert!(!scenario["seed"].as_str().unwrap().is_empty(), "{scenario}");
        assert!(!scenario["points"].as_array().unwrap().is_empty(), "{scenario}");
    }
    let text = home.run(&["list"]).done().stdout;
    assert!(names.iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn a_run_repeats_its_points_and_keeps_their_reports() {
    let home = Home::bare();
    let run = ["run", "work-10ms", "startup", "--jobs", "20", "--out", "figures"];
    let summary = home.json(&run);
    assert_eq!(
        (&summary["done"], &summary["failed"], &summary["skipped"]),
        (&4.into(), &0.into(), &0.into())
    );
    let points = summary["points"].as_array().unwrap();
    for point in points {
        check(&point["report"], &[]);
        assert_eq!(point["command"], point["report"]["command"]);
        assert_eq!(point["scenario"], point["report"]["scenario"]);
    }
    let file = |path: &Path| serde_json::from_str::<Value>(&fs::read_to_string(path).unwrap()).unwrap();
    let files: Vec<_> =
        fs::read_dir(home.path().join("figures")).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(files.len(), points.len());
    for path in &files {
        let kept = file(path);
        assert!(points.iter().any(|point| point["report"] == kept), "{kept}");
    }
    // The printed command alone does the same again.
    let command = points[0]["command"].as_str().unwrap();
    let words: Vec<_> = command.split(' ').skip(1).collect();
    assert_eq!(home.json(&words)["settings"], points[0]["report"]["settings"]);
}

#[test]
fn usage_errors_and_help_are_those_of_windlass() {
    let home = Home::bare();
    assert_eq!(home.run(&["drain", "--jobs", "0"]).refused(2, &["error: ", "0 is not in"]).stdout, "");
    let answer = home.run(&["drain", "--jobs", "0", "--json"]).refused(2, &[]);
    let error: Value = serde_json::from_str(&answer.stderr).expect("JSON on stderr");
    assert_eq!(error["error"]["code"], "usage");
    for args in [&["--help"][..], &["drain", "-h"], &["--version"]] {
        let answer = home.run(args).done();
        assert!(!answer.stdout.is_empty() && answer.stderr.is_empty());
    }
}

#[test]
fn what_a_store_cannot_do_is_skipped() {
    let home = Home::bare();
    home.run(&["drain", "--jobs", "10", "--hold-snapshot"]).refused(2, &["[unsupported]"]);
    let text = home.run(&["run", "held-snapshot", "--jobs", "10", "--seconds", "1"]).done().stdout;
    assert!(text.contains("skipped") && text.contains("PostgreSQL"), "{text}");
}

#[test]
fn a_failed_point_fails_the_run_and_the_others_still_run() {
    let home = Home::bare();
    let mut command = home.command(&["run", "startup", "work-cpu", "--jobs", "10"]);
    // No place for a temporary store.
    let output = command.env("TMPDIR", home.path().join("missing")).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert!(stderr.contains("3 of 3 points failed"), "{stderr}");
    assert!(stdout.contains("temporary folder"), "{stdout}");
}

#[test]
fn wrong_options_say_what_is_right() {
    let home = Home::bare();
    home.run(&["run", "drane"]).refused(2, &["drane", "drain-concurrency", "held-snapshot", "all"]);
    home.run(&["run"]).refused(2, &["NAME"]);
    home.run(&["run", "drain", "--scale", "0"]).refused(2, &["above 0"]);
    home.run(&["run", "drain", "--store", "postgres://u:secret@127.0.0.1:1/x"]).refused(3, &["127.0.0.1:1"]);
    home.run(&["mixed", "--rate", "0"]).refused(2, &["0 is not in"]);
    home.run(&["mixed", "--backlog", "10", "--batch", "11"]).refused(2, &["smaller --batch"]);
    home.run(&["drain", "--workers", "0"]).refused(2, &["0 is not in"]);
    home.run(&["latency", "--load", "5", "--gap", "0s"]).refused(2, &["--gap"]);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_run_takes_its_point_with_it() {
    let home = Home::bare();
    let mut command = home.command(&["run", "backlog"]);
    let child = home.spawn(command.env("TMPDIR", home.path()).stdin(Stdio::null()));
    eventually("a point enqueues", || {
        let folder = fs::read_dir(home.path()).unwrap().next();
        folder.is_some_and(|folder| folder.unwrap().path().join("measured.db").exists())
    });
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("[interrupted]"));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_case_leaves_no_job_in_a_store_that_stays() {
    let home = Home::bare();
    let url = format!("sqlite:{}", home.path().join("windlass.db").display());
    let child =
        home.spawn(home.command(&["drain", "--jobs", "100000000", "--store", &url]).stdin(Stdio::null()));
    eventually("jobs are there", || queue(&url).is_some_and(|queue| queue.available > 0));
    signal(&child, "TERM");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    let queue = queue(&url).expect("the queue of the case");
    assert_eq!(queue.available + queue.running + queue.scheduled + queue.retryable, 0, "{queue:?}");
    assert!(queue.completed > 0, "{queue:?}");
}

#[test]
fn an_interrupted_burst_leaves_no_scheduled_job() {
    // More than a page of a list.
    const JOBS: u64 = 12_000;
    let home = Home::bare();
    let url = format!("sqlite:{}", home.path().join("windlass.db").display());
    let jobs = JOBS.to_string();
    let args = ["burst", "--jobs", &jobs, "--ahead", "50", "--store", &url];
    let child = home.spawn(home.command(&args).stdin(Stdio::null()));
    eventually("all jobs are scheduled", || queue(&url).is_some_and(|queue| queue.scheduled == JOBS));
    signal(&child, "TERM");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    let queue = queue(&url).expect("the queue of the case");
    assert_eq!((queue.scheduled, queue.cancelled), (0, JOBS), "{queue:?}");
}

/// The only queue of a store, as soon as it has one.
#[tokio::main(flavor = "current_thread")]
async fn queue(url: &str) -> Option<QueueStats> {
    let client = Client::connect(url).await.ok()?;
    let queues = client.queues().await.ok()?;
    client.close().await;
    queues.into_iter().next()
}
