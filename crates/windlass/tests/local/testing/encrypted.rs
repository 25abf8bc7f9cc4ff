//! The helpers see encrypted jobs open, as handlers do.
#![cfg(feature = "encryption")]

use serde::{Deserialize, Serialize};
use windlass::{
    Job, Keyring, Outcome, Worker, assert_enqueued,
    testing::{self, drain, perform},
};

#[derive(Serialize, Deserialize, Job, Debug)]
#[job(kind = "charge", encrypted)]
struct Charge {
    card: String,
}

async fn charge(charge: Charge) -> Outcome {
    Outcome::complete_with(&charge.card.len())
}

fn job() -> Charge {
    Charge { card: "4242".into() }
}

#[tokio::test]
async fn encrypted_jobs_are_seen_open() {
    assert_eq!(perform(job(), charge).await.unwrap(), Outcome::complete_with(&4));
    let client = testing::client().with_keyring(Keyring::new("k1", [7; 32]).unwrap());
    let id = client.enqueue(job()).await.unwrap();
    assert_enqueued!(client, Charge, Charge { card } if card == "4242");
    let report = drain(Worker::builder(&client).handle(charge)).await.unwrap();
    report.assert_completed();
    assert!(!client.job(id).await.unwrap().unwrap().args.as_str().contains("4242"));
    assert_eq!(client.result::<usize>(id).await.unwrap(), Some(4));
}
