use super::{site::Site, work::done};
use crate::Role::{Operator, Viewer};
use serde_json::{Value, json};
use windlass::{Args, Context, NewJob, Outcome, RawJob, Worker};

/// Works one job that completes and one that fails twice.
async fn worked(site: &Site) -> String {
    let job = |kind, attempts| {
        NewJob::new(kind, Args::parse("{}").unwrap()).with_queue("mail").with_max_attempts(attempts)
    };
    let good = site.client.enqueue(job("good", 1)).await.unwrap();
    let bad = site.client.enqueue(job("bad", 2)).await.unwrap();
    let fail = |_: RawJob, ctx: Context| async move {
        let error = format!("no answer from {}:5432\nand much more", ctx.attempt());
        Outcome::Retry { after: Some(std::time::Duration::ZERO), error }
    };
    let builder = Worker::builder(&site.client).queue("mail", 2).handle_kind("bad", fail);
    let worker = builder.handle_kind("good", |_: RawJob, _: Context| async { Outcome::Complete(None) });
    let worker = worker.start().await.unwrap();
    for id in [good, bad] {
        site.client.wait(id, std::time::Duration::from_secs(60)).await.unwrap().expect("it ends");
    }
    worker.shutdown().await;
    bad.to_string()
}

/// A worker over HTTP is measured here, and tells nothing by itself.
#[tokio::test(start_paused = true)]
async fn what_was_measured_of_an_http_worker_is_told_though_it_says_nothing_more() {
    let site = Site::in_memory();
    let job = NewJob::new("good", Args::parse("{}").unwrap()).with_queue("mail");
    site.client.enqueue(job).await.unwrap();
    let worker = site.register(json!({ "queues": { "mail": 1 }, "lease_s": 600 })).await;
    let jobs = site.jobs(&worker).await;
    site.turn(&worker, json!({ "done": [done(&jobs[0], "complete")], "want": {} })).await;
    assert_eq!(site.get("/timings").await.is(200)["timed"], json!([]));
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    let timed = site.get("/timings?last_s=86400&step_s=86400").await.is(200)["timed"].clone();
    assert_eq!((&timed[0]["kind"], &timed[0]["run"]["count"]), (&json!("good"), &json!(1)), "{timed}");
}

#[tokio::test]
async fn what_workers_measured_is_shown() {
    for site in Site::all().await {
        assert_eq!(site.get("/timings").await.is(200), json!({"step_ms": 60_000, "timed": []}));
        let bad = worked(&site).await;
        let timings = site.get("/timings?last_s=86400&step_s=86400&queue=mail").await.is(200);
        let timed = timings["timed"].as_array().unwrap();
        let kinds: Vec<_> = timed.iter().map(|timed| (&timed["kind"], &timed["run"]["count"])).collect();
        assert_eq!(kinds, [(&json!("bad"), &json!(2)), (&json!("good"), &json!(1))]);
        assert!(
            timed.iter().all(|timed| timed["wait"]["count"] == 1 && timed["run"]["p95_ms"].is_number()),
            "{timings}"
        );
        let by = async |by: &str| {
            let path = format!("/timings?last_s=86400&step_s=86400&by={by}");
            let timed = site.get(&path).await.is(200)["timed"].clone();
            let each = |timed: &Value| {
                (timed["queue"].clone(), timed["kind"].clone(), timed["run"]["count"].clone())
            };
            timed.as_array().unwrap().iter().map(each).collect::<Vec<_>>()
        };
        assert_eq!(by("none").await, [(Value::Null, Value::Null, json!(3))]);
        assert_eq!(by("queue").await, [(json!("mail"), Value::Null, json!(3))]);
        assert_eq!(by("kind").await.len(), 2);
        assert_eq!(site.get("/timings?kind=other").await.is(200)["timed"], json!([]));

        let failures = site.get("/failures").await.is(200);
        let group = &failures["items"][0];
        assert_eq!(
            (&failures["total"], &group["count"], &group["last_job"]),
            (&json!(1), &json!(2), &json!(bad))
        );
        assert_eq!(group["sample"], "no answer from 2:5432");
        assert_eq!(site.get("/failures?queue=other").await.is(200)["items"], json!([]));
        site.client.delete(&[windlass::JobId(bad.parse().unwrap())]).await.unwrap();
        assert_eq!(site.get("/failures").await.is(200)["items"][0]["sample"], Value::Null, "its job is gone");
    }
}

/// A job has it as its reason alone; it was shown as if it were hidden.
#[tokio::test]
async fn what_a_handler_discards_outright_has_its_text() {
    for site in Site::all_stores().await {
        let args = Args::parse(r#"{"token": "hunter2"}"#).unwrap();
        let id = site.client.enqueue(NewJob::new("bad", args).with_queue("mail")).await.unwrap();
        let discard = |_: RawJob, _: Context| async { Outcome::Discard("no such user: hunter2".into()) };
        let worker = Worker::builder(&site.client).queue("mail", 1).handle_kind("bad", discard);
        let worker = worker.start().await.unwrap();
        site.client.wait(id, std::time::Duration::from_secs(60)).await.unwrap().expect("it ends");
        worker.shutdown().await;
        let failures = site.get("/failures").await.is(200);
        let expected = "no such user: ‹7 characters hidden›";
        assert_eq!(failures["items"][0]["sample"], expected, "{failures} on {}", site.name().await);
    }
}

#[tokio::test]
async fn a_mark_is_made_and_shown() {
    for site in Site::all().await {
        site.ask(Viewer, "POST", "/marks", json!({"label": "v1"})).await.refused(403, "permission_denied");
        site.ask(Operator, "POST", "/marks", json!({"label": "v1 "})).await.is(204);
        site.ask(Operator, "POST", "/marks", json!({"label": "v2 ä"})).await.is(204);
        let marks = site.get("/marks?last_s=600").await.is(200);
        let labels: Vec<_> = marks["items"].as_array().unwrap().iter().map(|mark| &mark["label"]).collect();
        assert_eq!(labels, ["v2 ä", "v1"]);
        for bad in [json!({"label": " "}), json!({"label": "x".repeat(101)}), json!({"label": "a\nb"})] {
            site.ask(Operator, "POST", "/marks", bad).await.refused(422, "invalid_option");
        }
        site.ask(Operator, "POST", "/marks", json!({"text": "v1"})).await.refused(422, "invalid_option");
        assert_eq!(site.get("/marks").await.is(200)["items"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn nonsense_is_refused() {
    let site = Site::in_memory();
    for path in [
        "/timings?last_s=0",
        "/timings?step_s=61",
        "/timings?last_s=2592000",
        "/timings?by=worker",
        "/failures?last_s=0",
        "/failures?limit=0",
        "/marks?last_s=0",
        "/marks?last_s=2592001",
    ] {
        let answer = site.get(path).await;
        assert_eq!(answer.status, 422, "{path}: {}", answer.text);
    }
}
