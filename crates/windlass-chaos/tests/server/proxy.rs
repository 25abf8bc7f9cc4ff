//! Each behaviour of the proxy against a real server.
use std::{
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_postgres::{AsyncMessage, Client, NoTls, binary_copy::BinaryCopyInWriter, types::Type};
use windlass_chaos::{
    node::{Postgres, PostgresOptions},
    proxy::{Chance, CommitCuts, Counts, CutPoint, Direction, Proxy, writes},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// One server for the tests that run at the same time; the last of them removes it.
fn server() -> Arc<Postgres> {
    static SERVER: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
    let mut shared = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let settings = vec![("shared_buffers".to_owned(), "16MB".to_owned())];
        let server = Arc::new(Postgres::start(PostgresOptions { settings, ..Default::default() }).unwrap());
        *shared = Arc::downgrade(&server);
        server
    })
}

/// A proxy before a server, a table of its own, and a client that goes around the proxy.
struct Stand {
    server: Arc<Postgres>,
    proxy: Proxy,
    table: String,
    direct: Client,
}

impl Stand {
    async fn new(name: &str) -> Self {
        let server = tokio::task::spawn_blocking(server).await.unwrap();
        let proxy = Proxy::start_seeded(address(&server), 1).await.unwrap();
        let direct = connect(&server.url()).await.unwrap();
        let table = format!("t_{name}");
        direct
            .batch_execute(&format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (n bigint)"))
            .await
            .unwrap();
        Self { server, proxy, table, direct }
    }

    fn url(&self) -> String {
        self.proxy.url_of(&self.server.url()).unwrap()
    }

    async fn client(&self) -> Client {
        connect(&self.url()).await.unwrap()
    }

    fn insert(&self, n: u32) -> String {
        format!("INSERT INTO {} VALUES ({n})", self.table)
    }

    async fn rows(&self) -> i64 {
        self.direct.query_one(&format!("SELECT count(*) FROM {}", self.table), &[]).await.unwrap().get(0)
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Counts) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(&self.proxy.counts()) {
            assert!(Instant::now() < end, "{what}: {:?}", self.proxy.counts());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn address(server: &Postgres) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, server.port()).into()
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn copy(client: &Client, stand: &Stand, rows: i64) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in(&format!("COPY {} FROM STDIN (FORMAT binary)", stand.table)).await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &[Type::INT8]));
    for n in 0..rows {
        writer.as_mut().write(&[&n]).await?;
    }
    writer.finish().await
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this ends soon")
}

#[tokio::test]
async fn without_faults_everything_passes() {
    let stand = Stand::new("passes").await;
    assert_eq!(
        stand.proxy.url_of("postgres://me:a@b@host:5432/db?x=1").unwrap(),
        format!("postgres://me:a@b@127.0.0.1:{}/db?x=1", stand.proxy.port())
    );
    let client = stand.client().await;
    assert_eq!(copy(&client, &stand, 300_000).await.unwrap(), 300_000);
    let long =
        client.query_one("SELECT repeat('x', 3000000), $1::text", &[&"y".repeat(2_000_000)]).await.unwrap();
    assert_eq!((long.get::<_, &str>(0).len(), long.get::<_, &str>(1).len()), (3_000_000, 2_000_000));
    assert!(client.simple_query("SELECT 1/0").await.is_err());
    assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    drop(client);
    stand.until("the connection ends", |now| now.open == 0).await;
    assert_eq!(stand.rows().await, 300_000);
    assert_eq!(stand.proxy.counts(), Counts { connections: 1, ..Counts::default() });
}

#[tokio::test]
async fn a_request_for_encryption_is_passed_on_and_the_messages_after_it_are_followed() {
    let stand = Stand::new("encryption").await;
    stand.proxy.cut_commits(Some(CommitCuts::new(&[CutPoint::BeforeForward], Chance::EveryNth(1), 0)));
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, stand.proxy.port())).await.unwrap();
    socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await.unwrap();
    assert_eq!(socket.read_u8().await.unwrap(), b'N');
    let start = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    socket.write_u32(start.len() as u32 + 4).await.unwrap();
    socket.write_all(start).await.unwrap();
    assert_eq!(socket.read_u8().await.unwrap(), b'R');
    let insert = stand.insert(1);
    socket.write_u8(b'Q').await.unwrap();
    socket.write_u32(insert.len() as u32 + 5).await.unwrap();
    socket.write_all(format!("{insert}\0").as_bytes()).await.unwrap();
    let _ = soon(socket.read_to_end(&mut Vec::new())).await;
    assert_eq!((stand.proxy.counts().commits_cut, stand.rows().await), (1, 0));
}

