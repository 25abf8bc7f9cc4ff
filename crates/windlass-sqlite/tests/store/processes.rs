//! Other processes on the same file: this test binary, started again as one test.

use crate::{
    fixture::{Fixture, LEASE, completion, demand, jobs, url},
    idle_lanes::{DAY, add_to, keep_nothing, later, run},
};
use std::{
    collections::{HashMap, HashSet},
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};
use windlass_core::{
    ErrorKind, EventCursor, EventRequest, EventType, JobId, JobSet, JobStore, KeyLimit, KeyLimitsChange,
    Wake, WorkerSpec,
};
use windlass_sqlite::{SqliteOptions, SqliteStore};

const URL: &str = "WINDLASS_TEST_URL";
const LONG: Duration = Duration::from_secs(60);
const JOBS: usize = 20_000;

struct Process {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts `test` of this binary in a process of its own, as a child role.
    fn start(test: &str, url: &str) -> Self {
        Self::run(Command::new(std::env::current_exe().unwrap()), test, url)
    }

    fn run(mut command: Command, test: &str, url: &str) -> Self {
        command.args([&format!("processes::{test}"), "--exact", "--nocapture", "--ignored"]).env(URL, url);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, out }
    }

    /// The rest of the next line that starts with `what`.
    fn expect(&mut self, what: &str) -> String {
        for line in self.out.by_ref() {
            let line = line.unwrap();
            if let Some((_, rest)) = line.split_once(what) {
                return rest.trim().to_owned();
            }
        }
        panic!("the process ended before it said {what:?}");
    }
}

/// Whatever happens, it ends with the test: those that go on for ever would take a processor from all that come after.
impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn store() -> SqliteStore {
    SqliteStore::open(&std::env::var(URL).unwrap(), SqliteOptions::default()).unwrap()
}

async fn worker(store: &SqliteStore, lease: Duration) -> windlass_core::WorkerId {
    let spec = WorkerSpec {
        name: "process".into(),
        queues: vec![],
        kinds: vec![],
        lease,
        program: Default::default(),
    };
    store.register(&spec).await.unwrap().worker
}

#[tokio::test]
#[ignore = "a child process of the tests below"]
async fn child_enqueues_and_drains() {
    let store = store();
    let worker = worker(&store, LEASE).await;
    store.enqueue(&jobs(JOBS / 2)).await.unwrap();
    let mut done = 0_u64;
    loop {
        let claims = store.claim(&demand(worker, 50)).await.unwrap().claims;
        let queue = &store.queues().await.unwrap()[0];
        if claims.is_empty() && queue.completed == JOBS as u64 {
            break;
        }
        for claim in claims {
            let ids: Vec<_> = claim.jobs.iter().map(|job| job.id.to_string()).collect();
            done += ids.len() as u64;
            println!("ids {}", ids.join(","));
            store.settle(&completion(worker, &claim, JobSet::Rest)).await.unwrap();
        }
    }
    println!("done {done}");
}

#[tokio::test]
#[ignore = "a child process of the test below"]
async fn child_is_refused() {
    let told = match SqliteStore::open(&std::env::var(URL).unwrap(), SqliteOptions::default()) {
        Ok(store) => store.enqueue(&jobs(1)).await.map(drop),
        Err(error) => Err(error),
    };
    println!("told: {}", told.unwrap_err());
}

/// It sees the locks of the process that has the log open, and what these say is in it.
#[cfg(unix)]
#[tokio::test]
async fn who_opens_a_file_whose_log_was_removed_is_told_so() {
    let f = Fixture::new();
    let added = f.add(1).await;
    std::fs::remove_file(f.path().with_file_name("jobs.db-wal")).unwrap();
    let mut other = Process::start("child_is_refused", f.path().to_str().unwrap());
    let told = other.expect("told:");
    drop(other);
    assert!(told.contains("its -wal file is shorter than it should be: one of them was removed"), "{told}");
    f.close().await;
    assert_eq!(
        f.another().queues().await.unwrap()[0].available,
        added.len() as u64,
        "it is put back by who has it open"
    );
}

