use super::{
    connections::{head, listening},
    site::Site,
};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const JSON: &str = "Content-Type: application/json\r\n";

/// Whoever sends all before they read, as most clients do, is told why it was refused.
#[tokio::test]
async fn a_refusal_reaches_who_still_sends() {
    let site = Site::in_memory();
    let server = listening(&site).await;
    let post = "POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wl_0\r\n";
    for (head, size, status, code) in [
        (head(&site, "POST /api/v1/jobs", JSON), 20 << 20, "413", "too_large"),
        (head(&site, "POST /api/v1/bulk", JSON), 8 << 20, "413", "too_large"),
        (head(&site, "POST /api/v1/jobs", ""), 8 << 20, "415", "unsupported_media_type"),
        (head(&site, "POST /api/v1/jobs/7/cancel", JSON), 1 << 19, "422", "invalid_option"),
        (head(&site, "POST /api/v1/nothing", JSON), 8 << 20, "404", "not_found"),
        (format!("{post}{JSON}\r\n"), 8 << 20, "401", "unauthenticated"),
    ] {
        let lines = head.strip_suffix("\r\n").unwrap();
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // Twice: the connection goes on.
        for more in ["", "Connection: close\r\n"] {
            let head = format!("{lines}Content-Length: {size}\r\n{more}\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b' '; size]).await.unwrap_or_else(|error| panic!("{code}: {error}"));
            let (mut answer, mut part) = (String::new(), [0; 4096]);
            while !answer.ends_with('}') {
                let read = stream.read(&mut part).await.unwrap_or_else(|error| panic!("{code}: {error}"));
                assert!(read > 0, "{code}: {answer}");
                answer += std::str::from_utf8(&part[..read]).unwrap();
            }
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
            assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{answer}");
        }
    }
}

/// Who asks before they send, or would send for ever, is answered at once.
#[tokio::test]
async fn what_nobody_wants_is_not_waited_for() {
    let site = Site::in_memory();
    let server = listening(&site).await;
    for more in [
        format!("{JSON}Content-Length: {}\r\nExpect: 100-continue\r\n", 20 << 20),
        format!("{JSON}Content-Length: {}\r\n", 1_u64 << 40),
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(head(&site, "POST /api/v1/jobs", &more).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer);
        timeout(Duration::from_secs(60), end).await.expect("it is waited for").unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
}
