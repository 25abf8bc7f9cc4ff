use super::site::Site;
use crate::Role::{Admin, Operator};
use serde_json::{Value, json};
use std::{collections::HashSet, sync::Arc};
use tokio::sync::Notify;
use windlass::{Client, NewJob, testing};
use windlass_core::{EnqueuedOnce, Store, wrap_store};

#[tokio::test]
async fn jobs_are_enqueued_listed_changed_and_removed() {
    for site in Site::all().await {
        let jobs: Vec<_> =
            (0..5).map(|n| json!({"kind": "a", "args": {"n": n}, "queue": "mail", "tags": ["t"]})).collect();
        let ids = site.ask(Operator, "POST", "/jobs", json!({ "jobs": jobs })).await.is(201)["ids"].clone();
        let mut met = HashSet::new();
        let mut path = "/jobs?queue=mail&limit=2".to_owned();
        loop {
            let page = site.get(&path).await.is(200);
            met.extend(
                page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()),
            );
            let Some(next) = page["next"].as_str() else { break };
            path = format!("/jobs?queue=mail&limit=2&after={next}");
        }
        assert_eq!(met.len(), 5);
        assert!(ids.as_array().unwrap().iter().all(|id| met.contains(id.as_str().unwrap())));
        assert_eq!(site.get("/jobs?tag=other").await.is(200)["items"], json!([]));
        // A list does not say that there were no errors: it did not look.
        let listed = site.get("/jobs?queue=mail&limit=1").await.is(200)["items"][0].clone();
        assert!(listed["tags"].is_array() && listed.get("errors").is_none(), "{listed}");
        let path = format!("/jobs/{}", listed["id"].as_str().unwrap());
        assert_eq!(site.get(&path).await.is(200)["errors"], json!([]));

        let of = |what: &str| format!("/jobs/{}{what}", ids[0].as_str().unwrap());
        let edit = json!({"delay_ms": 3_600_000, "priority": 5, "args": {"n": 10}});
        assert_eq!(site.ask(Operator, "PATCH", &of(""), edit).await.is(200)["reply"], "edited");
        let audit = site.ask(Admin, "GET", "/audit?limit=1", Value::Null).await.is(200);
        let noted = json!({"edit": {"delay_ms": 3_600_000, "priority": 5, "args": "changed"}});
        assert_eq!(audit["items"][0]["filter"], noted, "what was changed, and not the args");
        let job = site.get(&of("")).await.is(200);
        assert_eq!(
            (&job["state"], &job["priority"], &job["args"]),
            (&json!("scheduled"), &json!(5), &json!({"n": 10}))
        );
        site.ask(Operator, "PATCH", &of(""), json!({"now": true, "delay_ms": 1}))
            .await
            .refused(422, "invalid_option");
        site.ask(Operator, "PATCH", &of(""), json!({})).await.refused(422, "invalid_option");
        // A value, as when a job is enqueued.
        let edit = json!({"args": null});
        assert_eq!(site.ask(Operator, "PATCH", &of(""), edit).await.is(200)["reply"], "edited");
        assert_eq!(site.get(&of("")).await.is(200)["args"], Value::Null);
        for (method, what, reply) in [
            ("POST", "/cancel", "cancelled"),
            ("POST", "/cancel", "finished"),
            ("POST", "/retry", "retried"),
            ("DELETE", "", "deleted"),
        ] {
            assert_eq!(site.ask(Operator, method, &of(what), Value::Null).await.is(200)["reply"], reply);
        }
        site.ask(Operator, "DELETE", &of(""), Value::Null).await.refused(404, "not_found");
        site.get(&of("")).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn jobs_belong_to_the_trace_of_their_request() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for site in Site::all().await {
        let bearer = format!("Bearer {}", site.token(Operator));
        let own = TRACE.replacen("0af7", "ffff", 1);
        for (sent, meta, kept) in [
            (
                TRACE,
                json!({"tenant": "acme"}),
                json!({"tenant": "acme", "traceparent": TRACE, "tracestate": "vendor=7"}),
            ),
            (TRACE, json!({"traceparent": own}), json!({"traceparent": own})),
            ("nonsense", json!({"tenant": "acme"}), json!({"tenant": "acme"})),
        ] {
            let headers =
                [("authorization", bearer.as_str()), ("traceparent", sent), ("tracestate", "vendor=7")];
            let body = json!({"jobs": [{"kind": "ship", "meta": meta}]});
            let answer = site.send("POST", "/jobs", &headers, body).await;
            let id = answer.is(201)["ids"][0].as_str().unwrap().to_owned();
            assert_eq!(site.get(&format!("/jobs/{id}")).await.is(200)["meta"], kept);
        }
    }
}

