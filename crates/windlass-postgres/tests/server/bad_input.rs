//! Bad input gets a clear error, and nothing is lost or half done.

use crate::cluster::{Fixture, connect, fresh_schema, url};
use std::{collections::BTreeSet, time::Duration};
use windlass_core::{Args, ErrorKind, JobId, JobStore, Limits, NewJob, RetryPolicy};
use windlass_postgres::{PostgresOptions, PostgresStore};

async fn refused(url: &str) -> windlass_core::Error {
    PostgresStore::connect(url, PostgresOptions::default()).await.err().expect("is refused")
}

#[tokio::test]
async fn wrong_urls_name_the_cause() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(); // closed again
    let error = refused(&format!("postgres://u:secret@127.0.0.1:{port}/d?connect_timeout=2")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")) && !text.contains("secret"), "{text}");

    let server = url().rsplit_once('/').expect("the URL names a database").0.to_owned();
    let error = refused(&format!("{server}/nowhere")).await;
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    assert!(error.to_string().contains("nowhere"), "{error}");

    let error = refused(&url().replace("//postgres@", "//nobody_here@")).await;
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

#[tokio::test]
async fn a_missing_schema_says_how_to_make_it() {
    let url = format!("{}?schema={}", url(), fresh_schema());
    let store =
        PostgresStore::connect(&url, PostgresOptions::default()).await.expect("connects without a schema");
    let job = NewJob::new("k", Args::parse("1").unwrap());
    let error = store.enqueue(&[job]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMissing, "{error}");
    assert!(error.to_string().contains("windlass migrate"), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    client
        .batch_execute(
            &fixture.text("INSERT INTO windlass.migration (version, compatible_with) VALUES (99, 99)"),
        )
        .await
        .unwrap();
    let error = refused(&fixture.url).await;
    assert_eq!(error.kind(), ErrorKind::SchemaTooNew, "{error}");
    assert!(error.to_string().contains("99"), "{error}");
}

#[tokio::test]
async fn migrating_at_once_and_again_is_safe() {
    let schema = fresh_schema();
    let url = format!("{}?schema={schema}", url());
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let store = PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap();
        tasks.push(tokio::spawn(async move { store.migrate().await.unwrap() }));
    }
    let (mut fresh, mut versions) = (0, BTreeSet::new());
    for task in tasks {
        let report = task.await.unwrap();
        versions.insert(report.to);
        fresh += u32::from(report.from == 0);
    }
    assert_eq!((fresh, versions.len()), (1, 1), "exactly one of them made the schema");
}

#[tokio::test]
async fn a_role_without_privileges_is_told_which() {
    let fixture = Fixture::shared().await;
    let admin = fixture.sql().await;
    let role = format!("r_{}", fixture.schema);
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.unwrap();
    let plain = fixture.url.replace("//postgres@", &format!("//{role}@"));
    let store = PostgresStore::connect(&plain, PostgresOptions::default()).await.expect("connects");
    let job = NewJob::new("k", Args::parse("1").unwrap());
    let error = store.enqueue(&[job]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");

    // A producer needs no right to any table: USAGE and EXECUTE are enough.
    let grant = fixture.text(&format!(
        "GRANT USAGE ON SCHEMA {} TO {role};
         GRANT EXECUTE ON FUNCTION windlass.enqueue TO {role}",
        fixture.schema
    ));
    admin.batch_execute(&grant).await.unwrap();
    let producer = connect(&url().replace("//postgres@", &format!("//{role}@"))).await;
    producer.query_one(&fixture.text("SELECT windlass.enqueue('k', '{\"a\": 1}')"), &[]).await.unwrap();
    let denied = producer.query(&fixture.text("SELECT * FROM windlass.job"), &[]).await.unwrap_err();
    assert_eq!(denied.code().unwrap().code(), "42501");
    let denied = producer.query(&fixture.text("SELECT windlass.cancel(1)"), &[]).await.unwrap_err();
    assert_eq!(denied.code().unwrap().code(), "42501");
    drop(store);
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn plain_sql_refuses_what_the_client_refuses() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let big = format!("windlass.enqueue('k', to_jsonb(repeat('x', {})))", 1 << 20);
    let deep = format!("windlass.enqueue('k', '{}{}')", "[".repeat(65), "]".repeat(65));
    let deep_meta =
        format!("windlass.enqueue('k', meta => '{{\"a\": {}{}}}')", "[".repeat(64), "]".repeat(64));
    for (call, says) in [
        (deep.as_str(), "deeper than 64"),
        ("windlass.enqueue('k', '[{\"n\": [1, -1e400]}]')", "beyond 1.8e308"),
        ("windlass.enqueue_many('[{\"kind\": \"k\", \"args\": 1e400}]')", "beyond 1.8e308"),
        ("windlass.enqueue('k', '1.79769313486231581e308')", "beyond 1.8e308"),
        ("windlass.enqueue('k', meta => '{\"n\": [1e400]}')", "meta contains a number beyond 1.8e308"),
        (deep_meta.as_str(), "meta nests deeper than 64"),
        ("windlass.append_audit('[1]')", "each audit entry must be a JSON object"),
        ("windlass.append_audit('[null]')", "each audit entry must be a JSON object"),
        ("windlass.enqueue('')", "kind"),
        ("windlass.enqueue('a b')", "kind"),
        ("windlass.enqueue(NULL)", "kind"),
        ("windlass.enqueue('k', NULL)", "args"),
        ("windlass.enqueue('k', '{oops')", "json"),
        ("windlass.enqueue('k', '\"\\u0000\"')", "Unicode"),
        ("windlass.enqueue('k', '{}', 'no such queue!')", "queue"),
        ("windlass.enqueue('k', '{}', '')", "queue"),
        ("windlass.enqueue('k', priority => 40000)", "priority"),
        ("windlass.enqueue('k', max_attempts => 0)", "max_attempts"),
        ("windlass.enqueue('k', scheduled_at => 'infinity')", "scheduled_at"),
        (big.as_str(), "limit is 1048576"),
        ("windlass.enqueue_once('', 'k')", "1 to 200 bytes, got 0"),
        ("windlass.enqueue_once(NULL, 'k')", "got NULL"),
        ("windlass.enqueue_once(repeat('k', 201), 'k')", "got 201"),
        ("windlass.enqueue_once('key', 'a b')", "kind"),
        ("windlass.enqueue_many_once('key', '{}')", "array"),
        ("windlass.enqueue_many_once('key', '[{\"kind\": \"k\"}, 1]')", "object"),
        ("windlass.enqueue_many('{}')", "array"),
        ("windlass.enqueue_many_unique('{}')", "array"),
        ("windlass.enqueue_many_unique('[{\"kind\": \"k\", \"args\": 1e400}]')", "beyond 1.8e308"),
        ("windlass.enqueue_many('[1]')", "object"),
        (
            "windlass.enqueue_many('[{\"kind\": \"k\"}, {\"kind\": [\"k\"]}]')",
            "of job 2 must be strings, got {\"kind\": [\"k\"]}",
        ),
        ("windlass.enqueue_many('[{\"kind\": \"k\", \"queue\": 7}]')", "must be strings"),
        ("windlass.enqueue_many('[{\"kind\": \"k\", \"key\": {\"user\": 7}}]')", "must be strings"),
        ("windlass.enqueue_many('[{\"kind\": \"k\"}, {\"kin\": \"k\"}]')", "kin"),
    ] {
        let error = client.query(&fixture.text(&format!("SELECT {call}")), &[]).await.unwrap_err();
        let message = error.as_db_error().unwrap().message().to_owned();
        assert!(message.contains(says), "{call}: {message}");
    }
    let count = client.query_one(&fixture.text("SELECT count(*) FROM windlass.job"), &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 0, "nothing was enqueued");
    let keys =
        client.query_one(&fixture.text("SELECT count(*) FROM windlass.enqueue_key"), &[]).await.unwrap();
    assert_eq!(keys.get::<_, i64>(0), 0, "every key is free");
}

/// The limits are of our own functions; whoever writes rows by other means is shown all the same.
#[tokio::test]
async fn what_others_wrote_beyond_the_limits_is_listed() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let (most, beyond) =
        (format!("{}{}", "[".repeat(64), "]".repeat(64)), format!("{}{}", "[".repeat(100), "]".repeat(100)));
    client.query(&fixture.text(&format!("SELECT windlass.enqueue('k', '{most}')")), &[]).await.unwrap();
    let insert = format!(
        "INSERT INTO windlass.job (lane_id, kind, args) VALUES (windlass.lane_of('default', 0), 'k', '{beyond}')"
    );
    client.batch_execute(&fixture.text(&insert)).await.unwrap();
    let listed = fixture.store().await.jobs(&Default::default()).await.unwrap();
    assert_eq!(listed.iter().map(|job| job.args.as_str()).collect::<Vec<_>>(), [beyond, most]);
}

#[tokio::test]
async fn functions_are_safe_from_a_hostile_search_path() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let loose = "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                 WHERE n.nspname = $1 AND p.prosecdef
                   AND NOT coalesce(p.proconfig::text LIKE '%search_path=pg_catalog, pg_temp%', false)";
    let rows = client.query(loose, &[&fixture.schema]).await.unwrap();
    assert!(
        rows.is_empty(),
        "SECURITY DEFINER without a pinned search_path: {:?}",
        rows.iter().map(|r| r.get(0)).collect::<Vec<String>>()
    );
    let open = "SELECT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname = $1 AND has_function_privilege('public', p.oid, 'EXECUTE')";
    let rows = client.query(open, &[&fixture.schema]).await.unwrap();
    assert!(
        rows.is_empty(),
        "EXECUTE for PUBLIC: {:?}",
        rows.iter().map(|r| r.get(0)).collect::<Vec<String>>()
    );
}

