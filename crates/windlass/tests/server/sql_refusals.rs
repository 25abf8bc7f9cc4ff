//! What SQL is asked for and cannot be is refused in the words of the programs, and nothing of it stays.

use tokio_postgres::NoTls;
use windlass::{Args, Client, ConnectOptions, JobFilter, JobId, NewJob, Schedule, ScheduleFilter};

const SCHEMA: &str = "facade_sql_refusals";

async fn connect() -> (Client, tokio_postgres::Client) {
    let url = std::env::var("WINDLASS_TEST_POSTGRES")
        .expect("WINDLASS_TEST_POSTGRES is not set; run `scripts/with-postgres cargo test -p windlass`");
    let client = Client::connect_with(&url, ConnectOptions::default().with_schema(SCHEMA)).await.unwrap();
    client.migrate().await.unwrap();
    let (db, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (client, db)
}

/// The error's code and message.
async fn refusal(db: &tokio_postgres::Client, call: &str) -> (String, String) {
    let error = db.batch_execute(&format!("SELECT {SCHEMA}.{call}")).await.expect_err(call);
    let error = error.as_db_error().expect("the server's").clone();
    (error.code().code().to_owned(), error.message().to_owned())
}

#[tokio::test]
async fn expressions_are_refused_as_programs_refuse_them() {
    let (client, db) = connect().await;
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../../../../conformance/vectors/schedules.json")).unwrap();
    let set = |vector: &serde_json::Value| {
        let (cron, zone) = (vector["cron"].as_str().unwrap(), vector["zone"].as_str().unwrap());
        format!("set_schedule('s', '{cron}', 'k', zone => '{zone}')")
    };
    for vector in vectors["refused"].as_array().unwrap() {
        let (code, message) = refusal(&db, &set(vector)).await;
        assert_eq!(code, "WL003", "{message}");
        let expected = vector["message"].as_str().unwrap();
        match expected.contains("unknown time zone") {
            true => assert!(
                message.contains("unknown time zone \"Mars/Base\"; use a name of the IANA database"),
                "{message}"
            ),
            false => assert_eq!(message, expected),
        }
    }
    for (cron, says) in [
        ("*/60 * * * *", "a step here must be 1 to 59"),
        ("5/2 * * * *", "a step needs a range to step through, as in */2 or 5-59/2"),
        ("10-5 * * * *", "a range must not run backwards"),
        ("1,,2 * * * *", "is wrong at \"\": a list has nothing between its commas"),
        ("* * 40W * *", "40 is out of range; allowed are 1 to 31"),
        ("* * * FOO *", "\"FOO\" is not a value of this field; allowed are 1 to 12 or JAN to DEC"),
        ("* * * * 5#6", "which one of the month must be #1 to #5"),
        ("61 * * * * *", "the second field"),
        ("", "has 0 fields"),
    ] {
        let (_, message) = refusal(&db, &format!("set_schedule('s', '{cron}', 'k')")).await;
        assert!(message.contains(says), "{cron}: {message}");
    }
    assert!(client.schedules().list(&ScheduleFilter::default()).await.unwrap().is_empty());

    // What programs read SQL takes, and a wrong expression leaves what is there.
    for vector in vectors["ticks"].as_array().unwrap() {
        db.batch_execute(&format!("SELECT {SCHEMA}.{}", set(vector))).await.unwrap();
    }
    for cron in [
        "* * LW * *",
        "* * ? * ?",
        "0 0 31 2,4 5",
        "* * * jan-mar mon-sun",
        "0 0 1,L * 5L",
        " @Daily ",
        "EVERY 5m",
    ] {
        db.batch_execute(&format!("SELECT {SCHEMA}.set_schedule('s', '{cron}', 'k')")).await.expect(cron);
    }
    refusal(&db, "set_schedule('s', 'every', 'k')").await;
    for zone in ["CEST", "+02:00", "<+02>-02", ""] {
        let (code, message) =
            refusal(&db, &format!("set_schedule('s', '@daily', 'k', zone => '{zone}')")).await;
        assert!(code == "WL003" && message.contains("unknown time zone"), "{zone}: {message}");
    }
    db.batch_execute(&format!("SELECT {SCHEMA}.set_schedule('s', 'EVERY 5m', 'k', zone => 'europe/berlin')"))
        .await
        .unwrap();
    let listed = client.schedules().list(&ScheduleFilter::default()).await.unwrap();
    assert_eq!((listed.len(), listed[0].record.schedule().unwrap().cron()), (1, "EVERY 5m"));
    client.schedules().remove("s").await.unwrap();
    client.close().await;
}

/// What SQL took and no program reads was created, and never fired.
#[tokio::test]
async fn expressions_are_read_as_programs_read_them() {
    let (client, db) = connect().await;
    let said = format!(
        "CREATE FUNCTION pg_temp.said(cron text) RETURNS text LANGUAGE plpgsql AS $$
         BEGIN PERFORM {SCHEMA}.check_cron('s', cron); RETURN NULL; EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END $$"
    );
    db.batch_execute(&said).await.unwrap();
    let intervals = "1s|0s|-5s|+5s|5s ago|1d|7d|1w|400d|367d|368d|1w 2d|1d 1w|1.5d|1.5h|1,5h|1.5h 2m|1h30m|1h, 30m|1h,|90|s||\
        day|1 day|1 days 2 hrs|1y|2 months|1m|1mo|0.5s|500ms|1500ms|1.0005s|1.5001s|PT90S|P1D|p1dt12h|P|PT0S|01:30:00|\
        00:00:00|1x|1 H|90 seconds|1000000us|1h 1h|5 5s|infinity";
    let intervals = intervals.split('|').map(|length| format!("every {length}"));
    let expressions: Vec<_> = crate::grammar::expressions().into_iter().chain(intervals).collect();
    let all = "SELECT pg_temp.said(cron) FROM unnest($1::text[]) WITH ORDINALITY AS a (cron, at) ORDER BY at";
    let of_sql = db.query(all, &[&expressions]).await.unwrap();
    assert_eq!(of_sql.len(), expressions.len());
    for (cron, of_sql) in expressions.iter().zip(of_sql) {
        let job = NewJob::new("k", Args::parse("{}").unwrap());
        let of_programs = windlass_schedule::Timing::of(&Schedule::new("s", cron, job)).err();
        assert_eq!(of_sql.get::<_, Option<String>>(0), of_programs.map(|error| error.to_string()), "{cron}");
    }
    client.close().await;
}

/// A job whose time no program can read would fail every list that it is in.
#[tokio::test]
async fn times_that_programs_cannot_read_are_refused() {
    let (client, db) = connect().await;
    db.batch_execute(&format!("SELECT {SCHEMA}.enqueue('last', scheduled_at => '9999-12-29')"))
        .await
        .unwrap();
    let id: i64 = db.query_one(&format!("SELECT {SCHEMA}.enqueue('k')"), &[]).await.unwrap().get(0);
    for call in [
        "enqueue('k', scheduled_at => '10000-01-01')".to_owned(),
        "enqueue('k', scheduled_at => 'infinity')".to_owned(),
        "enqueue_many('[{\"kind\": \"a\"}, {\"kind\": \"k\", \"scheduled_at\": \"20000-01-01\"}]')"
            .to_owned(),
        "enqueue_once('once', 'k', scheduled_at => '20000-01-01')".to_owned(),
        "enqueue_unique('k', unique_key => 'u', scheduled_at => '20000-01-01')".to_owned(),
        format!("edit({id}, scheduled_at => '20000-01-01')"),
    ] {
        let (code, message) = refusal(&db, &call).await;
        assert!(code == "WL003" && message.contains("up to the year 9999"), "{call}: {code} {message}");
    }
    let page = client.jobs(&JobFilter::default()).await.expect("each job can be read");
    let mut kinds: Vec<_> = page.iter().map(|job| &*job.kind).filter(|kind| *kind != "many").collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["k", "last"]);
    client.close().await;
}

