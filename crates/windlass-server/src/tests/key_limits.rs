use super::site::Site;
use crate::Role::{Admin, Operator};
use serde_json::{Value, json};
use std::time::Duration;
use windlass::{KeyLimit, KeyLimitsChange, RateLimit};

const PATH: &str = "/queues/mail/key-limits";

#[tokio::test]
async fn limits_of_keys_are_set_shown_and_taken_away() {
    for site in Site::all_stores().await {
        site.get(PATH).await.refused(404, "not_found");
        site.enqueue("a", json!({})).await;
        let none = json!({"default": null, "items": [], "next": null});
        assert_eq!(site.get(PATH).await.is(200), none);
        site.ask(Admin, "DELETE", PATH, Value::Null).await.refused(404, "not_found");
        site.ask(Admin, "DELETE", &format!("{PATH}/acme"), Value::Null).await.refused(404, "not_found");
        assert_eq!(site.get(PATH).await.is(200), none, "nothing was there, and nothing is");

        let rate = json!({"count": 100, "period_ms": 60_000});
        let two = json!({"concurrency": 2, "rate": rate, "weight": 1});
        let sent = json!({"concurrency": 2, "rate": rate, "serial": false});
        assert_eq!(site.ask(Admin, "PUT", PATH, sent).await.is(200), two);
        let serial = json!({"serial": true, "weight": 3});
        // Any text may be a key.
        for key in ["acme%2Fnorth", "%C3%A4%20%3F%25", "%2E%2E"] {
            let kept = site.ask(Admin, "PUT", &format!("{PATH}/{key}"), serial.clone()).await.is(200);
            assert_eq!(kept, serial, "{key}");
        }
        let shown = site.get(PATH).await.is(200);
        let named = ["..", "acme/north", "ä ?%"].map(|key| json!({"key": key, "limit": serial}));
        assert_eq!(shown, json!({"default": two, "items": named, "next": null}));
        let limits = site.client.key_limits("mail").await.unwrap().unwrap();
        let minute = RateLimit::new(100, Duration::from_secs(60));
        assert_eq!(limits.default, KeyLimit::default().with_concurrency(2).with_rate(minute));
        assert_eq!(limits.of("ä ?%"), KeyLimit::serial().with_weight(3));
        let queue = site.get("/queues/mail").await.is(200);
        let beside = &queue["key_limits"];
        assert_eq!((&beside["default"], &beside["named_count"]), (&two, &json!(3)));
        assert_eq!(beside["named"]["acme/north"], serial);

        site.ask(Admin, "DELETE", &format!("{PATH}/acme%2Fnorth"), Value::Null).await.is(204);
        site.ask(Admin, "DELETE", &format!("{PATH}/acme%2Fnorth"), Value::Null)
            .await
            .refused(404, "not_found");
        assert_eq!(site.get(PATH).await.is(200)["items"].as_array().unwrap().len(), 2);
        // Only that much of it: the queue is fair, and no more.
        assert_eq!(site.ask(Admin, "PUT", PATH, json!({})).await.is(200), json!({"weight": 1}));
        assert_eq!(site.get(PATH).await.is(200)["default"], json!({"weight": 1}));
        site.ask(Admin, "DELETE", PATH, Value::Null).await.is(204);
        assert_eq!(site.get(PATH).await.is(200), none);
        assert_eq!(site.get("/queues/mail").await.is(200)["key_limits"], Value::Null);
    }
}

