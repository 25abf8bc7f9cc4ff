//! Every operation by its name, as a binding calls it.

use crate::opened::opened;
use serde_json::{Value, json};
use std::sync::mpsc;
use tempfile::TempDir;
use windlass_bridge::{Client, Engine, Failure};

struct Store {
    client: Client,
    dir: TempDir,
}

impl Store {
    fn new() -> Self {
        let (client, _, dir) = opened();
        let store = Self { client, dir };
        assert_eq!(store.ask("migrate", &json!({}))["from"], 0);
        store
    }

    /// The same file with keys.
    fn with_keys(&self, file: &str, keys: &str) -> Result<Client, Failure> {
        let url = format!("sqlite:{}/{file}?synchronous=normal", self.dir.path().display());
        Client::open_with_keys(&Engine::of_process()?, &url, keys)
    }

    fn tried(&self, op: &str, payload: &Value) -> Result<Value, Failure> {
        self.client.run(op, &payload.to_string()).map(|answer| serde_json::from_str(&answer).unwrap())
    }

    #[track_caller]
    fn ask(&self, op: &str, payload: &Value) -> Value {
        self.tried(op, payload).unwrap_or_else(|failure| panic!("{op} {payload}: {failure}"))
    }

    #[track_caller]
    fn refused(&self, op: &str, payload: &Value, code: &str, words: &str) {
        let failure = self.tried(op, payload).expect_err(op);
        assert_eq!(failure.code, code, "{op} {payload}: {failure}");
        assert!(failure.message.contains(words), "{op} {payload}: {failure}");
    }
}

