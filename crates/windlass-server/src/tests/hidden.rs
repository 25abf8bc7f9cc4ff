use super::site::Site;
use crate::Role;
use serde_json::{Value, json};
use windlass::{Args, Context, NewJob, Outcome, RawJob, Worker};

const SECRET: &str = "hunter2-and-more";
/// In no value but the checkpoint.
const KEPT: &str = "tok_live_9f8e";

/// A job whose error, log, checkpoint and result all say its secret.
async fn talkative(site: &Site) -> String {
    let args = Args::of(&json!({"password": SECRET, "user": 7})).unwrap();
    let job = NewJob::new("sync", args).with_queue("mail").with_max_attempts(1);
    let id = site.client.enqueue(job).await.unwrap();
    let handler = |_: RawJob, ctx: Context| async move {
        ctx.log(format!("login with {SECRET}"));
        ctx.checkpoint(&json!({ "access_token": KEPT })).await.unwrap();
        ctx.progress((10.0, SECRET)).unwrap();
        Outcome::Retry { after: None, error: format!("401 for {SECRET} and {KEPT}") }
    };
    let worker =
        Worker::builder(&site.client).queue("mail", 1).handle_kind("sync", handler).start().await.unwrap();
    site.client.wait(id, std::time::Duration::from_secs(60)).await.unwrap().expect("it ends");
    worker.shutdown().await;
    id.to_string()
}

#[tokio::test]
async fn secrets_leave_by_no_way_but_reveal() {
    for site in Site::all().await {
        let id = talkative(&site).await;
        let shown = site.get(&format!("/jobs/{id}")).await.is(200);
        assert_eq!((&shown["args"]["user"], &shown["redacted"]), (&json!(7), &json!(true)));
        for text in [&shown["errors"][0]["error"], &shown["report"]["log"][0]["text"]] {
            assert!(text.as_str().unwrap_or_default().contains("characters hidden›"), "{shown}");
        }
        for path in [
            format!("/jobs/{id}"),
            "/jobs".into(),
            "/jobs?state=discarded".into(),
            "/events".into(),
            "/overview".into(),
            "/queues/mail".into(),
            "/failures".into(),
        ] {
            for role in [Role::Viewer, Role::Operator, Role::Admin] {
                let answer = site.ask(role, "GET", &path, Value::Null).await;
                assert!(
                    answer.status == 200 && !answer.text.contains(SECRET) && !answer.text.contains(KEPT),
                    "{path}: {}",
                    answer.text
                );
            }
        }
        let path = format!("/jobs/{id}/args?reveal=1");
        assert!(site.ask(Role::Admin, "GET", &path, Value::Null).await.text.contains(SECRET));
    }
}

#[tokio::test]
async fn of_many_hidden_values_none_leaves() {
    let site = Site::in_memory();
    let to: Vec<_> = (0..500).map(|n| format!("user-{n}@example.com")).collect();
    let args = Args::of(&json!({ "to": to })).unwrap();
    let job = NewJob::new("mail.send", args).with_queue("mail").with_max_attempts(1);
    let id = site.client.enqueue(job).await.unwrap();
    let fail = |_: RawJob, _: Context| async {
        Outcome::Retry { after: None, error: "550 no such mailbox: user-450@example.com".into() }
    };
    let worker = Worker::builder(&site.client).queue("mail", 1).handle_kind("mail.send", fail);
    let worker = worker.start().await.unwrap();
    worker.until_idle().await.unwrap();
    worker.shutdown().await;
    for path in [&format!("/jobs/{id}"), "/jobs?state=discarded", "/events", "/failures"] {
        let shown = site.get(path).await;
        assert!(shown.status == 200 && shown.text.contains("no such mailbox"), "{path}: {}", shown.text);
        assert!(!shown.text.contains("user-450"), "{path}: {}", shown.text);
    }
    assert!(found(&site, Role::Viewer, "state=discarded&error=user-450").await.is_empty());
}

/// Ids that a list has for somebody of this role.
async fn found(site: &Site, role: Role, query: &str) -> Vec<Value> {
    let page = site.ask(role, "GET", &format!("/jobs?{query}"), Value::Null).await.is(200);
    page["items"].as_array().unwrap().iter().map(|job| job["id"].clone()).collect()
}

