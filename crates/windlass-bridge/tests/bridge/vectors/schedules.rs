use super::{Store, vectors};
use serde_json::{Value, json};

fn preview(store: &Store, vector: &Value, count: usize) -> Result<Value, windlass_bridge::Failure> {
    let schedule = json!({"name": "s", "cron": vector["cron"], "zone": vector["zone"], "job": {"kind": "k"}});
    let mut payload = json!({"schedule": schedule, "count": count});
    if let Some(after) = vector.get("after") {
        payload["after"] = after.clone();
    }
    store.ask("preview_schedule", &payload)
}

#[test]
fn schedules_tick_as_they_say() {
    let store = Store::new();
    for vector in vectors("schedules.json", "ticks") {
        let count = vector["ticks"].as_array().unwrap().len();
        assert_eq!(preview(&store, &vector, count).unwrap(), vector["ticks"], "{vector}");
    }
}

#[test]
fn what_is_no_schedule_is_refused_in_the_same_words() {
    let store = Store::new();
    for vector in vectors("schedules.json", "refused") {
        let failure = preview(&store, &vector, 1).expect_err("it is refused");
        assert_eq!(json!([failure.code, failure.message]), json!([vector["code"], vector["message"]]));
    }
}
