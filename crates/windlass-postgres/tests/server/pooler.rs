//! Behind a transaction-mode pooler: no session state but LISTEN and the idle flag, which are not used.
//! PgBouncer 1.18 (Debian 12) is the hardest of them: it knows nothing of prepared statements.

use crate::cluster::Fixture;
use std::{path::Path, process::Stdio, sync::Arc};
use tokio::process::{Child, Command};
use windlass_conformance::steps::{eventually, job, jobs, worker_on};
use windlass_core::{Disposition, JobStore, Store};

/// PgBouncer on a free port of the loopback interface, two server connections for everybody.
async fn pgbouncer(folder: &Path, schema: &str) -> Option<(Child, String)> {
    let program =
        ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].into_iter().find(|path| Path::new(path).exists());
    let Some(program) = program else {
        let why = "pgbouncer is not installed; run `make deps`, or set WINDLASS_ALLOW_SKIP=1 to leave this test out";
        assert!(std::env::var_os("WINDLASS_ALLOW_SKIP").is_some(), "{why}");
        return None;
    };
    let url = crate::cluster::url();
    let server = url.split('@').nth(1)?.split('/').next()?.to_owned();
    let (host, server_port) = server.split_once(':')?;
    let file = folder.join("pgbouncer.ini");
    let mut command = Command::new(program);
    if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        command.args(["-u", "postgres"]); // it refuses to run as root
    }
    command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    for _ in 0..5 {
        let port = std::net::TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let config = format!(
            "[databases]\npostgres = host={host} port={server_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
        );
        std::fs::write(&file, config).ok()?;
        for path in [folder, &file] {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).ok()?;
        }
        let mut child = command.spawn().ok()?;
        let listens = eventually("pgbouncer listens", || async {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok().map(drop)
        });
        tokio::select! {
            () = listens => {}
            _ = child.wait() => {}
        }
        // It ends where somebody else took the port in between.
        if child.try_wait().ok()?.is_none() {
            let url =
                format!("postgres://postgres@127.0.0.1:{port}/postgres?schema={schema}&pooler=transaction");
            return Some((child, url));
        }
    }
    panic!("pgbouncer ended five times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_works_behind_a_transaction_pooler() {
    let fixture = Fixture::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let Some((_pgbouncer, url)) = pgbouncer(folder.path(), &fixture.schema).await else { return };
    let connect = || async {
        Arc::new(windlass_postgres::PostgresStore::connect(&url, Default::default()).await.expect("connects"))
    };
    let (one, two) = (connect().await, connect().await);
    let mut ids = one.enqueue(&jobs(1_000)).await.unwrap();
    for _ in 0..50 {
        ids.extend(two.enqueue(&[job()]).await.unwrap());
    }
    ids.extend(two.enqueue(&[job(), job()]).await.unwrap());
    for size in [1, 3, 100] {
        let key = format!("key/{size}");
        let batch = jobs(size);
        let (a, b) = tokio::join!(one.enqueue_once(&key, &batch), two.enqueue_once(&key, &batch));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(a.ids == b.ids && a.repeated != b.repeated, "{a:?} {b:?}");
        ids.extend(a.ids);
    }
    one.enqueue(&vec![job().with_delay(std::time::Duration::from_secs(3600)); 20]).await.unwrap();

    let seams: [Arc<dyn Store>; 2] = [one, two];
    let workers = [worker_on(&seams[0]).await, worker_on(&seams[1]).await];
    let held = workers[0].take_one().await;
    workers[0].except(&held, Disposition::Return).await;
    let (first, second) = tokio::join!(workers[0].drain(37), workers[1].drain(41));
    let mut done = [first, second].concat();
    done.extend(workers[0].drain(10).await);
    done.sort_unstable();
    assert_eq!(done, ids);
    for worker in &workers {
        worker.store.heartbeat(worker.id).await.unwrap();
        worker.store.deregister(worker.id).await.unwrap();
    }
}
