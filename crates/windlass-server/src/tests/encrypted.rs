//! Encrypted jobs at a server that has their keys, and at one that has not.

use super::{site::Site, work::done};
use crate::Role::{Admin, Operator, Viewer};
use serde_json::{Value, json};
use windlass::{Args, JobState, Keyring, NewJob, testing};

#[tokio::test]
async fn encrypted_args_are_enqueued_sealed_and_shown_to_an_admin_who_asks() {
    let plain = testing::client();
    let keyed = plain.clone().with_keyring(Keyring::new("k1", [7; 32]).unwrap());
    let (with, without) = (Site::of(keyed, |builder| builder), Site::of(plain, |builder| builder));
    let jobs = json!({ "jobs": [{ "kind": "a", "args": { "passport": "C01X00T47" }, "encrypted": true }] });
    let refused = without.ask(Operator, "POST", "/jobs", jobs.clone()).await;
    assert!(refused.status == 422 && refused.text.contains("keyring"), "{}", refused.text);
    let id = with.ask(Operator, "POST", "/jobs", jobs).await.is(201)["ids"][0].as_str().unwrap().to_owned();

    let reveal = format!("/jobs/{id}/args?reveal=1");
    for path in [format!("/jobs/{id}"), "/jobs".to_owned()] {
        for role in [Viewer, Admin] {
            let shown = with.ask(role, "GET", &path, Value::Null).await;
            assert!(shown.status == 200 && !shown.text.contains("C01X00T47"), "{}", shown.text);
        }
    }
    with.ask(Operator, "GET", &reveal, Value::Null).await.refused(403, "permission_denied");
    let shown = with.ask(Admin, "GET", &reveal, Value::Null).await.is(200);
    assert_eq!(shown, json!({ "args": { "passport": "C01X00T47" } }));
    let audited = with.ask(Admin, "GET", "/audit?action=jobs.reveal", Value::Null).await.is(200);
    assert_eq!(audited["items"][0]["outcome"], "done");
    // Who has no key sees what is stored.
    let sealed = without.ask(Admin, "GET", &reveal, Value::Null).await.is(200);
    assert_eq!(sealed["args"]["windlass.enc"]["key"], "k1");
}

/// The server opens what its workers cannot, gives back sealed what they leave, and marks the job.
#[tokio::test]
async fn a_worker_gets_encrypted_jobs_open_from_a_server_with_keys() {
    let keyed = testing::client().with_keyring(Keyring::new("k1", [7; 32]).unwrap());
    let site = Site::of(keyed, |builder| builder);
    let args = Args::parse(r#"{"passport": "C01X00T47"}"#).unwrap();
    let id = site
        .client
        .enqueue(NewJob::new("a", args).with_queue("mail").with_key("ada").with_encryption())
        .await
        .unwrap();
    let plain = site.enqueue("a", json!({ "n": 1 })).await;
    let worker = site.register(json!({ "queues": { "mail": 2 }, "checkpoints": true })).await;
    let jobs = site.jobs(&worker).await;
    assert_eq!(
        (&jobs[0]["args"], &jobs[0]["encrypted"]),
        (&json!({ "passport": "C01X00T47" }), &json!(true))
    );
    assert_eq!((&jobs[1]["args"], &jobs[1]["encrypted"]), (&json!({ "n": 1 }), &Value::Null));
    let report = |job: &Value| json!({ "receipt": job["receipt"], "checkpoint": { "seen": "C01" } });
    let mut failed = done(&jobs[0], "retry");
    (failed["error"], failed["after_ms"]) = ("cut off".into(), 0.into());
    let turn = json!({ "reports": [report(&jobs[0]), report(&jobs[1])], "done": [failed], "want": {} });
    assert_eq!(site.turn(&worker, turn).await["reported"], json!(["accepted", "accepted"]));
    let stored = async |id| site.client.job(id).await.unwrap().unwrap();
    assert!(!format!("{:?}", stored(id).await.report).contains("C01"));
    assert!(format!("{:?}", stored(plain).await.report).contains("C01"));
    let again = site.jobs(&worker).await.remove(0);
    assert_eq!((&again["attempt"], &again["checkpoint"]), (&json!(2), &json!({ "seen": "C01" })));
    let mut complete = done(&again, "complete");
    complete["result"] = json!({ "account": "DE02" });
    let turn = json!({ "done": [complete.clone()], "want": {} });
    assert_eq!(site.turn(&worker, turn).await["settled"], json!(["accepted"]));
    assert_eq!(
        site.turn(&worker, json!({ "done": [complete], "want": {} })).await["settled"],
        json!(["already"])
    );
    assert!(stored(id).await.result.unwrap().as_str().contains("windlass.enc"));
    assert_eq!(site.client.result::<Value>(id).await.unwrap(), Some(json!({ "account": "DE02" })));
    assert_eq!(site.client.checkpoint::<Value>(id).await.unwrap(), Some(json!({ "seen": "C01" })));
}

/// What this server's keys do not open waits for another worker, and what nobody opens is dead; neither is told.
#[tokio::test]
async fn what_does_not_open_is_not_told() {
    let store = testing::client();
    let key = |id, bytes| Keyring::new(id, [bytes; 32]).unwrap();
    let site = Site::of(store.clone().with_keyring(key("k1", 7)), |builder| builder);
    let job = || NewJob::new("a", Args::parse("{}").unwrap()).with_queue("mail").with_encryption();
    let unknown = store.clone().with_keyring(key("k2", 7)).enqueue(job()).await.unwrap();
    let forged = store.with_keyring(key("k1", 8)).enqueue(job()).await.unwrap();
    let good = site.client.enqueue(job()).await.unwrap();
    let worker = site.register(json!({ "queues": { "mail": 5 } })).await;
    let jobs = site.jobs(&worker).await;
    assert_eq!((jobs.len(), &jobs[0]["id"]), (1, &json!(good.to_string())));
    let record = async |id| site.client.job(id).await.unwrap().unwrap();
    let (unknown, forged) = (record(unknown).await, record(forged).await);
    assert_eq!((unknown.state, forged.state), (JobState::Retryable, JobState::Discarded));
    assert!(unknown.errors[0].error.contains("key k2 is not in the keyring"), "{:?}", unknown.errors);
    assert!(forged.reason.unwrap().starts_with("undecryptable"));
}
