use super::{Site, done};
use crate::Role;
use serde_json::{Value, json};
use std::time::Duration;
use windlass::{Args, Envelope, JobState, Load, NewJob, WorkerId};

fn job(kind: &'static str) -> NewJob {
    NewJob::new(kind, Args::parse("{\"n\": 1.50}").unwrap()).with_queue("mail")
}

#[tokio::test]
async fn every_outcome_is_settled_by_the_rules_of_the_engine() {
    for site in Site::all().await {
        let jobs =
            ["complete", "result", "retry", "last", "snooze", "cancel", "discard", "tracked"].map(|kind| {
                match kind {
                    "last" => job(kind).with_max_attempts(1),
                    "tracked" => job(kind).with_tracking(),
                    _ => job(kind),
                }
            });
        let ids = site.client.enqueue_many(jobs).await.unwrap();
        let worker = site.register(json!({ "queues": { "mail": 10 } })).await;
        let taken = site.turn(&worker, json!({})).await["jobs"].as_array().unwrap().clone();
        assert_eq!(taken.len(), ids.len());
        assert_eq!(
            (&taken[0]["id"], &taken[0]["queue"], &taken[0]["attempt"]),
            (&json!(ids[0].to_string()), &json!("mail"), &json!(1))
        );
        let said = [
            json!({ "outcome": "complete" }),
            json!({ "outcome": "complete", "result": { "sent": [1, "ä"] } }),
            json!({ "outcome": "retry", "error": "no route", "after_ms": 3_600_000 }),
            json!({ "outcome": "retry", "error": "no route", "after_ms": 1 }),
            json!({ "outcome": "snooze", "after_ms": 3_600_000 }),
            json!({ "outcome": "cancel", "reason": "sent by hand" }),
            json!({ "outcome": "discard", "error": "no such address" }),
            json!({ "outcome": "complete", "result": null }),
        ];
        let said: Vec<Value> = said
            .into_iter()
            .zip(&taken)
            .map(|(mut said, job)| {
                said["receipt"] = job["receipt"].clone();
                said
            })
            .collect();
        let turn = site.turn(&worker, json!({ "done": said })).await;
        assert_eq!(turn, json!({ "settled": vec!["accepted"; 8], "jobs": [], "cancel": [] }));
        let mut records = Vec::new();
        for id in &ids {
            records.push(site.client.job(*id).await.unwrap().unwrap());
        }
        use JobState::{Cancelled, Completed, Discarded, Retryable, Scheduled};
        let states: Vec<_> = records.iter().map(|record| record.state).collect();
        assert_eq!(
            states,
            [Completed, Completed, Retryable, Discarded, Scheduled, Cancelled, Discarded, Completed]
        );
        assert_eq!(records[1].result.as_ref().unwrap().as_str(), "{\"sent\":[1,\"ä\"]}");
        assert_eq!(records[2].errors[0].error, "no route");
        // Said again, after an answer that was lost.
        let turn = site.turn(&worker, json!({ "done": said, "again": true, "want": {} })).await;
        assert_eq!(turn, json!({ "settled": vec!["already"; 8], "jobs": [], "cancel": [] }));
        site.work("DELETE", &format!("/{worker}"), Value::Null).await.is(204);
        // Each attempt was measured once, and told when the worker ended.
        let timings = site.get("/timings?last_s=86400&step_s=86400&by=none").await.is(200);
        assert_eq!(
            (&timings["timed"][0]["run"]["count"], &timings["timed"][0]["wait"]["count"]),
            (&json!(8), &json!(8))
        );
        let failures = site.get("/failures").await.is(200);
        let kinds: Vec<_> =
            failures["items"].as_array().unwrap().iter().map(|group| group["kind"].clone()).collect();
        assert_eq!(kinds.len(), 3, "{failures}");
        assert!(["retry", "last", "discard"].iter().all(|kind| kinds.contains(&json!(kind))));
    }
}

