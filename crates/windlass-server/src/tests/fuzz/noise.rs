//! Requests that are nearly right, and some that are not at all.

use fastrand::Rng;
use serde_json::{Map, Value, json};

pub(super) const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
/// Words for paths, queries and bodies, with bars between them.
const SEGMENTS: &str = "0|-1|1|00007|99999999999999999999|9223372036854775807|1e3|abc|..|.|a/b|a b|\0|\u{202e}x\u{feff}|<script>|b_0000000000000000";
const VALUES: &str = "|0|1|-1|200|201|60|86400|3600|running|discarded|completed|mail|true|\0|1.5|job:1,queue:mail|overview|99999999999999999999|\u{1f512}";
const TEXTS: &str = "|mail|mail.send|cancel|retry|delete|completed|running|a b|\0|\u{202e}|@daily|* * * * * *|Europe/Berlin|2031-01-31T08:00:00Z|9999-12-31T23:59:59Z|-009999-01-02T00:00:00Z|'; drop table windlass.job; --";
const NUMBERS: [i64; 9] =
    [0, -1, 101, 32_768, 65_536, i32::MAX as i64 + 1, i64::MAX, i64::MIN, 4_102_444_800_000];

fn one<'a, T>(rng: &mut Rng, of: &'a [T]) -> &'a T {
    &of[rng.usize(..of.len())]
}

