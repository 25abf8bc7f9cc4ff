use super::{site::Site, work::done};
use crate::{BasePath, Role, connections::connection};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use windlass::{JobId, JobState};

/// A server on a port of its own.
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

pub(super) async fn listening(site: &Site) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = site.server.clone();
    let serving = tokio::spawn(async move {
        server.serve(listener, &BasePath::default(), async { drop(stopped.await) }).await
    });
    Listening { address, stop, serving }
}

pub(super) fn head(site: &Site, line: &str, more: &str) -> String {
    head_of(site, Role::Operator, line, more)
}

pub(super) fn head_of(site: &Site, role: Role, line: &str, more: &str) -> String {
    let token = site.token(role);
    format!("{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
}

/// Sends this and reads until the server closes.
async fn say(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

// Time is paused: it goes on by itself while everybody waits, so that a slow client costs no time here.
#[tokio::test(start_paused = true)]
async fn slow_clients_are_let_go() {
    let site = Site::in_memory();
    let server = listening(&site).await;
    let connect = || TcpStream::connect(server.address);
    let began = tokio::time::Instant::now();
    let mut stream = connect().await.unwrap();
    say(&mut stream, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());

    let body = "Content-Type: application/json\r\nContent-Length: 100\r\nConnection: close\r\n";
    let request = head(&site, "POST /api/v1/jobs", body) + "{\"jobs\":";
    let mut answer = String::new();
    // Time may go on before the server has read what is on its way, and it lets go of a client that sent no head.
    for _ in 0..100 {
        answer = say(&mut connect().await.unwrap(), &request).await;
        if !answer.is_empty() {
            break;
        }
    }
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\"code\":\"timeout\""), "{answer}");
    assert!(answer.contains("nothing was done"), "{answer}");
    assert!(site.client.jobs(&Default::default()).await.unwrap().is_empty());
}

/// Asks for this through a pipe that holds little, and reads as it is told. How long the server keeps the connection, at most an hour.
async fn kept(site: &Site, path: &str, reads: impl AsyncFnOnce(DuplexStream)) -> Duration {
    let (mut client, server) = tokio::io::duplex(512);
    let began = Instant::now();
    let connection = connection(server, SocketAddr::from(([127, 0, 0, 1], 1)), site.server.router());
    let talk = async {
        client.write_all(head(site, &format!("GET /api/v1{path}"), "").as_bytes()).await.unwrap();
        reads(client).await;
    };
    let over = async {
        let ended =
            timeout(Duration::from_secs(3_600), connection).await.expect("the connection is kept for ever");
        assert!(ended.is_err(), "it ended as if the answer had been read");
        began.elapsed()
    };
    tokio::select! {
        () = talk => unreachable!("the client stays"),
        elapsed = over => elapsed,
    }
}

#[tokio::test(start_paused = true)]
async fn who_stops_reading_does_not_hold_the_connection() {
    let site = Site::in_memory();
    for _ in 0..20 {
        site.enqueue("a", json!({})).await;
    }
    let patience = Duration::from_secs(30);
    for path in ["/jobs?limit=20", "/live?topics=overview"] {
        let never = async |_client: DuplexStream| std::future::pending().await;
        let elapsed = kept(&site, path, never).await;
        assert!((patience..2 * patience).contains(&elapsed), "{path}: {elapsed:?}");
        // Slow is fine: until it stops, too.
        let slowly = async |mut client: DuplexStream| {
            for _ in 0..10 {
                sleep(patience - Duration::from_secs(1)).await;
                client.read_exact(&mut [0; 64]).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let elapsed = kept(&site, path, slowly).await;
        assert!((patience * 10..patience * 12).contains(&elapsed), "{path}: {elapsed:?}");
    }
}

#[tokio::test]
async fn heads_and_bodies_are_bounded() {
    let site = Site::in_memory();
    let server = listening(&site).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let long = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "x".repeat(20_000));
    let answer = say(&mut stream, &long).await;
    assert!(answer.starts_with("HTTP/1.1 431") || answer.is_empty(), "{answer}");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = "Content-Type: application/json\r\nContent-Length: 2000000\r\nConnection: close\r\n";
    let answer = say(&mut stream, &head(&site, "POST /api/v1/bulk", body)).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let answer = say(&mut stream, "\x16\x03\x01 no http\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400") || answer.is_empty(), "{answer}");
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let answer = say(&mut stream, &head(&site, "GET /api/v1/queues", "Connection: close\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_stop_ends_streams_and_lets_requests_finish() {
    let site = Site::in_memory();
    site.enqueue("a", json!({})).await;
    let server = listening(&site).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(head(&site, "GET /api/v1/live?topics=overview", "").as_bytes()).await.unwrap();
    let mut told = String::new();
    while !told.contains("event: overview") {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "{told}");
        told += &String::from_utf8_lossy(&part[..read]);
    }
    // One is in the middle of its request.
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let jobs = "{\"jobs\":[{\"kind\":\"b\"}]}";
    let length = format!(
        "Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n",
        jobs.len()
    );
    slow.write_all(head(&site, "POST /api/v1/jobs", &length).as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    slow.read_exact(&mut go_on).await.unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"));

    server.stop.send(()).unwrap();
    // Who comes now is told, and waits for nothing.
    for (path, says) in [
        ("/readyz", "stopping"),
        ("/api/v1/queues", "\"code\":\"unavailable\""),
        ("/api/v1/session", "nothing was done"),
    ] {
        let mut late = TcpStream::connect(server.address).await.unwrap();
        let answer = say(&mut late, &head(&site, &format!("GET {path}"), "")).await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains(says), "{path}: {answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(String::from_utf8_lossy(&rest).contains("retry: 1000"));
    let answer = say(&mut slow, jobs).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    server.serving.await.unwrap().unwrap();
    assert_eq!(site.client.jobs(&Default::default()).await.unwrap().len(), 2);
    assert!(TcpStream::connect(server.address).await.is_err());
}

/// A request whose head was read, and whose body of so many bytes is to come.
async fn begun(server: &Listening, site: &Site, role: Role, path: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let of_body =
        format!("Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n");
    let head = head_of(site, role, &format!("POST {path}"), &of_body);
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"));
    stream
}

#[tokio::test]
async fn at_a_stop_jobs_of_workers_wait_for_their_own_requests_and_for_no_others() {
    let site = Site::in_memory();
    for _ in 0..2 {
        site.enqueue("a", json!({})).await;
    }
    let worker = site.register(json!({ "queues": { "mail": 2 } })).await;
    let jobs = site.jobs(&worker).await;
    let state = async |job: &Value| {
        let id = JobId(job["id"].as_str().unwrap().parse().unwrap());
        site.client.job(id).await.unwrap().unwrap().state
    };
    let server = listening(&site).await;
    let mut stuck = begun(&server, &site, Role::Operator, "/api/v1/jobs", 500).await;
    stuck.write_all(b"{").await.unwrap();
    let said = json!({ "done": [done(&jobs[0], "complete")], "want": {} }).to_string();
    let turn = format!("/work/v1/workers/{worker}/turn");
    let mut last = begun(&server, &site, Role::Worker, &turn, said.len()).await;

    server.stop.send(()).unwrap();
    let stopped = Instant::now();
    sleep(Duration::from_millis(100)).await;
    let answer = say(&mut last, &said).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("accepted"), "{answer}");
    while state(&jobs[1]).await != JobState::Available {
        assert!(stopped.elapsed() < Duration::from_secs(8), "it waits for a request of somebody else");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(state(&jobs[0]).await, JobState::Completed);
    drop(stuck);
    server.serving.await.unwrap().unwrap();
}