#[test]
fn a_wrong_type_is_told_with_the_name_of_its_field() {
    let store = Store::new();
    let whole = "expected a whole number";
    for (op, payload, says) in [
        ("job", json!({"id": "1"}), format!("id: invalid type: string \"1\", {whole}")),
        ("cancel", json!({"ids": [1, true]}), format!("ids: invalid type: boolean `true`, {whole}")),
        (
            "enqueue",
            json!({"job": {"kind": "a", "queue": 5}, "args": [1]}),
            "queue: invalid type: integer `5`, expected a string".into(),
        ),
        (
            "enqueue",
            json!({"job": {"args": {}, "kind": "a\":b", "priority": 1.5}, "args": [1]}),
            format!("priority: invalid type: floating point `1.5`, {whole}"),
        ),
        (
            "enqueue",
            json!({"job": {"kind": "ä", "cost": -1}, "args": [1]}),
            format!("cost: invalid value: integer `-1`, {whole} that is not negative"),
        ),
        (
            "enqueue",
            json!({"job": {"kind": "a", "max_attempts": 1_000_000}, "args": [1]}),
            format!("max_attempts: invalid value: integer `1000000`, {whole} of at most 65535"),
        ),
        (
            "jobs",
            json!({"limit": 1_u64 << 40}),
            format!("limit: invalid value: integer `1099511627776`, {whole} of at most 4294967295"),
        ),
        (
            "job",
            json!({"id": u64::MAX}),
            format!(
                "id: invalid value: integer `18446744073709551615`, {whole} of at most 9223372036854775807"
            ),
        ),
        (
            "jobs",
            json!({"state": "runing"}),
            "state: unknown variant `runing`, expected one of `scheduled`".into(),
        ),
        (
            "enqueue",
            json!({"job": {"kind": "a", "qeue": 5}, "args": [1]}),
            "unknown field `qeue`, expected one of".into(),
        ),
    ] {
        let failure = store.tried(op, &payload).expect_err(op);
        assert!(
            failure.code == "invalid_option" && failure.message.starts_with(&says),
            "{payload}: {failure}"
        );
        assert!(!failure.message.contains("column"), "{failure}");
    }
    let failure = windlass_bridge::WorkerSpec::parse(r#"{"queues":[["default",1.5]]}"#).unwrap_err();
    let says = "the worker's options: queues: invalid type: floating point `1.5`, expected a whole number";
    assert!(failure.message.starts_with(says), "{failure}");
}

#[test]
fn jobs_are_enqueued_listed_changed_and_removed() {
    let store = Store::new();
    let mail = json!({"kind": "mail", "args": {"to": "a"}, "delay_ms": 3_600_000, "tags": ["x"], "meta": {"who": "me"}});
    let one = store.ask("enqueue", &json!({"jobs": [mail]}));
    assert_eq!(one["repeated"], false);
    let id = &one["ids"][0];
    let job = store.ask("job", &json!({"id": id}));
    assert_eq!(
        (&job["state"], &job["args"], &job["meta"]),
        (&json!("scheduled"), &json!({"to": "a"}), &json!({"who": "me"}))
    );
    let many =
        store.ask("enqueue", &json!({"job": {"kind": "mail", "queue": "q"}, "args": [1, {"b": 2}, null]}));
    assert_eq!(many["ids"].as_array().unwrap().len(), 3);
    let page = store.ask("jobs", &json!({"queue": "q", "limit": 2}));
    assert_eq!((page["jobs"].as_array().unwrap().len(), page["jobs"][0]["kind"].as_str()), (2, Some("mail")));
    let rest = store.ask("jobs", &json!({"queue": "q", "limit": 2, "after": page["next"]}));
    assert_eq!(rest["jobs"].as_array().unwrap().len(), 1);
    let once = |key: &str| store.ask("enqueue", &json!({"job": {"kind": "a"}, "idempotency_key": key}));
    assert_eq!((once("k")["repeated"].clone(), once("k")["repeated"].clone()), (json!(false), json!(true)));
    let unique = json!({"jobs": [{"kind": "u", "unique_key": "a"}]});
    assert_eq!(store.ask("enqueue_unique", &unique)["jobs"][0]["conflict"], Value::Null);
    assert_eq!(store.ask("enqueue_unique", &unique)["jobs"][0]["conflict"], "kept");
    let edit = json!({"ids": [id], "edit": {"now": true, "priority": -5}});
    assert_eq!(store.ask("edit", &edit), json!({"replies": ["edited"]}));
    assert_eq!(store.ask("job", &json!({"id": id}))["priority"], -5);
    assert_eq!(
        store.ask("cancel", &json!({"ids": [id, 999]})),
        json!({"replies": ["cancelled", "not_found"]})
    );
    let dry = store.ask("delete", &json!({"filter": {"queue": "q"}, "dry_run": true}));
    assert_eq!((&dry["selected"], &dry["dry_run"]), (&json!(3), &json!(true)));
    assert_eq!(store.ask("delete", &json!({"filter": {"queue": "q"}}))["done"], 3);
    let named = store.ask("retry", &json!({"filter": {"ids": [id, 999]}, "dry_run": true}));
    assert_eq!((&named["selected"], &named["done"], &named["left"]), (&json!(2), &json!(1), &json!(1)));
    assert_eq!(store.ask("delete", &json!({"filter": {"ids": []}}))["selected"], 0);
    store.refused(
        "delete",
        &json!({"filter": {"ids": [id], "queue": "q"}}),
        "invalid_option",
        "ids name the jobs",
    );
    store.refused(
        "delete",
        &json!({"filter": {"ids": [id]}, "everything": true}),
        "invalid_option",
        "ids name the jobs",
    );
    store.refused(
        "delete",
        &json!({"ids": [id], "dry_run": true}),
        "invalid_option",
        "a filter do, which may name ids",
    );
    assert_eq!(store.ask("retry", &json!({"ids": [id]})), json!({"replies": ["retried"]}));
    assert_eq!(store.ask("job", &json!({"id": 999})), Value::Null);
    assert_eq!(store.ask("wait", &json!({"id": id, "timeout_ms": 1})), Value::Null);
    assert_eq!(store.ask("checkpoint", &json!({"id": id})), Value::Null);
    let events = store.ask("events", &json!({"kinds": ["mail"], "events": ["enqueued"], "limit": 2}));
    assert_eq!((events["events"].as_array().unwrap().len(), &events["events"][0]["id"]), (2, id));
}

#[test]
fn queues_are_paused_and_limited_and_schedules_declared() {
    let store = Store::new();
    store.ask("enqueue", &json!({"job": {"kind": "a", "key": "acme"}}));
    store.ask("pause", &json!({"queue": "default"}));
    assert_eq!(store.ask("queues", &json!({}))[0]["paused"], true);
    store.ask("resume", &json!({"queue": "default"}));
    store.ask(
        "limit",
        &json!({"queue": "default", "limits": {"concurrency": 5, "rate": {"count": 10, "period_ms": 1000}}}),
    );
    assert_eq!(store.ask("queues", &json!({}))[0]["limits"]["concurrency"], 5);
    store.ask("limit_keys", &json!({"queue": "default", "limit": {"concurrency": 2}}));
    let rate = json!({"count": 100, "period_ms": 60_000});
    store.ask(
        "limit_key",
        &json!({"queue": "default", "key": "acme", "limit": {"serial": true, "rate": rate}}),
    );
    let limits = store.ask("key_limits", &json!({"queue": "default"}));
    assert_eq!(
        (&limits["default"]["concurrency"], &limits["named"]["acme"]["serial"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(limits["named"]["acme"]["rate"], rate);
    store.ask("unlimit_key", &json!({"queue": "default", "key": "acme"}));
    store.ask("unlimit_keys", &json!({"queue": "default"}));
    assert_eq!(store.ask("key_limits", &json!({"queue": "default"})), Value::Null);

    let nightly = json!({"name": "nightly", "cron": "0 3 * * *", "zone": "Europe/Berlin", "overlap": "skip", "missed": {"all": 3}, "job": {"kind": "a"}});
    let put = json!({"schedules": [nightly], "source": "app"});
    assert_eq!(
        store.ask("put_schedules", &put),
        json!({"names": ["nightly"], "replies": ["created"], "removed": []})
    );
    assert_eq!(store.ask("put_schedules", &put)["replies"], json!(["unchanged"]));
    let ticks = store
        .ask("preview_schedule", &json!({"schedule": nightly, "after": "2026-01-01T00:00:00Z", "count": 2}));
    assert_eq!(ticks, json!(["2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z"]));
    let name = json!({"name": "nightly"});
    assert!(store.ask("run_schedule", &name)["id"].is_i64());
    store.ask("pause_schedule", &name);
    let listed = store.ask("schedules", &json!({"source": "app"}));
    assert_eq!(
        (&listed["schedules"][0]["paused"], &listed["schedules"][0]["last_run"]),
        (&json!(true), &json!("unfinished"))
    );
    store.ask("resume_schedule", &name);
    assert_eq!(store.ask("schedule", &name)["paused"], false);
    let pruned = store.ask("put_schedules", &json!({"schedules": [], "source": "app", "prune": true}));
    assert_eq!(pruned, json!({"names": [], "replies": [], "removed": ["nightly"]}));
    store.refused("remove_schedule", &name, "not_found", "nightly");
}

#[test]
fn schedules_are_declared_by_a_file() {
    let store = Store::new();
    let file = store.dir.path().join("schedules.toml");
    let entry = |name: &str| format!("[[schedule]]\nname = \"{name}\"\ncron = \"@daily\"\nkind = \"k\"\n");
    let write = |text: String| std::fs::write(&file, text).unwrap();
    let put = |prune: bool| ("put_schedule_file", json!({"file": file, "prune": prune}));
    let asked = |(op, payload): (&str, Value)| store.ask(op, &payload);
    write(format!("source = \"app\"\n{}{}", entry("a"), entry("b")));
    let created = json!({"names": ["a", "b"], "replies": ["created", "created"], "removed": []});
    assert_eq!(asked(put(true)), created);
    write(format!("source = \"app\"\n{}", entry("b")));
    assert_eq!(asked(put(false)), json!({"names": ["b"], "replies": ["unchanged"], "removed": []}));
    assert_eq!(asked(put(true)), json!({"names": ["b"], "replies": ["unchanged"], "removed": ["a"]}));
    assert_eq!(store.ask("schedule", &json!({"name": "b"}))["source"], "app");
    write(entry("c"));
    let (op, pruning) = put(true);
    store.refused(op, &pruning, "invalid_option", "prune needs to know whose schedules it has");
    write(entry("c").replace("@daily", "61 * * * *"));
    store.refused(op, &put(false).1, "invalid_option", "schedules.toml: line 1: schedule \"c\": the minute");
    store.refused(op, &json!({"file": "nowhere.toml"}), "invalid_option", "nowhere.toml: cannot be read");
}

#[test]
fn the_audit_log_is_read_and_added_to() {
    let store = Store::new();
    let entries: Vec<_> = (0..3)
        .map(|n| json!({"actor": "anna", "action": "jobs.cancel", "target": n.to_string(), "count": n}))
        .collect();
    store.ask("append_audit", &json!({ "entries": entries }));
    let page = store.ask("audit", &json!({"actor": "anna", "limit": 2}));
    assert_eq!(
        (&page["entries"][0]["target"], &page["entries"][0]["via"], &page["entries"][0]["outcome"]),
        (&json!("2"), &json!("sdk"), &json!("done"))
    );
    let rest = store.ask("audit", &json!({"before": page["next"], "limit": 2}));
    assert_eq!((rest["entries"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    assert_eq!(store.ask("audit", &json!({"since": "2100-01-01T00:00:00Z"}))["entries"], json!([]));
    let fails =
        |op: &str, payload: Value| store.client.run(op, &payload.to_string()).unwrap_err().to_string();
    assert!(fails("audit", json!({"before": "7"})).contains("not the id of an audit entry"));
    assert!(
        fails("append_audit", json!({"entries": [{"actor": "", "action": "a", "target": ""}]}))
            .contains("no actor")
    );
}

#[test]
fn what_is_done_for_somebody_is_noted() {
    let store = Store::new();
    let id = store.ask("enqueue", &json!({"job": {"kind": "a"}}))["ids"][0].clone();
    let acting = |actor: &str, op: &str, payload: serde_json::Value| json!({"actor": actor, "op": op, "payload": payload});
    let cancel = acting("anna", "cancel", json!({"ids": [id]}));
    assert_eq!(store.ask("acting_as", &cancel)["replies"], json!(["cancelled"]));
    store.ask("cancel", &json!({"ids": [id]}));
    let entries = &store.ask("audit", &json!({}))["entries"];
    assert_eq!(entries.as_array().unwrap().len(), 1, "{entries}");
    assert_eq!((&entries[0]["actor"], &entries[0]["action"]), (&json!("anna"), &json!("jobs.cancel")));
    store.refused("acting_as", &acting(" ", "cancel", json!({"ids": [id]})), "invalid_option", "empty name");
    store.refused("acting_as", &acting("anna", "cancel", json!({})), "invalid_option", "name either ids");
}

#[test]
fn the_store_tells_its_state_and_keeps_its_policy() {
    let store = Store::new();
    assert!(store.ask("status", &json!({}))["store"].as_str().unwrap().starts_with("SQLite"));
    assert_eq!(store.ask("retention", &json!({})), json!([]));
    store.ask("set_retention", &json!({"rules": [{"outcome": "completed", "age_ms": 1000}]}));
    assert_eq!(store.ask("retention", &json!({}))[0]["age_ms"], 1000);
    store.ask("configure", &json!({"retention_ms": 7_200_000}));
    store.ask("configure", &json!({"max_crashes": 7, "audit_retention_ms": 86_400_000}));
    let settings = json!({"retention_ms": 7_200_000, "dead_retention_ms": 2_592_000_000_u64, "audit_retention_ms": 86_400_000,
        "segment_bytes": 1 << 30, "max_crashes": 7});
    assert_eq!(store.ask("settings", &json!({})), settings);
    assert_eq!(store.ask("any_available", &json!({"queues": ["default"]})), false);
    store.ask("enqueue", &json!({"job": {"kind": "a"}}));
    assert_eq!(store.ask("any_available", &json!({"queues": ["default"], "kinds": ["a"]})), true);
    assert_eq!(store.ask("any_available", &json!({"queues": ["other"]})), false);
    assert_eq!(store.ask("history", &json!({"last_ms": 60_000}))["counts"], json!([]));
    assert_eq!(store.ask("timings", &json!({"last_ms": 60_000, "queue": "q"}))["timed"], json!([]));
    assert_eq!(store.ask("failures", &json!({"last_ms": 60_000}))["failures"], json!([]));
    store.ask("mark", &json!({"label": "v1", "actor": "ci"}));
    assert_eq!(store.ask("marks", &json!({"last_ms": 60_000}))["marks"][0]["label"], "v1");
}

#[test]
fn jobs_for_a_statement_are_checked_without_a_store() {
    let check = |jobs: Value| windlass_bridge::check_jobs(&jobs.to_string());
    let unique = json!({"kind": "a", "unique_fields": ["user"]});
    check(json!({"job": {"kind": "a"}, "args": [{}, 1, "x"]})).unwrap();
    check(json!({"job": unique, "args": [{"user": 7}, {"user": 7}]})).unwrap();
    for (jobs, code, words) in [
        (json!({"job": {"kind": "a", "queue": "a b"}}), "invalid_name", "a b"),
        (json!({"job": {"kind": "a", "priority": 101}}), "invalid_option", "101"),
        (json!({"job": unique, "args": [{"user": 7}, {}]}), "invalid_args", "job 1 of 2"),
        (json!({"job": {"kind": "a", "encrypted": true}}), "invalid_option", "have to be encrypted"),
        (json!({"job": {"kind": "a", "x": 1}}), "invalid_option", "unknown field `x`"),
    ] {
        let failure = check(jobs).unwrap_err();
        assert!(failure.code == code && failure.message.contains(words), "{failure}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let store = Store::new();
    for (op, payload, code, words) in [
        (
            "enqueue",
            json!({"jobs": [{"kind": "a", "colour": 1}]}),
            "invalid_option",
            "unknown field `colour`",
        ),
        ("enqueue", json!({"jobs": [{"args": 1}]}), "invalid_option", "missing field `kind`"),
        ("enqueue", json!({"jobs": [{"kind": "a"}, {"kind": "a b"}]}), "invalid_name", "a b"),
        (
            "enqueue",
            json!({"jobs": [], "job": {"kind": "a"}, "args": [[[]]], "x": 1}),
            "invalid_option",
            "unknown field `x`",
        ),
        (
            "enqueue",
            json!({"jobs": [{"kind": "a"}], "job": {"kind": "a"}}),
            "invalid_option",
            "either jobs, or one job",
        ),
        (
            "enqueue",
            json!({"job": {"kind": "a", "delay_ms": 1, "scheduled_at": "2031-01-01T00:00:00Z"}}),
            "invalid_option",
            "exclude each other",
        ),
        ("enqueue", json!({"job": {"kind": "a", "priority": 101}}), "invalid_option", "101"),
        (
            "enqueue_unique",
            json!({"job": {"kind": "a"}, "idempotency_key": "k"}),
            "invalid_option",
            "takes no idempotency_key",
        ),
        ("enqueue_sql", json!({"job": {"kind": "a"}}), "unsupported", "postgres://"),
        ("jobs", json!({"limit": 0}), "invalid_option", "limit must be"),
        ("jobs", json!({"state": "lost"}), "invalid_option", "lost"),
        ("cancel", json!({}), "invalid_option", "either ids, or a filter"),
        ("cancel", json!({"ids": [1], "everything": true}), "invalid_option", "either ids, or a filter"),
        ("cancel", json!({"filter": {}}), "invalid_option", "selects every job"),
        ("cancel", json!({"everything": true, "per_second": 0}), "invalid_option", "more than 0"),
        ("cancel", json!({"ids": [1], "edit": {}}), "invalid_option", "only an edit"),
        ("edit", json!({"ids": [1]}), "invalid_option", "what to edit"),
        ("edit", json!({"ids": [1], "edit": {}}), "invalid_option", "changes nothing"),
        ("edit", json!({"ids": [1], "edit": {"now": true, "delay_ms": 5}}), "invalid_option", "exclude"),
        ("pause", json!({"queue": "none"}), "not_found", "none"),
        ("limit", json!({"queue": "q", "limits": {"concurrency": 0}}), "invalid_option", "must be 1 to"),
        (
            "limit_keys",
            json!({"queue": "q", "limit": {"rates": 1}}),
            "invalid_option",
            "unknown field `rates`",
        ),
        (
            "put_schedules",
            json!({"schedules": [{"name": "a", "cron": "61 * * * *", "job": {"kind": "a"}}]}),
            "invalid_option",
            "minute",
        ),
        (
            "put_schedules",
            json!({"schedules": [{"name": "a", "cron": "@daily", "zone": "Mars", "job": {"kind": "a"}}]}),
            "invalid_option",
            "time zone",
        ),
        ("run_schedule", json!({"name": "none"}), "not_found", "none"),
        ("queues", json!({"x": 1}), "invalid_option", "unknown field `x`"),
        ("configure", json!({"max_crashes": 2}), "invalid_option", "at least 3, got 2"),
        ("configure", json!({"retention": "1d"}), "invalid_option", "unknown field `retention`"),
        ("history", json!({"last_ms": 60_000, "outcome": "lost"}), "invalid_option", "lost"),
        ("timings", json!({"last_ms": 60_000, "step_ms": 90_000}), "invalid_option", "whole minutes"),
        ("failures", json!({"last_ms": 0}), "invalid_option", "30 days"),
        ("mark", json!({"label": " ", "actor": "ci"}), "invalid_option", "label of a mark is empty"),
        ("events", json!({"from": "nonsense"}), "invalid_option", "nonsense"),
        ("fly", json!({}), "internal", "\"fly\" is no operation"),
    ] {
        store.refused(op, &payload, code, words);
    }
    assert_eq!(store.client.run("jobs", "{").unwrap_err().code, "invalid_option");
    assert_eq!(store.ask("jobs", &json!({}))["jobs"], json!([]));
}

#[test]
fn with_keys_args_are_sealed_and_opened() {
    let store = Store::new();
    let job = json!({"job": {"kind": "a", "args": {"n": "secret"}, "encrypted": true}});
    store.refused("enqueue", &job, "invalid_option", "no keys");
    let keys = format!("k1:{}Bwc=", "BwcH".repeat(10));
    let keyed = store.with_keys("jobs.db", &keys).unwrap();
    let ask = |op, payload: &Value| {
        serde_json::from_str::<Value>(&keyed.run(op, &payload.to_string()).unwrap()).unwrap()
    };
    let id = json!({"id": ask("enqueue", &job)["ids"][0]});
    assert!(store.ask("job", &id)["args"]["windlass.enc"].is_object());
    assert_eq!(ask("args", &id), json!({"n": "secret"}));
    assert_eq!(ask("args", &json!({"id": 999})), Value::Null);
    store.refused("args", &id, "undecryptable", "k1");
    let refused = store.with_keys("other.db", "k1:c2hvcnQ=").unwrap_err();
    assert!(!store.dir.path().join("other.db").exists());
    assert_eq!(refused.code, "invalid_option");
    assert!(!refused.message.contains("c2hv"), "{refused}");
}

#[test]
fn a_call_that_does_not_wait_calls_back() {
    let store = Store::new();
    let (sender, receiver) = mpsc::channel();
    store
        .client
        .start("enqueue", r#"{"job":{"kind":"a"}}"#.to_owned(), move |done| sender.send(done).unwrap())
        .unwrap();
    let answer: Value = serde_json::from_str(&receiver.recv().unwrap().unwrap()).unwrap();
    assert!(answer["ids"][0].is_i64());
    let refused = Client::open(&Engine::of_process().unwrap(), "mysql://x").unwrap_err();
    assert_eq!((refused.code, refused.retryable, refused.ambiguous), ("invalid_option", false, false));
}
