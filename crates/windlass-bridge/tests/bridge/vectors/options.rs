use super::{Store, assert_shows, vectors};
use serde_json::{Value, json};
use windlass::RetryPolicy;

#[test]
fn options_are_kept() {
    let store = Store::new();
    for vector in vectors("options.json", "accepted") {
        let record = store.enqueue(&vector["options"]).unwrap();
        assert_shows(&record, &vector["record"], &vector["what"]);
    }
}

#[test]
fn wrong_options_are_refused_in_the_same_words() {
    let store = Store::new();
    for vector in vectors("options.json", "refused") {
        let failure = store.enqueue(&vector["options"]).expect_err("it is refused");
        assert_eq!(json!([failure.code, failure.message]), json!([vector["code"], vector["message"]]));
    }
}

#[test]
fn retry_policies_are_kept_and_wait_as_they_say() {
    let store = Store::new();
    for vector in vectors("retry_policies.json", "policies") {
        let record = store.enqueue(&json!({"retry_policy": vector["policy"]})).unwrap();
        assert_eq!(record["retry_policy"], vector["stored"], "{vector}");
        let policy: RetryPolicy = serde_json::from_value(vector["stored"].clone()).unwrap();
        let delays = [1, 2, 3, 10, 1000].map(|attempt| policy.delay(attempt, 0.5).as_millis() as u64);
        assert_eq!(Value::from(delays.to_vec()), vector["delays_ms"], "{vector}");
    }
}
