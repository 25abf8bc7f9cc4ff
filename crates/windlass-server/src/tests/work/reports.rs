use super::{Site, done};
use serde_json::{Value, json};
use windlass::JobState;

fn said(job: &Value, percent: f64, line: &str) -> Value {
    json!({ "receipt": job["receipt"], "percent": percent, "note": "parts", "log": [line] })
}

/// It was never answered: nobody told that there was nothing to store.
#[tokio::test]
async fn a_report_that_says_nothing_is_answered() {
    for site in Site::all_stores().await {
        site.enqueue("import", json!({})).await;
        let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
        let job = site.jobs(&worker).await.remove(0);
        let (nothing, nobody) = (json!({ "receipt": job["receipt"] }), json!({ "receipt": "nobody.1" }));
        let empty = json!({ "receipt": job["receipt"], "log": [], "percent": null });
        let reports = json!({ "reports": [nothing, empty, nobody, said(&job, 10.0, "one"), nothing] });
        let path = format!("/{worker}/beat");
        let ask = site.work("POST", &path, reports);
        let beat = tokio::time::timeout(std::time::Duration::from_secs(60), ask).await.expect("an answer");
        let reported = beat.is(200)["reported"].clone();
        assert_eq!(reported, json!(["accepted", "accepted", "refused", "accepted", "accepted"]));
    }
}

#[tokio::test]
async fn what_a_worker_says_of_a_job_is_kept_and_the_next_attempt_has_its_checkpoint() {
    for site in Site::all_stores().await {
        let id = site.enqueue("import", json!({})).await;
        let worker = site.register(json!({ "queues": { "mail": 1 }, "checkpoints": true })).await;
        let job = site.jobs(&worker).await.remove(0);
        assert_eq!(job["checkpoint"], Value::Null);
        let mut first = said(&job, 10.0, "one");
        first["checkpoint"] = json!({ "part": 3 });
        let reports =
            json!({ "reports": [first, said(&job, 20.5, "two"), { "receipt": "nobody.1", "log": ["x"] }] });
        let beat = site.work("POST", &format!("/{worker}/beat"), reports).await.is(200);
        assert_eq!(beat, json!({ "cancel": [], "reported": ["accepted", "accepted", "refused"] }));
        let record = site.client.job(id).await.unwrap().unwrap();
        assert_eq!(record.state, JobState::Running);
        let report = record.report.unwrap();
        assert_eq!((report.progress.unwrap().percent, report.log.len()), (20.5, 2));
        // Its last words go with the outcome.
        let mut failed = done(&job, "retry");
        (failed["error"], failed["after_ms"]) = ("cut off".into(), 0.into());
        let turn = json!({ "reports": [said(&job, 30.0, "three")], "done": [failed], "want": {} });
        let turn = site.turn(&worker, turn).await;
        assert_eq!((&turn["reported"], &turn["settled"]), (&json!(["accepted"]), &json!(["accepted"])));
        let again = site.jobs(&worker).await.remove(0);
        assert_eq!((&again["attempt"], &again["checkpoint"]), (&json!(2), &json!({ "part": 3 })));
        let report = site.client.job(id).await.unwrap().unwrap().report.unwrap();
        let lines: Vec<_> = report.log.iter().map(|line| (line.attempt, line.text.as_str())).collect();
        assert_eq!(lines, [(1, "one"), (1, "two"), (1, "three")]);
        // The attempt before is over: nothing is said of it any more.
        let late = site.turn(&worker, json!({ "reports": [said(&job, 40.0, "late")], "want": {} })).await;
        assert_eq!(late["reported"], json!(["refused"]));
        // Told again with its checkpoint, and not to a worker that does not want any.
        assert_eq!(site.turn(&worker, json!({ "again": true })).await["jobs"], json!([again]));
        site.work("DELETE", &format!("/{worker}"), Value::Null).await.is(204);
        let other = site.register(json!({ "queues": { "mail": 1 } })).await;
        assert_eq!(site.jobs(&other).await[0]["checkpoint"], Value::Null);
    }
}

#[tokio::test]
async fn what_is_said_is_bounded_and_of_a_call_with_a_mistake_nothing_is_kept() {
    let site = Site::in_memory();
    let id = site.enqueue("a", json!({})).await;
    let worker = site.register(json!({ "queues": { "mail": 1 } })).await;
    let job = site.jobs(&worker).await.remove(0);
    let good = said(&job, 1.0, "fine");
    for (field, wrong) in [
        ("percent", json!({ "percent": 100.5 })),
        ("percent", json!({ "note": "x" })),
        ("percent", json!({ "percent": 1, "note": "x".repeat(1_025) })),
        ("log", json!({ "log": vec!["x"; 101] })),
        ("checkpoint", json!({ "checkpoint": "x".repeat(256 << 10) })),
    ] {
        let mut wrong = wrong;
        wrong["receipt"] = job["receipt"].clone();
        let body = json!({ "reports": [good, wrong], "done": [done(&job, "complete")] });
        let refused =
            site.work("POST", &format!("/{worker}/turn"), body).await.refused(422, "invalid_option");
        assert_eq!(refused.body["errors"][0]["pointer"], format!("/reports/1/{field}"));
    }
    let many = json!({ "reports": vec![good.clone(); 1_001] });
    site.work("POST", &format!("/{worker}/beat"), many).await.refused(422, "invalid_option");
    let record = site.client.job(id).await.unwrap().unwrap();
    assert!(record.state == JobState::Running && record.report.is_none());
    let many = json!({ "reports": vec![good; 1_000] });
    let beat = site.work("POST", &format!("/{worker}/beat"), many).await.is(200);
    assert_eq!(beat["reported"], json!(vec!["accepted"; 1_000]));
    let report = site.client.job(id).await.unwrap().unwrap().report.unwrap();
    assert_eq!((report.log.len(), report.log_dropped), (100, 900));
}
