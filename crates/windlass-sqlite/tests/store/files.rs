use crate::fixture::{Fixture, jobs, url};
use std::{fs, path::Path};
use windlass_core::{ErrorKind, JobState, JobStore};
use windlass_sqlite::{SqliteOptions, SqliteStore};

fn open(path: &Path) -> windlass_core::Result<SqliteStore> {
    SqliteStore::open(path.to_str().unwrap(), SqliteOptions::default())
}

fn refused(path: &Path) -> windlass_core::Error {
    open(path).expect_err("refused")
}

#[tokio::test]
async fn opening_creates_the_schema_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = SqliteStore::open(&url(&folder), SqliteOptions::default()).unwrap();
    let report = first.migrate().await.unwrap();
    let newest = report.to;
    assert!(report.from == 0 && newest > 1, "{report:?}");
    let report = first.migrate().await.unwrap();
    assert_eq!((report.from, report.to), (newest, newest));
    let status = first.status().await.unwrap();
    assert!(status.store.starts_with("SQLite 3."));
    assert!(status.schema_version == newest && status.size_bytes > 0);
}

#[test]
fn many_threads_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    std::thread::scope(|scope| {
        let opening: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| SqliteStore::open(&url, SqliteOptions::default()).map(drop)))
            .collect();
        for opened in opening {
            opened.join().unwrap().unwrap();
        }
    });
}

#[test]
fn a_file_that_is_no_database_is_left_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for text in ["x".to_owned(), "important notes\n".repeat(1_000)] {
        fs::write(&path, &text).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("not a SQLite database"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn another_applications_database_is_left_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    theirs.execute_batch("CREATE TABLE job (id INTEGER); INSERT INTO job VALUES (1)").unwrap();
    drop(theirs);
    let before = fs::read(&path).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("another application"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no side files");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let f = Fixture::new();
    f.add(1).await;
    f.close().await;
    let newer = rusqlite::Connection::open(f.path()).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let error = refused(f.path());
    assert_eq!(error.kind(), ErrorKind::SchemaTooNew);
    assert!(error.to_string().contains("version 99"), "{error}");
}

#[tokio::test]
async fn a_newer_schema_that_says_so_is_accepted() {
    let f = Fixture::new();
    let added = f.add(1).await;
    let known = f.store.status().await.unwrap().schema_version;
    f.close().await;
    let next = known + 1;
    for (compatible_with, fits) in [(1, true), (next, false)] {
        let newer = rusqlite::Connection::open(f.path()).unwrap();
        newer.pragma_update(None, "user_version", next).unwrap();
        newer.execute("INSERT OR REPLACE INTO migration VALUES (?1, ?2)", [next, compatible_with]).unwrap();
        drop(newer);
        if !fits {
            let error = refused(f.path());
            assert_eq!(error.kind(), ErrorKind::SchemaTooNew);
            let words = format!("knows version {next}; this one knows {known}");
            assert!(error.to_string().contains(&words), "{error}");
            continue;
        }
        let store = open(f.path()).unwrap();
        let report = store.migrate().await.unwrap();
        assert_eq!((report.from, report.to), (next, next), "nothing to do");
        assert_eq!(store.status().await.unwrap().schema_version, next);
        assert!(store.job(added[0]).await.unwrap().is_some());
        store.close().await;
    }
}

#[test]
fn a_missing_folder_says_which_other_is_meant() {
    for (path, says) in [
        ("~/jobs.db", "only shells know what ~ is, so write the whole path"),
        ("/tests/store/jobs.db", "write sqlite:tests/store/jobs.db for the one in this folder"),
        ("/none/of/these/jobs.db", "create /none/of/these first"),
    ] {
        let error = refused(Path::new(path));
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().ends_with(says), "{error}");
    }
}

#[test]
fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = refused(&folder.path().join("missing/jobs.db"));
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("missing"), "{error}");
    assert_eq!(refused(folder.path()).kind(), ErrorKind::InvalidOption, "a folder is no file");
}

#[tokio::test]
async fn a_full_store_refuses_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let small = SqliteOptions { max_bytes: Some(1 << 20), ..SqliteOptions::default() };
    let store = SqliteStore::open(&url(&folder), small).unwrap();
    let kept = store.enqueue(&jobs(10)).await.unwrap();
    let error = store.enqueue(&jobs(100_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(store.queues().await.unwrap()[0].available, 10, "all or none");
    let next = store.enqueue(&jobs(1)).await.unwrap();
    assert!(next[0] > kept[9]);
}

#[tokio::test]
async fn a_full_store_fails_only_the_call_that_needs_the_room() {
    let folder = tempfile::tempdir().unwrap();
    let small = SqliteOptions { max_bytes: Some(1 << 20), ..SqliteOptions::default() };
    let store = SqliteStore::open(&url(&folder), small).unwrap();
    let (small, big) = (jobs(1), jobs(100_000));
    for _ in 0..5 {
        let (a, b, c) = tokio::join!(store.enqueue(&small), store.enqueue(&big), store.enqueue(&small));
        assert!(a.is_ok() && c.is_ok(), "{a:?} {c:?}");
        assert_eq!(b.unwrap_err().kind(), ErrorKind::StorageFull);
    }
    assert_eq!(store.queues().await.unwrap()[0].available, 10);
}

/// It was read, which waits for ever where nobody writes.
#[cfg(unix)]
#[test]
fn a_pipe_or_a_device_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [pipe.as_path(), Path::new("/dev/null")] {
        let error = refused(path);
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        let says = format!("{} is a pipe, a socket or a device; name a file", path.display());
        assert!(error.to_string().starts_with(&says), "{error}");
    }
}