#[tokio::test]
async fn sql_refuses_absurd_options_and_keeps_good_ones_as_programs_read_them() {
    let fixture = Fixture::shared().await;
    let (client, store) = (fixture.sql().await, fixture.store().await);
    let call = |options: &str| fixture.text(&format!("SELECT windlass.enqueue('k', {options})"));
    for (options, says) in [
        ("timeout => '0'", "timeout must be more than 0"),
        ("timeout => '-5 s'", "timeout must be more than 0"),
        ("timeout => '101 years'", "at most 100 years"),
        ("expires_at => 'infinity'", "must be a time of the years 1970 to 9999"),
        ("expires_at => '1969-12-31'", "must be a time of the years"),
        ("scheduled_at => '2100-01-02', expires_at => '2100-01-01'", "it would never run"),
        ("retry_policy => '3'", "must be a JSON object"),
        (r#"retry_policy => '{"backoff": "cubic"}'"#, "backoff must be exponential, linear or fixed"),
        (r#"retry_policy => '{"base_ms": -1}'"#, "base_ms of a retry policy must be a number of 0 to"),
        (r#"retry_policy => '{"max_ms": 1e20}'"#, "max_ms of a retry policy"),
        (r#"retry_policy => '{"factor": "2"}'"#, "factor of a retry policy must be a number of 1 to"),
        (r#"retry_policy => '{"jitter": 1.1}'"#, "jitter of a retry policy"),
        (r#"retry_policy => '{"base": 5}'"#, "unknown field 'base' in a retry policy"),
        ("tags => '{a, \"\"}'", "a tag must be 1 to 100 bytes"),
        ("tags => '{a, NULL}'", "a tag must be"),
        ("cost => 0", "the cost of a job must be 1 to 1000000, got 0"),
        ("cost => 1000001", "got 1000001"),
        ("tags => array_fill('a'::text, ARRAY[21])", "at most 20 tags, got 21"),
    ] {
        let error = client.query(&call(options), &[]).await.expect_err(options);
        let error = error.as_db_error().expect("the server's");
        assert_eq!(error.code().code(), "WL003", "{options}: {error}");
        assert!(error.message().contains(says), "{options}: {error}");
    }
    let options = r#"timeout => '1500.5 ms', expires_at => '2100-01-01 12:00+02', tags => '{b, "a, c", b}', cost => 9,
        retry_policy => '{"backoff": "linear", "base_ms": 10.0, "factor": 1.5, "max_ms": 2e3, "jitter": 0}'"#;
    let one: i64 = client.query_one(&call(options), &[]).await.unwrap().get(0);
    let also = |call: &str| fixture.text(&format!("SELECT {call}, {options})"));
    let once: i64 = client.query_one(&also("windlass.enqueue_once('once', 'k'"), &[]).await.unwrap().get(0);
    let again: i64 = client.query_one(&also("windlass.enqueue_once('once', 'k'"), &[]).await.unwrap().get(0);
    assert_eq!(again, once);
    let unique =
        also("(windlass.enqueue_unique('k'").replace(&format!("{options})"), &format!("{options})).id"));
    let unique: i64 = client.query_one(&unique, &[]).await.unwrap().get(0);
    let late =
        "SELECT windlass.enqueue_unique('k', scheduled_at => '2100-01-02', expires_at => '2100-01-01')";
    let late = client.query(&fixture.text(late), &[]).await.unwrap_err();
    assert!(late.as_db_error().unwrap().message().contains("it would never run"), "{late}");
    let many = fixture.text(
        r#"SELECT windlass.enqueue_many('[{"kind": "k", "timeout": "1501 ms", "expires_at": "2100-01-01T10:00:00Z", "tags": ["b", "a, c"], "cost": 9,
            "retry_policy": {"backoff": "linear", "base_ms": 10, "factor": 1.5, "max_ms": 2000, "jitter": 0}}, {"kind": "k", "tags": null, "cost": 1}]')"#,
    );
    let many = client.query(&many, &[]).await.unwrap();
    let policy = RetryPolicy {
        factor: 1.5,
        max: Duration::from_secs(2),
        jitter: 0.0,
        ..RetryPolicy::linear(Duration::from_millis(10))
    };
    for id in [one, once, unique, many[0].get(0)] {
        let job = store.job(JobId(id)).await.unwrap().expect("it is stored");
        assert_eq!((job.timeout, job.retry_policy), (Some(Duration::from_millis(1_501)), Some(policy)));
        assert_eq!(job.expires_at, Some("2100-01-01T10:00:00Z".parse().unwrap()));
        assert_eq!((&*job.tags, job.cost), (&["b".to_owned(), "a, c".to_owned()][..], Some(9)));
        let view =
            fixture.text("SELECT tags, expires_at = '2100-01-01T10:00:00Z' FROM windlass.jobs WHERE id = $1");
        let row = client.query_one(&view, &[&id]).await.unwrap();
        assert_eq!((row.get::<_, Vec<String>>(0), row.get::<_, bool>(1)), (job.tags, true));
    }
    let plain = store.job(JobId(many[1].get(0))).await.unwrap().expect("it is stored");
    assert!(plain.tags.is_empty() && plain.expires_at.is_none() && plain.cost.is_none());
}

/// Compared as intervals a year has 360 days, and in seconds 365.25: what is negative is so however it is written.
#[tokio::test]
async fn intervals_are_what_their_seconds_say() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    for call in [
        "SELECT windlass.enqueue('k', timeout => '-1 year 361 days')",
        "SELECT windlass.enqueue('k', timeout => '0')",
        "SELECT windlass.enqueue('k', timeout => '1200 months 366 days')",
        "SELECT windlass.configure(retention => '-1 year 361 days')",
        "SELECT windlass.set_retention('*', 'completed', '-1 year 361 days')",
        "SELECT windlass.set_schedule('s', '* * * * *', 'k', expiry => '-1 year 361 days')",
        "SELECT windlass.set_schedule('s', '* * * * *', 'k', jitter => '-1 year 361 days')",
    ] {
        let error = client.batch_execute(&fixture.text(call)).await.expect_err(call);
        assert_eq!(error.code().map(|code| code.code()), Some("WL003"), "{call}: {error:?}");
    }
}

/// What is written without a cast is an integer, which no function of a smallint takes.
#[tokio::test]
async fn a_number_of_crashes_needs_no_cast() {
    let fixture = Fixture::fresh().await;
    let client = fixture.sql().await;
    for (call, crashes) in [("6", 6), ("7::smallint", 7)] {
        let call = format!("SELECT windlass.configure(max_crashes => {call})");
        client.batch_execute(&fixture.text(&call)).await.expect(&call);
        let read = fixture.text("SELECT max_crashes::integer FROM windlass.setting");
        assert_eq!(client.query_one(&read, &[]).await.unwrap().get::<_, i32>(0), crashes);
    }
    for refused in [2, 32_768] {
        let call = fixture.text(&format!("SELECT windlass.configure(max_crashes => {refused})"));
        let error = client.batch_execute(&call).await.expect_err("refused");
        assert_eq!(error.code().map(|code| code.code()), Some("WL003"), "{error:?}");
    }
}

/// What the audit log cannot keep is refused before the first job is touched.
#[tokio::test]
async fn a_filter_that_is_too_long_for_the_audit_log_touches_nothing() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    client.batch_execute(&fixture.text("SELECT windlass.enqueue('k', '{\"a\": [1]}')")).await.unwrap();
    let call = "CALL windlass.cancel_jobs(args => jsonb_build_object('a', array_fill(1, ARRAY[3000])))";
    let error = client.batch_execute(&fixture.text(call)).await.unwrap_err();
    assert!(error.to_string().contains("4096") || format!("{error:?}").contains("4096"), "{error:?}");
    let state = fixture.text("SELECT state FROM windlass.jobs");
    assert_eq!(client.query_one(&state, &[]).await.unwrap().get::<_, &str>(0), "available");
}

/// A kind by SQL is what programs take for one: up to 200 bytes, without what Unicode calls white space.
#[tokio::test]
async fn sql_has_the_kinds_that_programs_have() {
    let fixture = Fixture::shared().await;
    let client = fixture.sql().await;
    let ask = fixture.text("SELECT windlass.enqueue($1)");
    let spaces = [
        '\u{1}', '\t', ' ', '\u{7f}', '\u{85}', '\u{9f}', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2003}',
        '\u{200a}', '\u{2028}', '\u{2029}', '\u{202f}', '\u{205f}', '\u{3000}',
    ];
    let long =
        ["k".repeat(200), "ж".repeat(100), "k".repeat(201), "ж".repeat(101), "ж".repeat(200), String::new()];
    let others = ["a", "ж", "a\u{a1}", "a\u{200b}b", "a\u{3001}", "日本", "😀", "a[b]-^", "\u{fffd}"]
        .map(str::to_owned);
    for kind in spaces.map(|space| format!("a{space}b")).into_iter().chain(long).chain(others) {
        let stored = client.query_one(&ask, &[&kind]).await;
        match Limits::check_kind_name(&kind) {
            Ok(()) => drop(stored.expect(&kind)),
            Err(_) => {
                let error = stored.expect_err(&kind);
                let error = error.as_db_error().expect("the server's");
                assert_eq!(error.code().code(), "WL002", "{kind:?}: {error}");
                assert!(error.message().contains("1 to 200 bytes without spaces"), "{error}");
            }
        }
    }
}
