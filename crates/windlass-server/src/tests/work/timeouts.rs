use super::{Site, done};
use serde_json::{Value, json};
use std::time::Duration;
use windlass::{Args, JobId, JobState, NewJob};

const LONG: Duration = Duration::from_secs(60);

async fn enqueue(site: &Site, kind: &'static str, timeout: Option<Duration>) -> JobId {
    let job = NewJob::new(kind, Args::parse("{}").unwrap()).with_queue("mail").with_max_attempts(1);
    let job = timeout.into_iter().fold(job, NewJob::with_timeout);
    site.client.enqueue(job).await.unwrap()
}

#[tokio::test]
async fn a_job_has_the_time_that_it_or_its_kind_or_its_worker_says() {
    for site in Site::all_stores().await {
        for (kind, timeout) in [("a", None), ("slow", None), ("slow", Some(LONG))] {
            enqueue(&site, kind, timeout).await;
        }
        let said =
            json!({ "queues": { "mail": 9 }, "timeout_ms": 120_000, "timeouts_ms": { "slow": 180_000 } });
        let worker = site.register(said).await;
        let jobs = site.jobs(&worker).await;
        let told: Vec<_> = jobs.iter().map(|job| job["timeout_ms"].clone()).collect();
        assert_eq!(told, [120_000, 180_000, 60_000]);
        let worker = site.register(json!({ "queues": { "mail": 9 } })).await;
        enqueue(&site, "a", None).await;
        assert_eq!(site.jobs(&worker).await[0]["timeout_ms"], Value::Null);
    }
}

#[tokio::test]
async fn a_worker_is_told_when_the_time_is_over_and_what_it_says_then_counts() {
    for site in Site::all_stores().await {
        let ids = [enqueue(&site, "fails", None).await, enqueue(&site, "completes", None).await];
        let worker = site
            .register(json!({ "queues": { "mail": 9 }, "timeout_ms": 20, "timeout_grace_ms": 60_000 }))
            .await;
        let jobs = site.jobs(&worker).await;
        // It waits for more jobs: there are none, but there is news.
        let mut told = Value::Null;
        while told.as_array().is_none_or(|told| told.len() < 2) {
            told = site.turn(&worker, json!({ "wait_s": 30 })).await["cancel"].clone();
        }
        assert_eq!(told, json!([jobs[0]["receipt"], jobs[1]["receipt"]]));
        let mut failed = done(&jobs[0], "retry");
        failed["error"] = "half done".into();
        let turn =
            site.turn(&worker, json!({ "done": [failed, done(&jobs[1], "complete")], "want": {} })).await;
        assert_eq!((&turn["settled"], &turn["cancel"]), (&json!(["accepted", "accepted"]), &json!([])));
        let failed = site.client.job(ids[0]).await.unwrap().unwrap();
        assert_eq!(
            (failed.state, failed.errors[0].error.as_str()),
            (JobState::Discarded, "timeout after 20ms: half done")
        );
        assert_eq!(site.state(ids[1]).await, JobState::Completed);
    }
}