#[tokio::test]
async fn a_unique_job_says_one_end_of_its_key() {
    let (client, db) = connect().await;
    let call =
        "enqueue_unique('k', unique_key => 'both', unique_until => 'started', unique_for => '1 minute')";
    let (code, message) = refusal(&db, call).await;
    assert!(code == "WL003" && message.contains("exclude each other"), "{code} {message}");
    client.close().await;
}

#[tokio::test]
async fn an_outcome_that_is_none_is_refused() {
    let (client, db) = connect().await;
    let (code, message) = refusal(&db, "history(outcome => 'failes')").await;
    assert!(
        code == "WL003" && message.starts_with("unknown outcome 'failes'; known are completed, failed"),
        "{code} {message}"
    );
    client.close().await;
}

/// Of many jobs it says which one and which field.
#[tokio::test]
async fn what_cannot_be_read_of_one_of_many_jobs_is_named() {
    let (client, db) = connect().await;
    for (fields, says) in [
        (r#""priority": "high""#, "field priority of job 2 cannot be read: invalid input"),
        (r#""max_attempts": 99999999999"#, "field max_attempts of job 2 cannot be read"),
        (r#""scheduled_at": "soon""#, "field scheduled_at of job 2 cannot be read"),
        (r#""timeout": "long""#, "field timeout of job 2 cannot be read"),
        (r#""tags": "urgent""#, "field tags of job 2 cannot be read"),
        (r#""cost": 1.5"#, "field cost of job 2 cannot be read"),
        (r#""tracked": "perhaps""#, "field tracked of job 2 cannot be read"),
    ] {
        let call = format!(r#"enqueue_many('[{{"kind": "many"}}, {{"kind": "many", {fields}}}]')"#);
        let (code, message) = refusal(&db, &call).await;
        assert!(code == "WL003" && message.starts_with(says), "{fields}: {code} {message}");
    }
    let many = || JobFilter { kind: Some("many".into()), ..JobFilter::default() };
    assert!(client.jobs(&many()).await.unwrap().is_empty(), "all or none");

    // What is null is as if it were left out, and numbers may be texts.
    let nulls = r#"{"kind": "many", "queue": null, "priority": null, "max_attempts": null, "scheduled_at": null, "key": null, "meta": null,
        "tracked": null, "timeout": null, "retry_policy": null, "expires_at": null, "tags": null, "cost": null}"#;
    let texts = r#"{"kind": "many", "priority": "5", "tags": ["x"], "cost": "3", "meta": {"a": 1}}"#;
    let call = format!("SELECT {SCHEMA}.enqueue_many('[{nulls}, {texts}]')");
    let ids: Vec<i64> = db.query(&call, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let plain = client.job(JobId(ids[0])).await.unwrap().unwrap();
    assert_eq!((plain.priority, plain.max_attempts, plain.cost, plain.meta), (0, 20, None, None));
    let told = client.job(JobId(ids[1])).await.unwrap().unwrap();
    assert_eq!((told.priority, &*told.tags, told.cost), (5, &["x".to_owned()][..], Some(3)));
    client.close().await;
}
