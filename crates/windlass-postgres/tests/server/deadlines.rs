//! Connections that are dead without a word: every call ends, and the next one works.

use crate::cluster::{Fixture, url};
use crate::strand::Forwarder;
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use windlass_conformance::steps::{QUEUE, eventually, job, jobs, worker_on};
use windlass_core::{
    Disposition, Error, ErrorKind, JobFilter, JobId, JobStore, Leader, Result, Store, Wake, WorkerSpec,
};
use windlass_postgres::{PostgresOptions, PostgresStore};

/// Long enough for calls on a busy machine, short enough to wait for often.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// For a call that has thirty times as long.
const SHORT_TIMEOUT: Duration = Duration::from_millis(700);
/// A call that takes as long as this hangs.
const HANGS: Duration = Duration::from_secs(120);
/// So many stores are stranded side by side, each in its share of the calls: one would take a minute.
const SHARES: usize = 4;

/// A store behind a forwarder.
struct Ground {
    fixture: Fixture,
    forwarder: Forwarder,
    store: Arc<PostgresStore>,
    admin: tokio_postgres::Client,
}

impl Ground {
    async fn fresh() -> Self {
        Self::with(CALL_TIMEOUT).await
    }

    async fn with(call_timeout: Duration) -> Self {
        let fixture = Fixture::shared().await;
        let url = url();
        let server = url.split('@').nth(1).unwrap().split('/').next().unwrap();
        let forwarder = Forwarder::start(server.to_owned()).await;
        let url = fixture.url.replace(server, &format!("127.0.0.1:{}", forwarder.port));
        let url = format!("{url}&application_name={}", fixture.schema);
        let mut options = PostgresOptions::default();
        options.call_timeout = call_timeout;
        // The short timeout may be over first, on a busy machine.
        let store = eventually("connects", || async {
            match PostgresStore::connect(&url, options.clone()).await {
                Err(error) if error.is_connection_loss() => None,
                store => Some(Arc::new(store.expect("connects"))),
            }
        })
        .await;
        let admin = fixture.sql().await;
        Self { fixture, forwarder, store, admin }
    }

    fn seam(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// How many server processes of the store there are that `also`.
    async fn backends(&self, also: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND {also}");
        self.admin.query_one(&sql, &[&self.fixture.schema]).await.unwrap().get(0)
    }

    /// The server process that holds the idle flag.
    async fn armed(&self) -> Option<i32> {
        let sql = "SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                   WHERE a.application_name = $1 AND l.locktype = 'advisory' AND l.mode = 'ShareLock'";
        let rows = self.admin.query(sql, &[&self.fixture.schema]).await.unwrap();
        rows.first().map(|row| row.get(0))
    }

    /// Nothing is left over, neither here nor at the server.
    async fn close(self) {
        self.store.close().await;
        eventually("all connections are closed", || async {
            (self.forwarder.open() == 0 && self.backends("true").await == 0).then_some(())
        })
        .await;
    }
}

/// Ends with what `call` says, or says that it hangs.
async fn ends<T>(what: &str, call: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(HANGS, call).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what} hangs"),
    }
}

async fn fails<T>(what: &str, call: impl Future<Output = Result<T>>) -> Error {
    match ends(what, call).await {
        Ok(_) => panic!("{what} was answered by a stranded connection"),
        Err(error) => error,
    }
}

type Call<'a> = (&'static str, Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> + 'a>);

