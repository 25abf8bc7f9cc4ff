use crate::program::{Home, eventually, signal};
use serde_json::Value;
use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::Stdio,
};

/// Each line as the JSON that it is.
fn lines(stderr: &str) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    stderr.lines().map(line).collect()
}

#[test]
fn a_worker_logs_json_where_it_is_asked_for() {
    let home = Home::new();
    home.enqueue(&["mail", "--max-attempts", "1"]);
    let answer = home.run(&["work", "--exec", "exit 3", "--until-empty", "--log-format", "json"]).done();
    let lines = lines(&answer.stderr);
    let failed =
        lines.iter().find(|line| line["kind"] == "mail").unwrap_or_else(|| panic!("{}", answer.stderr));
    for name in ["timestamp", "level", "target", "message"] {
        assert!(failed[name].is_string(), "{name} of {failed}");
    }
    // As text it is what it was.
    home.enqueue(&["mail", "--max-attempts", "1"]);
    let answer = home.run(&["work", "--exec", "exit 3", "--until-empty"]).done();
    let text = answer.stderr.lines().find(|line| line.contains("mail")).unwrap();
    assert!(!text.starts_with('{'), "{text}");
    assert!(!answer.stderr.contains('\u{1b}'), "no terminal reads it: {}", answer.stderr);
    home.run(&["status", "--log-format", "xml"]).refused(2, &["xml", "text", "json"]);
}

#[test]
fn a_server_logs_json_where_its_environment_says_so() {
    let home = Home::new();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("WINDLASS_LOG", "windlass::audit=info").env("WINDLASS_LOG_FORMAT", "json");
    let mut child = home.spawn(command.stdin(Stdio::null()));
    let mut url = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let host = url.trim().strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut stream = TcpStream::connect(host).unwrap();
    let origin = format!("Origin: http://{host}");
    write!(
        stream,
        "POST /api/v1/queues/mail/pause HTTP/1.1\r\nHost: {host}\r\n{origin}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    let lines = lines(&String::from_utf8(output.stderr).unwrap());
    let asked = lines.iter().find(|line| line["target"] == "windlass::audit").expect("an attempt is logged");
    assert_eq!(
        (&asked["action"], &asked["outcome"]),
        (&"queues.pause".into(), &"permission_denied".into()),
        "{asked}"
    );
}

/// As on a full disk, or where the collector of the log has gone.
#[test]
fn a_worker_goes_on_where_its_log_cannot_be_written() {
    let home = Home::new();
    let id = home.enqueue(&["mail", "--max-attempts", "1"]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = home.command(&["work", "--exec", "exit 3", "--until-empty"]);
    let mut worker = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(full).spawn().unwrap();
    eventually("the worker ends", || worker.try_wait().unwrap().is_some());
    assert_eq!(worker.wait().unwrap().code(), Some(0));
    assert_eq!(home.state(&id), "discarded");
}
