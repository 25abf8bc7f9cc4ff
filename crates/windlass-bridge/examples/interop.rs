//! What a Rust program does with args:  interop enqueue STORE QUEUE...  |  interop work STORE QUEUE

#[path = "../tests/bridge/vectors/canonical.rs"]
mod canonical;

use canonical::canonical;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use windlass::{Args, Client, ErrorKind, Job, JobId, NewJob, Outcome, Worker};

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Echo(Value);

impl Job for Echo {
    const KIND: &'static str = "echo";
}

#[derive(Deserialize)]
struct Vectors {
    accepted: Vec<Vector>,
    refused: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let client = Client::connect(&words[1]).await?;
    if words[0] == "work" {
        let echo = |Echo(args): Echo| async move { Outcome::complete_with(&digest(&args)) };
        let worker = Worker::builder(&client).queue(&words[2], 10).handle(echo).start().await?;
        return Ok(worker.run_until_signal().await?);
    }
    let vectors: Vectors =
        serde_json::from_str(include_str!("../../../conformance/vectors/args.json")).unwrap();
    let mut ids = Map::new();
    for queue in &words[2..] {
        let mut of_queue = Vec::new();
        for Vector { text } in &vectors.accepted {
            of_queue.push(enqueue(&client, text, queue).await?.0);
        }
        ids.insert(queue.clone(), of_queue.into());
    }
    let mut refused = Vec::new();
    for Vector { text } in &vectors.refused {
        refused.push(match enqueue(&client, text, "refused").await {
            Ok(_) => "enqueued",
            Err(error) if error.kind() == ErrorKind::InvalidArgs => error.code(),
            Err(error) => return Err(error.into()),
        });
    }
    println!("{}", json!({"ids": ids, "refused": refused}));
    Ok(())
}

/// As a value where there is one, else as the text that it is.
async fn enqueue(client: &Client, text: &str, queue: &str) -> windlass::Result<JobId> {
    let args =
        serde_json::from_str(text).map_or_else(|_| Args::parse(text), |value| Args::of(&Echo(value)))?;
    client.enqueue(NewJob::new(Echo::KIND, args).with_queue(queue.to_owned())).await
}

fn digest(args: &Value) -> String {
    Sha256::digest(canonical(args)).iter().map(|byte| format!("{byte:02x}")).collect()
}