#[tokio::test]
#[ignore = "a child process of the test of replaced locks"]
async fn child_adds_and_stays() {
    let store = store();
    store.enqueue(&jobs(5)).await.unwrap();
    println!("added");
    std::future::pending::<()>().await;
}

/// SQLite locks by the `-shm` file: who opens the database after it was removed begins another one, and neither sees what the other has locked or written.
#[cfg(unix)]
#[tokio::test]
async fn a_process_whose_locks_were_removed_takes_nothing_and_spoils_nothing() {
    let f = Fixture::new();
    let added = f.add(1).await;
    std::fs::remove_file(f.path().with_file_name("jobs.db-shm")).unwrap();
    let mut other = Process::start("child_adds_and_stays", f.path().to_str().unwrap());
    other.expect("added");
    for refused in [f.enqueue(&jobs(1)).await.map(drop), f.job(added[0]).await.map(drop)] {
        let error = refused.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("jobs.db-shm was removed or replaced"), "{error}");
    }
    drop(other);
    // It is the last one now, and must not fold its log of before into the file.
    f.close().await;
    assert_eq!(f.another().queues().await.unwrap()[0].available, 6);
    assert_eq!(f.add(1).await.len(), 1, "opened anew it goes on");
}

/// Everything that a draining process says it was handed, in order.
fn claimed_ids(mut process: Process) -> Vec<i64> {
    let mut ids = Vec::new();
    for line in process.out.by_ref() {
        if let Some((_, claimed)) = line.unwrap().split_once("ids ") {
            ids.extend(claimed.split(',').map(|id| id.parse::<i64>().unwrap()));
        }
    }
    assert!(process.child.wait().unwrap().success());
    ids
}

#[test]
fn two_processes_share_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    // The first opening races, too.
    let processes = [0, 1].map(|_| Process::start("child_enqueues_and_drains", &url));
    // Both are read at once: one that waits for its full pipe to be read would keep its claim for ever.
    let reading = processes.map(|process| std::thread::spawn(move || claimed_ids(process)));
    let mut seen = HashSet::new();
    for id in reading.into_iter().flat_map(|ids| ids.join().unwrap()) {
        assert!(seen.insert(id), "{id} was handed out twice");
    }
    assert_eq!(seen.len(), JOBS);
}

#[tokio::test]
#[ignore = "a child process of the tests below"]
async fn child_works_until_it_is_killed() {
    let store = store();
    let worker = worker(&store, Duration::from_millis(1)).await;
    let mut jobs = jobs(10);
    jobs.extend((0..3).map(|_| crate::fixture::job("later").with_delay(Duration::ZERO)));
    loop {
        for id in store.enqueue(&jobs).await.unwrap() {
            println!("added {id}");
        }
        for claim in store.claim(&demand(worker, 8)).await.unwrap().claims {
            store.settle(&completion(worker, &claim, JobSet::Rest)).await.unwrap();
            for job in &claim.jobs {
                println!("completed {}", job.id);
            }
        }
    }
}

