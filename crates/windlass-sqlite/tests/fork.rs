//! What happens around a fork. Alone in its process, since it concerns all stores of that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::timeout;
use windlass_core::{Args, JobStore, NewJob};
use windlass_sqlite::{SqliteOptions, SqliteStore, fork};

fn job() -> [NewJob; 1] {
    [NewJob::new("k", Args::parse("{}").unwrap())]
}

/// Whether the process has any of these files open.
#[cfg(target_os = "linux")]
fn has_open(folder: &std::path::Path) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    open.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()).any(|path| path.starts_with(folder))
}

/// One test, because forks concern the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_open_at_a_fork_and_no_call_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let url = format!("sqlite:{}", path.join("jobs.db").display());
    let open = || Arc::new(SqliteStore::open(&url, SqliteOptions::default()).unwrap());
    let stores = [open(), open()];
    let mut wakeup = stores[0].wakeup();
    wakeup.arm().await; // a connection of its own
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..8)
        .map(|n: usize| {
            let (store, over) = (Arc::clone(&stores[n % 2]), Arc::clone(&over));
            tokio::spawn(async move {
                let mut enqueued = 0;
                while !over.load(SeqCst) {
                    enqueued += store.enqueue(&job()).await.unwrap().len();
                    store.queues().await.unwrap();
                }
                enqueued
            })
        })
        .collect();
    for _ in 0..50 {
        // As Python does it: on a thread of its own, while calls go on.
        let path = path.clone();
        tokio::task::spawn_blocking(move || {
            fork::prepare();
            #[cfg(target_os = "linux")]
            assert!(!has_open(&path));
            drop(path);
            fork::parent();
        })
        .await
        .unwrap();
    }
    over.store(true, SeqCst);
    let mut enqueued = 0;
    for caller in callers {
        enqueued += caller.await.unwrap();
    }
    assert!(enqueued >= 8);
    assert_eq!(stores[0].queues().await.unwrap()[0].available, enqueued as u64);

    // Meanwhile calls wait, opening does, the fork of another thread does, and they go on afterwards.
    fork::prepare();
    let mut another = tokio::task::spawn_blocking(fork::prepare);
    assert!(timeout(Duration::from_millis(50), &mut another).await.is_err());
    fork::parent();
    another.await.unwrap();
    let store = Arc::clone(&stores[0]);
    let mut call = tokio::spawn(async move { store.enqueue(&job()).await });
    let mut opening = tokio::task::spawn_blocking(open_at(&url));
    assert!(timeout(Duration::from_millis(50), &mut call).await.is_err());
    assert!(timeout(Duration::from_millis(50), &mut opening).await.is_err());
    fork::parent();
    call.await.unwrap().unwrap();
    opening.await.unwrap();
    wakeup.wait(Duration::from_millis(1)).await;

    // The child begins anew.
    fork::prepare();
    fork::child();
    let childs = open();
    childs.enqueue(&job()).await.unwrap();
    assert_eq!(childs.queues().await.unwrap()[0].available, enqueued as u64 + 2);
}

fn open_at(url: &str) -> impl FnOnce() + Send + 'static {
    let url = url.to_owned();
    move || drop(SqliteStore::open(&url, SqliteOptions::default()).unwrap())
}
