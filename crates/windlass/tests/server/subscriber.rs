//! A database moves to another cluster by logical replication, as docs/guide/moving.md says, while a worker runs on: housekeeping goes on
//! while everything is published, nothing is lost, and nothing that was done before is done again.

use crate::{
    own_cluster::OwnCluster,
    restore::{Runs, address, run, until},
    strand::Forwarder,
};
use std::time::Duration;
use windlass::{Client, Context, IntoJob as _, Job, Settings, Worker};

#[derive(serde::Serialize, serde::Deserialize)]
struct Work {
    letters: String,
}

impl Job for Work {
    const KIND: &'static str = "work";
}

/// Jobs that stay in the log while it turns, because their queue is paused.
const HELD: usize = 500;
const OPEN: usize = 40;

fn work(count: usize) -> impl Iterator<Item = Work> {
    (0..count).map(|_| Work { letters: "x".repeat(100) })
}

struct Cluster {
    server: OwnCluster,
    client: tokio_postgres::Client,
}

impl Cluster {
    async fn start() -> Self {
        let server = OwnCluster::start();
        run("psql", &["-q", "-d", &server.url, "-c", "ALTER SYSTEM SET wal_level = logical"]);
        server.crash_and_restart();
        Self::of(server).await
    }

    async fn of(server: OwnCluster) -> Self {
        let (client, connection) = tokio_postgres::connect(&server.url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { server, client }
    }

    /// What this cluster is now, as a cluster of its own.
    async fn copy(&self) -> Self {
        let mut server = OwnCluster::empty();
        server.run("pg_basebackup", &["-X", "stream", "-c", "fast", "--no-sync", "-d", &self.server.url]);
        server.first_start();
        Self::of(server).await
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.expect(sql);
    }

    async fn text(&self, sql: &str) -> Option<String> {
        self.client.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// Uses up transaction ids.
    async fn advance(&self, count: u32) {
        self.run(&format!(
            "DO $$ BEGIN FOR i IN 1..{count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
        ))
        .await;
    }

    /// Turns the log until nothing of what was in this segment is there.
    async fn empty(&self, segment: i32) {
        let (jobs, step) =
            (format!("SELECT count(*)::text FROM windlass.job_{segment}"), "SELECT windlass.maintain()");
        until("the segment is emptied", async || {
            self.run(step).await;
            self.text(&jobs).await.unwrap() == "0"
        })
        .await;
    }
}

/// Two clusters, of which the second follows the first.
async fn follow(old: &Cluster, new: &Cluster) {
    old.run("CREATE PUBLICATION everything FOR ALL TABLES").await;
    let schema = tempfile::NamedTempFile::new().unwrap();
    let file = schema.path().to_str().unwrap();
    run(
        "pg_dump",
        &["--schema-only", "--no-publications", "-d", &old.server.url, "-n", "windlass", "-f", file],
    );
    run("psql", &["-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-d", &new.server.url, "-f", file]);
    new.run("SELECT windlass.prepare_subscriber()").await;
    subscribe(old, new, "").await;
    until("every table was copied", async || {
        new.text("SELECT count(*)::text FROM pg_subscription_rel WHERE srsubstate <> 'r'").await.unwrap()
            == "0"
    })
    .await;
}

async fn subscribe(old: &Cluster, new: &Cluster, options: &str) {
    let address = address(&old.server.url);
    let (host, port) = address.split_once(':').unwrap();
    new.run(&format!(
        "CREATE SUBSCRIPTION followed CONNECTION 'host={host} port={port} user=postgres dbname=postgres'
         PUBLICATION everything WITH (streaming = off{options})"
    ))
    .await;
}

/// Waits until the second cluster has what the first has, and parts them.
async fn part(old: &Cluster, new: &Cluster) {
    let end = old.text("SELECT pg_current_wal_lsn()::text").await.unwrap();
    let behind = format!(
        "SELECT (confirmed_flush_lsn >= '{end}')::text FROM pg_replication_slots WHERE slot_name = 'followed'"
    );
    until("everything has arrived", async || old.text(&behind).await.unwrap() == "true").await;
    new.run("DROP SUBSCRIPTION followed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_runs_on_across_a_switch_to_a_subscriber_finishes_everything() {
    let (old, new) = (Cluster::start().await, Cluster::start().await);
    let way = Forwarder::start(address(&old.server.url)).await;
    let client =
        Client::connect(&format!("postgres://postgres@127.0.0.1:{}/postgres", way.port)).await.unwrap();
    client.migrate().await.unwrap();
    client
        .configure(&Settings::DEFAULT.with_retention(Duration::ZERO).with_segment_bytes(1 << 20))
        .await
        .unwrap();
    // The new cluster is a little ahead: transactions of the old one look like its own.
    new.advance(300).await;
    follow(&old, &new).await;

    let runs = Runs::default();
    let noted = runs.clone();
    let handler = move |_: Work, context: Context| noted.clone().note(context.id());
    let held =
        client.enqueue_many(work(HELD).map(|job| job.into_job().unwrap().with_queue("held"))).await.unwrap();
    client.pause("held").await.unwrap();
    let worker =
        Worker::builder(&client).queue("default", 5).queue("held", 5).handle(handler).start().await.unwrap();
    let all_done = async |count| {
        until("they are done", async || runs.counts().len() == count).await;
        let settled = async || client.queue("default").await.unwrap().is_some_and(|queue| queue.running == 0);
        until("and settled", settled).await;
    };
    let mut done = client.enqueue_many(work(8_000)).await.unwrap();
    all_done(done.len()).await;
    old.empty(0).await;
    // A transaction for each, and more than the old cluster is behind. They stay in the log.
    for job in work(600) {
        done.push(client.enqueue(job).await.unwrap());
    }
    all_done(done.len()).await;
    runs.close(true);
    let open = client.enqueue_many(work(OPEN)).await.unwrap();
    until("some are running", async || worker.stats().running == 5).await;

    let note = r#"SELECT windlass.append_audit('[{"actor": "anna", "action": "looked", "target": "all"}]')"#;
    old.run(note).await;
    part(&old, &new).await;
    way.repoint(address(&new.server.url));
    runs.close(false);
    // Its connections lead to the old cluster until they break.
    until("the queue goes on", async || client.resume("held").await.is_ok()).await;

    let all = held.len() + done.len() + open.len();
    until("everything is done", async || runs.counts().len() == all).await;
    let later = client.enqueue_many(work(3)).await.unwrap();
    until("what came later is done", async || runs.counts().len() >= all + later.len()).await;
    worker.shutdown().await;
    let runs = runs.counts();
    assert!(held.iter().chain(&open).all(|id| runs.contains_key(id)), "lost");
    assert_eq!(done.iter().filter(|id| runs[id] != 1).count(), 0, "what was done before is done again");
    assert!(
        later.iter().all(|id| !done.contains(id) && !held.contains(id) && !open.contains(id)),
        "two jobs of one id"
    );
    new.run(note).await; // an entry of that number has come along
    assert_eq!(new.text("SELECT count(*)::text FROM windlass.audit").await.unwrap(), "2");
    // Nothing is left of what only a subscriber needs.
    let left = "SELECT count(*)::text FROM pg_class WHERE relname LIKE 'job\\__\\_place' OR relname LIKE 'result\\__\\_place'";
    assert_eq!(new.text(left).await.unwrap(), "0");
}

/// As hosted blue/green deployments do: the cluster that follows is a physical copy, in which the log is at home by all that stands there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_physical_copy_that_follows_finishes_everything() {
    let old = Cluster::start().await;
    let client = Client::connect(&old.server.url).await.unwrap();
    client.migrate().await.unwrap();
    old.run("CREATE PUBLICATION everything FOR ALL TABLES").await;
    let before = client.enqueue_many(work(20)).await.unwrap();
    old.run("SELECT pg_create_logical_replication_slot('followed', 'pgoutput')").await;
    let new = old.copy().await;
    new.run("SELECT windlass.prepare_subscriber()").await;
    subscribe(&old, &new, ", copy_data = off, create_slot = off, slot_name = 'followed'").await;

    // The old one is ahead from now on, in transactions and in all that it numbers.
    old.advance(2_000).await;
    let runs = Runs::default();
    let handler = |runs: &Runs| {
        let noted = runs.clone();
        move |_: Work, context: Context| noted.clone().note(context.id())
    };
    let worker = Worker::builder(&client).queue("default", 5).handle(handler(&runs)).start().await.unwrap();
    until("they are done", async || runs.counts().len() == before.len()).await;
    worker.shutdown().await;
    let mut open = client.enqueue_many(work(OPEN)).await.unwrap();
    let refused = old
        .client
        .batch_execute("SELECT windlass.register('w', '{}', '{}', 60), windlass.prepare_subscriber()")
        .await;
    let refused = refused.expect_err("a worker is live");
    assert!(refused.as_db_error().unwrap().message().contains("prepare the side that receives"), "{refused}");
    part(&old, &new).await;

    let enqueued =
        new.client.query_one("SELECT windlass.enqueue('work', '{\"letters\": \"\"}')", &[]).await.unwrap();
    let client = Client::connect(&new.server.url).await.unwrap();
    open.extend(client.enqueue_many(work(3)).await.unwrap());
    let later = Runs::default();
    let worker = Worker::builder(&client).queue("default", 5).handle(handler(&later)).start().await.unwrap();
    until("everything is done", async || later.counts().len() > open.len()).await;
    worker.shutdown().await;
    let later = later.counts();
    assert!(open.iter().all(|id| later.contains_key(id)), "lost");
    assert!(
        later.iter().all(|(id, times)| *times == 1 && !before.contains(id)),
        "done again, or two jobs of one id: {later:?}"
    );
    drop(enqueued);
}