macro_rules! call {
    ($name:literal, $call:expr) => {
        ($name, Box::new(|| Box::pin(async { $call.await.map(drop) })))
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_on_a_stranded_connection_ends_and_the_next_one_works() {
    let shares = (0..SHARES).map(|share| Box::pin(strand_each(share)));
    futures_util::future::join_all(shares).await;
}

/// Strands a store in each call of a share.
async fn strand_each(share: usize) {
    let ground = Ground::fresh().await;
    let store = &ground.store;
    let worker = worker_on(&ground.seam()).await;
    let spec = || WorkerSpec {
        name: "w".into(),
        queues: vec![QUEUE.into()],
        kinds: vec![],
        lease: Duration::from_secs(60),
        program: Default::default(),
    };
    let (one, twenty, id) = ([job()], jobs(20), [JobId(1)]);
    let filter = JobFilter::default();
    let calls: Vec<Call<'_>> = vec![
        call!("enqueue", store.enqueue(&one)),
        call!("enqueue", store.enqueue(&twenty)),
        call!("enqueue_once", store.enqueue_once("key", &one)),
        call!("cancel", store.cancel(&id)),
        call!("retry", store.retry(&id)),
        call!("pause", store.pause(QUEUE, false)),
        call!("find a job", store.job(id[0])),
        call!("list jobs", store.jobs(&filter)),
        call!("list queues", store.queues()),
        call!("status", store.status()),
        call!("claim", worker.try_claim(1)),
        call!("heartbeat", store.heartbeat(worker.id)),
        call!("suspect", store.suspect(worker.id, None)),
        call!("promote", store.promote(10)),
        call!("lead", store.lead(worker.id, Duration::from_secs(1))),
        call!("maintain", store.maintain()),
        call!("resign", store.resign(worker.id)),
        call!("register", store.register(&spec())),
        call!("deregister", store.deregister(worker.id)),
    ];
    let calls: Vec<_> = calls.into_iter().skip(share).step_by(SHARES).collect();
    store.enqueue(&one).await.unwrap();
    for (what, call) in &calls {
        // Several connections rest in each pool, all of which will be stranded.
        let warm = std::array::from_fn::<_, 4, _>(|_| store.enqueue(&one));
        futures_util::future::try_join_all(warm).await.unwrap();
        call().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        ground.forwarder.strand();
        let error = fails(what, call()).await;
        assert!(error.is_connection_loss(), "{what}: {error}");
        let text = error.to_string();
        assert!(text.starts_with(what) && text.contains("no answer") && text.contains("within 3s"), "{text}");
        ends(what, call()).await.unwrap_or_else(|error| panic!("{what}, the next: {error}"));
        ends("a call of another pool", store.enqueue(&one)).await.unwrap();
        ends("a call of another pool", store.promote(0)).await.unwrap();
        let beaten = ends("a call of another pool", store.heartbeat(worker.id)).await;
        beaten.map(drop).unwrap_or_else(|error| assert!(error.is_lease_lost(), "after {what}: {error}"));
    }
    drop(calls);
    drop(worker);
    ground.close().await;
}

/// A rescue moves whatever the worker held, and has thirty times as long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rescue_on_a_stranded_connection_ends_later_and_the_next_one_works() {
    let ground = Ground::with(SHORT_TIMEOUT).await;
    let other: Arc<dyn Store> = Arc::new(ground.fixture.store().await);
    let worker = worker_on(&other).await;
    // On a busy machine a new connection may take longer than the short timeout.
    let rescue = || async {
        match ends("rescue", ground.store.rescue(worker.id)).await {
            Err(error) if error.to_string().contains("no connection to PostgreSQL") => None,
            answer => Some(answer.expect("rescues")),
        }
    };
    eventually("a rescue", rescue).await;
    ground.forwarder.strand();
    let error = fails("rescue", ground.store.rescue(worker.id)).await;
    assert!(error.is_connection_loss(), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("rescue") && text.contains("no answer") && text.contains("within 21s"),
        "{text}"
    );
    eventually("the next one", rescue).await;
    drop(worker);
    ground.close().await;
}

