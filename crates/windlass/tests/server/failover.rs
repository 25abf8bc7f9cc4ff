//! A standby is promoted while producers and workers run on: their URL names both servers.

use crate::{
    own_cluster::OwnCluster,
    restore::{address, until},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::watch;
use tokio_postgres::NoTls;
use windlass::{Client, Context, ErrorKind, EventCursor, Job, JobId, JobState, Worker};

#[derive(Clone, serde::Serialize, serde::Deserialize)]
enum Work {
    Short,
    Long,
}

impl Job for Work {
    const KIND: &'static str = "work";
}

const LEASE: Duration = Duration::from_secs(2);
const SHORT: usize = 4;

/// A primary, and a standby that streams from it.
struct Pair {
    primary: OwnCluster,
    standby: OwnCluster,
    on_primary: tokio_postgres::Client,
    on_standby: tokio_postgres::Client,
    client: Client,
}

impl Pair {
    async fn start() -> Self {
        let (primary, mut standby) = (OwnCluster::start(), OwnCluster::empty());
        standby.run("pg_basebackup", &["-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", &primary.url]);
        standby.first_start();
        let (on_primary, on_standby) = (connect(&primary.url).await, connect(&standby.url).await);
        let hosts = [&primary, &standby].map(|server| address(&server.url)).join(",");
        let url = format!("postgres://postgres@{hosts}/postgres?target_session_attrs=read-write");
        let client = Client::connect(&url).await.unwrap();
        client.migrate().await.unwrap();
        Self { primary, standby, on_primary, on_standby, client }
    }

    /// Waits until the standby has everything that is committed now, also what was not waited for.
    async fn standby_has_everything(&self) {
        self.on_primary.batch_execute("SELECT pg_logical_emit_message(true, 'all', '')").await.unwrap();
        let now: String =
            self.on_primary.query_one("SELECT pg_current_wal_lsn()::text", &[]).await.unwrap().get(0);
        let there = format!("SELECT pg_last_wal_replay_lsn() >= '{now}'");
        until("the standby has everything", async || is(&self.on_standby, &there).await).await;
    }

    /// From now on the standby receives nothing.
    async fn cut_the_stream(&self) {
        self.on_standby.batch_execute("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
        self.on_standby.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        let gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)";
        until("the standby receives nothing", async || is(&self.on_standby, gone).await).await;
        let nobody = "SELECT NOT EXISTS (SELECT FROM pg_stat_replication)";
        until("the primary sends nothing", async || is(&self.on_primary, nobody).await).await;
    }

    fn fail_over(&self) {
        self.primary.crash();
        self.standby.run("pg_ctl", &["promote", "-w", "-t", "60"]);
    }

    async fn are_done(&self, ids: &[JobId]) -> bool {
        for id in ids {
            let job = self.client.job(*id).await;
            if !job.is_ok_and(|job| job.is_some_and(|job| job.state == JobState::Completed)) {
                return false;
            }
        }
        true
    }

    /// As a producer does that tries again until it is told an id.
    async fn enqueue(&self, jobs: Vec<Work>) -> Vec<JobId> {
        loop {
            match self.client.enqueue_many(jobs.clone()).await {
                Ok(ids) => return ids,
                Err(error) => assert!(error.is_connection_loss(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn is(on: &tokio_postgres::Client, question: &str) -> bool {
    on.query_one(question, &[]).await.unwrap().get::<_, Option<bool>>(0) == Some(true)
}

/// How often each job was started; and until when those of each sort take.
struct Crew {
    worker: Worker,
    starts: Arc<Mutex<BTreeMap<JobId, u32>>>,
    short: watch::Sender<bool>,
    long: watch::Sender<bool>,
}

impl Crew {
    async fn start(client: &Client, slots: usize) -> Self {
        let starts = Arc::new(Mutex::new(BTreeMap::new()));
        let (short, long) = (watch::Sender::new(true), watch::Sender::new(false));
        let (noted, gates) = (Arc::clone(&starts), (short.clone(), long.clone()));
        let handler = move |work: Work, context: Context| {
            *noted.lock().unwrap().entry(context.id()).or_insert(0) += 1;
            let mut gate = if matches!(work, Work::Short) { &gates.0 } else { &gates.1 }.subscribe();
            async move { gate.wait_for(|open| *open).await.map(drop) }
        };
        let worker = Worker::builder(client).queue("default", slots).lease(LEASE).handle(handler);
        Self { worker: worker.start().await.unwrap(), starts, short, long }
    }

    fn starts(&self, ids: &[JobId]) -> Vec<u32> {
        let starts = self.starts.lock().unwrap();
        ids.iter().map(|id| starts.get(id).copied().unwrap_or_default()).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asynchronous_failover_loses_what_the_standby_had_not_received_and_nothing_else() {
    let pair = Pair::start().await;
    let crew = Crew::start(&pair.client, SHORT + 1).await;
    let done = pair.enqueue(vec![Work::Short; 5]).await;
    until("the first are done", async || pair.are_done(&done).await).await;
    let mut events = pair.client.events(EventCursor::start());
    while !events.next_page().await.unwrap().events.is_empty() {}

    crew.short.send_replace(false);
    // One claim: the end of the long one must not settle, on the new primary, what is left of the claim there.
    let mut held = pair.enqueue([vec![Work::Long], vec![Work::Short; SHORT]].concat()).await;
    let long = vec![held.remove(0)];
    until("they run", async || crew.worker.stats().running == SHORT + 1).await;
    let waiting = pair.enqueue(vec![Work::Short; 3]).await;
    pair.standby_has_everything().await;
    pair.cut_the_stream().await;
    crew.short.send_replace(true);
    let unheard = pair.enqueue(vec![Work::Short; 3]).await;
    let finished = [&held[..], &waiting, &unheard].concat();
    // The worker has the answers, too: what it was not told of it says once more.
    let all_answered = async || pair.are_done(&finished).await && crew.worker.stats().unsettled == 0;
    until("they are done, as far as the primary knows", all_answered).await;
    pair.fail_over();

    let later = pair.enqueue(vec![Work::Short; 3]).await;
    until("the worker works on", async || pair.are_done(&later).await).await;
    let registered = "SELECT EXISTS (SELECT FROM windlass.worker WHERE id > 10000000 AND ended_at IS NULL)";
    until("it registered anew", async || is(&pair.on_standby, registered).await).await;
    assert_eq!(crew.starts(&long), [1], "what runs is not started a second time");
    crew.long.send_replace(true);
    let kept = [&done[..], &long, &held, &waiting, &later].concat();
    until("what the standby had received is done", async || pair.are_done(&kept).await).await;

    assert_eq!(crew.starts(&done), [1; 5], "what the standby knows to be settled is not done again");
    assert_eq!(crew.starts(&long), [1]);
    assert_eq!(crew.starts(&held), [2; SHORT], "they are settled again, by the worker that runs on");
    assert_eq!(crew.starts(&waiting), [2; 3]);
    for id in &unheard {
        assert!(pair.client.job(*id).await.unwrap().is_none(), "{id} was never received");
    }
    let told: BTreeSet<JobId> = kept.iter().chain(&unheard).copied().collect();
    assert_eq!(told.len(), kept.len() + unheard.len(), "two jobs have one id");
    let refused = events.next_page().await.expect_err("what was read last may be missing");
    assert_eq!(refused.kind(), ErrorKind::EventsExpired, "{refused}");
    crew.worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_to_a_synchronous_standby_loses_nothing_acknowledged() {
    let pair = Arc::new(Pair::start().await);
    pair.on_primary.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    pair.on_primary.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')";
    until("the standby is synchronous", async || is(&pair.on_primary, waits).await).await;
    let crew = Crew::start(&pair.client, 20).await;

    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let producer = tokio::spawn({
        let (pair, acknowledged) = (Arc::clone(&pair), Arc::clone(&acknowledged));
        async move {
            loop {
                let ids = pair.enqueue(vec![Work::Short; 2]).await;
                acknowledged.lock().unwrap().extend(ids);
            }
        }
    });
    let more = async |count: usize| {
        let before = acknowledged.lock().unwrap().len();
        until("jobs flow", async || acknowledged.lock().unwrap().len() > before + count).await;
    };
    more(200).await;
    // On a thread of its own, so that jobs flow while the primary goes down.
    let failing = Arc::clone(&pair);
    tokio::task::spawn_blocking(move || failing.fail_over()).await.unwrap();
    more(100).await;
    producer.abort();
    let acknowledged = acknowledged.lock().unwrap().clone();
    let different: BTreeSet<&JobId> = acknowledged.iter().collect();
    assert_eq!(different.len(), acknowledged.len(), "two jobs have one id");
    until("every acknowledged job is done", async || pair.are_done(&acknowledged).await).await;
    crew.worker.shutdown().await;
}

/// As where an address leads to the server that is the standby now: a worker looks for another connection then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_refuses_events_and_workers_as_what_cannot_be_written_to() {
    let pair = Pair::start().await;
    pair.enqueue(vec![Work::Short]).await;
    pair.standby_has_everything().await;
    let client = Client::connect(&pair.standby.url).await.unwrap();
    assert_eq!(client.queues().await.unwrap().len(), 1, "what is only read can be read");
    let events = client.events(EventCursor::start()).next_page().await.expect_err("no events there");
    let worker = Worker::builder(&client).queue("default", 1).handle(async |_: Work| {}).start().await;
    for error in [events, worker.expect_err("no work there")] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("standby"), "{error}");
    }
}