#[tokio::test]
async fn a_killed_process_loses_nothing_that_it_was_told_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let (mut added, mut completed) = (HashSet::new(), HashSet::new());
    for round in 1..=5 {
        let mut process = Process::start("child_works_until_it_is_killed", &url);
        for line in process.out.by_ref() {
            let line = line.unwrap();
            if let Some((_, id)) = line.split_once("added ") {
                added.insert(id.parse::<i64>().unwrap());
            }
            if let Some((_, id)) = line.split_once("completed ") {
                completed.insert(id.parse::<i64>().unwrap());
            }
            if completed.len() >= round * 60 {
                break;
            }
        }
        drop(process);
    }
    let store = SqliteStore::open(&url, SqliteOptions::default()).unwrap();
    let me = worker(&store, LEASE).await;
    let (mut found, asked_since) = (0, std::time::Instant::now());
    while found < 4 {
        store.heartbeat(me).await.unwrap();
        found += store.rescue(me).await.unwrap().workers.len();
        assert!(asked_since.elapsed() < Duration::from_secs(60), "{found} of the killed workers were found");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut left = HashSet::new();
    loop {
        let claims = store.claim(&demand(me, 1_000)).await.unwrap().claims;
        if claims.is_empty() {
            break;
        }
        left.extend(claims.iter().flat_map(|claim| claim.jobs.iter().map(|job| job.id.0)));
    }
    assert!(left.is_disjoint(&completed), "an acknowledged completion stays");
    for id in added.difference(&left) {
        let record = store.job(windlass_core::JobId(*id)).await.unwrap().expect("an acknowledged job exists");
        assert!(record.state.is_final(), "{id} is {}", record.state);
    }
    store.close().await;
    let file = rusqlite::Connection::open(store.path()).unwrap();
    let check: String = file.query_one("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[tokio::test]
#[ignore = "a child process of the tests below"]
async fn child_waits_for_work() {
    let store = store();
    let mut wakeup = store.wakeup();
    wakeup.arm().await;
    println!("armed");
    let wake = wakeup.wait(LONG).await;
    println!("woke {}", wake == Wake::Hint);
}

#[tokio::test]
async fn another_process_wakes() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let store = SqliteStore::open(&url, SqliteOptions::default()).unwrap();
    let mut process = Process::start("child_waits_for_work", &url);
    process.expect("armed");
    store.enqueue(&jobs(1)).await.unwrap();
    assert_eq!(process.expect("woke"), "true");
    assert!(process.child.wait().unwrap().success());
}

#[tokio::test]
#[ignore = "a child process of the tests below"]
async fn child_remembers_a_lane() {
    let store = store();
    println!("added {}", add_to(&store, "a").await);
    while !store.path().with_file_name("go").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("added {}", add_to(&store, "a").await);
}

#[tokio::test]
async fn another_process_forgets_a_lane_that_was_removed() {
    let f = Fixture::new();
    keep_nothing(&f).await;
    let mut process = Process::start("child_remembers_a_lane", &url(&f.folder));
    process.expect("added");
    assert_eq!(run(&f.store, &["a".to_owned()]).await.len(), 1);
    f.maintain().await.unwrap();
    later(&f, 2 * DAY).await;
    assert!(f.queues().await.unwrap().is_empty());
    let of_b = add_to(&f.store, "b").await;
    std::fs::write(f.path().with_file_name("go"), "").unwrap();
    let of_a: i64 = process.expect("added").parse().unwrap();
    assert_eq!(run(&f.store, &["b".to_owned()]).await, [of_b]);
    assert_eq!(run(&f.store, &["a".to_owned()]).await, [JobId(of_a)]);
    assert!(process.child.wait().unwrap().success());
}

#[test]
#[ignore = "a child process of the tests below"]
fn child_opens() {
    let error = SqliteStore::open(&std::env::var(URL).unwrap(), SqliteOptions::default()).err();
    println!("opened {:?}", error.map(|error| error.kind()));
}

/// Root may write everything, so a child without privileges tries.
#[cfg(unix)]
#[test]
fn a_file_or_folder_that_cannot_be_written_is_named() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let file = folder.path().join("jobs.db");
    let try_open = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0) {
            command.uid(65_534).gid(65_534);
        }
        let mut process = Process::run(command, "child_opens", &url);
        let opened = process.expect("opened");
        process.child.wait().unwrap();
        opened
    };
    let allow = |path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let denied = format!("Some({:?})", ErrorKind::PermissionDenied);
    allow(folder.path(), 0o555);
    assert_eq!(try_open(), denied, "the folder cannot be written");
    allow(folder.path(), 0o777);
    drop(SqliteStore::open(&url, SqliteOptions::default()).unwrap());
    allow(&file, 0o444);
    assert_eq!(try_open(), denied, "the file cannot be written");
    allow(&file, 0o000);
    assert_eq!(try_open(), denied, "the file cannot be read");
}

const KEYS: usize = 7;
const KEYED_JOBS: usize = 1_400;

fn keyed_jobs() -> Vec<windlass_core::NewJob> {
    jobs(KEYED_JOBS).into_iter().enumerate().map(|(n, job)| job.with_key(format!("k{}", n % KEYS))).collect()
}

