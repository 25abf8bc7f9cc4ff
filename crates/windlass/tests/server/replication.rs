//! A commit that its synchronous standby never confirmed is no acknowledgement: PostgreSQL answers success and a
//! warning when the wait is cancelled. Has a cluster of its own, because the standby is a setting of all of it.

use crate::own_cluster::OwnCluster;
use std::{
    pin::pin,
    time::{Duration, Instant},
};
use tokio_postgres::NoTls;
use windlass::{Args, Client, Error, ErrorKind, JobFilter, NewJob};

const DEADLINE: Duration = Duration::from_secs(60);
/// Not autovacuum, which commits as well.
const WAITING: &str =
    "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'";

const CANCEL: &str = "pg_cancel_backend";
const TERMINATE: &str = "pg_terminate_backend";

fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|n| NewJob::new("k", Args::of(&n).unwrap())).collect()
}

/// Takes the standby away that commits wait for, or brings back that nobody is waited for.
async fn wait_for_standby(cluster: &OwnCluster, admin: &tokio_postgres::Client, standby: &str) {
    admin.batch_execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{standby}'")).await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let (probe, connection) = tokio_postgres::connect(&cluster.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let pid: i32 = probe.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let begun = Instant::now();
    // Sessions learn the setting by themselves, but none waits before the checkpointer knows it, too: so one tries.
    while waits(admin, &probe, pid).await == standby.is_empty() {
        assert!(begun.elapsed() < DEADLINE, "the setting does not arrive");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Whether a commit of this session waits for the standby; it does not any more afterwards.
async fn waits(admin: &tokio_postgres::Client, probe: &tokio_postgres::Client, pid: i32) -> bool {
    let mut commit = pin!(probe.batch_execute("SELECT pg_logical_emit_message(true, 'probe', '')"));
    loop {
        let rows = tokio::select! {
            biased;
            done = &mut commit => {
                done.unwrap();
                return false;
            }
            rows = admin.query(WAITING, &[]) => rows.unwrap(),
        };
        if rows.iter().any(|row| row.get::<_, i32>(0) == pid) {
            admin.query_one("SELECT pg_cancel_backend($1)", &[&pid]).await.unwrap();
            commit.await.unwrap();
            return true;
        }
    }
}

/// Makes a call, and does something to its server process once that waits for the standby.
async fn interrupted<T: std::fmt::Debug>(
    admin: &tokio_postgres::Client,
    by: &str,
    call: impl Future<Output = Result<T, Error>>,
) -> Error {
    let interrupt = async {
        let begun = Instant::now();
        loop {
            let rows = admin.query(WAITING, &[]).await.unwrap();
            if let Some(row) = rows.first() {
                let pid: i32 = row.get(0);
                admin.query_one(&format!("SELECT {by}($1)"), &[&pid]).await.unwrap();
                return;
            }
            assert!(begun.elapsed() < DEADLINE, "no commit waits for the standby");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let (answer, ()) = tokio::time::timeout(DEADLINE, async { tokio::join!(call, interrupt) }).await.unwrap();
    answer.expect_err("was acknowledged though only this server has it")
}

#[tokio::test]
async fn an_enqueue_that_no_standby_confirmed_is_ambiguous() {
    let cluster = OwnCluster::start();
    let (admin, connection) = tokio_postgres::connect(&cluster.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    // A role that wants to hear of errors only must not make us deaf.
    admin.batch_execute("ALTER ROLE postgres SET client_min_messages = 'error'").await.unwrap();
    let direct = Client::connect(&cluster.url).await.unwrap();
    direct.migrate().await.unwrap();
    admin.batch_execute("ALTER ROLE postgres RESET client_min_messages").await.unwrap();
    // As behind a pooler: BEGIN, the statement and COMMIT in one go.
    let pooled = Client::connect(&format!("{}?pooler=transaction", cluster.url)).await.unwrap();
    for client in [&direct, &pooled] {
        client.store().enqueue(&jobs(1)).await.unwrap();
    }
    let mut stored = 2;
    for (name, client) in [("direct", &direct), ("pooled", &pooled)] {
        for size in [1, 3, 20] {
            let (key, batch) = (format!("{name}/{size}"), jobs(size));
            wait_for_standby(&cluster, &admin, "nobody").await;
            let error = interrupted(&admin, CANCEL, client.store().enqueue(&batch)).await;
            assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
            assert!(error.to_string().contains("synchronous standby"), "{error}");
            // The second call finds the key of the first. It must not acknowledge what is here only, either.
            for _ in 0..2 {
                let error = interrupted(&admin, CANCEL, client.store().enqueue_once(&key, &batch)).await;
                assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
            }
            wait_for_standby(&cluster, &admin, "").await;
            let again = client.store().enqueue_once(&key, &batch).await.unwrap();
            assert!(again.repeated && again.ids.len() == size, "{again:?}");
            client.store().enqueue(&batch).await.expect("one cancelled wait spoils no later call");
            stored += 3 * size;
        }
    }
    let filter = JobFilter { limit: 1_000, ..JobFilter::default() };
    assert_eq!(direct.jobs(&filter).await.unwrap().len(), stored);
    direct.close().await;
    pooled.close().await;
}

/// The connection breaks between COMMIT and its answer, the jobs are stored: repeating the call finds them.
#[tokio::test]
async fn a_cut_at_commit_is_ambiguous_and_safe_to_repeat() {
    let cluster = OwnCluster::start();
    let (admin, connection) = tokio_postgres::connect(&cluster.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    for parameters in ["", "?pooler=transaction"] {
        let client = Client::connect(&format!("{}{parameters}", cluster.url)).await.unwrap();
        client.migrate().await.unwrap();
        client.store().enqueue(&jobs(1)).await.unwrap();
        for size in [1, 20] {
            let (key, batch) = (format!("cut/{size}{parameters}"), jobs(size));
            wait_for_standby(&cluster, &admin, "nobody").await;
            let error = interrupted(&admin, TERMINATE, client.store().enqueue_once(&key, &batch)).await;
            assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
            wait_for_standby(&cluster, &admin, "").await;
            let again = client.store().enqueue_once(&key, &batch).await.unwrap();
            assert!(again.repeated, "{again:?}");
            for id in again.ids {
                assert!(client.job(id).await.unwrap().is_some(), "job {id} was lost");
            }
        }
        client.close().await;
    }
}
