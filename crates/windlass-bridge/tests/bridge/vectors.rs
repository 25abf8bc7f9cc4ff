//! The golden files of conformance/vectors, as a binding reads them. Each file has its reader here, or where it is said.

mod args;
mod canonical;
mod options;
mod outcomes;
mod schedules;

use crate::opened::opened;
use serde_json::{Value, json};
use std::{fs, path::Path};
use tempfile::TempDir;
use windlass_bridge::{Client, Failure};

/// Every file, and the test that reads it in Rust.
const READERS: [(&str, &str); 9] = [
    ("args.json", "crates/windlass-bridge/tests/bridge/vectors/args.rs"),
    ("durations.json", "crates/windlass-cli/src/duration.rs"),
    ("encryption.json", "crates/windlass/src/encryption/vectors.rs"),
    ("errors.json", "crates/windlass-core/src/error.rs"),
    ("options.json", "crates/windlass-bridge/tests/bridge/vectors/options.rs"),
    ("outcomes.json", "crates/windlass-bridge/tests/bridge/vectors/outcomes.rs"),
    ("retry_policies.json", "crates/windlass-bridge/tests/bridge/vectors/options.rs"),
    ("schedules.json", "crates/windlass-bridge/tests/bridge/vectors/schedules.rs"),
    ("unique.json", "crates/windlass-core/src/unique_preimage_tests.rs"),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A list of a file; it has something in it.
fn vectors(file: &str, list: &str) -> Vec<Value> {
    let text = fs::read_to_string(root().join("conformance/vectors").join(file)).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let vectors = all[list].as_array().unwrap();
    assert!(!vectors.is_empty(), "{list} of {file}");
    vectors.clone()
}

#[test]
fn every_file_is_read() {
    let files = fs::read_dir(root().join("conformance/vectors")).unwrap();
    let mut files: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, READERS.map(|(file, _)| file));
    for (file, reader) in READERS {
        let text = fs::read_to_string(root().join(reader)).unwrap();
        assert!(text.contains(file), "{reader} does not read {file}");
    }
}

/// A store of one test.
struct Store {
    client: Client,
    url: String,
    _dir: TempDir,
}

impl Store {
    fn new() -> Self {
        let (client, url, dir) = opened();
        Self { client, url, _dir: dir }
    }

    fn ask(&self, op: &str, payload: &Value) -> Result<Value, Failure> {
        self.client.run(op, &payload.to_string()).map(|answer| serde_json::from_str(&answer).unwrap())
    }

    /// Enqueues a job of these options; its record.
    fn enqueue(&self, options: &Value) -> Result<Value, Failure> {
        let mut job = json!({"kind": "k"});
        job.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let key = job.as_object_mut().unwrap().remove("idempotency_key");
        let mut call = json!({"jobs": [job]});
        if let Some(key) = key {
            call["idempotency_key"] = key;
        }
        let id = self.ask("enqueue", &call)?["ids"][0].clone();
        self.ask("job", &json!({"id": id}))
    }
}

/// The record has these fields with these values.
fn assert_shows(record: &Value, expected: &Value, what: &Value) {
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&record[field], value, "{field} of {what}");
    }
}