/// It costs its own job an attempt, and no other of the turn anything.
#[tokio::test]
async fn a_result_that_cannot_be_stored_is_the_failure_of_its_job() {
    for site in Site::all().await {
        let ids = site.client.enqueue_many(["a", "b", "c"].map(job)).await.unwrap();
        let worker = site.register(json!({ "queues": { "mail": 3 } })).await;
        let taken = site.jobs(&worker).await;
        let with = |at: usize, result: Value| json!({ "receipt": taken[at]["receipt"], "outcome": "complete", "result": result });
        let done = [with(0, json!(1)), with(1, json!("secret\0")), with(2, json!("x".repeat(2 << 20)))];
        let turn = site.turn(&worker, json!({ "done": done, "want": {} })).await;
        assert_eq!(turn["settled"], json!(vec!["accepted"; 3]));
        assert_eq!(site.state(ids[0]).await, JobState::Completed);
        for (id, state, what) in [
            (ids[1], JobState::Retryable, "the result cannot be stored: "),
            (ids[2], JobState::Discarded, "the result is 2097154 bytes"),
        ] {
            let record = site.client.job(id).await.unwrap().unwrap();
            let error = &record.errors[0].error;
            assert!(record.state == state && error.starts_with(what), "{record:?}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_worker_has_no_more_than_it_registered_for() {
    for site in Site::all().await {
        for _ in 0..5 {
            site.enqueue("a", json!({})).await;
        }
        let worker = site.register(json!({ "queues": { "mail": 3, "other": 7 } })).await;
        let first = site.turn(&worker, json!({ "want": { "mail": 1, "other": 1 } })).await["jobs"].clone();
        let rest = site.turn(&worker, json!({ "want": { "mail": 100 } })).await["jobs"].clone();
        assert_eq!((first.as_array().unwrap().len(), rest.as_array().unwrap().len()), (1, 2));
        assert_eq!(site.turn(&worker, json!({})).await["jobs"], json!([]));
        let turn = site.turn(&worker, json!({ "done": [done(&rest[1], "complete")] })).await;
        assert_eq!((&turn["settled"], turn["jobs"].as_array().unwrap().len()), (&json!(["accepted"]), 1));
        let held = site.turn(&worker, json!({ "again": true })).await["jobs"].clone();
        assert_eq!(held, json!([first[0], rest[0], turn["jobs"][0]]));
    }
}

#[tokio::test]
async fn what_a_worker_cannot_run_is_not_its() {
    for site in Site::all().await {
        let sealed = r#"{"windlass.enc":{"v":1,"key":"k1","nonce":"bm9uY2U","data":"ZGF0YQ"}}"#;
        let sealed = NewJob::new("a", Args::parse("{}").unwrap())
            .with_queue("mail")
            .with_envelope(Args::parse(sealed).unwrap());
        let jobs = [job("other"), job("a").with_expiry(Duration::from_millis(1)), sealed, job("a")];
        let ids = site.client.enqueue_many(jobs).await.unwrap();
        let expires = site.client.job(ids[1]).await.unwrap().unwrap();
        while expires.expires_at.unwrap() >= windlass::Timestamp::now() {
            tokio::task::yield_now().await;
        }
        let worker = site.register(json!({ "queues": { "mail": 10 }, "kinds": ["a"] })).await;
        let taken = site.jobs(&worker).await;
        assert_eq!((taken.len(), &taken[0]["id"]), (1, &json!(ids[3].to_string())));
        assert_eq!(site.state(ids[0]).await, JobState::Available);
        assert_eq!(site.state(ids[1]).await, JobState::Cancelled);
        assert_eq!(site.state(ids[2]).await, JobState::Retryable);
        let error = &site.client.job(ids[2]).await.unwrap().unwrap().errors[0].error;
        assert!(error.starts_with(Envelope::UNDECRYPTABLE), "{error}");
        let worker = site.register(json!({ "queues": { "mail": 10 } })).await;
        assert_eq!(site.jobs(&worker).await[0]["id"], ids[0].to_string());
    }
}

#[tokio::test]
async fn a_worker_that_is_to_drain_is_told_and_gets_no_more_jobs() {
    for site in Site::all().await {
        let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
        let id = worker.split_once('.').unwrap().0;
        assert_eq!(site.turn(&worker, json!({})).await.get("drain"), None);
        site.ask(Role::Operator, "POST", &format!("/workers/{id}/drain"), Value::Null).await.is(204);
        site.enqueue("a", json!({})).await;
        // It waits for the word, and not for a job.
        let turn = site.turn(&worker, json!({ "wait_s": 30, "want": {} })).await;
        let told =
            if turn["drain"] == true { turn } else { site.turn(&worker, json!({ "wait_s": 30 })).await };
        assert_eq!((&told["drain"], &told["jobs"]), (&json!(true), &json!([])));
        assert_eq!(site.turn(&worker, json!({})).await["jobs"], json!([]));
        let beat = site.work("POST", &format!("/{worker}/beat"), json!({})).await.is(200);
        assert_eq!(beat, json!({ "cancel": [], "drain": true }));
        site.work("DELETE", &format!("/{worker}"), Value::Null).await.is(204);
        site.ask(Role::Operator, "POST", &format!("/workers/{id}/drain"), Value::Null)
            .await
            .refused(404, "not_found");
        site.ask(Role::Operator, "POST", "/workers/x/drain", Value::Null).await.refused(404, "not_found");
    }
}

/// Its memory is noted with its next heartbeat, here when it is told to drain.
#[tokio::test]
async fn a_worker_says_what_it_runs_and_uses() {
    for site in Site::all().await {
        let said = json!({ "queues": { "mail": 1 }, "program": "worker.php", "app_version": "2.4.1" });
        let worker = site.register(said).await;
        let silent = site.register(json!({ "queues": { "mail": 1 } })).await;
        let id = |worker: &str| worker.split_once('.').unwrap().0.parse::<i32>().unwrap();
        let path = format!("/workers/{}/drain", id(&worker));
        site.ask(Role::Operator, "POST", &path, Value::Null).await.is(204);
        let turn = json!({ "wait_s": 30, "want": {}, "memory_bytes": 164 << 20 });
        while site.turn(&worker, turn.clone()).await["drain"] != true {}
        let items = site.get("/workers").await.is(200)["items"].clone();
        let listed = |worker| items.as_array().unwrap().iter().find(|one| one["id"] == id(worker)).unwrap();
        let engine = concat!("HTTP ", env!("CARGO_PKG_VERSION"));
        let of = |one: &Value| {
            ["program", "app_version", "engine", "memory_bytes"].map(|field| one[field].clone())
        };
        assert_eq!(
            of(listed(&worker)),
            [json!("worker.php"), json!("2.4.1"), json!(engine), json!(164 << 20)]
        );
        assert_eq!(of(listed(&silent)), [Value::Null, Value::Null, json!(engine), Value::Null]);
        for field in ["program", "app_version"] {
            let body = json!({ "queues": { "mail": 1 }, field: "a\u{1b}b" });
            let refused = site.work("POST", "", body).await.is(422);
            assert_eq!(refused["errors"][0]["pointer"], format!("/{field}"), "{refused}");
        }
        let beat = site.work("POST", &format!("/{silent}/beat"), json!({ "memory_bytes": -1 })).await;
        beat.refused(422, "invalid_option");
        // However much they say together, the figures are told.
        for _ in 0..3 {
            let boaster = site.register(json!({ "queues": { "mail": 1 } })).await;
            let load = Load { memory_bytes: Some(u64::MAX >> 1), ..Load::default() };
            site.client.store().heartbeat_with(WorkerId(id(&boaster)), load).await.unwrap();
        }
        let bearer = format!("Bearer {}", site.token(Role::Viewer));
        let figures = site.send_text("GET", "/metrics", &[("authorization", &bearer)], "").await;
        assert_eq!(figures.status, 200, "{}", figures.text);
        let sum = format!("windlass_workers_memory_bytes {}", i64::MAX);
        assert!(figures.text.contains(&sum), "{}", figures.text);
    }
}

#[tokio::test]
async fn a_job_that_is_to_be_cancelled_is_told_and_does_not_come_back() {
    for site in Site::all().await {
        let id = site.enqueue("a", json!({})).await;
        let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
        let job = site.jobs(&worker).await.remove(0);
        site.client.cancel(&[id]).await.unwrap();
        // The first answers at once where the store told meanwhile, and waits for that otherwise.
        let turn = site.turn(&worker, json!({ "wait_s": 30 })).await;
        assert_eq!(turn["cancel"], json!([job["receipt"]]));
        let beat = site.work("POST", &format!("/{worker}/beat"), json!({})).await.is(200);
        assert_eq!(beat, json!({ "cancel": [job["receipt"]] }));
        let stopped = json!({ "receipt": job["receipt"], "outcome": "retry", "error": "stopped" });
        site.turn(&worker, json!({ "done": [stopped], "want": {} })).await;
        assert_eq!(site.state(id).await, JobState::Cancelled);
    }
}
