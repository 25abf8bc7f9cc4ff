//! More clients than anybody wants, over real connections: those beyond the bounds are refused kindly, and others are served meanwhile.

use super::{
    connections::{head, head_of, listening},
    site::Site,
};
use crate::Role;
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

const STREAMS: usize = 1_000;
const SLOW: usize = 300;
/// A busy machine takes its time; a server that is down never answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks, and reads the head of the answer with what came along; the connection stays open.
async fn ask(address: SocketAddr, request: String) -> (TcpStream, String) {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "closed without an answer");
        }
        (stream, String::from_utf8_lossy(&answer).into_owned())
    };
    timeout(PATIENCE, asked).await.expect("an answer")
}

async fn rest(mut stream: TcpStream, before: String) -> String {
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the end").unwrap();
    before + &String::from_utf8_lossy(&rest)
}

/// The server answers others as ever.
async fn serves(site: &Site, address: SocketAddr) {
    let (stream, answer) = ask(address, head(site, "GET /api/v1/queues", "Connection: close\r\n")).await;
    let answer = rest(stream, answer).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"mail\""), "{answer}");
}

#[tokio::test]
async fn a_thousand_streams_are_served_or_refused_kindly() {
    let site = Site::in_memory();
    site.enqueue("a", json!({})).await;
    let server = listening(&site).await;
    let address = server.address;
    let mut asked = JoinSet::new();
    for n in 0..STREAMS {
        // Nobody gets all of them.
        let role = if n % 2 == 0 { Role::Operator } else { Role::Viewer };
        let head = head_of(&site, role, "GET /api/v1/live?topics=overview", "Connection: close\r\n");
        asked.spawn(ask(address, head));
    }
    let (mut open, mut refused) = (Vec::new(), 0);
    while let Some(answer) = asked.join_next().await {
        let (stream, answer) = answer.unwrap();
        if answer.starts_with("HTTP/1.1 200") {
            open.push(stream);
            continue;
        }
        let answer = rest(stream, answer).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503") && head.contains("retry-after: 30"), "{answer}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["code"], &body["status"]), (&json!("too_many"), &json!(503)));
        refused += 1;
    }
    let most = crate::live::MOST_READERS;
    assert_eq!((open.len(), refused), (most, STREAMS - most));
    serves(&site, address).await;
    // Who has a stream is told what changes; one poller looks for all.
    site.enqueue("a", json!({})).await;
    for stream in &mut open {
        let told = async {
            let mut told = Vec::new();
            while !String::from_utf8_lossy(&told).contains("\"available\":2") {
                assert!(stream.read_buf(&mut told).await.unwrap() > 0, "it ended");
            }
        };
        timeout(PATIENCE, told).await.expect("the news");
    }
    // When they are gone there is room again.
    drop(open);
    let again = async {
        loop {
            let (_stream, answer) = ask(address, head(&site, "GET /api/v1/live?topics=overview", "")).await;
            if answer.starts_with("HTTP/1.1 200") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, again).await.expect("room");
}

#[tokio::test]
async fn many_slow_clients_keep_nobody_waiting() {
    let site = Site::in_memory();
    site.enqueue("a", json!({})).await;
    let server = listening(&site).await;
    let address = server.address;
    let mut slow = Vec::new();
    for n in 0..SLOW {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let body = "Content-Type: application/json\r\nContent-Length: 1000\r\n";
        let part = match n % 3 {
            0 => "GET /api/v1/queues HTTP/1.1\r\nHost: x\r\nX-Slow: ".to_owned(),
            1 => head(&site, "POST /api/v1/jobs", body) + "{\"jobs\":",
            // Asks for a long answer, and never reads it.
            _ => head(&site, "GET /api/v1/openapi.json", "").repeat(3),
        };
        stream.write_all(part.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    for _ in 0..10 {
        serves(&site, address).await;
    }
    assert_eq!(site.client.jobs(&Default::default()).await.unwrap().len(), 1);
}