/// It was made, and could not be opened.
#[cfg(unix)]
#[tokio::test]
async fn a_name_that_is_too_long_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(200)).join("d".repeat(200));
    fs::create_dir_all(&deep).unwrap();
    let room = 504 - deep.canonicalize().unwrap().as_os_str().len() - 1;
    for (folder, longest, says) in [(folder.path(), 247, "-journal"), (deep.as_path(), room, "504 bytes")] {
        let long = folder.join("n".repeat(longest + 1));
        let error = refused(&long);
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains(says), "{error}");
        assert!(!long.exists());
        open(&folder.join("n".repeat(longest))).unwrap().enqueue(&jobs(1)).await.unwrap();
    }
}

/// What was enqueued by the other name was lost: each has a log of its own.
#[cfg(unix)]
#[tokio::test]
async fn a_file_with_two_names_is_refused_and_a_link_to_it_is_not() {
    let f = Fixture::new();
    let (other, link) = (f.folder.path().join("other.db"), f.folder.path().join("link.db"));
    std::os::unix::fs::symlink(f.path(), &link).unwrap();
    open(&link).unwrap().enqueue(&jobs(1)).await.unwrap();
    fs::hard_link(f.path(), &other).unwrap();
    let error = refused(&other);
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("has 2 names (hard links)"), "{error}");
    // Who has it open works on.
    assert_eq!(f.take(f.worker().await, 9).await.len(), 1);
    fs::remove_file(&other).unwrap();
    f.close().await;
    open(f.path()).unwrap();
}

#[tokio::test]
async fn a_file_that_was_cut_is_named() {
    let f = Fixture::new();
    f.close().await;
    fs::OpenOptions::new().write(true).open(f.path()).unwrap().set_len(8192).unwrap();
    let error = refused(f.path());
    assert_eq!(error.kind(), ErrorKind::Internal);
    let says = format!("{}: the database is damaged", f.path().display());
    assert!(error.to_string().starts_with(&says), "{error}");
}

/// It looks like something that was left behind.
#[cfg(unix)]
#[tokio::test]
async fn a_log_that_was_removed_takes_nothing_and_loses_nothing() {
    let f = Fixture::new();
    let added = f.add(1).await;
    fs::remove_file(f.path().with_file_name("jobs.db-wal")).unwrap();
    let error = f.enqueue(&jobs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("jobs.db-wal was removed or replaced"), "{error}");
    f.close().await;
    assert_eq!(f.another().job(added[0]).await.unwrap().unwrap().state, JobState::Available);
    f.add(1).await;
}

/// It was removed, with what was committed last to a file that somebody had moved away.
#[test]
fn a_log_without_its_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("jobs.db"), folder.path().join("jobs.db-wal"));
    fs::write(&log, "committed").unwrap();
    for empty in [false, true] {
        if empty {
            fs::write(&path, "").unwrap();
        }
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("jobs.db is missing or empty, and"), "{error}");
        assert_eq!(fs::read_to_string(&log).unwrap(), "committed");
    }
    fs::remove_file(&log).unwrap();
    open(&path).unwrap();
}

/// As a backup makes one.
#[tokio::test]
async fn a_copy_that_is_made_while_the_file_is_in_use_is_a_store() {
    let f = Fixture::new();
    let added = f.add(3).await;
    let worker = f.worker().await;
    let claim = f.take(worker, 2).await.remove(0);
    let copy = f.folder.path().join("copy.db");
    let other = rusqlite::Connection::open(f.path()).unwrap();
    other.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    f.complete(worker, &claim).await;
    let store = open(&copy).unwrap();
    let queue = &store.queues().await.unwrap()[0];
    assert_eq!((queue.available, queue.running, queue.completed), (1, 2, 0));
    store.deregister(worker).await.unwrap();
    assert_eq!(store.job(added[0]).await.unwrap().unwrap().state, JobState::Available);
    assert_eq!(f.state(added[0]).await, JobState::Completed);
}

/// What is written to a file that nobody finds would be lost with the process.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_was_removed_or_replaced_is_unavailable_until_it_is_back() {
    let f = Fixture::new();
    let added = f.add(1).await;
    let aside = f.folder.path().join("aside.db");
    fs::rename(f.path(), &aside).unwrap();
    for replaced in [false, true] {
        if replaced {
            fs::write(f.path(), "").unwrap();
        }
        for refused in [f.enqueue(&jobs(1)).await.map(drop), f.job(added[0]).await.map(drop)] {
            let error = refused.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("was removed or replaced"), "{error}");
        }
    }
    fs::rename(&aside, f.path()).unwrap();
    f.add(1).await;
    assert_eq!(f.queues().await.unwrap()[0].available, 2);
}

#[tokio::test]
async fn a_database_that_another_holds_locked_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        SqliteOptions { busy_timeout: std::time::Duration::from_millis(20), ..SqliteOptions::default() };
    let store = SqliteStore::open(&url(&folder), options).unwrap();
    let other = rusqlite::Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.enqueue(&jobs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_retryable());
    let says = format!("{}: another process kept the database locked", store.path().display());
    assert!(error.to_string().starts_with(&says), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    store.enqueue(&jobs(1)).await.unwrap();
}
