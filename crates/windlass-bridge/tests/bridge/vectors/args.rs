use super::{Store, canonical::canonical, vectors};
use serde_json::{Value, json};
use windlass::Args;

#[test]
fn args_are_kept_as_they_are_written_and_read_alike() {
    for vector in vectors("args.json", "accepted") {
        let text = vector["text"].as_str().unwrap();
        assert_eq!(Args::parse(text).unwrap().as_str().trim(), text.trim(), "{vector}");
        let read: Value = serde_json::from_str(text).unwrap();
        let expected = vector.get("rust").unwrap_or(&vector["canonical"]);
        assert_eq!(canonical(&read), expected.as_str().unwrap(), "{vector}");
    }
}

#[test]
fn what_no_handler_could_read_is_refused() {
    for vector in vectors("args.json", "refused") {
        let error = Args::parse(vector["text"].as_str().unwrap()).expect_err("it is refused");
        assert_eq!(error.code(), vector["code"], "{vector}: {error}");
    }
}

#[test]
fn args_that_are_null_are_not_those_that_are_left_out() {
    let store = Store::new();
    assert_eq!(store.enqueue(&json!({"args": null})).unwrap()["args"], Value::Null);
    assert_eq!(store.enqueue(&json!({})).unwrap()["args"], json!({}));
}

#[test]
fn the_job_that_is_refused_is_named_among_those_of_its_call() {
    let store = Store::new();
    let refused = |call: Value| store.ask("enqueue", &call).expect_err("it is refused").message;
    let one = refused(json!({"job": {"kind": "k"}, "args": ["a\0"]}));
    assert!(one.starts_with("args contain NUL"), "{one}");
    for call in [
        json!({"job": {"kind": "k"}, "args": [1, "a\0", 3, 4]}),
        json!({"jobs": [{"kind": "k"}, {"kind": "k", "args": "a\0"}, {"kind": "k"}, {"kind": "k"}]}),
    ] {
        let message = refused(call);
        assert!(message.starts_with("job 1 of 4: args contain NUL"), "{message}");
    }
}