#[tokio::test]
async fn delay_and_bandwidth_slow_it_down() {
    let stand = Stand::new("slow").await;
    let client = stand.client().await;
    stand.proxy.set_delay(Duration::from_millis(60), Duration::from_millis(20));
    let begin = Instant::now();
    client.simple_query("SELECT 1").await.unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(120));
    stand.proxy.heal();
    stand.proxy.bandwidth(Some(1_000_000));
    let begin = Instant::now();
    client.simple_query("SELECT repeat('x', 200000)").await.unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn connections_are_cut_and_refused_and_go_elsewhere() {
    let stand = Stand::new("cut").await;
    let (one, two) = (stand.client().await, stand.client().await);
    stand.proxy.cut_all();
    stand.until("both are cut", |now| now.open == 0 && now.cuts == 2).await;
    assert!(one.simple_query("SELECT 1").await.is_err() && two.simple_query("SELECT 1").await.is_err());

    let stays = stand.client().await;
    stand.proxy.refuse(true);
    assert!(connect(&stand.url()).await.is_err());
    assert_eq!(stand.proxy.counts().refused, 1);
    stays.simple_query("SELECT 1").await.unwrap();
    stand.proxy.refuse(false);

    stand.proxy.retarget((Ipv4Addr::LOCALHOST, 1).into());
    assert!(connect(&stand.url()).await.is_err());
    stand.proxy.retarget(address(&stand.server));
    stand.client().await.simple_query("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn a_black_hole_keeps_the_sockets_and_takes_the_bytes() {
    let stand = Stand::new("black").await;
    for (direction, stored) in
        [(Direction::ClientToServer, 0), (Direction::ServerToClient, 1), (Direction::Both, 1)]
    {
        let client = stand.client().await;
        stand.proxy.blackhole(direction, true);
        let lost = stand.proxy.counts().lost_bytes;
        let insert = stand.insert(1);
        let mut asked = pin!(client.batch_execute(&insert));
        tokio::select! {
            answer = &mut asked => panic!("an answer through a black hole: {answer:?}"),
            () = stand.until("bytes are lost", |now| now.lost_bytes > lost) => {}
        }
        assert_eq!((stand.proxy.counts().open, stand.rows().await), (1, stored), "{direction:?}");
        stand.proxy.blackhole(direction, false);
        assert!(soon(asked).await.is_err(), "a connection with a gap is reset");
        stand.until("it is gone", |now| now.open == 0).await;
    }
    stand.client().await.batch_execute(&stand.insert(2)).await.unwrap();
}

#[tokio::test]
async fn after_a_stall_everything_goes_on() {
    let stand = Stand::new("stall").await;
    let client = stand.client().await;
    stand.proxy.stall(Direction::ServerToClient, true);
    let insert = stand.insert(1);
    let mut asked = pin!(client.batch_execute(&insert));
    let stored = async {
        while stand.rows().await == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        answer = &mut asked => panic!("an answer through a stall: {answer:?}"),
        () = soon(stored) => {}
    }
    stand.proxy.stall(Direction::ServerToClient, false);
    soon(asked).await.unwrap();
    client.simple_query("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn one_direction_may_end() {
    let stand = Stand::new("half").await;
    for direction in [Direction::ClientToServer, Direction::ServerToClient] {
        let client = stand.client().await;
        stand.proxy.half_close(direction);
        soon(async { while client.simple_query("SELECT 1").await.is_ok() {} }).await;
        stand.until("it is gone", |now| now.open == 0).await;
        stand.client().await.simple_query("SELECT 1").await.unwrap();
        stand.until("the other is gone", |now| now.open == 0).await;
    }
    assert_eq!(stand.proxy.counts().cuts, 0);
}

#[tokio::test]
async fn notifications_are_swallowed_and_nothing_else() {
    let stand = Stand::new("notify").await;
    let (client, mut connection) = tokio_postgres::connect(&stand.url(), NoTls).await.unwrap();
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message {
                sender.send(notification.payload().to_owned()).unwrap();
            }
        }
    });
    client.batch_execute("LISTEN proxied").await.unwrap();
    stand.proxy.swallow_notifications(true);
    stand.direct.batch_execute("NOTIFY proxied, 'one'").await.unwrap();
    stand.until("it is swallowed", |now| now.swallowed == 1).await;
    client.batch_execute("NOTIFY proxied, 'two'").await.unwrap();
    stand.until("so is the own one", |now| now.swallowed == 2).await;
    stand.proxy.swallow_notifications(false);
    stand.direct.batch_execute("NOTIFY proxied, 'three'").await.unwrap();
    assert_eq!(soon(received.recv()).await.as_deref(), Some("three"));
}

/// The ways in which clients commit.
#[derive(Clone, Copy, Debug)]
enum Style {
    Transaction,
    Prepared,
    Unprepared,
    Simple,
    Whole,
    Pipelined,
    Copy,
}

const STYLES: [Style; 7] = [
    Style::Transaction,
    Style::Prepared,
    Style::Unprepared,
    Style::Simple,
    Style::Whole,
    Style::Pipelined,
    Style::Copy,
];

