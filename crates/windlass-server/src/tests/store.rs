use super::site::Site;
use crate::Role::{Admin, Operator};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::{collections::HashSet, sync::Arc, time::Duration};
use windlass::{
    Args, Client, Context, Error, ErrorKind, NewJob, Outcome, RawJob, Schedule, ScheduleFilter, Settings,
    Worker,
};
use windlass_core::{ScheduleStep, Store, wrap_store};

#[tokio::test]
async fn args_of_schedules_are_shown_as_they_were_declared() {
    for site in Site::all().await {
        let args = r#"{"x":123456789012345678901234567890,"f":1.10}"#;
        let job = NewJob::new("k", Args::parse(args).unwrap());
        site.client.schedules().put([Schedule::new("s", "@daily", job)]).await.unwrap();
        for path in ["/schedules", "/schedules/s"] {
            let shown = site.get(path).await.text;
            assert!(shown.contains(args), "{shown}");
        }
    }
}

#[tokio::test]
async fn schedules_are_declared_shown_run_and_removed() {
    for site in Site::all().await {
        let put = json!({"cron": "30 6 * * *", "zone": "Europe/Berlin", "job": {"kind": "mail.report", "args": {"to": "a", "n": 1}}});
        let shown = site.ask(Admin, "PUT", "/schedules/daily", put.clone()).await.is(200);
        assert_eq!(shown["next"].as_array().unwrap().len(), 10);
        assert_eq!(shown["definition"]["args"], json!({"to": "‹1 characters hidden›", "n": 1}));
        let mut other = put;
        other["name"] = "nightly".into();
        site.ask(Admin, "PUT", "/schedules/daily", other).await.refused(422, "invalid_option");
        let wrong = json!({"cron": "99 * * * *", "job": {"kind": "a"}});
        site.ask(Admin, "PUT", "/schedules/wrong", wrong).await.refused(422, "invalid_option");

        let id = site.ask(Operator, "POST", "/schedules/daily/run", Value::Null).await.is(200)["id"].clone();
        site.ask(Operator, "POST", "/schedules/daily/pause", Value::Null).await.is(204);
        let page = site.get("/schedules?limit=1").await.is(200);
        let listed = &page["items"][0];
        assert_eq!(
            (&listed["paused"], &listed["last_job"], &listed["last_run"]),
            (&json!(true), &id, &json!("unfinished"))
        );
        assert_eq!(
            (&page["next"], site.get("/schedules?after=daily").await.is(200)["items"].clone()),
            (&json!("daily"), json!([]))
        );
        site.ask(Operator, "POST", "/schedules/daily/resume", Value::Null).await.is(204);
        site.ask(Admin, "DELETE", "/schedules/daily", Value::Null).await.is(204);
        site.ask(Admin, "DELETE", "/schedules/daily", Value::Null).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn settings_and_retention_are_shown_and_changed() {
    for site in Site::all().await {
        let mut settings = site.get("/settings").await.is(200);
        settings["retention_ms"] = 7_200_000.into();
        assert_eq!(site.ask(Admin, "PUT", "/settings", settings.clone()).await.is(200), settings);
        site.ask(Admin, "PUT", "/settings", json!({"max_crashes": 1})).await.refused(422, "invalid_option");
        assert_eq!(site.get("/settings").await.is(200), settings);

        let rules =
            json!({"items": [{"queue": "mail", "outcome": "discarded", "age_ms": null, "count": 1000}]});
        assert_eq!(site.ask(Admin, "PUT", "/retention", rules.clone()).await.is(200), rules);
        assert_eq!(site.get("/retention").await.is(200), rules);
    }
}

#[tokio::test]
async fn what_happened_is_read_on_behind_a_cursor() {
    for site in Site::all().await {
        let id = site.enqueue("a", json!({})).await;
        site.client.cancel(&[id]).await.unwrap();
        let page = site.get("/events?limit=1").await.is(200);
        assert_eq!(
            (&page["events"][0]["event"], &page["events"][0]["id"]),
            (&json!("enqueued"), &json!(id.to_string()))
        );
        let next = page["next"].as_str().unwrap();
        let page = site.get(&format!("/events?after={next}&type=cancelled&queue=mail&kind=a")).await.is(200);
        assert_eq!(page["events"].as_array().unwrap().len(), 1);
        let history = "/history?last_s=600&outcome=completed&queue=mail&kind=a&by=none&top=3";
        assert_eq!(site.get(history).await.is(200)["step_ms"], 60_000);
        assert_eq!(site.get("/workers").await.is(200)["items"], json!([]));
    }
}

#[tokio::test]
async fn what_needs_a_look_says_since_when() {
    for site in Site::all().await {
        let job = NewJob::new("a", Args::parse("{}").unwrap()).with_queue("mail");
        site.client.enqueue(job).await.unwrap();
        let discard = |_: RawJob, _: Context| async { Outcome::Discard("no such host".into()) };
        let worker = Worker::builder(&site.client).queue("mail", 1).handle_kind("a", discard);
        let worker = worker.start().await.unwrap();
        worker.until_idle().await.unwrap();
        worker.shutdown().await;
        site.client.store().maintain().await.unwrap();
        let needs = site.get("/overview").await.is(200)["needs_a_look"].clone();
        let need = needs.as_array().unwrap().iter().find(|need| need["what"] == "discarded").unwrap();
        assert_eq!((&need["queue"], &need["count"]), (&json!("mail"), &json!(1)));
        // The counters know the minute.
        let since: Timestamp = need["since"].as_str().unwrap().parse().unwrap();
        let ago = Timestamp::now().duration_since(since);
        assert!(ago < SignedDuration::from_secs(120), "{ago} ago");
    }
}

#[tokio::test]
async fn probes_are_for_everybody_and_figures_for_viewers() {
    for site in Site::all().await {
        site.enqueue("a", json!({})).await;
        for (path, text) in [("/healthz", "ok\n"), ("/readyz", "ready\n")] {
            let answer = site.send_text("GET", path, &[("host", "10.0.0.7:9")], "").await;
            assert_eq!((answer.status, answer.text.as_str()), (200, text));
        }
        site.send_text("GET", "/metrics", &[], "").await.refused(401, "unauthenticated");
        let bearer = format!("Bearer {}", site.token(crate::Role::Viewer));
        let answer = site.send_text("GET", "/metrics", &[("authorization", &bearer)], "").await;
        assert!(answer.text.contains("windlass_queue_available_jobs{queue=\"mail\"} 1\n"), "{}", answer.text);
        assert!(answer.text.ends_with("# EOF\n"));
    }
    let store = Arc::new(Missing { store: Arc::clone(windlass::testing::client().store()) });
    let site = Site::of(Client::from_store(store), |builder| builder);
    let answer = site.send_text("GET", "/readyz", &[], "").await;
    assert_eq!((answer.status, answer.text.as_str()), (503, "the store is not ready\n"));
    assert_eq!(site.send_text("GET", "/healthz", &[], "").await.status, 200);
    site.get("/settings").await.refused(503, "schema_missing");
}

#[tokio::test]
async fn what_ends_between_two_scrapes_is_counted() {
    let site = Site::in_memory();
    let bearer = format!("Bearer {}", site.token(crate::Role::Viewer));
    let headers = [("authorization", bearer.as_str())];
    let before = site.enqueue("before", json!({})).await;
    site.client.cancel(&[before]).await.unwrap();
    // What a kind begins with is counted by the next scrape.
    for (kind, cancelled) in [("before", 0), ("a", 0), ("a", 2), ("a", 3)] {
        let text = site.send_text("GET", "/metrics", &headers, "").await.text;
        let line = |outcome, count| {
            format!(
                "windlass_job_outcomes_total{{queue=\"mail\",kind=\"{kind}\",outcome=\"{outcome}\"}} {count}\n"
            )
        };
        assert!(text.contains(&line("cancelled", cancelled)), "{text}");
        assert!(text.contains(&line("failed", 0)), "{text}");
        let id = site.enqueue("a", json!({})).await;
        site.client.cancel(&[id]).await.unwrap();
    }
}

/// A store that is not migrated.
struct Missing {
    store: Arc<dyn Store>,
}

wrap_store! {
    impl JobStore for Missing, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     status configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history events wakeup close]

    async fn settings(&self) -> windlass::Result<Settings> {
        Err(Error::new(ErrorKind::SchemaMissing, "the store is not migrated"))
    }
}

/// Pages of queues by name; the overview has the busiest of many, and says how many there are.
#[tokio::test]
async fn many_queues_come_page_by_page() {
    for site in Site::all().await {
        let jobs: Vec<_> = (0..210).map(|n| json!({"kind": "a", "queue": format!("q{n:03}")})).collect();
        site.ask(Operator, "POST", "/jobs", json!({ "jobs": jobs })).await.is(201);
        let busy = vec![json!({"kind": "a", "queue": "q209"}); 3];
        site.ask(Operator, "POST", "/jobs", json!({ "jobs": busy })).await.is(201);
        let (mut names, mut path) = (Vec::new(), "/queues?limit=100".to_owned());
        loop {
            let page = site.get(&path).await.is(200);
            names.extend(
                page["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|queue| queue["name"].as_str().unwrap().to_owned()),
            );
            let Some(next) = page["next"].as_str() else { break };
            path = format!("/queues?limit=100&after={next}");
        }
        assert_eq!(names, (0..210).map(|n| format!("q{n:03}")).collect::<Vec<_>>());
        let found = site.get("/queues?search=Q20&limit=2").await.is(200);
        assert_eq!((found["items"].as_array().unwrap().len(), &found["next"]), (2, &json!("q201")));
        assert_eq!(site.get("/queues/q209").await.is(200)["available"], 4);
        site.get("/queues/none").await.refused(404, "not_found");
        site.get("/queues?limit=201").await.refused(422, "invalid_option");
        let overview = site.get("/overview").await.is(200);
        let queues = overview["queues"].as_array().unwrap();
        assert_eq!(
            (queues.len(), &overview["queue_count"], &overview["totals"]["available"]),
            (200, &json!(210), &json!(213))
        );
        assert!(queues.iter().any(|queue| queue["name"] == "q209"));
        // What is told of all queues is not of the listed ones only.
        let listed: HashSet<_> = queues.iter().map(|queue| queue["name"].as_str().unwrap()).collect();
        let left = (0..210).map(|n| format!("q{n:03}")).find(|name| !listed.contains(&**name)).unwrap();
        assert_eq!((&overview["paused_count"], &overview["oldest"]["queue"]), (&json!(0), &json!("q000")));
        site.ask(Operator, "POST", &format!("/queues/{left}/pause"), Value::Null).await.is(204);
        // Counts that took long are kept for a moment.
        let told = async { while site.get("/overview").await.is(200)["paused_count"] != 1 {} };
        tokio::time::timeout(Duration::from_secs(60), told).await.expect("the overview counts it");
        assert_eq!(overview["needs_a_look"].as_array().unwrap().len(), 100);
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_behind_the_first_thousand_needs_a_look() {
    let site = Site::in_memory();
    let schedule = |n: usize| {
        Schedule::new(format!("nightly-{n:04}"), "@daily", NewJob::new("a", Args::parse("{}").unwrap()))
    };
    for from in [0, 600] {
        site.client.schedules().put((from..from + 600).map(schedule)).await.unwrap();
    }
    let store = site.client.store();
    let filter = ScheduleFilter { name: Some("nightly-1100".into()), ..ScheduleFilter::default() };
    let record = store.schedules(&filter).await.unwrap().remove(0);
    let step = ScheduleStep { error: Some("no such zone".into()), ..ScheduleStep::of(&record) };
    store.advance_schedules(&[step]).await.unwrap();
    let mut found = Vec::new();
    for _ in 0..4 {
        let needs = site.get("/overview").await.is(200)["needs_a_look"].clone();
        let wrong =
            needs.as_array().unwrap().iter().filter(|need| need["schedule"] == "nightly-1100").count();
        found.push(wrong);
        tokio::time::advance(Duration::from_secs(11)).await;
    }
    assert_eq!(found, [0, 1, 1, 1], "each look reads the next thousand");
}
