use crate::program::{Home, eventually, signal};
use std::{fs, process::Stdio};

#[test]
fn the_demo_reports_and_leaves_nothing_behind() {
    let home = Home::bare();
    let temporary = home.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = home.command(&["demo", "--jobs", "5000", "--samples", "50", "--json"]);
    let output = command.env("TMPDIR", &temporary).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["jobs"], &report["verified"]), (&5000.into(), &true.into()));
    assert_eq!(report["latency"]["samples"], 50);
    assert!(
        report["enqueued_per_second"].as_u64() > Some(0) && report["completed_per_second"].as_u64() > Some(0)
    );
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "only the folder of this test");
}

#[test]
fn the_demo_reads_well_and_keeps_to_its_queue() {
    let home = Home::new();
    home.enqueue(&["mine"]);
    let args = ["demo", "--jobs", "2000", "--samples", "10", "--store", "sqlite:windlass.db"];
    for _ in 0..2 {
        let text = home.run(&args).done().stdout;
        for words in ["2,000", "jobs/s", "each exactly once", "p99", "SQLite"] {
            assert!(text.contains(words), "{words} is missing in {text}");
        }
    }
    let queues = home.json(&["queues"]);
    assert_eq!((&queues[0]["name"], &queues[0]["available"]), (&"default".into(), &1.into()));
    assert_eq!((&queues[1]["name"], &queues[1]["available"]), (&"windlass-demo".into(), &0.into()));
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let home = Home::bare();
    for name in ["INT", "TERM"] {
        let mut command = home.command(&["demo", "--jobs", "100000000"]);
        let child = home.spawn(command.env("TMPDIR", home.path()).stdin(Stdio::null()));
        eventually("it enqueues", || {
            let folder = fs::read_dir(home.path()).unwrap().next();
            folder.is_some_and(|folder| folder.unwrap().path().join("measured.db").exists())
        });
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("[interrupted]"));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