#[tokio::test]
async fn filters_tell_no_secret() {
    for site in Site::all_stores().await {
        let id = json!(talkative(&site).await);
        let (shown, hidden) =
            ("args=%7B%22user%22%3A7%7D", "args=%7B%22password%22%3A%22hunter2-and-more%22%7D");
        for role in [Role::Viewer, Role::Operator, Role::Admin] {
            // The kinds of this site hide `to` in some, and nothing else.
            assert_eq!(found(&site, role, shown).await, std::slice::from_ref(&id));
            assert_eq!(
                found(&site, role, &format!("{shown}&kind=sync&error=401+FOR")).await,
                std::slice::from_ref(&id)
            );
            assert!(found(&site, role, "error=402").await.is_empty());
        }
        for role in [Role::Viewer, Role::Operator] {
            let path = format!("/jobs?{hidden}");
            site.ask(role, "GET", &path, Value::Null).await.refused(403, "permission_denied");
            let to = "/jobs?kind=mail.send&args=%7B%22to%22%3A%22a%22%7D";
            site.ask(role, "GET", to, Value::Null).await.refused(403, "permission_denied");
            let page = async |text: &str| {
                let path = format!("/jobs?state=discarded&error={text}&limit=1");
                site.ask(role, "GET", &path, Value::Null).await.is(200)
            };
            let nobodys = page("none-has-this").await;
            for text in ["hunter2", "huntex", "tok_live", "tok_lixe"] {
                let page = page(text).await;
                assert_eq!(page["items"], json!([]), "{text}");
                assert_eq!(page["next"], nobodys["next"], "{text} is told by where the page ends");
            }
            assert!(found(&site, role, "error=for+hunter2-and-more").await.is_empty());
        }
        assert_eq!(found(&site, Role::Admin, hidden).await, std::slice::from_ref(&id));
        assert_eq!(found(&site, Role::Admin, "error=hunter2").await, std::slice::from_ref(&id));
        let bulk = |filter: Value| json!({ "action": "retry", "filter": filter });
        let wanted = json!({ "state": "discarded", "error": "401", "args": { "user": 7 } });
        let preview = site.ask(Role::Operator, "POST", "/bulk", bulk(wanted.clone())).await.is(201);
        assert_eq!((&preview["count"], &preview["filter"]), (&json!(1), &wanted));
        let secret = bulk(json!({ "args": { "password": SECRET } }));
        site.ask(Role::Operator, "POST", "/bulk", secret.clone()).await.refused(403, "permission_denied");
        let preview = site.ask(Role::Admin, "POST", "/bulk", secret).await.is(201);
        assert!(!preview.to_string().contains(SECRET), "{preview}");
        for bad in ["args=%7B%7D", "args=%5B1%5D", "args=7", "args=%7B", "error="] {
            site.ask(Role::Viewer, "GET", &format!("/jobs?{bad}"), Value::Null)
                .await
                .refused(422, "invalid_option");
        }
    }
}

#[tokio::test]
async fn large_and_deep_values_are_cut() {
    let site = Site::in_memory();
    let id = site.enqueue("a", json!({"text": "x".repeat(10_000), "token": SECRET})).await;
    let listed = site.get("/jobs").await.is(200)["items"][0].clone();
    assert_eq!(
        (&listed["cut"], listed["args"].as_str().unwrap().contains("not shown")),
        (&json!(true), true)
    );
    let shown = site.get(&format!("/jobs/{id}")).await.is(200);
    assert_eq!((&shown["cut"], shown["args"]["text"].as_str().unwrap().len()), (&json!(false), 10_000));
}

/// What `Value` drops of it: the first of two values of a key, and digits.
#[tokio::test]
async fn what_is_written_twice_or_with_many_digits_is_hidden_and_else_shown_as_it_is() {
    const ARGS: &str = r#"{"n":18446744073709551617,"f":1.10,"token":"tok-first","token":null,"pass":123456789012345678901234567890}"#;
    for site in Site::all().await {
        let job = NewJob::new("sync", Args::parse(ARGS).unwrap()).with_queue("mail").with_max_attempts(1);
        let id = site.client.enqueue(job).await.unwrap();
        let fail = |_: RawJob, _: Context| async {
            let error = format!("no such user: {ARGS}");
            Outcome::Retry { after: None, error }
        };
        let worker = Worker::builder(&site.client).queue("mail", 1).handle_kind("sync", fail);
        let worker = worker.start().await.unwrap();
        worker.until_idle().await.unwrap();
        worker.shutdown().await;
        for path in [&format!("/jobs/{id}"), "/jobs?state=discarded", "/events", "/failures"] {
            let shown = site.get(path).await;
            assert!(shown.status == 200 && shown.text.contains("no such user"), "{path}: {}", shown.text);
            for secret in ["tok-first", "1234567890123"] {
                assert!(!shown.text.contains(secret), "{path}: {}", shown.text);
            }
            let args = r#""args":{"n":18446744073709551617,"f":1.10,"token":"‹9 characters hidden›","#;
            assert!(!path.contains("jobs") || shown.text.contains(args), "{path}: {}", shown.text);
        }
        let page = site.ask(
            Role::Viewer,
            "GET",
            "/jobs?args=%7B%22token%22%3A%22a%22,%22token%22%3Anull%7D",
            Value::Null,
        );
        page.await.refused(403, "permission_denied");
    }
}