#[tokio::test]
async fn an_idempotency_key_enqueues_once() {
    for site in Site::all().await {
        let bearer = format!("Bearer {}", site.token(Operator));
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", "order/42")];
        let body = json!({"jobs": [{"kind": "ship"}]});
        let first = site.send("POST", "/jobs", &headers, body.clone()).await;
        let again = site.send("POST", "/jobs", &headers, body).await;
        assert_eq!((first.status, again.status, &first.body), (201, 201, &again.body));
        assert!(!first.headers.contains_key("idempotent-replayed"));
        assert_eq!(again.headers["idempotent-replayed"], "true");
        assert_eq!(site.get("/jobs").await.is(200)["items"].as_array().unwrap().len(), 1);
        let two = json!({"jobs": [{"kind": "ship"}, {"kind": "ship"}]});
        site.send("POST", "/jobs", &headers, two).await.refused(422, "invalid_option");
        let other = json!({"jobs": [{"kind": "bill"}]});
        site.send("POST", "/jobs", &headers, other.clone()).await.refused(422, "idempotency_key_reused");
        // A process that did not store them has only the ids to go by.
        let restarted = Site::of(site.client.clone(), |builder| builder);
        let bearer = format!("Bearer {}", restarted.token(Operator));
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", "order/42")];
        assert_eq!(restarted.send("POST", "/jobs", &headers, other).await.is(201), first.body);
        assert_eq!(site.get("/jobs").await.is(200)["items"].as_array().unwrap().len(), 1);
    }
}

/// A store whose first answer under a key waits until it is let go.
struct Late {
    store: Arc<dyn Store>,
    stored: Arc<Notify>,
    go: Arc<Notify>,
}

wrap_store! {
    impl JobStore for Late, through store:
    [capabilities migrate enqueue enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status events wakeup close]

    async fn enqueue_once(&self, key: &str, jobs: &[NewJob]) -> windlass_core::Result<EnqueuedOnce> {
        let once = self.store.enqueue_once(key, jobs).await?;
        if !once.repeated {
            self.stored.notify_one();
            self.go.notified().await;
        }
        Ok(once)
    }
}

#[tokio::test]
async fn an_idempotency_key_is_of_one_body_also_while_the_first_call_is_under_way() {
    let (stored, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let store = Arc::clone(testing::client().store());
    let late = Late { store, stored: Arc::clone(&stored), go: Arc::clone(&go) };
    let site = Site::of(Client::from_store(Arc::new(late)), |builder| builder);
    let bearer = format!("Bearer {}", site.token(Operator));
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "order/42")];
    let send = |kind: &str| site.send("POST", "/jobs", &headers, json!({"jobs": [{ "kind": kind }]}));
    let meanwhile = async {
        stored.notified().await;
        let again = send("ship").await;
        // It is told once it is known whose jobs are there.
        let (other, ()) = tokio::join!(send("bill"), async { go.notify_one() });
        (other, again)
    };
    let (first, (other, again)) = tokio::join!(send("ship"), meanwhile);
    other.refused(422, "idempotency_key_reused");
    assert_eq!(
        (first.is(201), site.get("/jobs").await.is(200)["items"].as_array().unwrap().len()),
        (again.is(201), 1)
    );
}

