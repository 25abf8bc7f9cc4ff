use super::site::Site;
use crate::Role::{Admin, Operator, Viewer};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::{Notify, Semaphore};
use windlass::{Client, DeleteReply, JobFilter, JobId, JobPage, JobState, testing};
use windlass_core::{Error, ErrorKind, Store, wrap_store};

/// Asks until it has left the state of running.
async fn ended(site: &Site, id: &str) -> Value {
    let path = format!("/bulk/{id}");
    let look = async {
        loop {
            let shown = site.get(&path).await.is(200);
            if shown["state"] != "running" {
                return shown;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look).await.expect("it ends")
}

/// It was a panic, answered with 500.
#[tokio::test]
async fn a_filter_by_args_that_are_no_text_is_refused() {
    for site in Site::all().await {
        for args in [r#""\ud800""#, r#"{"to": "\ud800"}"#, r#"{"\ud800": 1}"#, r#"{"n": 1e999}"#] {
            let body = format!(r#"{{"action": "cancel", "filter": {{"kind": "a", "args": {args}}}}}"#);
            let bearer = format!("Bearer {}", site.token(Operator));
            let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
            let refused = site.send_text("POST", "/api/v1/bulk", &headers, body).await.is(422);
            let detail = refused["detail"].as_str().unwrap();
            assert!(detail.contains("the filter by args") && detail.contains("at byte"), "{detail}");
        }
    }
}

/// Its answer would say it, and be too large to be kept for a repetition.
#[tokio::test]
async fn a_filter_by_a_name_that_is_longer_than_any_is_refused() {
    let site = Site::in_memory();
    let bearer = format!("Bearer {}", site.token(Operator));
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "once")];
    for (field, most) in [("queue", 128), ("kind", 200), ("tag", 100)] {
        let body = |length| json!({"action": "cancel", "filter": {field: "q".repeat(length)}});
        for length in [most + 1, 100_000] {
            let refused = site.send("POST", "/bulk", &headers, body(length)).await.is(422);
            let told = &refused["errors"][0];
            let (words, detail) = (format!("1 to {most} "), told["detail"].as_str().unwrap());
            assert_eq!(told["pointer"], format!("/filter/{field}"));
            assert!(detail.contains(&words) && detail.len() < 200, "{detail}");
        }
        let none = json!({"action": "cancel", "filter": {field: ""}});
        let refused = site.send("POST", "/bulk", &headers, none).await.is(422);
        assert_eq!(refused["errors"][0]["pointer"], format!("/filter/{field}"));
        site.ask(Operator, "POST", "/bulk", body(most)).await.is(201);
    }
}

#[tokio::test]
async fn what_is_previewed_and_confirmed_is_done() {
    for site in Site::all().await {
        for n in 0..7 {
            site.enqueue(if n < 5 { "a" } else { "b" }, json!({ "n": n })).await;
        }
        let before = site.snapshot().await;
        let preview =
            json!({"action": "cancel", "filter": {"queue": "mail", "kind": "a"}, "reason": "wrong list"});
        let shown = site.ask(Operator, "POST", "/bulk", preview).await.is(201);
        assert_eq!(
            (&shown["count"], &shown["exact"], &shown["state"]),
            (&json!(5), &json!(true), &json!("previewed"))
        );
        assert_eq!(site.snapshot().await, before);

        let id = shown["id"].as_str().unwrap();
        let confirm = format!("/bulk/{id}/confirm");
        site.ask(Operator, "POST", &confirm, json!({"count": 6})).await.refused(409, "conflict");
        site.ask(Viewer, "POST", &confirm, json!({"count": 5})).await.refused(403, "permission_denied");
        site.ask(Operator, "POST", &confirm, json!({"count": 5})).await.is(202);
        let shown = ended(&site, id).await;
        assert_eq!(
            (&shown["state"], &shown["done"], &shown["left"]),
            (&json!("done"), &json!(5), &json!(0)),
            "{shown}"
        );
        site.ask(Operator, "POST", &confirm, json!({"count": 5})).await.refused(409, "conflict");
        assert_eq!(site.get("/jobs?state=cancelled").await.is(200)["items"].as_array().unwrap().len(), 5);
        assert_eq!(site.get("/jobs?state=available").await.is(200)["items"].as_array().unwrap().len(), 2);
        assert_eq!(
            noted(&site, id).await,
            json!(["operator", "jobs.cancel", 5, "done", {"queue": "mail", "kind": "a"}])
        );
    }
}

/// Previews, does something meanwhile, confirms, and waits for the end.
async fn confirmed(site: &Site, preview: Value, meanwhile: impl Future<Output = ()>) -> Value {
    let shown = site.ask(Operator, "POST", "/bulk", preview).await.is(201);
    meanwhile.await;
    let (id, count) = (shown["id"].as_str().unwrap(), &shown["count"]);
    site.ask(Operator, "POST", &format!("/bulk/{id}/confirm"), json!({ "count": count })).await.is(202);
    ended(site, id).await
}

#[tokio::test]
async fn the_jobs_that_were_counted_are_touched_and_none_that_came_later() {
    for site in Site::all_stores().await {
        let (mut counted, mut later) = (Vec::new(), Vec::new());
        for n in 0..5 {
            counted.push(site.enqueue("a", json!(n)).await);
        }
        let preview = json!({"action": "cancel", "filter": {"queue": "mail", "kind": "a"}});
        let shown = confirmed(&site, preview, async {
            for n in 0..3 {
                later.push(site.enqueue("a", json!(n)).await);
            }
        })
        .await;
        assert_eq!((&shown["done"], &shown["left"]), (&json!(5), &json!(0)), "{shown}");
        for (ids, state) in [(&counted, JobState::Cancelled), (&later, JobState::Available)] {
            for id in ids {
                let job = site.client.job(*id).await.unwrap().unwrap();
                assert_eq!(job.state, state, "{id} on {}", site.name().await);
            }
        }
        // Of dead jobs that are to be deleted one is retried meanwhile.
        let preview = json!({"action": "delete", "filter": {"state": "cancelled", "queue": "mail"}});
        let retried = counted[2];
        let shown = confirmed(&site, preview, async {
            site.client.retry(&[retried]).await.unwrap();
        })
        .await;
        assert_eq!((&shown["done"], &shown["left"]), (&json!(4), &json!(1)), "{shown}");
        assert_eq!(site.client.job(retried).await.unwrap().unwrap().state, JobState::Available);
    }
}

/// The entry of the audit log that says how a bulk action ended; it is written right after.
async fn noted(site: &Site, id: &str) -> Value {
    let path = format!("/audit?target=/bulk/{id}");
    loop {
        let page = site.ask(Admin, "GET", &path, Value::Null).await.is(200);
        if let Some(entry) = page["items"].get(0) {
            return json!([
                entry["actor"],
                entry["action"],
                entry["count"],
                entry["outcome"],
                entry["filter"]
            ]);
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn named_jobs_are_touched_and_those_that_moved_on_are_left() {
    for site in Site::all().await {
        let [one, two] = [site.enqueue("a", json!(1)).await, site.enqueue("a", json!(2)).await];
        let ids = json!([one.to_string(), two.to_string(), one.to_string(), "9999999"]);
        let shown =
            site.ask(Operator, "POST", "/bulk", json!({"action": "delete", "ids": ids})).await.is(201);
        assert_eq!(shown["count"], 3);
        site.client.delete(&[two]).await.unwrap();
        let id = shown["id"].as_str().unwrap();
        site.ask(Operator, "POST", &format!("/bulk/{id}/confirm"), json!({"count": 3})).await.is(202);
        let shown = ended(&site, id).await;
        assert_eq!((&shown["done"], &shown["left"]), (&json!(1), &json!(2)), "{shown}");
    }
}

/// It was dead when it was chosen, and waits when that is confirmed.
#[tokio::test]
async fn a_named_job_that_came_back_is_not_deleted() {
    for site in Site::all_stores().await {
        let [dead, retried] = [site.enqueue("a", json!(1)).await, site.enqueue("a", json!(2)).await];
        site.client.cancel(&[dead, retried]).await.unwrap();
        let preview = json!({"action": "delete", "ids": [dead.to_string(), retried.to_string()]});
        let shown = confirmed(&site, preview, async {
            site.client.retry(&[retried]).await.unwrap();
        })
        .await;
        assert_eq!((&shown["done"], &shown["left"]), (&json!(1), &json!(1)), "{shown}");
        assert_eq!(site.client.job(retried).await.unwrap().unwrap().state, JobState::Available);
        assert!(site.client.job(dead).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn one_that_is_stopped_touches_no_more() {
    let site = Site::in_memory();
    for n in 0..1_200 {
        site.enqueue("a", json!(n)).await;
    }
    let slow = json!({"action": "cancel", "filter": {"kind": "a"}, "per_second": 0.001});
    let id = site.ask(Operator, "POST", "/bulk", slow).await.is(201)["id"].as_str().unwrap().to_owned();
    site.ask(Operator, "POST", &format!("/bulk/{id}/confirm"), json!({"count": 1_200})).await.is(202);
    let first = async {
        while site.get(&format!("/bulk/{id}")).await.is(200)["done"] == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), first).await.expect("it begins");
    site.ask(Operator, "DELETE", &format!("/bulk/{id}"), Value::Null).await.is(200);
    let shown = ended(&site, &id).await;
    assert_eq!((&shown["state"], &shown["done"]), (&json!("stopped"), &json!(1)), "{shown}");
    // A preview that is stopped cannot be confirmed any more.
    let shown = site
        .ask(Operator, "POST", "/bulk", json!({"action": "cancel", "filter": {"kind": "a"}}))
        .await
        .is(201);
    let id = shown["id"].as_str().unwrap();
    site.ask(Operator, "DELETE", &format!("/bulk/{id}"), Value::Null).await.is(200);
    site.ask(Operator, "POST", &format!("/bulk/{id}/confirm"), json!({"count": 1_199}))
        .await
        .refused(409, "conflict");
}

/// A store whose answer to a deletion waits until it is let go.
struct Held {
    store: Arc<dyn Store>,
    deleted: Arc<Notify>,
    go: Arc<Notify>,
}

wrap_store! {
    impl JobStore for Held, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status events wakeup close]

    async fn delete(&self, ids: &[JobId]) -> windlass_core::Result<Vec<DeleteReply>> {
        let replies = self.store.delete(ids).await;
        self.deleted.notify_one();
        self.go.notified().await;
        replies
    }
}

#[tokio::test]
async fn a_stop_counts_what_was_under_way() {
    let (deleted, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let store = Arc::clone(testing::client().store());
    let held = Held { store, deleted: Arc::clone(&deleted), go: Arc::clone(&go) };
    let site = Site::of(Client::from_store(Arc::new(held)), |builder| builder);
    for n in 0..1_200 {
        site.enqueue("a", json!(n)).await;
    }
    let preview = json!({"action": "delete", "filter": {"kind": "a"}});
    let id = site.ask(Operator, "POST", "/bulk", preview).await.is(201)["id"].as_str().unwrap().to_owned();
    site.ask(Operator, "POST", &format!("/bulk/{id}/confirm"), json!({"count": 1_200})).await.is(202);
    deleted.notified().await;
    site.ask(Operator, "DELETE", &format!("/bulk/{id}"), Value::Null).await.is(200);
    go.notify_one();
    let shown = ended(&site, &id).await;
    assert_eq!((&shown["state"], &shown["done"]), (&json!("stopped"), &json!(500)), "{shown}");
    assert_eq!(noted(&site, &id).await, json!(["operator", "jobs.delete", 500, "stopped", {"kind": "a"}]));
    assert_eq!(site.client.queues().await.unwrap()[0].available, 700);
}

/// A store that deletes the first two of the jobs that are named, and then fails.
struct Failing {
    store: Arc<dyn Store>,
}

wrap_store! {
    impl JobStore for Failing, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit pause drain_worker limit limit_keys key_limits share job jobs any_available coming queues_by history status events wakeup close]

    async fn delete(&self, ids: &[JobId]) -> windlass_core::Result<Vec<DeleteReply>> {
        let replies = self.store.delete(&ids[..2]).await?;
        let mut replies: Vec<_> = replies.into_iter().map(Some).collect();
        replies.resize(ids.len(), None);
        Err(Error::new(ErrorKind::Unavailable, "no answer").with_replies(replies))
    }
}

#[tokio::test]
async fn what_was_done_before_it_failed_counts() {
    let store = Arc::clone(testing::client().store());
    let site = Site::of(Client::from_store(Arc::new(Failing { store })), |builder| builder);
    for n in 0..3 {
        site.enqueue("a", json!(n)).await;
    }
    let shown = confirmed(&site, json!({"action": "delete", "filter": {"kind": "a"}}), async {}).await;
    assert_eq!((&shown["state"], &shown["done"]), (&json!("failed"), &json!(2)), "{shown}");
    let id = shown["id"].as_str().unwrap();
    assert_eq!(noted(&site, id).await, json!(["operator", "jobs.delete", 2, "unavailable", {"kind": "a"}]));
}

/// A store whose pages of jobs wait until they are let go.
struct Slow {
    store: Arc<dyn Store>,
    go: Semaphore,
}

wrap_store! {
    impl JobStore for Slow, through store:
    [capabilities migrate enqueue enqueue_once enqueue_unique register heartbeat deregister claim settle report checkpoints suspect rescue promote maintain
     settings configure retention set_retention cancel retry edit delete pause drain_worker limit limit_keys key_limits share job any_available coming queues_by history status events wakeup close]

    async fn jobs(&self, filter: &JobFilter) -> windlass_core::Result<JobPage> {
        self.go.acquire().await.expect("it is never closed").forget();
        self.store.jobs(filter).await
    }
}

/// It was a 504 after half a minute, and nothing could be done but by the command line.
#[tokio::test(start_paused = true)]
async fn a_count_that_takes_long_goes_on_behind_its_answer() {
    let slow = Arc::new(Slow { store: Arc::clone(testing::client().store()), go: Semaphore::new(0) });
    let site = Site::of(Client::from_store(Arc::<Slow>::clone(&slow)), |builder| builder);
    for n in 0..700 {
        site.enqueue("a", json!(n)).await;
    }
    let preview = json!({"action": "cancel", "filter": {"state": "available", "kind": "a"}});
    let shown = site.ask(Operator, "POST", "/bulk", preview.clone()).await.is(201);
    assert_eq!(
        (&shown["state"], &shown["count"], &shown["exact"]),
        (&json!("counting"), &json!(0), &json!(false))
    );
    let entry = site.ask(Admin, "GET", "/audit?action=bulk.preview", Value::Null).await.is(200);
    assert_eq!(entry["items"][0]["count"], Value::Null, "nobody knows it yet: {entry}");
    let path = format!("/bulk/{}", shown["id"].as_str().unwrap());
    let confirm = format!("{path}/confirm");
    slow.go.add_permits(1);
    let shown = until(&site, &path, |shown| shown["count"] == 500).await;
    assert_eq!(shown["state"], "counting");
    site.ask(Operator, "POST", &confirm, json!({"count": 500})).await.refused(409, "conflict");
    slow.go.add_permits(1);
    let shown = until(&site, &path, |shown| shown["state"] != "counting").await;
    assert_eq!(
        (&shown["state"], &shown["count"], &shown["exact"]),
        (&json!("previewed"), &json!(700), &json!(true))
    );
    site.ask(Operator, "POST", &confirm, json!({"count": 700})).await.is(202);
    assert_eq!(ended(&site, shown["id"].as_str().unwrap()).await["done"], 700);

    // As many as are counted at once; one that is stopped makes room.
    let mut ids = Vec::new();
    for _ in 0..4 {
        let shown = site.ask(Operator, "POST", "/bulk", preview.clone()).await.is(201);
        ids.push(shown["id"].as_str().unwrap().to_owned());
    }
    site.ask(Operator, "POST", "/bulk", preview.clone()).await.refused(429, "too_many");
    let stopped = site.ask(Operator, "DELETE", &format!("/bulk/{}", ids[0]), Value::Null).await.is(200);
    assert_eq!(stopped["state"], "stopped");
    let shown = site.ask(Operator, "POST", "/bulk", preview.clone()).await.is(201);
    assert_eq!(shown["state"], "counting");
    let many: Vec<String> = (1..=201).map(|id: u32| id.to_string()).collect();
    let many = json!({"action": "delete", "ids": many});
    site.ask(Operator, "POST", "/bulk", many).await.refused(429, "too_many");
    // A few that are named need no count.
    for action in ["retry", "delete"] {
        let named = json!({"action": action, "ids": ["1", "2"]});
        let shown = site.ask(Operator, "POST", "/bulk", named).await.is(201);
        assert_eq!((&shown["state"], &shown["count"]), (&json!("previewed"), &json!(2)));
    }

    // Whoever wanted the second has gone.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        for asked in [&ids[2], &ids[3], shown["id"].as_str().unwrap()] {
            site.get(&format!("/bulk/{asked}")).await.is(200);
        }
    }
    let last = site.ask(Operator, "POST", "/bulk", preview.clone()).await.is(201);
    assert_eq!(last["state"], "counting");
    site.ask(Operator, "POST", "/bulk", preview).await.refused(429, "too_many");
    assert_eq!(site.get(&format!("/bulk/{}", ids[1])).await.is(200)["state"], "stopped");
}

/// Asks until it is so.
async fn until(site: &Site, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    loop {
        let shown = site.get(path).await.is(200);
        if is(&shown) {
            return shown;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pace_is_kept_from_the_first_job_on() {
    let site = Site::in_memory();
    for n in 0..30 {
        site.enqueue("a", json!(n)).await;
    }
    let slow = json!({"action": "cancel", "filter": {"kind": "a"}, "per_second": 10});
    let id = site.ask(Operator, "POST", "/bulk", slow).await.is(201)["id"].as_str().unwrap().to_owned();
    site.ask(Operator, "POST", &format!("/bulk/{id}/confirm"), json!({"count": 30})).await.is(202);
    // Time goes on by itself while everybody waits.
    for most in [10, 20, 30] {
        tokio::time::sleep(Duration::from_millis(900)).await;
        let done = site.get(&format!("/bulk/{id}")).await.is(200)["done"].as_u64().unwrap();
        assert!((most - 10..=most).contains(&done), "{done} of {most}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(site.get(&format!("/bulk/{id}")).await.is(200)["done"], 30);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_comes_back_while_others_are_deleted_stays() {
    let site = Site::in_memory();
    for n in 0..3 {
        let job = site.enqueue("a", json!(n)).await;
        site.client.cancel(&[job]).await.unwrap();
    }
    let slow = json!({"action": "delete", "filter": {"state": "cancelled"}, "per_second": 1});
    let id = site.ask(Operator, "POST", "/bulk", slow).await.is(201)["id"].as_str().unwrap().to_owned();
    site.ask(Operator, "POST", &format!("/bulk/{id}/confirm"), json!({"count": 3})).await.is(202);
    // Time goes on by itself while everybody waits.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let cancelled = JobFilter { state: Some(JobState::Cancelled), ..JobFilter::default() };
    let left: Vec<_> = site.client.jobs(&cancelled).await.unwrap().iter().map(|job| job.id).collect();
    assert_eq!(left.len(), 2);
    site.client.retry(&left[..1]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let shown = site.get(&format!("/bulk/{id}")).await.is(200);
    assert_eq!(
        (&shown["state"], &shown["done"], &shown["left"]),
        (&json!("done"), &json!(2), &json!(1)),
        "{shown}"
    );
}

#[tokio::test]
async fn previews_that_are_refused_keep_nothing_out() {
    let site = Site::in_memory();
    site.enqueue("a", json!(1)).await;
    let cancel = json!({"action": "cancel", "filter": {"kind": "a"}});
    let id = site.ask(Operator, "POST", "/bulk", cancel).await.is(201)["id"].as_str().unwrap().to_owned();
    site.ask(Operator, "POST", &format!("/bulk/{id}/confirm"), json!({"count": 1})).await.is(202);
    ended(&site, &id).await;
    for _ in 0..101 {
        let wrong = json!({"action": "delete", "filter": {"state": "running"}});
        site.ask(Operator, "POST", "/bulk", wrong).await.refused(422, "invalid_option");
    }
    assert_eq!(site.get(&format!("/bulk/{id}")).await.is(200)["done"], 1);
}

#[tokio::test]
async fn previews_that_nobody_confirms_keep_nobody_out() {
    let site = Site::in_memory();
    let job = site.enqueue("a", json!({})).await.to_string();
    let preview = json!({"action": "cancel", "ids": [job]});
    let mut ids = Vec::new();
    for _ in 0..150 {
        let shown = site.ask(Operator, "POST", "/bulk", preview.clone()).await.is(201);
        ids.push(shown["id"].as_str().unwrap().to_owned());
    }
    site.get(&format!("/bulk/{}", ids[0])).await.refused(404, "not_found");
    let last = format!("/bulk/{}/confirm", ids[149]);
    site.ask(Operator, "POST", &last, json!({"count": 1})).await.is(202);
    assert_eq!(ended(&site, &ids[149]).await["done"], 1);
}

#[tokio::test]
async fn who_confirms_is_who_does_it() {
    let site = Site::in_memory();
    site.enqueue("a", json!({})).await;
    let preview = json!({"action": "cancel", "filter": {"kind": "a"}});
    let shown = site.ask(Operator, "POST", "/bulk", preview).await.is(201);
    assert_eq!(shown["actor"], "operator");
    let id = shown["id"].as_str().unwrap();
    let confirmed =
        site.ask(Admin, "POST", &format!("/bulk/{id}/confirm"), json!({"count": 1})).await.is(202);
    assert_eq!(confirmed["actor"], "admin");
    assert_eq!(ended(&site, id).await["state"], "done");
    assert_eq!(noted(&site, id).await, json!(["admin", "jobs.cancel", 1, "done", {"kind": "a"}]));
}

#[tokio::test]
async fn jobs_that_a_filter_selects_are_edited_once_their_number_is_confirmed() {
    for site in Site::all_stores().await {
        for kind in ["a", "a", "b"] {
            site.enqueue(kind, json!({ "n": 1 })).await;
        }
        let before = site.snapshot().await;
        let edit = json!({ "priority": -7, "max_attempts": 3, "scheduled_at": "2099-01-01T00:00:00Z" });
        let preview = json!({ "action": "edit", "edit": edit, "filter": { "queue": "mail", "kind": "a" } });
        site.ask(Viewer, "POST", "/bulk", preview.clone()).await.refused(403, "permission_denied");
        let shown = site.ask(Operator, "POST", "/bulk", preview.clone()).await.is(201);
        assert_eq!((&shown["count"], &shown["edit"]), (&json!(2), &edit));
        assert_eq!(site.snapshot().await, before);
        let shown = confirmed(&site, preview, async {}).await;
        assert_eq!(
            (&shown["state"], &shown["done"], &shown["left"]),
            (&json!("done"), &json!(2), &json!(0)),
            "{shown}"
        );
        for (kind, state, priority) in [("a", "scheduled", -7), ("b", "available", 0)] {
            let items = site.get(&format!("/jobs?kind={kind}&state={state}")).await.is(200)["items"].clone();
            let items = items.as_array().unwrap().clone();
            assert!(!items.is_empty() && items.iter().all(|job| job["priority"] == priority), "{items:?}");
        }
        let filter = json!({ "queue": "mail", "kind": "a", "edit": edit });
        let id = shown["id"].as_str().unwrap();
        assert_eq!(noted(&site, id).await, json!(["operator", "jobs.edit", 2, "done", filter]));
    }
}

#[tokio::test]
async fn an_edit_that_makes_no_sense_is_refused_before_it_is_previewed() {
    let site = Site::in_memory();
    site.enqueue("a", json!({})).await;
    let filter = json!({ "kind": "a" });
    for (body, code) in [
        (json!({ "action": "edit", "filter": filter }), "invalid_option"),
        (json!({ "action": "edit", "filter": filter, "edit": {} }), "invalid_option"),
        (json!({ "action": "edit", "filter": filter, "edit": { "priority": 101 } }), "invalid_option"),
        (json!({ "action": "edit", "filter": filter, "edit": { "priority": "high" } }), "invalid_option"),
        (json!({ "action": "edit", "filter": filter, "edit": { "args": {} } }), "invalid_option"),
        (
            json!({ "action": "edit", "filter": filter, "edit": { "now": true, "delay_ms": 5 } }),
            "invalid_option",
        ),
        (json!({ "action": "edit", "ids": ["1"], "edit": { "max_attempts": 0 } }), "invalid_option"),
        (
            json!({ "action": "edit", "filter": { "state": "running" }, "edit": { "priority": 1 } }),
            "invalid_option",
        ),
        (json!({ "action": "retry", "filter": filter, "edit": { "priority": 1 } }), "invalid_option"),
    ] {
        site.ask(Operator, "POST", "/bulk", body).await.refused(422, code);
    }
}
