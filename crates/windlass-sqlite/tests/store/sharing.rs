//! Several handles on one file: every job is handed out once, and none is lost.

use crate::fixture::{Fixture, LEASE, demand, jobs, url};
use std::{collections::HashSet, sync::Arc};
use windlass_core::{JobId, JobSet, JobStore, WorkerSpec};
use windlass_sqlite::{SqliteOptions, SqliteStore};

const JOBS: usize = 20_000;

async fn drain(store: Arc<SqliteStore>, limit: u32) -> Vec<JobId> {
    let spec = WorkerSpec {
        name: "drain".into(),
        queues: vec![],
        kinds: vec![],
        lease: LEASE,
        program: Default::default(),
    };
    let worker = store.register(&spec).await.unwrap().worker;
    let mut done = Vec::new();
    while done.len() < JOBS {
        let claims = store.claim(&demand(worker, limit)).await.unwrap().claims;
        // No queue at all means that nothing was enqueued yet, not that all is done.
        let completed: u64 = store.queues().await.unwrap().iter().map(|queue| queue.completed).sum();
        if claims.is_empty() && completed == JOBS as u64 {
            break;
        }
        for claim in claims {
            done.extend(claim.jobs.iter().map(|job| job.id));
            store.settle(&crate::fixture::completion(worker, &claim, JobSet::Rest)).await.unwrap();
        }
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_claimers_of_two_handles_share_without_loss() {
    let f = Fixture::new();
    let handles = [Arc::new(f.another()), Arc::new(f.another())];
    let mut drains = Vec::new();
    for (n, limit) in [7, 100, 31, 250].into_iter().enumerate() {
        drains.push(tokio::spawn(drain(Arc::clone(&handles[n % 2]), limit)));
    }
    let mut added = HashSet::new();
    for _ in 0..JOBS / 500 {
        added.extend(f.enqueue(&jobs(500)).await.unwrap());
    }
    let mut done = Vec::new();
    for drain in drains {
        done.extend(drain.await.unwrap());
    }
    assert_eq!(done.len(), JOBS, "none lost, none doubled");
    assert_eq!(done.into_iter().collect::<HashSet<_>>(), added);
    let queue = &f.queues().await.unwrap()[0];
    assert_eq!((queue.available, queue.running, queue.completed), (0, 0, JOBS as u64));
}

/// Whether this process has a lock on the file, as the kernel says: page by page, so that one that is there may be missed while others of the list end.
#[cfg(target_os = "linux")]
fn is_locked_here(path: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (process, inode) =
        (std::process::id().to_string(), std::fs::metadata(path).unwrap().ino().to_string());
    let is_listed = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|lock| {
            let fields: Vec<_> = lock.split_whitespace().collect();
            fields[4] == process && fields[5].rsplit(':').next() == Some(&*inode)
        })
    };
    (0..20).any(|_| is_listed())
}

/// The locks that a process has on a file end when any handle of it is closed. Whoever closes its last connection while nobody else seems
/// to have the file open deletes the write-ahead log, and with it what others commit from then on: SQLite before 3.51, as in Python and
/// Debian 12.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_handle_leaves_the_locks_of_the_first() {
    let f = Fixture::new();
    f.enqueue(&jobs(1)).await.unwrap();
    assert!(is_locked_here(f.path()));
    let second = f.another();
    assert!(is_locked_here(f.path()), "after another handle was opened");
    second.close().await;
    assert_eq!(second.enqueue(&jobs(1)).await.unwrap().len(), 1);
    assert!(is_locked_here(f.path()), "after it was opened anew");
}

/// The file gets its name when the first handle makes it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_handle_leaves_the_locks_of_the_first_that_made_the_file_behind_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file.db");
    std::os::unix::fs::symlink("file.db", folder.path().join("link.db")).unwrap();
    std::os::unix::fs::symlink("link.db", folder.path().join("jobs.db")).unwrap();
    let open = || SqliteStore::open(&url(&folder), SqliteOptions::default()).unwrap();
    let first = open();
    first.enqueue(&jobs(1)).await.unwrap();
    assert!(is_locked_here(&file));
    let second = open();
    assert!(is_locked_here(&file), "after another handle was opened");
    assert_eq!(second.enqueue(&jobs(1)).await.unwrap().len(), 1);
}
