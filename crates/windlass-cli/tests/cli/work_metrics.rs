//! `windlass work --metrics`: a worker that Prometheus and probes ask.

use crate::{
    program::{Home, eventually, signal},
    serve::ask,
};
use serde_json::Value;
use std::{
    net::TcpListener,
    process::{Child, Stdio},
};

/// Such a worker in a process of its own, ended with the test.
pub(crate) struct Watched {
    child: Child,
    address: String,
}

impl Watched {
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        let args = [&["work", "--metrics", "0", "--json"], args].concat();
        let mut child = home.spawn(home.command(&args).stdin(Stdio::null()));
        let mut said = serde_json::Deserializer::from_reader(child.stdout.take().unwrap()).into_iter();
        let said: Value = said.next().expect("it says its address").unwrap();
        let url = said["metrics"].as_str().unwrap();
        let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/metrics")).unwrap();
        assert!(address.starts_with("127.0.0.1:"), "a port alone is of this machine: {address}");
        Self { child, address: address.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> String {
        ask(&self.address, "GET", path, "", "")
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_worker_says_what_it_did_and_has() {
    let home = Home::new();
    home.enqueue(&["a"]);
    home.enqueue(&["fails", "--max-attempts", "1"]);
    let mut worker = Watched::start(&home, &["--exec", "case $WINDLASS_KIND in fails) exit 1;; esac"]);
    eventually("its figures are there", || {
        let text = worker.get("/metrics");
        [
            "windlass_worker_claimed_jobs_total 2",
            "windlass_worker_settled_jobs_total 2",
            "windlass_worker_job_outcomes_total{outcome=\"completed\"} 1",
            "windlass_worker_job_outcomes_total{outcome=\"discarded\"} 1",
            "windlass_worker_jobs{state=\"running\"} 0",
        ]
        .iter()
        .all(|line| text.lines().any(|other| other == *line))
    });
    for path in ["/healthz", "/readyz"] {
        assert!(worker.get(path).starts_with("HTTP/1.1 200"), "{path}");
    }
    for path in ["/", "/api/v1/jobs"] {
        assert!(worker.get(path).starts_with("HTTP/1.1 404"), "{path}");
    }
    signal(&worker.child, "TERM");
    assert_eq!(worker.child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_address_that_is_taken_or_none_is_refused() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    home.run(&["work", "--exec", "true", "--metrics", &port]).refused(1, &["cannot listen", "--metrics"]);
    home.run(&["work", "--exec", "true", "--metrics", "here"]).refused(2, &["\"here\"", "0.0.0.0:9464"]);
}
