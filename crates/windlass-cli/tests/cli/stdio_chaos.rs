//! Processes and whole workers are killed at random while jobs flow: every job is done, and none counts as done that was not.

use crate::program::{Home, eventually};
use std::{
    collections::{HashMap, HashSet},
    fs,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

const ROUNDS: usize = 60;
const JOBS_PER_ROUND: usize = 10;

/// Notes when a job begins and when it is done, before it says so.
const PROGRAM: &str = r#"
import random
say("ready", protocol=1, concurrency=2)
def note(what, job):
    with open(f"notes-{os.getpid()}", "a") as notes: notes.write(f"{what} {job['id']}\n")
for job in jobs():
    note("began", job)
    time.sleep(random.random() / 100)
    if random.random() < 0.05: say("retry", job, error="by chance", after_ms=1); continue
    note("ended", job)
    say("complete", job)
"#;

/// Numbers that look like chance, and are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

/// The processes that a worker started and that live.
fn processes_of(worker: &Child) -> Vec<String> {
    let is_its = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
        let mut fields = rest.split(' ');
        fields.next() != Some("Z") && fields.next() == Some(worker.id().to_string().as_str())
    };
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    all.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(is_its).collect()
}

/// How often each job began and ended, as the programs noted.
fn notes(home: &Home) -> HashMap<(String, String), usize> {
    let mut counts = HashMap::new();
    for file in fs::read_dir(home.path()).unwrap().map(|file| file.unwrap().path()) {
        if file.file_name().unwrap().to_string_lossy().starts_with("notes-") {
            for line in fs::read_to_string(file).unwrap().lines() {
                let (what, id) = line.split_once(' ').unwrap();
                *counts.entry((what.to_owned(), id.to_owned())).or_default() += 1;
            }
        }
    }
    counts
}

/// A worker, which ends with the test.
struct Worker(Child);

impl Worker {
    /// What a service manager does. A worker ends when its first process is killed before it is ready.
    fn keep_running(&mut self, start: impl Fn() -> Self) {
        if self.0.try_wait().unwrap().is_some() {
            *self = start();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn killed_processes_and_workers_lose_nothing() {
    let home = Home::new();
    home.run(&["settings", "--max-crashes", "1000"]).done();
    let command = home.python("worker.py", PROGRAM);
    let args = ["work", "--stdio", &command, "--processes", "2", "--lease", "1s", "--log", "error"];
    let start = || {
        let mut command = home.command(&args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Worker(command.spawn().unwrap())
    };
    let mut workers = [start(), start()];
    let (mut dice, mut ids, mut killed) = (Dice(4), Vec::new(), (0, 0));
    let job = r#"{"kind":"a","max_attempts":1000,"retry_policy":{"backoff":"fixed","base_ms":1}}"#;
    let jobs = format!("{job}\n").repeat(JOBS_PER_ROUND);
    for round in 0..ROUNDS {
        let enqueued = home.run_with(&["enqueue", "--many", "--json"], jobs.as_bytes()).done();
        ids.push(enqueued.stdout);
        sleep(Duration::from_millis(dice.below(30) as u64)); // when the kill falls, not what is waited for
        let worker = &mut workers[dice.below(2)];
        worker.keep_running(start);
        let victims = processes_of(&worker.0);
        // By its number: chance left all workers alive in one of some hundred runs.
        if round % 10 == 9 {
            *worker = start(); // the one before is killed
            killed.1 += 1;
        } else if !victims.is_empty() {
            let victim = &victims[dice.below(victims.len())];
            // It may have ended just now.
            let _ = Command::new("kill").args(["-KILL", victim]).stderr(Stdio::null()).status();
            killed.0 += 1;
        }
    }
    let total = ROUNDS * JOBS_PER_ROUND;
    eventually("all jobs are done", || {
        workers.iter_mut().for_each(|worker| worker.keep_running(start));
        home.json(&["queues"])[0]["completed"] == total
    });
    let notes = notes(&home);
    let of = |what: &str| notes.iter().filter(|((noted, _), _)| noted == what).collect::<Vec<_>>();
    let done: HashSet<_> = of("ended").into_iter().map(|((_, id), _)| id).collect();
    assert_eq!(done.len(), total, "every job that counts as done was done");
    let times = |what: &str| of(what).into_iter().map(|(_, count)| count).sum::<usize>();
    let (began, ended) = (times("began"), times("ended"));
    assert!(
        killed.0 > 20 && killed.1 > 0 && began > ended,
        "{killed:?} killed; {began} began, {ended} ended"
    );
}