async fn limit_keys(store: &SqliteStore, limit: KeyLimit) {
    store.limit_keys("default", &KeyLimitsChange::Default(limit)).await.unwrap();
}

#[tokio::test]
#[ignore = "a child process of the tests below"]
async fn child_drains_by_keys() {
    let store = store();
    let worker = worker(&store, LEASE).await;
    while store.queues().await.unwrap()[0].completed < KEYED_JOBS as u64 {
        for claim in store.claim(&demand(worker, 9)).await.unwrap().claims {
            let ids: Vec<_> = claim.jobs.iter().map(|job| job.id.to_string()).collect();
            println!("ids {}", ids.join(","));
            store.settle(&completion(worker, &claim, JobSet::Rest)).await.unwrap();
        }
    }
}

/// The events are in the order of the commits: at no time more of a key were held than its limit.
#[tokio::test]
async fn processes_keep_to_the_limits_of_keys() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let store = SqliteStore::open(&url, SqliteOptions::default()).unwrap();
    limit_keys(&store, KeyLimit::default().with_concurrency(2)).await;
    let added = store.enqueue(&keyed_jobs()).await.unwrap();
    let key: HashMap<JobId, usize> = added.into_iter().enumerate().map(|(n, id)| (id, n % KEYS)).collect();
    let reading = [0, 1, 2].map(|_| {
        let process = Process::start("child_drains_by_keys", &url);
        std::thread::spawn(move || claimed_ids(process))
    });
    let handed: Vec<_> = reading.into_iter().flat_map(|ids| ids.join().unwrap()).collect();
    assert_eq!(handed.len(), KEYED_JOBS);
    let (mut held, mut most, mut cursor) = ([0_i32; KEYS], 0, EventCursor::start());
    loop {
        let page = store.events(&EventRequest::after(cursor)).await.unwrap();
        for event in &page.events {
            let change = match event.event {
                EventType::Started => 1,
                EventType::Completed => -1,
                _ => continue,
            };
            held[key[&event.job]] += change;
            most = most.max(held[key[&event.job]]);
        }
        cursor = page.next;
        if !page.more {
            break;
        }
    }
    assert_eq!((held, most), ([0; KEYS], 2));
}

#[tokio::test]
#[ignore = "a child process of the tests below"]
async fn child_holds_keys_until_it_is_killed() {
    let store = store();
    let worker = worker(&store, Duration::from_millis(1)).await;
    loop {
        for claim in store.claim(&demand(worker, 5)).await.unwrap().claims {
            let some = claim.jobs.len() / 2;
            let ranges = claim.jobs[..some].iter().map(|job| (job.id.0, job.id.0)).collect();
            store.settle(&completion(worker, &claim, JobSet::Ranges(ranges))).await.unwrap();
            println!("settled {some}");
        }
        println!("settled 0");
    }
}

/// Whatever it was doing: what it held comes back, and the limits admit as many as before.
#[tokio::test]
async fn a_killed_process_keeps_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let store = SqliteStore::open(&url, SqliteOptions::default()).unwrap();
    limit_keys(&store, KeyLimit::default().with_concurrency(3)).await;
    for _ in 0..4 {
        store.enqueue(&keyed_jobs()).await.unwrap();
        let mut process = Process::start("child_holds_keys_until_it_is_killed", &url);
        (0..6).for_each(|_| drop(process.expect("settled")));
        drop(process);
        let me = worker(&store, LEASE).await;
        let asked_since = std::time::Instant::now();
        while store.queues().await.unwrap()[0].running > 0 {
            store.heartbeat(me).await.unwrap();
            store.rescue(me).await.unwrap();
            assert!(asked_since.elapsed() < LONG, "the killed worker was not found");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut held = Vec::new();
        loop {
            let claims = store.claim(&demand(me, 1_000)).await.unwrap().claims;
            if claims.is_empty() {
                break;
            }
            held.extend(claims);
        }
        assert_eq!(crate::keys::keys(&held).into_values().collect::<Vec<_>>(), [3; KEYS]);
        store.deregister(me).await.unwrap();
    }
}
