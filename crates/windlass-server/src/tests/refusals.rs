use super::site::Site;
use crate::{Role, routes::routes};
use serde_json::{Value, json};

#[tokio::test]
async fn bodies_are_read_strictly() {
    let site = Site::in_memory();
    let deep = format!("{{\"jobs\":{}", "[".repeat(100_000));
    let huge = format!("{{\"jobs\":[{{\"kind\":\"a\",\"args\":\"{}\"}}]}}", "x".repeat(17 << 20));
    for (path, text, status, code, pointer) in [
        ("/jobs", "{", 400, "malformed", None),
        ("/jobs", "", 400, "malformed", None),
        ("/jobs", "{\"jobs\":[]} x", 400, "malformed", None),
        ("/jobs", "\u{fffd}", 400, "malformed", None),
        ("/jobs", &deep, 422, "invalid_option", Some("/jobs/0")),
        ("/jobs", &huge, 413, "too_large", None),
        ("/jobs", "{}", 422, "invalid_option", Some("")),
        ("/jobs", "{\"jobs\":[]}", 422, "invalid_option", None),
        ("/jobs", "{\"jobs\":[],\"more\":1}", 422, "invalid_option", Some("/more")),
        ("/jobs", "{\"jobs\":[{\"kind\":\"a\"},{\"kind\":7}]}", 422, "invalid_option", Some("/jobs/1/kind")),
        ("/jobs", "{\"jobs\":[{\"kind\":\"a\"},{\"kind\":\"b c\"}]}", 422, "invalid_name", Some("/jobs/1")),
        ("/jobs", "{\"jobs\":[[\"a\"]]}", 422, "invalid_option", Some("/jobs/0")),
        ("/jobs", "{\"jobs\":[{\"kind\":\"a\",\"args\":\"\\u0000\"}]}", 422, "invalid_args", None),
        (
            "/jobs",
            r#"{"jobs":[{"kind":"a","on_conflict":7}]}"#,
            422,
            "invalid_option",
            Some("/jobs/0/on_conflict"),
        ),
        ("/jobs", r#"{"jobs":[{"kind":"a","on_conflict":seven}]}"#, 400, "malformed", None),
        ("/bulk", r#"{"action":["cancel"],"ids":["1"]}"#, 422, "invalid_option", Some("/action")),
        ("/bulk", "{\"action\":\"explode\",\"filter\":{}}", 422, "invalid_option", Some("/action")),
        ("/bulk", "{\"action\":\"cancel\",\"filter\":{}}", 422, "invalid_option", Some("/filter")),
        ("/bulk", "{\"action\":\"cancel\"}", 422, "invalid_option", None),
        (
            "/bulk",
            "{\"action\":\"cancel\",\"ids\":[\"1\"],\"per_second\":0}",
            422,
            "invalid_option",
            Some("/per_second"),
        ),
        ("/bulk", "{\"action\":\"retry\",\"filter\":{\"state\":\"running\"}}", 422, "invalid_option", None),
        ("/bulk", r#"{"action":"edit","ids":["1"],"edit":[false,5]}"#, 422, "invalid_option", Some("/edit")),
        (
            "/bulk",
            r#"{"action":"edit","ids":["1"],"edit":[false,5,null,null,null,null,null]}"#,
            422,
            "invalid_option",
            Some("/edit"),
        ),
        (
            "/bulk",
            r#"{"action":"edit","ids":["1"],"edit":{"priority":1,"args":null}}"#,
            422,
            "invalid_option",
            Some("/edit"),
        ),
        (
            "/bulk",
            r#"{"action":"edit","ids":["1"],"edit":{"priority":"high"}}"#,
            422,
            "invalid_option",
            Some("/edit/priority"),
        ),
    ] {
        let bearer = format!("Bearer {}", site.token(Role::Admin));
        let headers =
            [("authorization", bearer.as_str()), ("content-type", "application/json; charset=utf-8")];
        let answer = site.send_text("POST", &format!("/api/v1{path}"), &headers, text.to_owned()).await;
        let said: String = text.chars().take(80).collect();
        assert_eq!(
            (answer.status, answer.body["code"].as_str()),
            (status, Some(code)),
            "{said}: {}",
            answer.text
        );
        let errors = &answer.body["errors"];
        assert_eq!(errors[0]["pointer"].as_str(), pointer, "{said}: {}", answer.text);
        assert!(!answer.text.contains("struct "), "{said}: {}", answer.text);
    }
    assert_eq!(site.get("/jobs").await.is(200)["items"], json!([]));
}

#[tokio::test]
async fn every_body_refuses_unknown_fields_and_wrong_types() {
    let site = Site::in_memory();
    site.enqueue("a", json!({})).await;
    for route in routes().iter().filter(|route| route.takes.is_some() && route.role.is_some()) {
        let path = route.path.replace("{queue}", "mail").replace("{name}", "n").replace("{id}", "1");
        let path = path.replace("{key}", "acme");
        for body in [json!({"no_such_field": 1}), json!([1]), json!("text"), json!(7), json!(true)] {
            let answer = site.ask(Role::Admin, route.method.as_str(), &path, body.clone()).await;
            assert_eq!(answer.status, 422, "{} takes {body}: {}", route.name, answer.text);
        }
        let other = [
            ("content-type", "text/plain"),
            ("authorization", &*format!("Bearer {}", site.token(Role::Admin))),
        ];
        let path = format!("/api/v1{path}");
        let answer = site.send_text(route.method.as_str(), &path, &other, "{}").await;
        answer.refused(415, "unsupported_media_type");
        let zipped = [("content-type", "application/json"), ("content-encoding", "gzip"), other[1]];
        let answer = site.send_text(route.method.as_str(), &path, &zipped, "{}").await;
        let answer = answer.refused(415, "unsupported_media_type");
        assert!(answer.text.contains("without that"), "{}: {}", route.name, answer.text);
    }
}

/// Of an object's values in the order of its fields nobody can say what they were meant for.
#[tokio::test]
async fn an_array_is_no_object_wherever_it_stands() {
    let site = Site::in_memory();
    site.enqueue("a", json!({})).await;
    let job: Value = serde_json::from_str(&format!(
        r#"["a", [], "mail", 0, 3{}, [], null, false, null, false{}]"#,
        ", null".repeat(8),
        ", null".repeat(6)
    ))
    .unwrap();
    let filter = json!(["available", "none", null, null, null, null]);
    for (method, path, body, pointer) in [
        ("POST", "/jobs", json!({"jobs": [{"kind": "a"}, job]}), "/jobs/1"),
        ("POST", "/bulk", json!({"action": "cancel", "filter": filter}), "/filter"),
        ("PUT", "/queues/mail/limits", json!({"rate": [9, 60_000, 2]}), "/rate"),
        ("PUT", "/queues/mail/key-limits", json!({"rate": [9, 60_000, null]}), "/rate"),
        ("PUT", "/retention", json!({"items": [["mail", "cancelled", 5, null]]}), "/items/0"),
    ] {
        let answer = site.ask(Role::Admin, method, path, body).await.refused(422, "invalid_option");
        assert_eq!(answer.body["errors"][0]["pointer"], pointer, "{}", answer.text);
        assert!(answer.text.contains("expected an object"), "{}", answer.text);
    }
    // Args, meta and lists are what they are.
    let jobs = json!({"jobs": [{"kind": "b", "args": [1, [2]], "meta": {"a": [{"b": []}]}, "tags": ["x"], "unique_fields": null}]});
    site.ask(Role::Admin, "POST", "/jobs", jobs).await.is(201);
}

#[tokio::test]
async fn queries_and_paths_are_read_strictly() {
    let site = Site::in_memory();
    for path in [
        "/jobs?sate=running",
        "/jobs?state=jumping",
        "/jobs?limit=0",
        "/jobs?limit=201",
        "/jobs?limit=-1",
        "/jobs?limit=many",
        "/jobs?limit=1&limit=2",
        "/jobs?after=1.zz",
        "/jobs?after=%00",
        "/history?last_s=0",
        "/history?step_s=61",
        "/history?last_s=2592000",
        "/history?outcome=started",
        "/history?by=outcome",
        "/history?top=0",
        "/events?type=jumped",
        "/events?after=no+cursor",
        "/live",
        "/live?topics=",
        "/live?topics=everything",
        &format!("/live?topics={}", (1..18).map(|n| format!("queue:{n},")).collect::<String>()),
    ] {
        site.get(path).await.refused(422, "invalid_option");
    }
    for (path, says) in [
        ("/jobs?limit=many", "the parameter limit: must be a whole number"),
        ("/jobs?limit=", "the parameter limit: must be a whole number"),
        ("/jobs?limit=99999999999", "the parameter limit: is out of range"),
        ("/jobs?state=jumping", "the parameter state: unknown variant `jumping`, expected one of"),
        ("/jobs?sate=running", "the parameter sate: unknown field `sate`, expected one of"),
        ("/live", "the query: missing field `topics`"),
        (&format!("/jobs?queue={}", "q".repeat(129)), "the parameter queue: invalid queue name"),
        ("/jobs?queue=", "the parameter queue: invalid queue name \\\"\\\"; use 1 to 128 of letters"),
        ("/jobs?kind=a%20b", "the parameter kind: invalid kind \\\"a b\\\"; use 1 to 200 bytes"),
        ("/jobs?tag=", "the parameter tag: a tag must be 1 to 100 bytes"),
        ("/jobs?state=blocked", "the parameter state: unknown variant `blocked`, expected one of"),
    ] {
        let said = site.get(path).await.body["detail"].to_string();
        assert!(said.starts_with(&format!("\"{says}")), "{path}: {said}");
    }
    for path in [
        "/jobs/abc",
        "/jobs/0",
        "/jobs/-1",
        "/jobs/99999999999999999999",
        "/jobs/7",
        "/jobs/%ff",
        "/queues/none",
        "/queues/a%2Fb",
        "/schedules/none",
        "/bulk/b_1",
        "/nothing",
        "/jobs/7/nothing",
        "/live?topics=job:x",
    ] {
        site.get(path).await.refused(404, "not_found");
    }
    site.get("/audit?before=x").await.refused(403, "permission_denied");
    site.ask(Role::Admin, "GET", "/audit?before=x", Value::Null).await.refused(422, "invalid_option");
    site.ask(Role::Admin, "GET", "/jobs/7/args", Value::Null).await.refused(422, "invalid_option");
    site.ask(Role::Admin, "PUT", "/jobs", Value::Null).await.refused(405, "method_not_allowed");
    site.ask(Role::Admin, "POST", "/nothing", Value::Null).await.refused(404, "not_found");
    // A program that works jobs, and misspells a call, is not answered by a page, nor told that pages are read.
    for (method, path) in
        [("POST", "/work/v1/workers/7.x/turns"), ("GET", "/work/v1/nothing"), ("POST", "/work/v2/workers")]
    {
        let answer = site.send_text(method, path, &[], "").await.refused(404, "not_found");
        assert!(answer.text.contains("docs/protocols/http.md"), "{}", answer.text);
    }
}
