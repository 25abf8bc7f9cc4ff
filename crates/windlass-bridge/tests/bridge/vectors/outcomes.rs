use super::{Store, assert_shows, vectors};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use windlass::{Client, Outcome, RawJob, Worker};

/// What the handler is asked to say.
fn outcome(say: &Value) -> Result<Outcome, String> {
    let millis = |field: &str| say[field].as_u64().map(Duration::from_millis);
    let text = |field: &str| say[field].as_str().map(str::to_owned);
    if let Some(error) = text("fail") {
        return Err(error);
    }
    Ok(match say.as_object().unwrap().keys().next().unwrap().as_str() {
        "complete" if say["complete"].is_null() => Outcome::Complete(None),
        "complete" => Outcome::complete_with(&say["complete"]),
        "snooze_ms" => Outcome::Snooze(millis("snooze_ms").unwrap()),
        "cancel" => Outcome::Cancel(text("cancel").unwrap()),
        "discard" => Outcome::Discard(text("discard").unwrap()),
        _ => Outcome::Retry { after: millis("after_ms"), error: text("retry").unwrap() },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_says_is_what_becomes_of_its_job() {
    let (store, ids) = tokio::task::spawn_blocking(enqueued).await.unwrap();
    let client = Client::connect(&store.url).await.unwrap();
    // The job's args say which vector it is: args have no NUL, what is said may.
    let say = |job: RawJob| async move {
        let nth: usize = job.parse().map_err(|error| error.to_string())?;
        outcome(&vectors("outcomes.json", "outcomes")[nth]["say"])
    };
    let worker = Worker::builder(&client).handle_kind("k", say).start().await.unwrap();
    worker.until_idle().await.unwrap();
    let ended = Timestamp::now();
    worker.shutdown().await;
    tokio::task::spawn_blocking(move || check(&store, &ids, ended)).await.unwrap();
}

fn enqueued() -> (Store, Vec<Value>) {
    let store = Store::new();
    let ids = vectors("outcomes.json", "outcomes").into_iter().enumerate().map(|(nth, vector)| {
        let policy = vector.get("policy").cloned().unwrap_or(json!({}));
        let most = vector.get("max_attempts").cloned().unwrap_or(json!(20));
        let options = json!({"args": nth, "max_attempts": most, "retry_policy": policy});
        store.enqueue(&options).unwrap()["id"].clone()
    });
    let ids = ids.collect();
    (store, ids)
}

fn check(store: &Store, ids: &[Value], ended: Timestamp) {
    for (vector, id) in vectors("outcomes.json", "outcomes").iter().zip(ids) {
        let (record, what) = (store.ask("job", &json!({"id": id})).unwrap(), &vector["what"]);
        assert_shows(&record, &vector["record"], what);
        let errors = record["errors"].as_array().unwrap().iter().map(|failed| failed["error"].clone());
        assert_eq!(Value::from(errors.collect::<Vec<_>>()), vector["errors"], "{what}");
        if let Some(waits) = vector["waits_ms"].as_i64() {
            let due: Timestamp = record["scheduled_at"].as_str().unwrap().parse().unwrap();
            let waited = due.as_millisecond() - ended.as_millisecond();
            assert!((waits - 60_000..=waits).contains(&waited), "{what} waits {waited} ms");
        }
    }
}