fn word(rng: &mut Rng, words: &'static str) -> &'static str {
    let all: Vec<_> = words.split('|').collect();
    all[rng.usize(..all.len())]
}

/// All but letters and digits is escaped, mostly.
fn escaped(rng: &mut Rng, text: &str) -> String {
    match rng.u8(..40) {
        0 => return "%".to_owned(),
        1 => return "%zz".to_owned(),
        2 => return "%ff%fe".to_owned(),
        3 => return "x".repeat(rng.usize(..5_000)),
        _ => {}
    }
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The path of a route with something for its names, of these more often than not.
pub(super) fn path(rng: &mut Rng, template: &str, names: &[String]) -> String {
    let segment = |part: &str| match part.starts_with('{') {
        true if rng.u8(..3) > 0 => one(rng, names).clone(),
        true => {
            let text = word(rng, SEGMENTS);
            escaped(rng, text)
        }
        false => part.to_owned(),
    };
    template.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// Parameters: those of the route, others, and one twice.
pub(super) fn query(rng: &mut Rng, known: &[&str]) -> String {
    let mut said = String::new();
    for _ in 0..rng.usize(..4) {
        let name = if known.is_empty() || rng.u8(..8) == 0 { "surprise" } else { one(rng, known) };
        let value = word(rng, VALUES);
        said += &format!("{}{name}={}", if said.is_empty() { '?' } else { '&' }, escaped(rng, value));
    }
    said
}

/// Bytes that a header may have.
pub(super) fn header(rng: &mut Rng) -> String {
    let text = [
        "Bearer",
        "Bearer ",
        "Bearer wl_",
        "Basic YTpi",
        "*/*",
        "windlass_session=",
        "application/json;",
        "bytes=0-",
        "null",
        "-1",
        "0",
    ];
    format!("{}{}", one(rng, &text), "~".repeat(if rng.u8(..10) == 0 { rng.usize(..9_000) } else { 0 }))
}

/// What the route would take.
fn right(route: &str, names: &[String]) -> Value {
    let job = json!({"kind": "mail.send", "args": {"to": "a", "n": [1, {"deep": null}]}, "queue": "mail", "priority": 1, "max_attempts": 3,
        "delay_ms": 5, "timeout_ms": 5, "retry_policy": {"backoff": "fixed", "base_ms": 5, "max_ms": 5}, "key": "k",
        "meta": {"a": 1}, "tags": ["x"], "cost": 1, "unique_key": "u", "unique_in": "kind", "unique_until": "started", "on_conflict": "keep"});
    match route {
        "session.begin" => json!({"token": "wl_0"}),
        "settings.put" => {
            json!({"retention_ms": 86_400_000, "dead_retention_ms": 86_400_000, "segment_bytes": 67_108_864, "max_crashes": 5})
        }
        "retention.put" => {
            json!({"items": [{"queue": "mail", "outcome": "completed", "age_ms": 86_400_000, "count": 5}]})
        }
        "queues.limit" => json!({"concurrency": 7, "rate": {"count": 9, "period_ms": 60_000, "burst": 2}}),
        "queues.limit_keys" | "queues.limit_key" => {
            json!({"concurrency": 1, "serial": true, "rate": {"count": 9, "period_ms": 60_000}, "weight": 3})
        }
        "jobs.enqueue" => json!({"jobs": [job, {"kind": "a"}]}),
        "jobs.edit" => {
            json!({"now": false, "delay_ms": 5, "queue": "mail", "priority": 1, "max_attempts": 3, "args": {"n": 1}})
        }
        "bulk.preview" => {
            json!({"action": "edit", "edit": {"now": true, "priority": 3}, "filter": {"state": "available", "queue": "none"}, "per_second": 5, "reason": "why"})
        }
        "bulk.confirm" => json!({"count": 1}),
        "schedules.put" => {
            json!({"cron": "30 6 * * *", "zone": "Europe/Berlin", "jitter_ms": 5, "overlap": "skip", "missed": {"all": 3}, "job": job})
        }
        "work.register" => {
            json!({"name": "php-7", "queues": {"none": 1}, "kinds": ["a"], "lease_s": 60, "timeout_ms": 5, "timeouts_ms": {"a": 7}, "timeout_grace_ms": 3, "checkpoints": true})
        }
        "work.beat" => {
            json!({"reports": [{"receipt": "9a3e51c0.1", "percent": 5, "note": "n", "log": ["l"], "checkpoint": {"part": 2}}]})
        }
        "work.turn" => {
            json!({"reports": [{"receipt": "9a3e51c0.1", "percent": 5}], "done": [{"receipt": "9a3e51c0.1", "outcome": "retry", "error": "x", "after_ms": 5}], "want": {"none": 1}, "wait_s": 0, "again": true})
        }
        _ => json!({"ids": names}),
    }
}

fn value(rng: &mut Rng, depth: usize) -> Value {
    match rng.u8(..9) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 | 3 => json!(one(rng, &NUMBERS)),
        4 => json!(one(rng, &[0.5, -0.5, 1e300, 5e-324, 1.0])),
        5 | 6 => json!(word(rng, TEXTS)),
        _ if depth > 3 => json!([]),
        7 => (0..rng.usize(..4)).map(|_| value(rng, depth + 1)).collect(),
        _ => Value::Object(
            (0..rng.usize(..3))
                .map(|_| (word(rng, TEXTS).to_owned(), value(rng, depth + 1)))
                .collect::<Map<_, _>>(),
        ),
    }
}

/// Changes one thing somewhere in it.
fn change(rng: &mut Rng, at: &mut Value) {
    let deeper = rng.u8(..4) > 0;
    match at {
        Value::Array(items) if deeper && !items.is_empty() => {
            let n = rng.usize(..items.len());
            change(rng, &mut items[n]);
        }
        Value::Object(fields) if deeper && !fields.is_empty() => {
            let name = fields.keys().nth(rng.usize(..fields.len())).cloned().unwrap_or_default();
            match rng.u8(..6) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(word(rng, TEXTS).to_owned(), value(rng, 0))),
                _ => fields.get_mut(&name).into_iter().for_each(|field| change(rng, field)),
            }
        }
        at => *at = value(rng, 0),
    }
}

/// A body for a route.
pub(super) fn body(rng: &mut Rng, route: &str, names: &[String]) -> Vec<u8> {
    let mut body = right(route, names);
    for _ in 0..rng.usize(..4) {
        change(rng, &mut body);
    }
    let mut text = body.to_string().into_bytes();
    match rng.u8(..24) {
        0 => text.truncate(rng.usize(..=text.len())),
        1 => text.insert(rng.usize(..=text.len()), rng.u8(..)),
        2 => text = vec![b'['; rng.usize(..20_000)],
        3 => text = (0..rng.usize(..100)).map(|_| rng.u8(..)).collect(),
        4 => text.extend(b"{}"),
        5 => text = format!("{{\"a\":{}}}", "9".repeat(rng.usize(1..5_000))).into_bytes(),
        _ => {}
    }
    text
}