/// Runs `call` while the log is locked, strands it there, and returns how it ended.
async fn strand_under_way<T>(ground: &Ground, what: &str, call: impl Future<Output = Result<T>>) -> Error {
    let locker = ground.fixture.sql().await;
    let lock = ground.fixture.text("BEGIN; LOCK TABLE windlass.job, windlass.claim, windlass.settlement");
    locker.batch_execute(&lock).await.unwrap();
    let stranded = async {
        eventually("the call waits for the lock", || async {
            (ground.backends("wait_event_type = 'Lock'").await > 0).then_some(())
        })
        .await;
        ground.forwarder.strand();
        locker.batch_execute("ROLLBACK").await.unwrap();
    };
    tokio::join!(fails(what, call), stranded).0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_under_way_is_ambiguous_and_what_can_be_repeated_is_not() {
    let ground = Ground::fresh().await;
    let store = &ground.store;
    let worker = worker_on(&ground.seam()).await;
    store.enqueue(&jobs(5)).await.unwrap();
    store.enqueue(&[job()]).await.unwrap();
    let held = worker.take_one().await;

    let error = strand_under_way(&ground, "enqueue one", store.enqueue(&[job()])).await;
    assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
    store.enqueue(&[job()]).await.expect("the next one");
    let error = strand_under_way(&ground, "enqueue many", store.enqueue(&jobs(20))).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "no COMMIT was sent: {error}");
    store.enqueue(&jobs(20)).await.expect("the next one");
    let error = strand_under_way(&ground, "claim", worker.try_claim(1)).await;
    assert_eq!(error.kind(), ErrorKind::Ambiguous, "{error}");
    worker.try_claim(1).await.expect("the next one");
    let settling = worker.try_settle(vec![], vec![held.exception(Disposition::Return)]);
    let error = strand_under_way(&ground, "settle", settling).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    worker.except(&held, Disposition::Return).await;
    drop(worker);
    ground.close().await;
}

/// A server process that waits for a lock does not see its client go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_waits_for_any_more_is_cancelled() {
    let ground = Ground::fresh().await;
    let store = &ground.store;
    store.enqueue(&[job()]).await.unwrap();
    let locker = ground.fixture.sql().await;
    locker.batch_execute(&ground.fixture.text("BEGIN; LOCK TABLE windlass.job")).await.unwrap();
    for _ in 0..3 {
        let error = fails("enqueue", store.enqueue(&[job()])).await;
        assert!(error.is_connection_loss(), "{error}");
    }
    eventually("nobody waits for the lock", || async {
        (ground.backends("wait_event_type = 'Lock'").await == 0).then_some(())
    })
    .await;
    locker.batch_execute("ROLLBACK").await.unwrap();
    ends("the next", store.enqueue(&[job()])).await.unwrap();
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_finds_no_free_connection_ends() {
    let ground = Ground::fresh().await;
    let locker = ground.fixture.sql().await;
    locker
        .batch_execute(&ground.fixture.text("BEGIN; LOCK TABLE windlass.lane, windlass.job"))
        .await
        .unwrap();
    let filter = JobFilter::default();
    let lists = futures_util::future::try_join_all((0..10).map(|_| ground.store.jobs(&filter)));
    let refused = async {
        eventually("all connections are in use", || async {
            (ground.backends("wait_event_type = 'Lock'").await == 10).then_some(())
        })
        .await;
        let error = fails("enqueue", ground.store.enqueue(&[job()])).await;
        locker.batch_execute("ROLLBACK").await.unwrap();
        error
    };
    let (lists, error) = tokio::join!(lists, refused);
    lists.expect("what uses them goes on");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("within 3s: all 10 are in use; raise pool_size"), "{error}");
    ends("the next", ground.store.enqueue(&[job()])).await.unwrap();
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_listens_again() {
    let ground = Ground::fresh().await;
    let mut wakeup = ground.store.wakeup();
    let mut before = None;
    for armed_before in [true, false, true] {
        let again = async {
            loop {
                tokio::time::timeout(HANGS, wakeup.arm()).await.expect("arming ends");
                let pid = ground.armed().await;
                if pid.is_some() && pid != before {
                    return pid;
                }
                // As a worker does: it polls, which tells the store that something is wrong.
                let _ = ground.store.queues().await;
                wakeup.wait(Duration::from_millis(20)).await;
            }
        };
        before = tokio::time::timeout(HANGS, again).await.expect("listens on a new connection");
        ground.store.enqueue(&[job()]).await.unwrap();
        assert_eq!(wakeup.wait(HANGS).await, Wake::Hint);
        if !armed_before {
            wakeup.disarm();
            eventually("disarmed", || async { ground.armed().await.is_none().then_some(()) }).await;
        }
        ground.forwarder.strand();
    }
    drop(wakeup);
    ground.close().await;
}

/// It accepts, and says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_through_a_silent_server_ends() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://postgres@{}/postgres", listener.local_addr().unwrap());
    let mut options = PostgresOptions::default();
    options.call_timeout = CALL_TIMEOUT;
    let error = fails("connect", Box::pin(PostgresStore::connect(&url, options))).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("the server does not finish the login"), "{error}");
}