impl Style {
    async fn commit(self, client: &mut Client, stand: &Stand) -> Result<(), tokio_postgres::Error> {
        let insert = stand.insert(1);
        match self {
            Self::Transaction => {
                let transaction = client.transaction().await?;
                transaction.execute(&insert, &[]).await?;
                transaction.commit().await
            }
            Self::Prepared => {
                let statement = client.prepare(&insert).await?;
                client.execute(&statement, &[]).await.map(drop)
            }
            Self::Unprepared => client.query_typed(&insert, &[]).await.map(drop),
            Self::Simple => client.batch_execute(&insert).await,
            Self::Whole => client.batch_execute(&format!("BEGIN; {insert}; COMMIT;")).await,
            Self::Pipelined => {
                let (began, done, ended) = tokio::join!(
                    biased;
                    client.batch_execute("BEGIN"),
                    client.query_typed(&insert, &[]),
                    client.batch_execute("COMMIT"),
                );
                began.and(done.map(drop)).and(ended)
            }
            Self::Copy => copy(client, stand, 1).await.map(drop),
        }
    }
}

#[tokio::test]
async fn a_commit_that_is_not_forwarded_leaves_nothing() {
    let stand = Stand::new("before").await;
    for style in STYLES {
        let mut client = stand.client().await;
        stand.proxy.cut_commits(Some(CommitCuts::new(&[CutPoint::BeforeForward], Chance::EveryNth(1), 0)));
        assert!(soon(style.commit(&mut client, &stand)).await.is_err(), "{style:?}");
        stand.until("it is cut", |now| now.open == 0).await;
        assert_eq!(stand.rows().await, 0, "{style:?}");
    }
    assert_eq!((stand.proxy.counts().commits_cut, stand.proxy.counts().cuts), (7, 7));
}

#[tokio::test]
async fn a_commit_whose_answer_is_kept_back_is_there_and_the_client_does_not_know() {
    let stand = Stand::new("after").await;
    for (style, rows) in STYLES.into_iter().zip(1..) {
        let mut client = stand.client().await;
        stand.proxy.cut_commits(Some(CommitCuts::new(&[CutPoint::AfterForward], Chance::EveryNth(1), 0)));
        assert!(soon(style.commit(&mut client, &stand)).await.is_err(), "{style:?}");
        assert_eq!(stand.rows().await, rows, "{style:?}");
        stand.until("it is cut", |now| now.open == 0).await;
    }
    assert_eq!((stand.proxy.counts().commits_cut, stand.proxy.counts().cuts), (7, 7));
}

#[tokio::test]
async fn a_racing_commit_is_cut() {
    let stand = Stand::new("racing").await;
    for style in STYLES {
        let mut client = stand.client().await;
        stand.proxy.cut_commits(Some(CommitCuts::new(&[CutPoint::Racing], Chance::EveryNth(1), 0)));
        assert!(soon(style.commit(&mut client, &stand)).await.is_err(), "{style:?}");
        stand.until("it is cut", |now| now.open == 0).await;
    }
    assert!(stand.rows().await <= 7);
}

#[tokio::test]
async fn only_what_counts_is_cut_and_by_the_seed() {
    let stand = Stand::new("counting").await;
    let mut client = stand.client().await;
    let cuts = CommitCuts::new(&[CutPoint::AfterForward], Chance::EveryNth(4), 0);
    stand.proxy.cut_commits(Some(cuts.counting(|sql| writes(sql) && sql.contains("t_counting"))));
    for _ in 0..5 {
        client.simple_query("SELECT 1").await.unwrap();
        client.query("SELECT 1", &[]).await.unwrap();
        client.transaction().await.unwrap().commit().await.unwrap();
        let rolled_back = client.transaction().await.unwrap();
        rolled_back.execute(&stand.insert(1), &[]).await.unwrap();
        rolled_back.rollback().await.unwrap();
        client
            .batch_execute("CREATE TEMPORARY TABLE IF NOT EXISTS other (n int); INSERT INTO other VALUES (1)")
            .await
            .unwrap();
    }
    assert_eq!(stand.proxy.counts().commits_seen, 0);
    for style in [Style::Transaction, Style::Copy, Style::Pipelined] {
        style.commit(&mut client, &stand).await.unwrap();
    }
    assert!(Style::Prepared.commit(&mut client, &stand).await.is_err());
    assert_eq!((stand.proxy.counts().commits_seen, stand.proxy.counts().commits_cut), (4, 1));

    let mut runs = Vec::new();
    for _ in 0..2 {
        let points = [CutPoint::BeforeForward, CutPoint::AfterForward];
        stand.proxy.cut_commits(Some(CommitCuts::new(&points, Chance::Probability(0.5), 42)));
        let mut outcomes = Vec::new();
        for n in 0..16 {
            let before = stand.rows().await;
            let acknowledged = stand.client().await.batch_execute(&stand.insert(n)).await.is_ok();
            stand.until("it is gone", |now| now.open == 0).await;
            outcomes.push((acknowledged, stand.rows().await - before));
        }
        runs.push(outcomes);
    }
    assert_eq!(runs[0], runs[1]);
    for outcome in [(true, 1), (false, 0), (false, 1)] {
        assert!(runs[0].contains(&outcome), "{outcome:?} in {runs:?}");
    }
}
