//! Spans go to the collector that the environment names, and traces through the program.

use crate::program::{Answer, Home};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Takes spans as a collector does, and hands on the bodies.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let (mut length, mut line, mut path) = (0, String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let lower = line.to_ascii_lowercase();
                if path.is_empty() {
                    path = line.clone();
                }
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            assert!(path.starts_with("POST /v1/traces "), "{path}");
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            // The program may end as soon as it is answered.
            if tell.send(body).is_err() {
                return;
            }
            reader.get_mut().write_all(answer).expect("is read");
        }
    });
    (url, told)
}

fn answer(command: &mut Command) -> Answer {
    command.stdin(Stdio::null()).output().expect("runs").into()
}

fn has(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn spans_reach_the_collector_before_the_program_ends() {
    let (home, (url, told)) = (Home::new(), collector());
    let run = |args: &[&str]| answer(home.command(args).env("OTEL_EXPORTER_OTLP_ENDPOINT", &url)).done();
    run(&["enqueue", "resize", "--queue", "images"]);
    let sent = told.try_recv().expect("the spans of the enqueue");
    assert!(has(&sent, "send images") && has(&sent, "service.name") && has(&sent, "windlass"));
    run(&["work", "--until-empty", "--queue", "images", "--exec", "echo $TRACEPARENT > seen"]);
    let worked = told.try_recv().expect("the spans of the work");
    assert!(has(&worked, "process images") && has(&worked, "windlass.job.outcome"));
    let seen = fs::read_to_string(home.path().join("seen")).expect("the program ran");
    let meta = &home.json(&["jobs", "show", "1"])["meta"]["traceparent"];
    let sender = meta.as_str().expect("the job carries its sender");
    assert_eq!(seen[3..35], sender[3..35], "one trace");
    assert_ne!(seen[36..52], sender[36..52], "another span");
}

#[test]
fn a_collector_that_is_away_costs_no_job() {
    let home = Home::new();
    let closed = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let mut command = home.command(&["enqueue", "a"]);
    let answer = answer(command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{closed}"))).done();
    assert!(answer.stderr.contains("WARN") || answer.stderr.contains("ERROR"), "{}", answer.stderr);
    assert_eq!(home.state(answer.stdout.trim()), "available");
}

#[test]
fn a_trace_goes_through_without_a_collector() {
    let home = Home::new();
    let mut command = home.command(&["enqueue", "a"]);
    let enqueued = answer(command.env("TRACEPARENT", PARENT).env("TRACESTATE", "vendor=7")).done();
    let id = enqueued.stdout.trim().to_owned();
    assert_eq!(home.json(&["jobs", "show", &id])["meta"]["traceparent"], PARENT);
    // The worker's own trace is not the job's.
    let plain = home.enqueue(&["b"]);
    let mut work = home.command(&[
        "work",
        "--until-empty",
        "--exec",
        "echo $TRACEPARENT $TRACESTATE > seen$WINDLASS_JOB_ID",
    ]);
    answer(work.env("TRACEPARENT", PARENT.replace("0af7", "ffff"))).done();
    let seen = |id: &str| fs::read_to_string(home.path().join(format!("seen{id}"))).expect("the program ran");
    assert_eq!(seen(&id), format!("{PARENT} vendor=7\n"));
    assert_eq!(seen(&plain), "\n");
}

#[test]
fn what_cannot_be_exported_to_is_refused_before_anything_is_done() {
    let home = Home::new();
    for (variables, words) in [
        (
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318")][..],
            &["must be like http://127.0.0.1:4318", "localhost:4318"][..],
        ),
        (
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ],
            &["grpc", "http/protobuf", "4318"],
        ),
    ] {
        answer(home.command(&["enqueue", "a"]).envs(variables.iter().copied())).refused(2, words);
        // What makes no spans does not mind.
        answer(home.command(&["status"]).envs(variables.iter().copied())).done();
    }
    let mut command = home.command(&["enqueue", "a"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318").env("OTEL_SDK_DISABLED", "true");
    answer(&mut command).done();
}