#[tokio::test]
async fn limits_of_keys_that_cannot_be_are_refused_where_they_stand() {
    for site in Site::all().await {
        let rate = |count: u64, period_ms: u64| json!({"rate": {"count": count, "period_ms": period_ms}});
        let with_burst = json!({"rate": {"count": 5, "period_ms": 1000, "burst": 2}});
        for (body, pointer, says) in [
            (json!({"concurrency": 0}), "/concurrency", "must be 1 to 1000000, got 0"),
            (json!({"concurrency": 1_000_001}), "/concurrency", "got 1000001"),
            (json!({"concurrency": -1}), "/concurrency", "-1"),
            (json!({"concurrency": 5_000_000_000_u64}), "/concurrency", "5000000000"),
            (json!({"concurrency": 2, "serial": true}), "/concurrency", "leave out one of both"),
            (json!({"serial": "yes"}), "/serial", "boolean"),
            (json!({"weight": 0}), "/weight", "must be 1 to 1000, got 0"),
            (json!({"weight": 1_001}), "/weight", "got 1001"),
            (json!({"weight": 70_000}), "/weight", "70000"),
            (rate(0, 1_000), "/rate/count", "must be 1 to 1000000000, got 0"),
            (rate(5, 0), "/rate/period_ms", "100 ms to 366 days"),
            (rate(5, u64::from(u32::MAX) * 1_000), "/rate/period_ms", "100 ms to 366 days"),
            (with_burst, "/rate/burst", "the rate of a key has no burst: leave it out"),
            (json!({"rate": {"count": 5}}), "/rate", "period_ms"),
            (json!({"rate": {"count": 5, "per": 1}}), "/rate/per", "unknown field"),
            (json!({"at_once": 5}), "/at_once", "unknown field"),
        ] {
            for path in [PATH.to_owned(), format!("{PATH}/acme")] {
                let answer = site.ask(Admin, "PUT", &path, body.clone()).await.refused(422, "invalid_option");
                let error = &answer.body["errors"][0];
                assert_eq!(error["pointer"], pointer, "{body}: {}", answer.text);
                assert!(error["detail"].as_str().unwrap().contains(says), "{body}: {}", answer.text);
            }
        }
        for (key, status, code, says) in [
            (
                "x".repeat(201),
                422,
                "invalid_option",
                "a key must be 1 to 200 bytes, got 201; hash what is longer",
            ),
            ("a%00b".to_owned(), 422, "invalid_option", "must not contain NUL, got one at byte 1"),
            ("%ff".to_owned(), 404, "not_found", "UTF-8"),
            (String::new(), 404, "not_found", ""),
        ] {
            let path = format!("{PATH}/{key}");
            let answer = site.ask(Admin, "PUT", &path, json!({"concurrency": 1})).await.refused(status, code);
            assert!(answer.text.contains(says), "{}", answer.text);
            site.ask(Admin, "DELETE", &path, Value::Null).await.refused(404, "not_found");
        }
        site.ask(Admin, "PUT", "/queues/a%20b/key-limits", json!({})).await.refused(422, "invalid_name");
        assert_eq!(site.client.key_limits("mail").await.unwrap(), None);
    }
}

#[tokio::test]
async fn many_named_keys_come_page_by_page() {
    for site in Site::all_stores().await {
        let named = (0..210).map(|n| (format!("Tenant-{n:03}"), Some(KeyLimit::serial()))).collect();
        site.client.store().limit_keys("mail", &KeyLimitsChange::Named(named)).await.unwrap();
        let keys = |page: &Value| -> Vec<String> {
            let items = page["items"].as_array().unwrap();
            items.iter().map(|item| item["key"].as_str().unwrap().to_owned()).collect()
        };
        let (mut all, mut path) = (Vec::new(), format!("{PATH}?limit=105"));
        loop {
            let page = site.get(&path).await.is(200);
            all.extend(keys(&page));
            let Some(next) = page["next"].as_str() else { break };
            path = format!("{PATH}?limit=105&after={next}");
        }
        assert_eq!(all, (0..210).map(|n| format!("Tenant-{n:03}")).collect::<Vec<_>>());
        let page = site.get(PATH).await.is(200);
        assert_eq!((keys(&page).len(), &page["next"]), (50, &json!("Tenant-049")));
        let found = site.get(&format!("{PATH}?search=TENANT-20&limit=2")).await.is(200);
        assert_eq!((keys(&found), &found["next"]), (all[200..202].to_vec(), &json!("Tenant-201")));
        let rest = site.get(&format!("{PATH}?search=tenant-20&after=Tenant-201")).await.is(200);
        assert_eq!((keys(&rest).len(), &rest["next"]), (8, &Value::Null));
        site.get(&format!("{PATH}?limit=201")).await.refused(422, "invalid_option");
        // Beside the queue are the first of them.
        let beside = site.get("/queues/mail").await.is(200)["key_limits"].clone();
        assert_eq!((beside["named"].as_object().unwrap().len(), &beside["named_count"]), (50, &json!(210)));
    }
}

#[tokio::test]
async fn who_limits_keys_is_in_the_audit_log() {
    let site = Site::in_memory();
    let one = format!("{PATH}/acme%2Fnorth");
    site.ask(Operator, "PUT", PATH, json!({})).await.refused(403, "permission_denied");
    site.ask(Admin, "PUT", PATH, json!({})).await.is(200);
    site.ask(Admin, "PUT", &one, json!({"weight": 0})).await.refused(422, "invalid_option");
    site.ask(Admin, "PUT", &one, json!({"weight": 2})).await.is(200);
    site.ask(Admin, "DELETE", &one, Value::Null).await.is(204);
    site.ask(Admin, "DELETE", PATH, Value::Null).await.is(204);
    let log = site.ask(Admin, "GET", "/audit", Value::Null).await.is(200);
    let told = |entry: &Value| json!([entry["actor"], entry["action"], entry["target"], entry["outcome"]]);
    let told: Vec<_> = log["items"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(
        json!(told),
        json!([
            ["admin", "queues.unlimit_keys", PATH, "done"],
            ["admin", "queues.unlimit_key", one, "done"],
            ["admin", "queues.limit_key", one, "done"],
            ["admin", "queues.limit_key", one, "invalid_option"],
            ["admin", "queues.limit_keys", PATH, "done"],
            ["operator", "queues.limit_keys", PATH, "permission_denied"],
        ])
    );
}