#[tokio::test]
async fn a_unique_job_says_what_became_of_the_conflict() {
    for site in Site::all().await {
        let unique = |n: u64| json!({"kind": "report", "args": {"user": n}, "unique_args": true});
        let jobs = json!({"jobs": [unique(1), {"kind": "mail"}, unique(1)]});
        let first = site.ask(Operator, "POST", "/jobs", jobs).await.is(201);
        assert_eq!(first["conflicts"], json!([null, null, "kept"]));
        assert_eq!((&first["ids"][0], first["ids"].as_array().unwrap().len()), (&first["ids"][2], 3));
        let mut replacing = unique(1);
        replacing["on_conflict"] = "replace".into();
        let second = site.ask(Operator, "POST", "/jobs", json!({"jobs": [replacing]})).await.is(201);
        assert_eq!(second["conflicts"], json!(["replaced"]));
        let audited = site.ask(Admin, "GET", "/audit", Value::Null).await.is(200)["items"].clone();
        assert_eq!((&audited[0]["count"], &audited[1]["count"]), (&json!(1), &json!(2)), "what was stored");
        let plain = site.ask(Operator, "POST", "/jobs", json!({"jobs": [{"kind": "mail"}]})).await.is(201);
        assert!(plain.get("conflicts").is_none(), "{plain}");
    }
}

#[tokio::test]
async fn queues_are_paused_and_limited() {
    for site in Site::all().await {
        site.enqueue("a", json!({})).await;
        site.ask(Operator, "POST", "/queues/mail/pause", Value::Null).await.is(204);
        assert_eq!(site.get("/queues/mail").await.is(200)["paused"], true);
        let needs = site.get("/overview").await.is(200)["needs_a_look"].clone();
        assert_eq!(
            (&needs[0]["what"], &needs[0]["queue"], &needs[0]["count"]),
            (&json!("paused"), &json!("mail"), &json!(1))
        );
        site.ask(Operator, "POST", "/queues/mail/resume", Value::Null).await.is(204);
        assert_eq!(site.get("/overview").await.is(200)["needs_a_look"][0]["what"], "no_worker");
        let limits = json!({"concurrency": 3, "rate": {"count": 10, "period_ms": 1000}});
        let shown = site.ask(Admin, "PUT", "/queues/mail/limits", limits.clone()).await.is(200);
        assert_eq!(shown["limits"]["rate"]["count"], 10);
        assert_eq!(
            site.ask(Admin, "PUT", "/queues/mail/limits", json!({})).await.is(200)["limits"],
            json!({})
        );
        site.ask(Admin, "PUT", "/queues/mail/limits", json!({"concurrency": 0}))
            .await
            .refused(422, "invalid_option");
        site.ask(Operator, "POST", "/queues/none/pause", Value::Null).await.refused(404, "not_found");
    }
}

/// Six of such pages, each read at once, took more than a gigabyte.
#[tokio::test]
async fn a_page_of_large_jobs_ends_early_and_goes_on() {
    let site = Site::in_memory();
    let large = "x".repeat(1_000_000);
    for n in 0..60 {
        site.enqueue("large", json!({ "n": n, "text": large })).await;
    }
    let (mut path, mut pages, mut met) = ("/jobs?limit=60".to_owned(), Vec::new(), HashSet::new());
    loop {
        let page = site.get(&path).await.is(200);
        let items = page["items"].as_array().unwrap();
        met.extend(items.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        pages.push((items.len(), page["complete"].as_bool().unwrap()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/jobs?limit=60&after={next}");
    }
    assert_eq!(met.len(), 60);
    assert_eq!(pages, [(34, false), (26, true)]);
    // As many as are asked for where they are small.
    let small: Vec<_> = (0..200).map(|n| json!({"kind": "small", "args": n, "queue": "small"})).collect();
    site.ask(Operator, "POST", "/jobs", json!({ "jobs": small })).await.is(201);
    let page = site.get("/jobs?queue=small&limit=200").await.is(200);
    assert_eq!((page["items"].as_array().unwrap().len(), &page["complete"]), (200, &json!(true)));
}
