use crate::{Args, NewJob, OnConflict, Unique, UniqueKey};
use serde::Deserialize;
use std::time::Duration;

#[derive(Deserialize)]
struct Vectors {
    keys: Vec<Vector>,
    refused: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    what: String,
    kind: String,
    queue: String,
    args: String,
    scope: String,
    by: String,
    unique_key: Option<String>,
    fields: Option<Vec<String>>,
    preimage: Option<String>,
    key: Option<String>,
    code: Option<String>,
}

impl Vector {
    fn job(&self) -> NewJob {
        let unique = match &*self.by {
            "key" => Unique::by_key(self.unique_key.clone().unwrap()),
            "args" => Unique::by_args(),
            _ => Unique::by_fields(self.fields.clone().unwrap()),
        };
        let unique = if self.scope == "queue" { unique.in_queue() } else { unique };
        NewJob::new(self.kind.clone(), Args::parse(&self.args).unwrap())
            .with_queue(self.queue.clone())
            .with_unique(unique)
    }
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../conformance/vectors/unique.json")).unwrap()
}

#[test]
fn keys_are_the_golden_ones() {
    let vectors = vectors().keys;
    assert!(vectors.len() > 10);
    for vector in vectors {
        let job = vector.job();
        assert_eq!(UniqueKey::preimage(&job).unwrap(), vector.preimage, "{}", vector.what);
        let key = UniqueKey::of(&job).unwrap().map(|key| key.to_string());
        assert_eq!(key, vector.key, "{}", vector.what);
    }
}

#[test]
fn what_has_no_key_is_refused() {
    for vector in vectors().refused {
        let error = UniqueKey::of(&vector.job()).unwrap_err();
        assert_eq!(Some(error.code()), vector.code.as_deref(), "{}: {error}", vector.what);
    }
}

/// The table of RFC 8785, appendix B, and its example of 3.2.4. That crate's own tests have them too: here they say that we
/// may change it for another.
#[test]
fn the_canonical_form_is_that_of_rfc_8785() {
    for (bits, text) in [
        (0x0000000000000000_u64, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7fefffffffffffff, "1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xc340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44b52d02c7e14af5, "9.999999999999997e+22"),
        (0x44b52d02c7e14af6, "1e+23"),
        (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
        (0x444b1ae4d6e2ef4e, "999999999999999700000"),
        (0x444b1ae4d6e2ef4f, "999999999999999900000"),
        (0x444b1ae4d6e2ef50, "1e+21"),
        (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
        (0x3eb0c6f7a0b5ed8d, "0.000001"),
        (0x41b3de4355555553, "333333333.3333332"),
        (0x41b3de4355555557, "333333333.33333343"),
        (0xbecbf647612f3696, "-0.0000033333333333333333"),
        (0x43143ff3c1cb0959, "1424953923781206.2"),
    ] {
        let canonical = serde_json_canonicalizer::to_string(&f64::from_bits(bits)).unwrap();
        assert_eq!(canonical, text, "{bits:x}");
    }
    let input = r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#;
    let output = r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
    let value: serde_json::Value = serde_json::from_str(input).unwrap();
    assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap(), output);
}

#[test]
fn a_description_that_cannot_work_is_refused() {
    let by_key = || Unique::by_key("k");
    let wait = |max_wait| by_key().on_conflict(OnConflict::Replace { max_wait: Some(max_wait) });
    for (unique, says) in [
        (
            by_key().for_window(Duration::ZERO),
            "the window of a unique job must be a millisecond to 100 years, got 0ns",
        ),
        (by_key().for_window(Duration::MAX), "100 years"),
        (by_key().on_conflict(OnConflict::Extend), "needs a window"),
        (wait(Duration::ZERO), "max_wait"),
        (wait(Duration::MAX), "max_wait"),
        (Unique::by_key("a\0"), "NUL"),
    ] {
        let job = NewJob::new("k", Args::parse("1").unwrap()).with_unique(unique);
        let error = UniqueKey::of(&job).unwrap_err();
        assert!(error.is_invalid_input() && error.to_string().contains(says), "{error}");
    }
    let plain = NewJob::new("k", Args::parse("1").unwrap());
    assert_eq!(UniqueKey::of(&plain).unwrap(), None);
}