/// As one whose places are all taken does, which has the jobs that have time limits.
#[tokio::test]
async fn a_worker_that_wants_nothing_now_is_told_as_soon_when_the_time_is_over() {
    for site in Site::all().await {
        enqueue(&site, "fails", None).await;
        let spec =
            json!({ "queues": { "mail": 1 }, "lease_s": 600, "timeout_ms": 200, "timeout_grace_ms": 60_000 });
        let worker = site.register(spec).await;
        let job = site.jobs(&worker).await.remove(0);
        let began = std::time::Instant::now();
        let turn = site.turn(&worker, json!({ "want": {}, "wait_s": 30 })).await;
        assert_eq!(turn["cancel"], json!([job["receipt"]]));
        assert!(began.elapsed().as_secs() < 28, "it was told after {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn after_the_grace_the_attempt_has_failed_and_what_is_said_of_it_is_refused() {
    for site in Site::all_stores().await {
        let (over, kept) = (enqueue(&site, "a", None).await, enqueue(&site, "a", Some(LONG)).await);
        let worker =
            site.register(json!({ "queues": { "mail": 2 }, "timeout_ms": 20, "timeout_grace_ms": 10 })).await;
        let jobs = site.jobs(&worker).await;
        // The worker says nothing meanwhile.
        site.client.wait(over, LONG).await.unwrap().expect("the attempt ends by itself");
        let failed = site.client.job(over).await.unwrap().unwrap();
        assert_eq!(failed.state, JobState::Discarded);
        let error =
            "timeout after 20ms: the worker went on for 10ms more, and nothing it says is taken any more";
        assert_eq!(failed.errors[0].error, error);
        // Its place is free, and it is not told any more.
        let turn = site.turn(&worker, json!({ "again": true })).await;
        assert_eq!((&turn["jobs"], &turn["cancel"]), (&json!([jobs[1]]), &json!([])));
        let next = enqueue(&site, "a", Some(LONG)).await;
        assert_eq!(site.jobs(&worker).await[0]["id"], next.to_string());
        let said = json!({ "done": [done(&jobs[0], "complete"), done(&jobs[1], "complete")] });
        let settled = site.turn(&worker, said).await["settled"].clone();
        assert_eq!(settled, json!(["refused", "accepted"]));
        assert_eq!(
            (site.state(over).await, site.state(kept).await),
            (JobState::Discarded, JobState::Completed)
        );
    }
}

#[tokio::test]
async fn a_job_that_is_to_be_cancelled_is_given_up_after_the_grace() {
    for site in Site::all_stores().await {
        let (ends, goes_on) = (enqueue(&site, "a", None).await, enqueue(&site, "a", None).await);
        let worker = site.register(json!({ "queues": { "mail": 2 }, "timeout_grace_ms": 10 })).await;
        let jobs = site.jobs(&worker).await;
        site.client.cancel(&[ends]).await.unwrap();
        let mut told = Value::Null;
        while told.as_array().is_none_or(Vec::is_empty) {
            told = site.turn(&worker, json!({ "wait_s": 30 })).await["cancel"].clone();
        }
        assert_eq!(told, json!([jobs[0]["receipt"]]));
        // The worker says nothing of it.
        let ended = site.client.wait(ends, LONG).await.unwrap().expect("the job ends by itself");
        let reason =
            "cancelled by request: the worker went on for 10ms more, and nothing it says is taken any more";
        assert_eq!((ended.state, ended.reason.as_deref()), (JobState::Cancelled, Some(reason)));
        let said = json!({ "done": [done(&jobs[0], "complete"), done(&jobs[1], "complete")], "want": {} });
        let turn = site.turn(&worker, said).await;
        assert_eq!((&turn["settled"], &turn["cancel"]), (&json!(["refused", "accepted"]), &json!([])));
        assert_eq!(site.state(goes_on).await, JobState::Completed);
        // Another attempt is another one.
        site.client.retry(&[ends]).await.unwrap();
        let again = site.jobs(&worker).await;
        assert_eq!(again[0]["id"], ends.to_string());
        let turn = site.turn(&worker, json!({ "done": [done(&again[0], "complete")], "want": {} })).await;
        assert_eq!((&turn["settled"], &turn["cancel"]), (&json!(["accepted"]), &json!([])));
        assert_eq!(site.state(ends).await, JobState::Completed);
    }
}

#[tokio::test]
async fn time_limits_that_make_no_sense_are_refused() {
    let site = Site::in_memory();
    for (field, value) in [
        ("timeout_ms", json!(0)),
        ("timeout_ms", json!(-1)),
        ("timeouts_ms", json!({ "a": 0 })),
        ("timeouts_ms", json!({ "": 5 })),
        ("timeout_grace_ms", json!(60_001)),
    ] {
        let mut body = json!({ "queues": { "mail": 1 } });
        body[field] = value;
        let answer = site.work("POST", "", body).await;
        assert_eq!(answer.status, 422, "{}", answer.text);
    }
}
